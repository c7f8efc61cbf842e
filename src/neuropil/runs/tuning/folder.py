"""The folder of a search over hyper-parameters: what was searched, its trials, and the best of them as a run."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from neuropil import recipes
from neuropil.config import Config
from neuropil.data.formats.memory import InMemory
from neuropil.errors import InputError, RunError
from neuropil.extras import require_extra
from neuropil.files import is_locked, write_text
from neuropil.inspection.report.page import Report, Table, Text, html_of, write_report
from neuropil.inspection.report.trials import SearchResult, counted_states, trial_sections
from neuropil.metrics import Metric, find_metric
from neuropil.ranges import Searched, from_dict
from neuropil.runs.overview import margin, metric_names, repeat_section, result_rows, result_sections
from neuropil.runs.planned import PlannedRun, whole_paths
from neuropil.runs.run import Run, load
from neuropil.runs.settings import STUDY, read_study
from neuropil.runs.tuning.space import words_of
from neuropil.tasks.experiment import Experiment, Result
from neuropil.training.search import Trial

TRIALS, BEST = "trials.jsonl", "best"
DATA = ".data.npz"
"""Data in memory, for workers; it is removed when they have ended."""


class Tuning:
    """A folder of trials, opened."""

    def __init__(self, folder: Path, settings: dict[str, Any]):
        self.folder, self.settings = folder, settings

    @classmethod
    def load(cls, folder: str | Path) -> "Tuning":
        return cls(Path(folder), read_study(Path(folder)))

    def __repr__(self) -> str:
        return f"<Tuning of {self.name} in {self.folder}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        if not self.finished:
            return f"<p>{escape(repr(self))}: {escape(counted_states(self.trials_now))}</p>"
        results = self.results
        header = ["", *(find_metric(name).title for name in metric_names(results))]
        blocks = [Text(self.settings["outcome"]), Text(margin(results)), Table(header, result_rows(results))]
        return "\n".join(html_of(block, "") for block in blocks)

    @property
    def name(self) -> str:
        return self.settings["recipe"]

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def metric(self) -> Metric:
        """Of the validation part, by which trials are compared."""
        return find_metric(self.settings["metric"])

    @property
    def finished(self) -> bool:
        return "results" in self.settings

    @property
    def best(self) -> Run:
        """The run of the best options: it predicts, and `best.settings["command"]` trains it again without a search,
        and for the whole length of a run where the trials had less time."""
        if not (self.folder / BEST / "config.json").exists():
            fix = f"finish it with `neuropil resume {shlex.quote(str(self.folder))}`"
            raise RunError(f"{self.folder} has no best run before the search is over", fix=fix)
        return load(self.folder / BEST)

    @property
    def results(self) -> list[Result]:
        """On the test part: of the best options, then of the default ones, where they are others."""
        return [Result(each["name"], each["metrics"]) for each in self.settings.get("results", [])]

    @property
    def chosen(self) -> dict[str, Any]:
        """The best options, of those that were searched."""
        return dict(self.found.best.options)

    @property
    def importance(self) -> dict[str, float]:
        """Of each option that was searched, by fANOVA; they sum to one."""
        return self.settings.get("importance", {})

    @property
    def trials(self) -> Any:
        """A row for each trial: as a pandas DataFrame, where pandas is installed."""
        rows = [
            {"trial": each.number, "state": each.state, "value": each.value, **each.options}
            | {"seconds": each.seconds, "reason": each.reason}
            for each in self.trials_now
        ]
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    @property
    def rows(self) -> list[Trial]:
        path = self.folder / TRIALS
        if not path.exists():
            return []
        try:
            return [Trial.from_dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            got = f"a damaged file ({error})"
            raise RunError(f"{path} must be the JSON that neuropil wrote", got=got, fix="tune anew") from error

    @property
    def trials_now(self) -> list[Trial]:
        """The rows, in which a trial is stopped that no process works on any more."""
        rows = self.rows
        if not any(each.state == "running" for each in rows) or is_locked(self.folder):
            return rows
        return [replace(each, state="stopped") if each.state == "running" else each for each in rows]

    @property
    def space(self) -> dict[str, Searched]:
        return {name: from_dict(each) for name, each in self.settings["space"].items()}

    def trial_folder(self, number: int) -> Path:
        return self.folder / "trials" / f"{number:03}"

    def write(self, **changes: Any) -> None:
        self.settings.update(changes)
        write_text(self.folder / STUDY, json.dumps(self.settings, indent=2, ensure_ascii=False) + "\n")

    def save(self, trial: Trial) -> None:
        """In the place of the row of that number, if there is one: no trial is counted twice."""
        rows = {each.number: each for each in self.rows} | {trial.number: trial}
        lines = (json.dumps(rows[number].to_dict()) + "\n" for number in sorted(rows))
        write_text(self.folder / TRIALS, "".join(lines))

    def write_report(self) -> None:
        if not self.finished:
            fix = f"finish it with `neuropil resume {shlex.quote(str(self.folder))}`"
            raise RunError(f"{self.folder} has no report before the search is over", fix=fix)
        settings, found = self.settings, self.found
        sections = [*result_sections(self.results), *trial_sections(found), repeat_section(settings)]
        source = f", on {settings['source']}" if settings["source"] else ""
        summary = f"{found.sentence()}\n\nHyper-parameters of {self.name}{source}, chosen on the validation part."
        write_report(self.report, Report(f"neuropil · tune {self.name}", summary, sections))

    @property
    def found(self) -> SearchResult:
        trials = self.rows
        best = next(trial for trial in trials if trial.number == self.settings["best"])
        return SearchResult(trials, best, self.space, self.metric, self.importance)

    def plan(self, data: Any = None) -> PlannedRun:
        """What was started; `data` is given again where it was in memory."""
        recipe = tunable_plan(self.name, self.settings["seed"], {}).recipe
        typed = type(recipe.options).from_dict(self.settings["options"])
        given = {each.name: each.default for each in typed.options() if each.name in self.settings["given"]}
        if (memory := memory_of(typed)) is not None:
            if data is None:
                fix = f"give it again from Python, as in neuropil.tune({self.name!r}, data=…, out={str(self.folder)!r})"
                raise RunError(f"{self.folder} needs the {memory} that it was started with", got="none", fix=fix)
            given["data"] = data
        plan = tunable_plan(self.name, self.settings["seed"], given)
        self.require_same(plan)
        return plan

    def require_same(self, plan: PlannedRun, over: Mapping[str, Any] | None = None) -> None:
        own = {key: self.settings[key] for key in ("recipe", "seed", "options")}
        other = {"recipe": plan.name, "seed": plan.seed, "options": whole_paths(plan.typed).to_dict()}
        if own != json.loads(json.dumps(other)) or (over is not None and list(words_of(over)) != self.settings["over"]):
            rule = f"the search in {self.folder} goes on as it was started, by `{self.settings['command']}`"
            raise InputError(rule, got="another search", fix="choose another folder, or repeat that command")

    def require_no_more(self, trials: int) -> None:
        """Of a finished search: with further trials the test part would be evaluated again."""
        if trials > (own := self.settings["trials"]):
            got = f"{trials}"
            raise InputError(
                f"{self.folder} is a finished search of {own} trials", got=got, fix="choose another folder"
            )

    def require_data(self, experiment: Experiment) -> None:
        if experiment.facts().get("fingerprint", "") != self.settings["fingerprint"]:
            raise RunError(
                f"{self.folder} needs the data that it was started with",
                got="data that has changed since",
                fix=f"restore the data, or start anew with `{self.settings['command']}`",
            )


def progress_file(trial_folder: Path) -> Path:
    """Where a worker says how far its trial is."""
    return trial_folder / ".progress.json"


def is_tuning(folder: Path) -> bool:
    return (folder / STUDY).is_file()


def tunable_plan(name: str, seed: int, options: Mapping[str, Any]) -> PlannedRun:
    require_extra("tuning", "a search for hyper-parameters")
    system = recipes.find(name)
    if not recipes.recipe(name).tunable:
        rule = "neuropil tune is for a system that learns by a loss and has a validation part"
        raise InputError(rule, got=f"{system.name!r}", fix=f"use neuropil {system.verb} {system.name}")
    return PlannedRun.of("train", name, seed, options)


def memory_of(options: Config) -> InMemory | None:
    return next((each.default for each in options.options() if isinstance(each.default, InMemory)), None)
