"""One trial: a run that trains and validates, and that whoever searches may end at each validation.

It is trained in the process that searches, or in a worker, by the same lines.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from neuropil.config import Config
from neuropil.errors import DivergedError, InputError
from neuropil.files import locked
from neuropil.memory import refused_memory
from neuropil.runs.planned import PlannedRun
from neuropil.tasks.experiment import Experiment, Tunable
from neuropil.tasks.time_limit import training_of
from neuropil.training.history import Row
from neuropil.training.search import Point, TrialState

Report: TypeAlias = Callable[[Sequence[Point], float], TrialState | None]
"""Told all points of the curve and the share of the run that is done; it says how to end the trial, or nothing."""


@dataclasses.dataclass(frozen=True)
class TrialEnd:
    state: TrialState
    reason: str = ""


class _Ended(Exception):  # noqa: N818  # no error
    """Of a trial, before its run is over."""

    def __init__(self, state: TrialState):
        self.state: TrialState = state


def train_trial(
    plan: PlannedRun, options: Config, folder: Path, metric: str, report: Report, *, title: str, show_progress: bool
) -> TrialEnd:
    """Train and validate in `folder`. A trial that was killed goes on from its checkpoint."""
    told = False

    def watch(rows: Sequence[Row], share: float) -> None:
        nonlocal told
        told = True
        if (state := report(_points(rows, share, metric), share)) is not None:
            raise _Ended(state)

    try:
        experiment = build(plan, options)
        plan.write(folder, options, experiment, typed=options)
        with locked(folder), refused_memory():
            rows = tunable(experiment).train_model(folder, title=title, show_progress=show_progress, watch=watch)
        if not told:  # it was killed when it had been trained, and before that was recorded
            watch(rows, 1.0)
    except _Ended as end:
        return TrialEnd(end.state)
    except (DivergedError, InputError, torch.OutOfMemoryError) as error:
        return TrialEnd("failed", str(error))
    return TrialEnd("complete")


def trial_options(plan: PlannedRun, options: Mapping[str, Any], seconds: float | None) -> Config:
    """Of the plan, with what was suggested, and the time that each trial may train where whole runs do not fit."""
    chosen = plan.typed.override(**options)
    if seconds is None:
        return chosen
    note = f"Trained for {seconds:.3g} seconds, as each trial of its search."
    training = dataclasses.replace(training_of(chosen), seconds=seconds, fitted=note)
    return dataclasses.replace(chosen, training=training)  # type: ignore[type-var, arg-type]  # every Config is a dataclass


def build(plan: PlannedRun, options: Config) -> Experiment:
    with refused_memory():
        return plan.recipe.build(options, plan.seed)


def tunable(experiment: Experiment) -> Tunable:
    if not isinstance(experiment, Tunable):
        raise TypeError(f"{type(experiment).__name__} was asked for a selection before")
    return experiment


def _points(rows: Sequence[Row], share: float, metric: str) -> list[Point]:
    """What each validation measured, and when: its share of what is done by now."""
    last = max(1, rows[-1]["step"])
    return [(share * row["step"] / last, row[metric]) for row in rows if row["kind"] == "validation"]
