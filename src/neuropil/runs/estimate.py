"""How long a run will take on this machine, about: its experiment is built, and a few of its updates are timed.

seconds = preparing + updates · seconds of one + validations · seconds of one + evaluation and report
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from neuropil import recipes
from neuropil.config import Config
from neuropil.memory import refused_memory
from neuropil.progress import duration
from neuropil.runs.planned import PlannedRun, require_startable
from neuropil.tasks.experiment import Experiment, TrainableExperiment
from neuropil.tasks.time_limit import ChunkExperiment, measure, training_of
from neuropil.training.chunk_loop import ChunkTrainingConfig, measure_chunks
from neuropil.training.config import TrainingConfig, planned_length

MOST_SECONDS = 2.0
"""Of the updates that are timed."""
LEAST_REPORTING = 2.0
"""Seconds of a report, however small the data is."""
REPORTING = 3.0
"""Baselines and report take a few times as long as preparing the data did."""


@dataclass(frozen=True)
class TimeEstimate:
    """`seconds` is None where nothing can be timed beforehand, and `reason` says why."""

    seconds: float | None
    reason: str = ""
    preparing: float = 0.0
    training: float = 0.0
    evaluation: float = 0.0
    """And the report."""
    updates: int | None = None
    epochs: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        if self.seconds is None:
            return f"How long it takes is not known beforehand: {self.reason}."
        whole, parts = duration(self.seconds), (self.preparing, self.training, self.evaluation)
        preparing, training, evaluation = map(duration, parts)
        return (
            f"About {whole} on this machine: {preparing} to prepare the data, {training} to train, and {evaluation} "
            "for evaluation and report."
        )


def estimate(name: str, options: Mapping[str, Any], *, seed: int = 0) -> TimeEstimate:
    """For these options, by their names in `neuropil show`. What training would refuse is refused here too."""
    recipe = recipes.recipe(name)
    plan = PlannedRun.of(recipe.verb, name, seed, options)
    training = getattr(plan.typed, "training", None)
    if training is None:
        doing = "it simulates" if recipe.verb == "simulate" else "it makes a report, and trains no model by steps"
        return TimeEstimate(None, doing)
    if training.minutes is not None:
        return TimeEstimate(60 * training.minutes, "", training=60 * training.minutes)
    built: list[Experiment] = []

    def build(chosen: Config) -> Experiment:
        built.append(recipe.build(chosen, seed))
        return built[-1]

    with refused_memory():
        if isinstance(training, ChunkTrainingConfig):
            return _of_chunks(plan.typed, build)
        candidate = measure(plan.typed, build, MOST_SECONDS)
    experiment = cast(TrainableExperiment[Any], built[-1])
    require_startable(experiment, options)
    epochs, updates = planned_length(cast(TrainingConfig, experiment.training), experiment.training_batches)
    validations = epochs if len(experiment.parts["validation"]) else 0
    own = updates * candidate.seconds_per_update + validations * candidate.evaluation_seconds
    spent = own / (1 - candidate.ablation_share)
    reporting = LEAST_REPORTING + REPORTING * candidate.build_seconds
    after = 2 * candidate.evaluation_seconds + candidate.scoring_seconds + reporting
    whole = candidate.build_seconds + spent + after
    return TimeEstimate(whole, "", candidate.build_seconds, spent, after, updates, epochs)


def _of_chunks(options: Config, build: Any) -> TimeEstimate:
    began = time.monotonic()
    experiment = cast(ChunkExperiment, build(options))
    preparing, training = time.monotonic() - began, cast(ChunkTrainingConfig, training_of(options))
    learner = experiment.learner
    speed, chunks = measure_chunks(learner, most_seconds=MOST_SECONDS), training.epochs * len(learner)
    began = time.monotonic()
    learner.metrics()
    spent = chunks * speed.seconds + training.epochs * (time.monotonic() - began)
    after = experiment.scoring_seconds()
    return TimeEstimate(preparing + spent + after, "", preparing, spent, after, chunks, training.epochs)
