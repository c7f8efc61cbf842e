"""Attack the classifier of a run: its held-out part, or inputs of the user's."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from neuropil.adversarial.threat_model import Norm
from neuropil.adversarial.word_substitution import SubstitutionConfig
from neuropil.config import Config, flag_of, option
from neuropil.data.examples.dataset import Examples
from neuropil.errors import InputError, RunError, nearest
from neuropil.runs.run import Run
from neuropil.tasks.classification.attacked import AttackedExamples
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.classification.robustness import RobustnessTest
from neuropil.tasks.generated_examples import PICTURES, require_savable
from neuropil.tasks.predictor import as_examples, as_paths, as_texts
from neuropil.tasks.text_classification.attack import AttackedTexts, attack_texts
from neuropil.tasks.text_classification.experiment import TextClassificationExperiment
from neuropil.tasks.text_classification.predictor import TextClassifier

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


RESERVED = ("name", "generator", "progress", "batch_size")


class AttackConfig(Config):
    method: AttackName = option("pgd", "attack; minimal, deepfool and bisection search for the smallest perturbation")
    norm: Norm = option("linf", "norm of the perturbations: linf or l2")
    eps: float = option(
        0.1, "radius ε of the perturbations: pixels from 0 to 1, or standard deviations of columns", above=0
    )
    steps: int | None = option(None, "steps of the attack; without it, its own number", low=1)
    restarts: int | None = option(None, "restarts of the attack; without it, its own number", low=1)
    target: str | None = option(None, "class to reach; without it, any but the right one")
    substitution: SubstitutionConfig = SubstitutionConfig()
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
) -> AttackedExamples | AttackedTexts:
    """`options` are further ones of the attack's own."""
    config = config or AttackConfig()
    require_effect(config, texts=isinstance(run.predictor, TextClassifier))
    if inputs is None and labels is not None:
        raise InputError("labels are those of inputs", got="labels alone", fix="give the inputs too")
    if isinstance(run.predictor, TextClassifier):
        for name in options:
            raise InputError(f"{flag_of(name)} has no effect on {TEXTS}", fix="leave it out")
        return attack_texts_of(run, run.predictor, inputs, labels, config, progress=progress)
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
    for name in options:
        if name in RESERVED:
            raise InputError(f"{name} is not an option of an attack", got=f"{name}=", fix="see neuropil attack --help")
    options = {**config.given, **options, "count": len(names), "progress": progress}
    search = test.minimal if config.method in WITHOUT_EPS else test.attack
    found = search(run.model, config.method, **options)
    return AttackedExamples(found, test.examples.schema, names, config.method, config.norm)


def attack_texts_of(
    run: Run,
    classifier: TextClassifier,
    inputs: Any,
    labels: Sequence[str] | None,
    config: AttackConfig,
    *,
    progress: Callable[[float], object] | None = None,
) -> AttackedTexts:
    numbers: Sequence[int] | None
    if inputs is None:
        test = cast(TextClassificationExperiment, run.experiment()).splits.test
        texts, numbers = test.texts[: config.count], test.targets[: config.count].tolist()
        names = [f"text {number}" for number in range(len(texts))]
    else:
        paths = as_paths(inputs)
        texts, names = classifier.read(paths) if paths is not None else (as_texts(inputs), [])
        numbers = None if labels is None else numbered(labels, classifier.classes, len(texts))
    if not texts:
        raise InputError("an attack needs texts", got="none", fix="leave them out to attack the held-out part")
    target = None if config.target is None else class_number(classifier.classes, config.target)
    return attack_texts(classifier, texts, numbers, config.substitution, target=target, names=names, progress=progress)


def require_attackable_to(run: Run, path: Path) -> None:
    """Before an attack, whether its result can be written there."""
    require_savable(path)
    if isinstance(run.predictor, TextClassifier):
        rule, fix = "attacked pictures and rows are written to files", "take what is printed, or --json"
        raise InputError(rule, got="texts", fix=fix)
    if path.suffix.lower() in PICTURES and classifier_of(run).schema.kind != "image":
        raise InputError("a grid is drawn of pictures", got="rows", fix="give --out a name that ends in .npz")


def require_surrogate(run: Run, surrogate: Run) -> None:
    """Whether a model takes the inputs and knows the classes of another."""
    own, other = classifier_of(run).schema, classifier_of(surrogate).schema
    for what, mine, others in (("inputs", own.shape, other.shape), ("classes", own.classes, other.classes)):
        if mine != others:
            got = f"{list(others)} in {surrogate.folder} for {list(mine)} in {run.folder}"
            raise InputError(f"the surrogate must have the {what} of the attacked model", got=got)


TEXTS, EXAMPLES = "texts, whose words are substituted", "pictures and rows"
OF_TEXTS = [each.name for each in SubstitutionConfig().options()]
OF_EXAMPLES = ["method", "norm", "eps", "steps", "restarts"]


def require_effect(config: AttackConfig, *, texts: bool) -> None:
    """Refuse options that were changed and do nothing."""
    given = {each.name: each.default for each in config.options()}
    usual = {each.name: each.default for each in AttackConfig().options()}
    for name in OF_EXAMPLES if texts else OF_TEXTS:
        if given[name] != usual[name]:
            raise InputError(f"{flag_of(name)} has no effect on {TEXTS if texts else EXAMPLES}", fix="leave it out")


def robustness_test(
    run: Run, inputs: Any, labels: Sequence[str] | None, config: AttackConfig
) -> tuple[RobustnessTest, list[str]]:
    """What is attacked, and a name for each: without inputs, examples of the run's held-out part. Inputs without labels
    are taken to be of the classes that the model predicts."""
    predictor = classifier_of(run)
    schema = predictor.schema
    target = None if config.target is None else class_number(schema.classes, config.target)
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
        rule, fix = "an attack needs a classifier of pictures, rows or texts", "train the cnn, or the mlp for a table"
        raise RunError(rule, got=f"a run of {run.name} in {run.folder}", fix=fix)
    return run.predictor


def labels_of(predictor: ExamplePredictor, values: Tensor, labels: Sequence[str] | None) -> Tensor:
    if labels is None:
        return predictor.predict_examples(values).scores.argmax(-1)
    return torch.tensor(numbered(labels, predictor.schema.classes, len(values)))


def numbered(labels: Any, classes: Sequence[str], count: int) -> list[int]:
    """Names of classes, or what is written as they are, for each of `count` inputs."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError("labels must be a list of classes", got=f"{labels!r}", fix="give one for each input")
    names = [str(label) for label in labels]
    if len(names) != count:
        raise InputError("there must be a label for each input", got=f"{len(names)} for {count} inputs")
    return [class_number(classes, name) for name in names]


def class_number(classes: Sequence[str], name: str) -> int:
    if name not in classes:
        raise InputError("a class must be one that the model knows", got=f"{name!r}", fix=nearest(name, classes))
    return classes.index(name)
