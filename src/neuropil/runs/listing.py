"""The runs and searches in a directory, as plain data for a table: read from their small files, without PyTorch.

A damaged folder is listed with what is wrong with it, and spoils none of the others.
"""

import functools
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from neuropil.errors import InputError, NeuropilError, RunError, nearest
from neuropil.metrics import Metric, find_metric
from neuropil.runs.settings import STUDY, read_settings, read_study
from neuropil.tasks.results import Result, headline, results_of, strongest_baseline
from neuropil.training.history import Row, read_history

ListedState: TypeAlias = Literal["finished", "unfinished", "damaged"]
Points: TypeAlias = list[tuple[int, float]]
MOST_POINTS = 60
"""Of the small curve beside a run."""
MOST_CACHED = 4096
SECONDS_AHEAD = 60.0
"""By which the clocks of two machines may differ."""
COUNTS = ("kind", "step", "epoch", "seconds", "name", "limit")
"""Of a row of `metrics.jsonl`: all others are measured."""


@dataclass(frozen=True)
class Headline:
    """The figure by which a run is compared, and its strongest baseline's; `beaten` is None where neither is better."""

    metric: str
    title: str
    better: str | None
    value: float | None
    text: str
    baseline: str | None = None
    baseline_value: float | None = None
    baseline_text: str | None = None
    beaten: bool | None = None


@dataclass(frozen=True)
class SmallCurve:
    """Of a metric: of the validation part where there is one, else of training. That of a search has a point for each
    trial."""

    metric: str
    part: str
    points: Points


@dataclass(frozen=True)
class ListedRun:
    """`name` is that of its folder; `reason` says what is wrong with a damaged one. `usable` is one that left weights,
    `pages` are the HTML files that it holds."""

    name: str
    kind: Literal["run", "search"]
    state: ListedState
    modified: float
    system: str = ""
    created: str = ""
    seed: int | None = None
    source: str = ""
    command: str = ""
    headline: Headline | None = None
    curve: SmallCurve | None = None
    usable: bool = False
    pages: tuple[str, ...] = ()
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def list_runs(runs: Path) -> list[ListedRun]:
    """The newest first."""
    listed, now = [_listed(folder, _stamps(folder)) for folder in run_folders(runs)], time.time()
    return sorted(listed, key=lambda each: (-_begun(each, now), each.name))


def run_folders(runs: Path) -> Iterator[Path]:
    """Those with a settings file; what begins with a dot is none."""
    for folder in sorted(runs.iterdir()) if runs.is_dir() else []:
        if not folder.name.startswith(".") and any((folder / name).is_file() for name in ("config.json", STUDY)):
            yield folder


def find_run(runs: Path, name: str) -> Path:
    """The folder of that name, which is a single one: no path leads out of the directory."""
    known = [folder.name for folder in run_folders(runs)]
    if name not in known:
        fix = nearest(name, known) if known else "train one first"
        raise InputError("a run must be one of those that are listed", got=f"{name!r}", fix=fix)
    return runs / name


def list_run(folder: Path) -> ListedRun:
    return _listed(folder, _stamps(folder))


def curves(folder: Path, most: int = 400) -> dict[str, dict[str, Points]]:
    """All that a run measured, by part and metric, each with at most so many points."""
    found: dict[str, dict[str, Points]] = {}
    for row in read_history(folder / "metrics.jsonl"):
        if row["kind"] != "result":
            for name, value in measured(row).items():
                found.setdefault(row["kind"], {}).setdefault(name, []).append((row["step"], value))
    return {part: {name: thinned(points, most) for name, points in each.items()} for part, each in found.items()}


