"""The frame that every report shares: the scores on top, the recipe's own sections, and how to repeat the run."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from neuropil import recipes
from neuropil.inspection.report.page import Code, Number, Numbers, Report, Section, Table, Text
from neuropil.metrics import Metric, find_metric
from neuropil.tasks.results import Result, headline, strongest_baseline


def overview(name: str, settings: Mapping[str, Any], results: Sequence[Result], sections: Sequence[Section]) -> Report:
    system = recipes.find(name)
    source = settings["facts"].get("source")
    summary = f"{system.summary[0].upper()}{system.summary[1:]}" + (f", on {source}." if source else ".")
    return Report(f"neuropil · {name}", summary, [*result_sections(results), *sections, repeat_section(settings)])


def metric_names(results: Sequence[Result]) -> list[str]:
    """All metrics of a run's results: first that by which it is compared, then those that the baselines share."""
    names, first = list(dict.fromkeys(name for result in results for name in result.metrics)), headline(results)
    rest = sorted(names, key=lambda name: -sum(name in result.metrics for result in results))
    return rest if first is None else [first.name, *(name for name in rest if name != first.name)]


def comparable(results: Sequence[Result]) -> list[list[Result]]:
    """In groups, each a table without wide empty parts: those of a group share metrics, at least by way of others."""
    groups: list[list[Result]] = []
    for result in results:
        alike = [group for group in groups if any(result.metrics.keys() & other.metrics.keys() for other in group)]
        rest = [group for group in groups if group not in alike]
        groups = [*rest, [*itertools.chain(*alike), result]]
    order = {id(result): place for place, result in enumerate(results)}
    return sorted(groups, key=lambda group: order[id(group[0])])


def result_rows(results: Sequence[Result]) -> list[list[str]]:
    names = metric_names(results)
    return [
        [
            result.name,
            *(find_metric(name).text(result.metrics[name]) if name in result.metrics else "" for name in names),
        ]
        for result in results
    ]


def margin(results: Sequence[Result]) -> str:
    """One sentence: by how much the run's own score is better or worse than its strongest baseline's, which stands
    second."""
    own, metric = results[0], headline(results)
    if metric is None:
        found = (f"{find_metric(name).title} {find_metric(name).text(value)}" for name, value in own.metrics.items())
        return f"{own.name}: {', '.join(found)}."
    baseline = strongest_baseline(results, metric)
    mine, other = own.metrics[metric.name], baseline.metrics[metric.name]
    away = mine / other - 1 if other else math.inf
    if _tied(metric, mine, other):
        words = "equal to"
    elif metric.better == "higher":
        points = f"{100 * abs(mine - other):.2f}" if metric.format == "percent" else f"{abs(mine - other):.1f}"
        words = f"{points} points {'above' if mine > other else 'BELOW'}"
    elif metric.better == "lower" and 1 <= away < math.inf:
        words = f"{mine / other:,.1f} TIMES that of"
    elif not abs(away) < 1:
        words = "against"
    elif metric.better is None:  # a rate is neither good nor bad, but near what theory says or not
        words = f"{100 * abs(away):.2g} % away from"
    else:
        words = f"{100 * abs(away):.1f} % {'below' if away < 0 else 'ABOVE'}"
    return f"{own.name}: {metric.title} {metric.text(mine)}, {words} {baseline.name} ({metric.text(other)})."


def _tied(metric: Metric, value: float, other: float) -> bool:
    """Whether both are written alike."""
    return metric.text(value) == metric.text(other)


def result_sections(results: Sequence[Result]) -> list[Section]:
    if not results:
        return []
    names = metric_names(results)
    cards = [
        _card(results, result, name) for result, name in itertools.product(results[:2], names) if name in result.metrics
    ]
    tables = [
        Table(["", *(find_metric(name).title for name in metric_names(group))], result_rows(group))
        for group in comparable(results)
    ]
    return [Section("Result", [Numbers(cards[:4]), Text(margin(results)), *tables])]


def _card(results: Sequence[Result], result: Result, name: str) -> Number:
    """Green where the run beats its baseline; a tie, and a metric that should neither rise nor fall, have no colour."""
    metric, value, beaten = find_metric(name), result.metrics[name], None
    rival = results[1] if len(results) > 1 and not results[1].limit else None
    if result is results[0] and rival is not None and name in rival.metrics and metric.better:
        other = rival.metrics[name]
        beaten = None if _tied(metric, value, other) else metric.improves(value, other)
    return Number(f"{result.name}: {metric.title}", metric.text(value), good=beaten)


def repeat_section(settings: Mapping[str, Any]) -> Section:
    rows = [[key, str(value)] for key, value in settings["environment"].items()]
    rows += [["seed", str(settings["seed"])], ["started", settings["created"]]]
    return Section("Repeat it", [Code(settings["command"]), Table(["environment", ""], rows)])
