"""Hyper-parameters chosen on the validation part: a folder of trials, each a run folder, and the best of them as a run.

    found = tune("mlp", data="table.csv", target="price", trials=20)
    found.best                  the run of the best options, evaluated on the test part
    found.trials, found.report  all of them

    study.json     what is searched, and what was found
    trials.jsonl   a row for each trial
    trials/001 …   run folders; the first has the default options
    best/          a copy of the best, evaluated and reported
    report.html

Trials train and validate. The test part is evaluated at the end, for the best trial and, beside it, for the first.
"""

import dataclasses
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch

import neuropil
from neuropil.config import Config
from neuropil.errors import DivergedError, InputError, RunError
from neuropil.files import remove_parts
from neuropil.inspection.report.trials import counted_states, describe
from neuropil.memory import refused_memory
from neuropil.progress import Display, duration, stage
from neuropil.ranges import Searched
from neuropil.runs.environment import environment
from neuropil.runs.run import Run, load
from neuropil.runs.search_folder import BEST, TRIALS, Tuning, is_tuning, memory_of, tunable_plan
from neuropil.runs.search_space import search_space, whole_numbers, words_of
from neuropil.runs.settings import STUDY_FORMAT
from neuropil.runs.start import (
    PlannedRun,
    command,
    complete,
    new_folder,
    now,
    require_effect,
    require_new,
    require_startable,
    whole_paths,
)
from neuropil.tasks.experiment import Experiment, Result, Selection, TrainableExperiment, Tunable
from neuropil.tasks.time_limit import EVALUATION_SHARE, MEASURING_SHARE, Candidate, measure, training_of
from neuropil.training.config import LEAST_EPOCHS, TrainingConfig
from neuropil.training.history import Row
from neuropil.training.interruption import Interrupted
from neuropil.training.search import FIRST_RUNG, WHOLE, OngoingTrial, Point, Search, Trial, combinations, whole_runs

CHECKPOINT = "checkpoint.safetensors"
DEFAULT = "default options"


def tune(
    name: str,
    *,
    trials: int = 20,
    minutes: float | None = None,
    over: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    show_progress: bool = True,
    report: bool = True,
    **options: Any,
) -> "Tuning":
    """Search the hyper-parameters of a system by its validation metric, in so many trials or minutes.

    `over` changes what is searched: in `{"learning_rate": (1e-4, 1e-2), "dropout": [0, 0.1]}` a pair is a range, and a
    list has values. `options` are those of `train`; those that are given are not searched. Where the folder `out` holds
    this search, unfinished, it goes on. Without its `report` it is quicker; `neuropil report` writes one later."""
    began = time.monotonic()
    if trials < 1:
        raise InputError("trials must be at least 1", got=f"{trials}")
    if minutes is not None and not minutes > 0:
        raise InputError("minutes must be above 0", got=f"{minutes:g}")
    over = over or {}
    plan = tunable_plan(name, seed, options)
    space = search_space(plan.typed, plan.given, over)
    require_effect(over, plan.typed.idle_options())
    found = Tuning.load(out) if out is not None and is_tuning(Path(out)) else None
    if found is not None:
        found.require_same(plan, over)
        if found.finished:
            found.require_no_more(trials)
            return found
    require_new(out if found is None else None)
    experiment = build(plan, plan.typed)
    require_startable(experiment, {**plan.given, **over})
    selection = require_selection(experiment)
    if found is None:
        if isinstance(experiment, TrainableExperiment):
            space = search_space(plan.typed, plan.given, over, idle=experiment.idle_options())
        limit = TimeLimit.of(plan, trials, minutes, began)
        folder = new_folder(Path("runs") / f"tune-{plan.name}-{date.today().isoformat()}", out)
        found = Tuning(folder, _settings(plan, space, over, experiment, limit))
    else:
        found.require_data(experiment)
    found.write(trials=trials, minutes=minutes, metric=selection.metric.name)
    return _Session(found, plan, selection, show_progress, began).run(report=report)


def resume_tuning(folder: str | Path, *, data: Any = None, show_progress: bool = True) -> "Tuning":
    """Go on with a search that was stopped or killed. One with data in memory needs the same again."""
    began, found = time.monotonic(), Tuning.load(folder)
    if found.finished:
        return found
    plan = found.plan(data)
    experiment = build(plan, plan.typed)
    found.require_data(experiment)
    return _Session(found, plan, require_selection(experiment), show_progress, began).run(report=True)


