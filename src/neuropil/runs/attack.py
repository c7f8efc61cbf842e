"""Attack the classifier of a run: its held-out part, or inputs of the user's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from neuropil.adversarial.threat_model import Norm
from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.errors import InputError, RunError, nearest
from neuropil.runs.run import Run
from neuropil.tasks.classification.attacked import AttackedExamples
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.classification.robustness import RobustnessTest
from neuropil.tasks.predictor import as_examples, as_paths

AttackName: TypeAlias = Literal[
    "fgsm",
    "pgd",
    "momentum",
    "apgd_ce",
    "apgd_dlr",
    "apgd_targeted",
    "square",
    "minimal",
    "deepfool",
    "bisection",
    "strongest",
]
WITHOUT_EPS = ("minimal", "deepfool", "bisection")
"""Searches for the smallest perturbation, however large it is."""


class AttackConfig(Config):
    method: AttackName = option("pgd", "attack; minimal, deepfool and bisection search for the smallest perturbation")
    norm: Norm = option("linf", "norm of the perturbations: linf or l2")
    eps: float = option(
        0.1, "radius ε of the perturbations: pixels from 0 to 1, or standard deviations of columns", above=0
    )
    steps: int | None = option(None, "steps of the attack; without it, its own number", low=1)
    restarts: int | None = option(None, "restarts of the attack; without it, its own number", low=1)
    target: str | None = option(None, "class to reach; without it, any but the right one")
    count: int = option(200, "examples of the held-out part to attack", low=1)
    seed: int = option(0, "seed of the random numbers")

    @property
    def given(self) -> dict[str, Any]:
        """What an attack does not choose itself."""
        chosen = {"steps": self.steps, "restarts": self.restarts}
        return {name: value for name, value in chosen.items() if value is not None}


def attack_config(config: AttackConfig, *, minimal: bool, strongest: bool) -> AttackConfig:
    """With the method that a flag names."""
    if minimal and strongest:
        raise InputError("an attack is of one method", got="--minimal and --strongest", fix="leave one out")
    return replace(config, method="minimal" if minimal else "strongest") if minimal or strongest else config


def attack_run(
    run: Run,
    inputs: Any = None,
    labels: Sequence[str] | None = None,
    config: AttackConfig | None = None,
    *,
    progress: Callable[[float], object] | None = None,
    **options: Any,
) -> AttackedExamples:
    """`options` are further ones of the attack's own."""
    config = config or AttackConfig()
    test, names = robustness_test(run, inputs, labels, config)
    return attacked(run, test, names, config, progress=progress, **options)


def attacked(
    run: Run,
    test: RobustnessTest,
    names: Sequence[str],
    config: AttackConfig,
    *,
    progress: Callable[[float], object] | None = None,
    **options: Any,
) -> AttackedExamples:
    options = {**config.given, **options, "count": len(names), "progress": progress}
    search = test.minimal if config.method in WITHOUT_EPS else test.attack
    found = search(run.model, config.method, **options)
    return AttackedExamples(found, test.examples.schema, names, config.method, config.norm)


def robustness_test(
    run: Run, inputs: Any, labels: Sequence[str] | None, config: AttackConfig
) -> tuple[RobustnessTest, list[str]]:
    """What is attacked, and a name for each: without inputs, examples of the run's held-out part. Inputs without labels
    are taken to be of the classes that the model predicts."""
    predictor = classifier_of(run)
    schema = predictor.schema
    target = None if config.target is None else class_number(schema, config.target)
    # Of pictures the units are known; those of columns are in the training part.
    whole = inputs is None or schema.kind == "table"
    experiment = run.experiment() if whole else None
    train = experiment.splits.train if isinstance(experiment, ClassificationExperiment) else None
    if inputs is None:
        if not isinstance(experiment, ClassificationExperiment):
            raise RunError(f"{run.folder} must hold a classifier for this", got=f"a run of {run.name}")
        few = experiment.splits.test.take(torch.arange(min(config.count, len(experiment.splits.test))))
        names = [f"example {number}" for number in range(len(few))]
    else:
        paths = as_paths(inputs)
        values, names = predictor.read(paths) if paths is not None else (inputs, [])
        values = as_examples(values, schema)
        names = names or [f"input {number}" for number in range(len(values))]
        few = Examples(values, labels_of(predictor, values, labels), schema, "inputs")
    return RobustnessTest(few, train or few, config.norm, config.eps, config.seed, target), names


def classifier_of(run: Run) -> ExamplePredictor:
    if not isinstance(run.predictor, ExamplePredictor):
        rule, fix = "an attack needs a classifier of pictures or rows", "train the cnn, or the mlp for a table"
        raise RunError(rule, got=f"a run of {run.name} in {run.folder}", fix=fix)
    return run.predictor


def labels_of(predictor: ExamplePredictor, values: Tensor, labels: Sequence[str] | None) -> Tensor:
    if labels is None:
        return predictor.predict_examples(values).scores.argmax(-1)
    if len(labels) != len(values):
        raise InputError("there must be a label for each input", got=f"{len(labels)} for {len(values)} inputs")
    return torch.tensor([class_number(predictor.schema, str(label)) for label in labels])


def class_number(schema: Schema, name: str) -> int:
    if name not in schema.classes:
        raise InputError("a class must be one that the model knows", got=f"{name!r}", fix=nearest(name, schema.classes))
    return schema.classes.index(name)
