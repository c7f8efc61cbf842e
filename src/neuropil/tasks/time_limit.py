"""What a time limit is spent on: the size of the model, its vocabulary and its batches, for so many minutes here.

    updates = seconds of training / seconds of an update, which is measured
    passes  = updates / updates in a pass over the data

A larger model learns more from each example and sees fewer of them. A recipe lists its sizes with the fewest updates
that each should have, by the rule of about fifteen tokens for each weight. Chosen is the largest that has so many in
the time, and finds them in the data without passing over it too often. Where a second model is trained beside, both
have as many passes in the time. Word vectors have one size, and as many passes as the time allows.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

from neuropil.config import Config, describe_value
from neuropil.metrics import number_text
from neuropil.protocols import ChunkLearner
from neuropil.tasks.experiment import Experiment, TrainableExperiment
from neuropil.training.chunk_loop import ChunkTrainingConfig, measure_chunks
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluation_seconds
from neuropil.training.loop import seconds_per_update

C = TypeVar("C", bound=Config)

EVALUATION_SHARE = 0.1
"""Of the time limit, for evaluation and report at least."""
CHOOSING_SHARE = 0.15
"""Of the time limit: no further size is tried if its data would be prepared only after it."""
MEASURING_SHARE = 0.01
"""Of the time limit, at most, for the updates of each size."""
MOST_PASSES = 30.0
"""Over the data, that a size may need for its fewest updates."""
TOLD_AFTER = 0.2
"""Seconds."""
MOST_WORD_PASSES = 15.0
"""Of word vectors: of short texts the loss of the validation part is lowest after ten to twenty."""


@dataclass(frozen=True)
class Size:
    """Options by their names in `neuropil show`, and the fewest updates in which they pay."""

    options: Mapping[str, Any]
    updates: int = 0


@dataclass(frozen=True)
class Ladder:
    """`sizes` from the smallest, which always fits, to the largest; `dropout` as (passes from which on, probability):
    what is passed over often is learned by heart without it."""

    sizes: Sequence[Size] = ()
    dropout: Sequence[tuple[float, float]] = ()

    @property
    def names(self) -> list[str]:
        """Of the options that it chooses."""
        names = [name for size in self.sizes for name in size.options] + ["dropout"] * bool(self.dropout)
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Candidate(Generic[C]):
    """Options whose experiment was built, and a few updates of it made."""

    options: C
    build_seconds: float
    seconds_per_update: float
    updates_per_pass: int
    evaluation_seconds: float
    """Of the validation part."""
    scoring_seconds: float = 0.0
    """Beside passes over the parts."""
    ablation_share: float = 0.0
    """Of the time of training, for the model that is trained beside."""

    def updates(self, seconds: float) -> int:
        """In so much time, in which the experiment is built again."""
        training = (1 - self.ablation_share) * max(0.0, seconds - self.build_seconds)
        return math.ceil(training / self.seconds_per_update)

    def fits(self, size: Size, seconds: float) -> bool:
        return size.updates <= min(self.updates(seconds), MOST_PASSES * self.updates_per_pass)


def fit_to_minutes(
    options: C,
    given: Collection[str],
    ladder: Ladder,
    build: Callable[[C], Experiment],
    *,
    began: float,
    processes: int = 1,
) -> C:
    """The options with a size from the ladder, and with what the minutes leave for training since `began`, by
    `time.monotonic`. What is `given` stays as it is. Of several processes, one measures what all will do."""
    if isinstance(training_of(options), ChunkTrainingConfig):
        return fit_passes(options, build, began=began)
    if "optimizer" in given:  # for which the learning rate of another is wrong
        given = {*given, "learning_rate"}
    limit = 60 * cast(float, training_of(options).minutes)
    left = lambda: (1 - EVALUATION_SHARE) * limit - (time.monotonic() - began)  # noqa: E731

    def candidate(size: Size) -> Candidate[C]:
        sized = options.override(**{name: value for name, value in size.options.items() if name not in given})
        return measure(sized, build, MEASURING_SHARE * limit, processes)

    smallest, *larger = ladder.sizes or [Size({})]
    chosen = candidate(smallest)
    for size in larger:
        if left() - chosen.build_seconds < (1 - EVALUATION_SHARE - CHOOSING_SHARE) * limit:
            break
        tried = candidate(size)
        if not tried.fits(size, left()):
            break
        chosen = tried
    fitted, updates = chosen.options, chosen.updates(left())
    passes = updates / chosen.updates_per_pass
    if ladder.dropout and "dropout" not in given:
        fitted = fitted.override(dropout=max(entry for entry in ladder.dropout if entry[0] <= passes)[1])
    sentence = ""
    if names := [name for name in ladder.names if name not in given]:
        values = {each.name: describe_value(each.default) for each in fitted.options()}
        most = {"vocabulary_size": "at most ", "max_tokens": "at most "}
        which = ", ".join(f"{name.replace('_', ' ')} {most.get(name, '')}{values[name]}" for name in names)
        sentence = (
            f"Chosen for {minutes_text(limit)} on this machine: {which}; "
            f"at {chosen.seconds_per_update:.2g} seconds an update that makes about {float(f'{updates:.2g}'):,.0f} "
            f"updates, {passes:.2g} passes over the training data."
        )
    # After training come the last validation and the test part; baselines and report take a few times as long as
    # preparing did. Where all that is long, half of the time is for training all the same.
    after = 2 * chosen.evaluation_seconds + chosen.scoring_seconds + 3 * chosen.build_seconds
    seconds, share = training_seconds(left() - chosen.build_seconds, after, limit), chosen.ablation_share
    parts = {"seconds": (1 - share) * seconds, "ablation_seconds": share * seconds or None}
    training = dataclasses.replace(training_of(fitted), **parts, fitted=sentence)
    return dataclasses.replace(fitted, training=training)  # type: ignore[type-var]  # every Config is a dataclass


def training_seconds(left: float, after: float, limit: float) -> float:
    """Of what is left of a time limit, for evaluation and report a tenth of it less, if so much is needed `after`
    training."""
    return max(left - max(0.0, after - EVALUATION_SHARE * limit), limit / 2)


def measure(options: C, build: Callable[[C], Experiment], most_seconds: float, processes: int = 1) -> Candidate[C]:
    began = time.monotonic()
    experiment = cast(TrainableExperiment[Any], build(options))  # whatever has minutes trains a model
    build_seconds = time.monotonic() - began
    batches, training = experiment.training_batches, cast(TrainingConfig, training_of(options))
    seconds = partial(seconds_per_update, config=training, most_seconds=most_seconds, processes=processes)
    update = seconds(experiment.learner, batches)
    evaluation = evaluation_seconds(experiment.learner, experiment.validation_batches)
    updates_per_pass, scoring = math.ceil(len(batches) / training.accumulate), experiment.scoring_seconds()
    share = 0.0
    if experiment.ablation is not None:
        other, same = experiment.ablation.learner, experiment.batches("train")
        update_beside = seconds(other, same)
        beside = update_beside * math.ceil(len(same) / training.accumulate)
        share = beside / (beside + update * updates_per_pass)
        evaluation += evaluation_seconds(other, experiment.validation_batches)
    return Candidate(options, build_seconds, update, updates_per_pass, evaluation, scoring, share)


@runtime_checkable
class ChunkExperiment(Protocol):
    """One whose learner makes its own updates, in compiled code."""

    learner: ChunkLearner

    def scoring_seconds(self) -> float:
        """What evaluation and report take, about, where nothing else runs."""
        ...


def fit_passes(options: C, build: Callable[[C], Experiment], *, began: float) -> C:
    """The options with as many passes as the minutes leave time for; the learning rate falls over them."""
    training, building, working = cast(ChunkTrainingConfig, training_of(options)), time.monotonic(), time.process_time()
    experiment, limit = cast(ChunkExperiment, build(options)), 60 * cast(float, training.minutes)
    build_seconds, learner = time.monotonic() - building, experiment.learner
    # A processor that others use too takes longer for all that comes; what is built at once does not tell.
    busy = max(1.0, (build_seconds + TOLD_AFTER) / (time.process_time() - working + TOLD_AFTER))
    speed = measure_chunks(learner, most_seconds=MEASURING_SHARE * limit)
    measuring = time.monotonic()
    learner.metrics()  # as after each pass
    seconds_per_pass = len(learner) * speed.seconds + time.monotonic() - measuring
    left = (1 - EVALUATION_SHARE) * limit - (time.monotonic() - began) - build_seconds
    most = training_seconds(left, busy * experiment.scoring_seconds(), limit) / seconds_per_pass
    chunks = max(1, math.floor(min(most, MOST_WORD_PASSES) * len(learner)))
    sentence = (
        f"Chosen for {minutes_text(limit)} on this machine: {number_text(chunks / len(learner), 3)} passes over the "
        f"training data, at about {float(f'{speed.read:.2g}'):,.0f} words a second; the learning rate falls from "
        f"{training.learning_rate:g} to {training.final_learning_rate:g} over them."
    )
    if most > MOST_WORD_PASSES:
        sentence += " There is time for more, which would be learned by heart."
    epochs = math.ceil(chunks / len(learner))
    training = dataclasses.replace(training, chunks=chunks, epochs=epochs, fitted=sentence)
    return dataclasses.replace(options, training=training)  # type: ignore[type-var]  # every Config is a dataclass


def minutes_text(seconds: float) -> str:
    return f"{seconds / 60:g} minute{'' if seconds == 60 else 's'}"


def training_of(options: Config) -> TrainingConfig | ChunkTrainingConfig:
    return cast(Any, options).training
