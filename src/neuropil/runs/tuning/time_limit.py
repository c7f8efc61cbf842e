"""What a time limit of a search is spent on: trials as long as a whole run, or an equal time for each."""

import dataclasses
import math
import time
from typing import Any

import torch

from neuropil.memory import refused_memory
from neuropil.runs.planned import PlannedRun
from neuropil.tasks.time_limit import EVALUATION_SHARE, MEASURING_SHARE, Candidate, measure
from neuropil.training.config import LEAST_EPOCHS, TrainingConfig
from neuropil.training.search import whole_runs


@dataclasses.dataclass(frozen=True)
class TimeLimit:
    """For a whole search: `reserve` is what evaluation and report are left, and `seconds` what each trial may train,
    where whole runs would not fit."""

    trials: int
    minutes: float | None = None
    reserve: float = 0.0
    seconds: float | None = None

    @classmethod
    def of(
        cls, plan: PlannedRun, trials: int, minutes: float | None, began: float, *, workers: int, threads: int
    ) -> "TimeLimit":
        """By a few updates of the default options, with as many `threads` as each of the `workers` has. A number of
        epochs or updates that was given stays as it is."""
        training = getattr(plan.typed, "training", None)
        if minutes is None:
            return cls(trials)
        limit = 60 * minutes
        if not isinstance(training, TrainingConfig):
            return cls(trials, minutes, reserve=EVALUATION_SHARE * limit)
        usual = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            with refused_memory():
                first = measure(
                    plan.typed, lambda options: plan.recipe.build(options, plan.seed), MEASURING_SHARE * limit
                )
        finally:
            torch.set_num_threads(usual)
        # The best trial is evaluated and reported, the default options are evaluated beside it.
        after = 2 * (2 * first.evaluation_seconds + first.scoring_seconds + 3 * first.build_seconds)
        reserve = min(max(EVALUATION_SHARE * limit, after), limit / 2)
        left = began + limit - reserve - time.monotonic()
        # The first trial is whole, and others go on beside it: no search is shorter than one run.
        rounds = max(1.0, whole_runs(trials) / workers)
        each = max(left / rounds, limit / 100) - first.build_seconds
        fits = _run_seconds(first, training) <= each or {"epochs", "updates"} & plan.given.keys()
        return cls(trials, minutes, reserve, None if fits else max(each, limit / 200))


def _run_seconds(candidate: Candidate[Any], training: TrainingConfig) -> float:
    """That a whole run trains and validates."""
    epochs = training.epochs or max(LEAST_EPOCHS, math.ceil(training.updates / candidate.updates_per_pass))
    return epochs * (candidate.updates_per_pass * candidate.seconds_per_update + candidate.evaluation_seconds)
