"""One process that searches: which trial is next, which go on, and what is written down of each.

The trials are trained here, one after the other, or by workers, several at once; only this process decides and writes
the folder's `study.json` and `trials.jsonl`, so that a search which is killed anywhere goes on from what they say.
"""

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuropil.files import remove_parts
from neuropil.inspection.report.trials import describe
from neuropil.progress import Display, duration
from neuropil.runs.planned import PlannedRun
from neuropil.runs.tuning.folder import Tuning, progress_file
from neuropil.runs.tuning.outcome import evaluate
from neuropil.runs.tuning.parallel import Crew
from neuropil.runs.tuning.space import whole_numbers
from neuropil.runs.tuning.trial import TrialEnd, train_trial, trial_options
from neuropil.runs.tuning.workers import Pool
from neuropil.tasks.experiment import Selection
from neuropil.training.interruption import Interrupted
from neuropil.training.search import FIRST_RUNG, WHOLE, OngoingTrial, Point, Search, Trial, TrialState, combinations

CHECKPOINT = "checkpoint.safetensors"


class Session:
    """`pool` has the workers; without one the trials are trained here. `began` is when the search did, by
    `time.monotonic`."""

    def __init__(
        self,
        tuning: Tuning,
        plan: PlannedRun,
        selection: Selection,
        pool: Pool | None,
        *,
        show_progress: bool,
        began: float,
    ):
        self.tuning, self.plan, self.selection, self.pool = tuning, plan, selection, pool
        self.show, self.space, settings = show_progress, tuning.space, tuning.settings
        self.began = began - settings["elapsed"]
        minutes, self.limit = settings["minutes"], settings["trials"]
        self.deadline = None if minutes is None else self.began + 60 * minutes - settings["reserve"]
        whole = whole_numbers(plan.typed, self.space)
        self.defaults = {each.name: each.default for each in plan.typed.options() if each.name in self.space}
        outside = not self._inside(self.defaults)  # they are tried all the same
        self.limit = int(min(self.limit, combinations(self.space, whole) + outside))
        higher = selection.metric.better == "higher"
        self.search = Search(self.space, whole, higher=higher, seed=plan.seed)
        self.under_way: list[Trial] = []
        self.display = Display(f"tune {plan.name}", show=show_progress)

    def run(self, *, report: bool) -> Tuning:
        try:
            remove_parts(self.tuning.folder)
            self._replay()
            if self.pool is None:
                while (course := self.next_course()) is not None:
                    self._train(course)
            else:
                Crew(self, self.pool).run()
            inside = [trial for trial in self.tuning.rows if self._inside(trial.options)]
            shown = {"show": self.show, "report": report}
            evaluate(self.tuning, self.plan, self.search, self._best(), inside, **shown)
        except KeyboardInterrupt as stop:
            self._note_time()
            raise Interrupted(self.tuning.folder) from stop
        return self.tuning

    def _replay(self) -> None:
        """What the folder has of the search before it was stopped."""
        for trial in self.tuning.rows:
            if trial.state == "running":
                self.under_way.append(trial)
            elif self._inside(trial.options):
                points = [value for _, value in trial.curve]
                self.search.replay(trial, [self.kept(points[:count]) for count in range(1, len(points) + 1)])

    def next_course(self) -> "Course | None":
        """Of the next trial, which is then under way; none where there is no other, or no time for one."""
        number = 1 + max((trial.number for trial in self.tuning.rows), default=0)
        if not self._time_for_another() or (not self.under_way and number > self.limit):
            return None
        if self.under_way:
            again = self.under_way.pop(0)
            number, options = again.number, again.options
        else:
            options = self.defaults if number == 1 else self.search.suggest(number)
            if options is None:
                return None  # every combination was tried
        ongoing = self.search.begin(options) if self._inside(options) else None
        self.tuning.save(Trial(number, options))
        return Course(self, Trial(number, options), ongoing)

    def _train(self, course: "Course") -> None:
        trial, settings = course.trial, self.tuning.settings
        options = trial_options(self.plan, trial.options, settings["seconds"])
        shown = {"title": f"trial {trial.number} of {self.limit}", "show_progress": self.show}
        course.close(train_trial(self.plan, options, course.folder, settings["metric"], course.report, **shown))

    def _inside(self, options: Mapping[str, Any]) -> bool:
        """The default options may be outside of what the user wants searched."""
        return all(options[name] in each for name, each in self.space.items())

    def kept(self, values: Sequence[float]) -> float:
        value = self.selection.kept(values)
        return math.nan if value is None else value

    def out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _time_for_another(self) -> bool:
        """Up to its first rung at least."""
        if self.deadline is None:
            return True
        whole = next((trial.seconds for trial in self.tuning.rows if trial.state == "complete"), 0.0)
        return time.monotonic() + whole * FIRST_RUNG / WHOLE < self.deadline

    def record(self, trial: Trial) -> None:
        """Of a trial that is over."""
        self.tuning.save(trial)
        self._note_time()
        self._say(trial)

    def _note_time(self) -> None:
        """What the time limit has left is counted from it when the search goes on."""
        self.tuning.write(elapsed=round(time.monotonic() - self.began, 3))

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
        self.display.say("; ".join([*words, f"about {duration(self._seconds_left(trials))} left"]))

    def _seconds_left(self, trials: Sequence[Trial]) -> float:
        over, at_once = [each.seconds for each in trials if each.state != "running"], self.pool.size if self.pool else 1
        left = (self.limit - len(over)) * sum(over) / len(over) / at_once
        return left if self.deadline is None else min(left, max(0.0, self.deadline - time.monotonic()))

    def show_courses(self, courses: Sequence["Course"]) -> None:
        """Of all trials that are under way, in one display."""
        if self.display.due():
            best, over = self._best(), sum(trial.state != "running" for trial in self.tuning.rows)
            figures = [f"{over} of {self.limit} trials"]
            if best is not None and best.value is not None:
                figures.append(f"best {self.selection.metric.title} {self.selection.metric.text(best.value)}")
            parts = {f"trial {course.trial.number}": course.share() for course in courses}
            share = (over + sum(parts.values())) / self.limit
            self.display.update(min(1.0, share), *figures, parts=parts)

    def _best(self) -> Trial | None:
        best = None
        for trial in self.tuning.rows:
            if trial.state == "complete" and trial.value is not None and self._inside(trial.options):
                better = best is None or self.selection.metric.improves(trial.value, best.value)
                best = trial if better else best
        return best