def require_selection(experiment: Experiment) -> Selection:
    selection = experiment.selection if isinstance(experiment, Tunable) else None
    if selection is None:
        rule, fix = "hyper-parameters are chosen on the validation part", "give --validation 0.1, or more data"
        raise InputError(rule, got="one without examples", fix=fix)
    return selection


def build(plan: PlannedRun, options: Config) -> Experiment:
    with refused_memory():
        return plan.recipe.build(options, plan.seed)


def _settings(
    plan: PlannedRun, space: Mapping[str, Searched], over: Mapping[str, Any], experiment: Experiment, limit: "TimeLimit"
) -> dict[str, Any]:
    more: dict[str, Any] = {"trials": limit.trials} | ({} if limit.minutes is None else {"minutes": limit.minutes})
    if over:
        more["over"] = over if memory_of(plan.typed) is not None else words_of(over)
    facts = experiment.facts()
    return {
        "format": STUDY_FORMAT,
        "version": neuropil.__version__,
        "recipe": plan.name,
        "seed": plan.seed,
        "given": sorted(plan.given),
        "options": whole_paths(plan.typed).to_dict(),
        "over": list(words_of(over)),
        "space": {name: each.to_dict() for name, each in space.items()},
        "seconds": limit.seconds,
        "reserve": limit.reserve,
        "elapsed": 0.0,
        "source": facts.get("source", ""),
        "fingerprint": facts.get("fingerprint", ""),
        "command": command("tune", plan.name, plan.seed, plan.defaults, plan.typed, more),
        "environment": environment(),
        "created": now(),
    }


# --- the search -------------------------------------------------------------------------------------------------------


class _End(Exception):  # noqa: N818  # no error
    """Of a trial, before its run is over."""

    def __init__(self, state: str):
        self.state: Any = state


