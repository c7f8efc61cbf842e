"""What studies share: recipes that compare short trainings or simulate, end in figures and a table, and keep no
model."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.splits import Splits
from neuropil.errors import DivergedError, InputError
from neuropil.files import replacing
from neuropil.inspection.report.page import Section
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.threads.pytorch_threads import one_thread
from neuropil.progress import Display
from neuropil.protocols import Batches, Learner
from neuropil.randomness import initialised
from neuropil.tasks.classification.predictor import EVALUATION_BATCH
from neuropil.tasks.experiment import Result
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit
from neuropil.training.optimizers import OptimizerName

Variant = TypeVar("Variant")
Outcome = TypeVar("Outcome")

SPIKES, TRACES = "spikes.npz", "traces.npz"
"""What a simulation leaves in its folder beside the report, for `numpy.load`."""


@dataclass(frozen=True)
class Findings:
    results: Sequence[Result]
    sections: Sequence[Section]


@dataclass
class Study:
    """`compute` gets the run's folder, for what it trains on the way, and a display for its progress."""

    title: str
    compute: Callable[[Path, Display], Findings]
    described: dict[str, Any] = field(default_factory=dict)
    findings: Findings = field(default_factory=lambda: Findings([], []))

    def facts(self) -> dict[str, Any]:
        return self.described

    def train(self, folder: Path, *, show_progress: bool) -> None:
        with Display(self.title, show=show_progress) as display:
            self.findings = self.compute(folder, display)

    def evaluate(self) -> Sequence[Result]:
        return self.findings.results

    def sections(self, history: Sequence[Row]) -> Sequence[Section]:
        return self.findings.sections


def compare(
    variants: Mapping[str, Variant],
    run: Callable[[str, Variant], Outcome],
    display: Display,
    figures: Callable[[Outcome], str],
) -> dict[str, Outcome]:
    """Run one variant after the other; `figures` is what the progress bar shows of an outcome."""
    outcomes: dict[str, Outcome] = {}
    for name, variant in variants.items():
        outcomes[name] = run(name, variant)
        display.update(len(outcomes) / len(variants), f"{name}: {figures(outcomes[name])}")
    return outcomes


def leading(outcomes: Mapping[str, Outcome], *first: str) -> dict[str, Outcome]:
    """The same with these names first, then all others."""
    return {name: outcomes[name] for name in (*first, *(name for name in outcomes if name not in first))}


# --- short trainings -------------------------------------------------------------------------------------------------


def train_trial(
    run_folder: Path,
    name: str,
    learner: Learner,
    train: Batches,
    validation: Batches | None,
    config: TrainingConfig,
    *,
    seed: int,
) -> list[Row]:
    """Train in a folder of its own inside the run's, so that a study that is stopped goes on with the trials left."""
    folder = run_folder / "trials" / re.sub(r"\W+", "-", name)
    try:
        with alone():
            return fit(learner, train, validation, config, seed=seed, folder=folder, title=name, show_progress=False)
    except Interrupted as stop:  # it is the whole study that can be resumed
        raise Interrupted(run_folder) from stop


def until_divergence(train: Callable[[], list[Row]]) -> tuple[list[Row], str | None]:
    """The history, or why training was stopped early, in the words of the training loop."""
    try:
        return train(), None
    except DivergedError as error:
        return [], error.got


def adam(epochs: int, learning_rate: float) -> TrainingConfig:
    """Adam without weight decay, which keeps the last weights."""
    return TrainingConfig(epochs=epochs, learning_rate=learning_rate, optimizer="adam", weight_decay=0.0, keep="last")


def constant_rate(optimizer: OptimizerName, learning_rate: float, **options: Any) -> TrainingConfig:
    """The plainest training: a constant learning rate, no weight decay, the last weights."""
    plain = {"weight_decay": 0.0, "schedule": "constant", "warmup": 0.0, "keep": "last"}
    return TrainingConfig(optimizer=optimizer, learning_rate=learning_rate, **plain, **options)


@contextmanager
def alone() -> Iterator[None]:
    """On one thread, NumPy too, which PyTorch's setting does not reach."""
    from threadpoolctl import threadpool_limits  # it comes with scikit-learn

    with one_thread(), threadpool_limits(limits=1):
        yield


def prepare_parts(data: DataConfig, seed: int) -> Splits:
    """The data in three parts, none of them empty."""
    splits = prepare(data, seed)
    if not len(splits.validation):
        got = f"validation {data.validation:g}"
        raise InputError("this study needs a validation part", got=got, fix="give --validation 0.1")
    return splits


def prepare_classes(data: DataConfig, seed: int) -> Splits:
    """The same, for studies that compare accuracies."""
    splits = prepare_parts(data, seed)
    if not splits.train.schema.classes:
        fix = "leave --data out to use the embedded digits"
        raise InputError("this study needs data with classes", got=splits.train.source, fix=fix)
    return splits


def new_mlp(train: Examples, seed: int, **options: Any) -> MLP:
    """An MLP for these examples, before training: `options` are those of `MLPConfig`."""
    config = MLPConfig(shape=train.schema.shape, outputs=train.schema.num_outputs, **options)
    model = initialised(lambda: MLP(config), seed)
    model.standardize.fit(train.inputs)
    if not train.schema.classes:
        model.target_scale.fit(train.targets)
    return model


def shuffled(examples: Examples, size: int, seed: int, augment: Augment | None = None) -> ExampleBatches:
    return ExampleBatches(examples, size, seed, shuffle=True, augment=augment)


def in_order(examples: Examples) -> ExampleBatches:
    return ExampleBatches(examples, EVALUATION_BATCH, seed=0, shuffle=False)


def score(learner: Learner, examples: Examples) -> dict[str, float]:
    return evaluate(learner, in_order(examples))


# --- simulations -----------------------------------------------------------------------------------------------------


def write_arrays(path: Path, **arrays: Tensor | np.ndarray) -> None:
    plain = {name: array.numpy(force=True) if isinstance(array, Tensor) else array for name, array in arrays.items()}
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **plain)