class Course:
    """Of a trial that is under way: what it reports, and how it ends."""

    def __init__(self, session: Session, trial: Trial, ongoing: OngoingTrial | None):
        self.session, self.trial, self.ongoing = session, trial, ongoing
        self.folder: Path = session.tuning.trial_folder(trial.number)
        self.curve, self.told, self.began, self.lost = list[Point](), 0, time.monotonic(), 0

    def report(self, points: Sequence[Point], share: float) -> TrialState | None:
        """How it is to end, if it is, by what its validations measured."""
        self.curve[:], stops = points, False
        values = [value for _, value in points]
        for count in range(self.told + 1, len(points) + 1):  # several at once where it goes on from its checkpoint
            stops = self.ongoing is not None and self.ongoing.prunes(
                points[count - 1][0], self.session.kept(values[:count])
            )
        self.told = max(self.told, len(points))
        if stops and self.trial.number > 1:  # the default options are what others are compared with
            return "pruned"
        return "stopped" if share < 1 and self.session.out_of_time() else None

    def share(self) -> float:
        """How much of the run is done, by what its worker says between validations."""
        told = self.curve[-1][0] if self.curve else 0.0
        try:
            now = json.loads(progress_file(self.folder).read_text(encoding="utf-8"))["share"]
        except (OSError, ValueError):
            return told
        return max(told, now or 0.0)

    def close(self, end: TrialEnd) -> None:
        state, reason, session = end.state, end.reason, self.session
        value = None if state == "failed" else session.selection.kept([value for _, value in self.curve])
        if value is None and state == "complete":
            state, reason = "failed", f"the validation {session.selection.metric.title} is not a number"
        progress_file(self.folder).unlink(missing_ok=True)
        if state != "complete":
            (self.folder / CHECKPOINT).unlink(missing_ok=True)  # it will not go on
        seconds = round(time.monotonic() - self.began, 3)
        ended = {"state": state, "value": value, "curve": self.curve, "seconds": seconds, "reason": reason}
        trial = dataclasses.replace(self.trial, **ended)
        if self.ongoing is not None:
            self.ongoing.end(trial.state, trial.value)
        session.record(trial)