class _Session:
    """One process that works on a search."""

    def __init__(self, tuning: Tuning, plan: PlannedRun, selection: Selection, show_progress: bool, began: float):
        self.tuning, self.plan, self.selection, self.show = tuning, plan, selection, show_progress
        self.space, settings = tuning.space, tuning.settings
        self.began = began - settings["elapsed"]
        minutes, self.limit = settings["minutes"], settings["trials"]
        self.deadline = None if minutes is None else self.began + 60 * minutes - settings["reserve"]
        whole = whole_numbers(plan.typed, self.space)
        self.defaults = {each.name: each.default for each in plan.typed.options() if each.name in self.space}
        outside = not self._inside(self.defaults)  # they are tried all the same
        self.limit = int(min(self.limit, combinations(self.space, whole) + outside))
        higher = selection.metric.better == "higher"
        self.search = Search(self.space, whole, higher=higher, seed=plan.seed)
        self.display = Display(f"tune {plan.name}", show=show_progress)

    def run(self, *, report: bool) -> Tuning:
        try:
            remove_parts(self.tuning.folder)
            self._search()
            self._evaluate(report=report)
        except KeyboardInterrupt as stop:
            self._note_time()
            raise Interrupted(self.tuning.folder) from stop
        return self.tuning

    def _search(self) -> None:
        trials = self.tuning.rows
        for trial in trials:
            if trial.state != "running" and self._inside(trial.options):
                points = [value for _, value in trial.curve]
                self.search.replay(trial, [self._kept(points[:count]) for count in range(1, len(points) + 1)])
        under_way = [trial for trial in trials if trial.state == "running"]
        number = 1 + len(trials) - len(under_way)
        while number <= self.limit and self._time_for_another():
            options = (
                under_way[0].options if under_way else self.defaults if number == 1 else self.search.suggest(number)
            )
            if options is None:
                break  # every combination was tried
            ongoing = self.search.begin(options) if self._inside(options) else None
            trial = self._trial(number, options, ongoing)
            if ongoing is not None:
                ongoing.end(trial.state, trial.value)
            number, under_way = number + 1, []
            self._say(trial)

    def _inside(self, options: Mapping[str, Any]) -> bool:
        """The default options may be outside of what the user wants searched."""
        return all(options[name] in each for name, each in self.space.items())

    def _kept(self, values: Sequence[float]) -> float:
        value = self.selection.kept(values)
        return math.nan if value is None else value

    def _time_for_another(self) -> bool:
        """Up to its first rung at least."""
        if self.deadline is None:
            return True
        whole = next((trial.seconds for trial in self.tuning.rows if trial.state == "complete"), 0.0)
        return time.monotonic() + whole * FIRST_RUNG / WHOLE < self.deadline

    def _trial(self, number: int, options: Mapping[str, Any], ongoing: OngoingTrial | None) -> Trial:
        """Train and validate, and record how it ended. A trial that was killed goes on from its checkpoint."""
        folder, trial = self.tuning.trial_folder(number), Trial(number, options)
        self.tuning.save(trial)
        curve, state, reason, began, told = list[Point](), "complete", "", time.monotonic(), 0

        def watch(rows: Sequence[Row], share: float) -> None:
            nonlocal told
            curve[:] = _points(rows, share, self.selection.metric.name)
            values, stops = [value for _, value in curve], False
            for count in range(told + 1, len(curve) + 1):  # several at once where a trial goes on from its checkpoint
                stops = ongoing is not None and ongoing.prunes(curve[count - 1][0], self._kept(values[:count]))
            told = len(curve)
            if stops and number > 1:  # the default options are what others are compared with
                raise _End("pruned")
            if self.deadline is not None and share < 1 and time.monotonic() > self.deadline:
                raise _End("stopped")

        try:
            chosen = self._options(options)
            experiment = build(self.plan, chosen)
            self.plan.write(folder, chosen, experiment, typed=chosen)
            with refused_memory():
                shown = {"title": f"trial {number} of {self.limit}", "show_progress": self.show}
                rows = _tunable(experiment).train_model(folder, **shown, watch=watch)
            if not told:  # it was killed when it had been trained, and before that was recorded
                watch(rows, 1.0)
        except _End as end:
            state = end.state
        except (DivergedError, InputError, torch.OutOfMemoryError) as error:
            state, reason = "failed", str(error)
        value = None if state == "failed" else self.selection.kept([value for _, value in curve])
        if value is None and state == "complete":
            state, reason = "failed", f"the validation {self.selection.metric.title} is not a number"
        if state != "complete":
            (folder / CHECKPOINT).unlink(missing_ok=True)  # it will not go on
        seconds = round(time.monotonic() - began, 3)
        trial = dataclasses.replace(trial, state=state, value=value, curve=curve, seconds=seconds, reason=reason)
        self.tuning.save(trial)
        self._note_time()
        return trial

    def _note_time(self) -> None:
        """What the time limit has left is counted from it when the search goes on."""
        self.tuning.write(elapsed=round(time.monotonic() - self.began, 3))

    def _options(self, options: Mapping[str, Any]) -> Config:
        chosen, seconds = self.plan.typed.override(**options), self.tuning.settings["seconds"]
        if seconds is None:
            return chosen
        note = f"Trained for {seconds:.3g} seconds, as each trial of its search."
        training = dataclasses.replace(training_of(chosen), seconds=seconds, fitted=note)
        return dataclasses.replace(chosen, training=training)  # type: ignore[type-var, arg-type]  # every Config is a dataclass

    def _say(self, trial: Trial) -> None:
        metric, trials, best = self.selection.metric, self.tuning.rows, self._best()
        words = [f"trial {trial.number} of {self.limit}"]
        if trial.state == "failed":
            words.append(f"failed: {trial.reason}")
        elif trial.value is None:
            words.append(trial.state)
        else:
            after = f" after {100 * trial.curve[-1][0]:.0f} %" if trial.state != "complete" else ""
            words.append(f"{metric.title} {metric.text(trial.value)}, {trial.state}{after}")
        words.append(", ".join(f"{name.replace('_', ' ')} {describe(value)}" for name, value in trial.options.items()))
        if best is not None and best.value is not None:
            words.append(f"best {metric.text(best.value)} (trial {best.number})")
        left = (self.limit - len(trials)) * sum(each.seconds for each in trials) / len(trials)
        if self.deadline is not None:
            left = min(left, max(0.0, self.deadline - time.monotonic()))
        self.display.say("; ".join([*words, f"about {duration(left)} left"]))

    def _best(self) -> Trial | None:
        best = None
        for trial in self.tuning.rows:
            if trial.state == "complete" and trial.value is not None and self._inside(trial.options):
                better = best is None or self.selection.metric.improves(trial.value, best.value)
                best = trial if better else best
        return best

    # --- the test part, once ------------------------------------------------------------------------------------------

    def _evaluate(self, *, report: bool) -> None:
        best, trials, tuning, name = self._best(), self.tuning.rows, self.tuning, self.plan.name
        if best is None:
            raise self._nothing_found(trials)
        run = self._copy(best)
        complete(run, build(self.plan, self._options(best.options)), self.show, report=report)
        results = [Result(f"tuned {name}", run.metrics)]
        if best.number != trials[0].number and trials[0].state == "complete":
            default = _tunable(build(self.plan, self._options(trials[0].options)))
            with stage(f"{name}: evaluation of the {DEFAULT}", show=self.show):
                default.train_model(tuning.trial_folder(1), title="", show_progress=False)  # which is over
                results.append(Result(DEFAULT, default.own_result().metrics))
        tuning.settings |= {
            "best": best.number,
            "importance": self.search.importance([trial for trial in trials if self._inside(trial.options)]),
            "results": [{"name": each.name, "metrics": dict(each.metrics)} for each in results],
        }
        if report:
            with stage(f"{name}: report of the search", show=self.show):
                tuning.write_report()
        tuning.write(outcome=tuning.found.sentence())

    def _copy(self, best: Trial) -> Run:
        """Whole or not at all."""
        folder, part = self.tuning.folder / BEST, self.tuning.folder / f".{BEST}.copying"
        for old in (folder, part):  # of an evaluation that was killed
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.tuning.trial_folder(best.number), part)
        part.rename(folder)
        return load(folder)

    def _nothing_found(self, trials: Sequence[Trial]) -> RunError:
        rule = "one trial at least must be complete, of what is searched, to choose from"
        failed = [trial for trial in trials if trial.state == "failed"]
        if failed:
            got = f"{counted_states(trials)} ({failed[0].reason.removesuffix('.')})"
            return RunError(rule, got=got, fix=f"the others are in {self.tuning.folder / TRIALS}")
        fix = "give more --minutes, or fewer --epochs or --updates"
        return RunError(rule, got=counted_states(trials) or "no time for any", fix=fix)


