"""What a run ends with: its scores beside those that it is compared with. Reading them needs no PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuropil.metrics import HEADLINES, Metric, find_metric

FACTS = ("kind", "name", "step", "limit")
"""Of a row of results in `metrics.jsonl`: all others are metrics."""


@dataclass(frozen=True)
class Result:
    """One line of the table that a run ends with: the trained model first, then what it is compared with. A `limit` is
    what no model is expected to reach, such as the score of real pictures: it is shown, and not competed with."""

    name: str
    metrics: Mapping[str, float]
    limit: bool = False


def results_of(rows: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Of the rows of a `metrics.jsonl`: this model first, then its baselines. Empty while a run is not finished."""
    return [
        Result(row["name"], {key: value for key, value in row.items() if key not in FACTS}, row.get("limit", False))
        for row in rows
        if row["kind"] == "result"
    ]


def headline(results: Sequence[Result]) -> Metric | None:
    """By what a run is compared: the metric that its field uses or, where it has none, the one that most of the other
    results have too."""
    own, *others = [result for result in results if not result.limit]
    shared = {name: sum(name in other.metrics for other in others) for name in own.metrics}
    usual = next((name for name in HEADLINES if shared.get(name)), None)
    name = usual or max(shared, key=lambda name: shared[name], default="")
    return find_metric(name) if shared.get(name) else None


def strongest_baseline(results: Sequence[Result], metric: Metric) -> Result:
    """Which stands first after the run's own, of those that have its headline."""
    return next(result for result in results[1:] if metric.name in result.metrics and not result.limit)