def measured(row: Row) -> dict[str, float]:
    """The figures of a row; what is not finite is none."""
    numbers = {name: value for name, value in row.items() if name not in COUNTS and isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def thinned(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> Points:
    """Evenly by their number; the first and the last stay."""
    if len(points) <= most:
        return list(points)
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


# --- one folder -------------------------------------------------------------------------------------------------------


def _stamps(folder: Path) -> tuple[tuple[int, int], ...]:
    """By which it is known whether a folder has to be read again."""
    names = ("config.json", STUDY, "metrics.jsonl", "trials.jsonl", "model.safetensors", "report.html")
    return tuple(map(_stamp, (folder / name for name in names)))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _begun(listed: ListedRun, now: float) -> float:
    """Seconds since 1970, by which runs are sorted; by its files where a folder does not say. What lies ahead was told
    by a clock that was wrong, and makes no run the newest."""
    try:
        told = [datetime.fromisoformat(listed.created).timestamp(), listed.modified]
    except (ValueError, OverflowError, OSError):
        told = [listed.modified]
    return next((each for each in told if each <= now + SECONDS_AHEAD), 0.0)


@functools.lru_cache(maxsize=MOST_CACHED)
def _listed(folder: Path, stamps: tuple[tuple[int, int], ...]) -> ListedRun:
    search = not (folder / "config.json").is_file()
    facts = {"name": folder.name, "kind": "search" if search else "run", "modified": max(stamps)[0] / 1e9}
    facts |= {
        "usable": any((folder / path).is_file() for path in ("model.safetensors", "best/model.safetensors")),
        "pages": tuple(sorted(page.name for page in folder.glob("*.html"))),
    }
    try:
        return ListedRun(**facts, **(_search(folder) if search else _run(folder)))
    except NeuropilError as error:
        return ListedRun(**facts, state="damaged", reason=str(error))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        rule = f"{folder} must hold what neuropil wrote"
        return ListedRun(**facts, state="damaged", reason=str(RunError(rule, got=f"something else ({error})")))


def _run(folder: Path) -> dict[str, Any]:
    settings, rows = read_settings(folder), read_history(folder / "metrics.jsonl")
    results = results_of(rows)
    return _settings(settings) | {
        "source": settings["facts"].get("source") or "",
        "state": "finished" if results else "unfinished",
        "headline": find_headline(results) if results else None,
        "curve": small_curve(rows),
    }


def _search(folder: Path) -> dict[str, Any]:
    settings = read_study(folder)
    results = [Result(each["name"], each["metrics"]) for each in settings.get("results", [])]
    return _settings(settings) | {
        "source": settings.get("source") or "",
        "state": "finished" if results else "unfinished",
        "headline": find_headline(results) if results else None,
        "curve": _trials(folder / "trials.jsonl", settings.get("metric", "")),
    }


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "system": str(settings["recipe"]),
        "created": str(settings.get("created", "")),
        "seed": settings["seed"],
        "command": settings["command"],
    }


def find_headline(results: Sequence[Result]) -> Headline | None:
    """Of finished runs; without baselines the first that the run measured."""
    metric, own = headline(results), results[0].metrics
    if metric is None:
        return next((_headline(find_metric(name), value) for name, value in own.items()), None)
    other = strongest_baseline(results, metric)
    return _headline(metric, own[metric.name], other.name, other.metrics[metric.name])


def _headline(metric: Metric, value: float, baseline: str | None = None, other: float | None = None) -> Headline:
    figures = Headline(metric.name, metric.title, metric.better, _finite(value), metric.text(value))
    if baseline is None or other is None:
        return figures
    tied = metric.better is None or metric.text(value) == metric.text(other)
    beaten = None if tied else metric.improves(value, other)
    text = metric.text(other)
    return replace(figures, baseline=baseline, baseline_value=_finite(other), baseline_text=text, beaten=beaten)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def small_curve(rows: Sequence[Row]) -> SmallCurve | None:
    """The loss of the validation part, else of training; where there is none, what else was measured first."""
    for part in ("validation", "train"):
        own = [row for row in rows if row["kind"] == part]
        names = dict.fromkeys(name for row in own for name in measured(row) if "learning_rate" not in name)
        name = "loss" if "loss" in names else next(iter(names), None)
        if name is not None:
            values = [(row["step"], measured(row)[name]) for row in own if name in measured(row)]
            return SmallCurve(name, part, thinned(values))
    return None


def _trials(path: Path, metric: str) -> SmallCurve | None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    values = [(row["number"], row["value"]) for row in rows if isinstance(row["value"], int | float)]
    return (
        SmallCurve(metric, "trials", thinned([point for point in values if math.isfinite(point[1])]))
        if values
        else None
    )
