"""The frame that every report shares: the scores on top, the recipe's own sections, and how to repeat the run."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from neuropil import recipes
from neuropil.inspection.report.page import Code, Number, Numbers, Report, Section, Table, Text
from neuropil.metrics import find_metric
from neuropil.tasks.experiment import Result


def overview(name: str, settings: Mapping[str, Any], results: Sequence[Result], sections: Sequence[Section]) -> Report:
    system = recipes.find(name)
    source = settings["facts"].get("source")
    summary = f"{system.summary[0].upper()}{system.summary[1:]}" + (f", on {source}." if source else ".")
    return Report(f"neuropil · {name}", summary, [*_result_sections(results), *sections, _repeat_section(settings)])


def metric_names(results: Sequence[Result]) -> list[str]:
    """All metrics of a run's results; those that the baselines share come first, because they can be compared."""
    names = list(dict.fromkeys(name for result in results for name in result.metrics))
    return sorted(names, key=lambda name: -sum(name in result.metrics for result in results))


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
    """One sentence: by how much the run's own score is better or worse than its strongest baseline's."""
    shared = [name for name in metric_names(results) if all(name in result.metrics for result in results)]
    if len(results) < 2 or not shared:
        return ""
    metric, own, baseline = find_metric(shared[0]), results[0], results[1]
    mine, other = own.metrics[metric.name], baseline.metrics[metric.name]
    where = "above" if mine >= other else "BELOW"
    if metric.better is None and other:  # a rate is neither good nor bad, but near what theory says or not
        words = f"{100 * abs(mine / other - 1):.2g} % away from"
    elif metric.better == "higher":
        share = metric.format == "percent"
        words = f"{100 * abs(mine - other):.2f} points {where}" if share else f"{abs(mine - other):.1f} points {where}"
    elif other:
        words = f"{100 * abs(mine / other - 1):.1f} % {'below' if mine <= other else 'ABOVE'}"
    else:
        words = f"{mine:.4g} against 0, as"
    return f"{own.name}: {metric.title} {metric.text(mine)}, {words} {baseline.name} ({metric.text(other)})."


def _result_sections(results: Sequence[Result]) -> list[Section]:
    if not results:
        return []
    names = metric_names(results)
    cards = [
        _card(results, result, name) for result, name in itertools.product(results[:2], names) if name in result.metrics
    ]
    table = Table(["", *(name.replace("_", " ") for name in names)], result_rows(results))
    words = [Text(margin(results))] if margin(results) else []
    return [Section("Result", [Numbers(cards[:4]), *words, table])]


def _card(results: Sequence[Result], result: Result, name: str) -> Number:
    """Green where the run beats its baseline; a metric that should neither rise nor fall has no colour."""
    metric, value, beaten = find_metric(name), result.metrics[name], None
    if result is results[0] and len(results) > 1 and name in results[1].metrics and metric.better:
        beaten = metric.improves(value, results[1].metrics[name])
    return Number(f"{result.name}: {metric.title}", metric.text(value), good=beaten)


def _repeat_section(settings: Mapping[str, Any]) -> Section:
    rows = [[key, str(value)] for key, value in settings["environment"].items()]
    rows += [["seed", str(settings["seed"])], ["started", settings["created"]]]
    return Section("Repeat it", [Code(settings["command"]), Table(["environment", ""], rows)])