def _tunable(experiment: Experiment) -> Tunable:
    if not isinstance(experiment, Tunable):
        raise TypeError(f"{type(experiment).__name__} was asked for a selection before")
    return experiment


def _points(rows: Sequence[Row], share: float, metric: str) -> list[Point]:
    """What each validation measured, and when: its share of what is done by now."""
    last = max(1, rows[-1]["step"])
    return [(share * row["step"] / last, row[metric]) for row in rows if row["kind"] == "validation"]


# --- a time limit -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TimeLimit:
    """For a whole search: `reserve` is what evaluation and report are left, and `seconds` what each trial may train,
    where whole runs would not fit."""

    trials: int
    minutes: float | None = None
    reserve: float = 0.0
    seconds: float | None = None

    @classmethod
    def of(cls, plan: PlannedRun, trials: int, minutes: float | None, began: float) -> "TimeLimit":
        """By a few updates of the default options. A number of epochs or updates that was given stays as it is."""
        training = getattr(plan.typed, "training", None)
        if minutes is None:
            return cls(trials)
        limit = 60 * minutes
        if not isinstance(training, TrainingConfig):
            return cls(trials, minutes, reserve=EVALUATION_SHARE * limit)
        with refused_memory():
            first = measure(plan.typed, lambda options: plan.recipe.build(options, plan.seed), MEASURING_SHARE * limit)
        # The best trial is evaluated and reported, the default options are evaluated beside it.
        after = 2 * (2 * first.evaluation_seconds + first.scoring_seconds + 3 * first.build_seconds)
        reserve = min(max(EVALUATION_SHARE * limit, after), limit / 2)
        left = began + limit - reserve - time.monotonic()
        each = max(left / whole_runs(trials), limit / 100) - first.build_seconds
        fits = _run_seconds(first, training) <= each or {"epochs", "updates"} & plan.given.keys()
        return cls(trials, minutes, reserve, None if fits else max(each, limit / 200))


def _run_seconds(candidate: Candidate[Any], training: TrainingConfig) -> float:
    """That a whole run trains and validates."""
    epochs = training.epochs or max(LEAST_EPOCHS, math.ceil(training.updates / candidate.updates_per_pass))
    return epochs * (candidate.updates_per_pass * candidate.seconds_per_update + candidate.evaluation_seconds)
