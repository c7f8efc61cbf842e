"""A short training that is one of several in a study: the same small network, on the same examples, with one thing changed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.threads import one_thread
from neuropil.protocols import Batches, Learner
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import EVALUATION_BATCH
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import TrainingConfig, fit


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
    """Train in a folder of the trial's own inside the run's, so that a study that is stopped goes on with the trials that are left."""
    folder = run_folder / "trials" / re.sub(r"\W+", "-", name)
    try:
        with alone():
            return fit(learner, train, validation, config, seed=seed, folder=folder, title=name, show_progress=False)
    except Interrupted as stop:  # it is the whole study that can be resumed
        raise Interrupted(run_folder) from stop


@contextmanager
def alone() -> Iterator[None]:
    """On one thread, NumPy too, which PyTorch's setting does not reach."""
    from threadpoolctl import threadpool_limits  # it comes with scikit-learn

    with one_thread(), threadpool_limits(limits=1):
        yield


def prepare_parts(data: DataConfig, seed: int) -> Splits[Examples]:
    """The data in three parts, with a validation part to watch the networks on."""
    splits = prepare(data, seed)
    if not len(splits.validation):
        raise InputError(
            "this study needs a validation part", got=f"validation {data.validation:g}", fix="give --validation 0.1"
        )
    return splits


def prepare_classes(data: DataConfig, seed: int) -> Splits[Examples]:
    """The same, for studies that compare accuracies."""
    splits = prepare_parts(data, seed)
    if not splits.train.schema.classes:
        raise InputError(
            "this study needs data with classes",
            got=splits.train.source,
            fix="leave --data out to use the embedded digits",
        )
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
