"""The frame that every report shares: the scores on top, the recipe's own sections, and how to repeat the run."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from neuropil import recipes
from neuropil.inspection.report.page import Code, Number, Numbers, Report, Section, Table, Text
from neuropil.tasks.experiment import Result


def overview(name: str, settings: Mapping[str, Any], results: Sequence[Result], sections: Sequence[Section]) -> Report:
    system = recipes.find(name)
    source = settings["facts"].get("source")
    summary = f"{system.summary[0].upper()}{system.summary[1:]}" + (f", on {source}." if source else ".")
    return Report(f"neuropil · {name}", summary, [*_result_sections(results), *sections, _repeat_section(settings)])


def metric_text(name: str, value: float) -> str:
    """A score as people say it: shares as per cent, BLEU and chrF with one decimal, everything else with four digits."""
    if name.endswith(("chrf", "bleu")):
        return f"{value:.1f}"
    return f"{100 * value:.2f} %" if name.endswith(("accuracy", "share", "coverage", "f1")) else f"{value:.4g}"


def rises(name: str) -> bool:
    """Whether more of a metric is better."""
    return name.endswith(("accuracy", "chrf", "bleu", "f1"))


def falls(name: str) -> bool:
    """Whether less of a metric is better."""
    return name.endswith(("loss", "error", "mase", "bits_per_character", "bits_per_byte", "perplexity"))


def metric_names(results: Sequence[Result]) -> list[str]:
    """All metrics of a run's results; those that the baselines share come first, because they can be compared."""
    names = list(dict.fromkeys(name for result in results for name in result.metrics))
    return sorted(names, key=lambda name: -sum(name in result.metrics for result in results))


def result_rows(results: Sequence[Result]) -> list[list[str]]:
    names = metric_names(results)
    return [
        [result.name, *(metric_text(name, result.metrics[name]) if name in result.metrics else "" for name in names)]
        for result in results
    ]


def margin(results: Sequence[Result]) -> str:
    """One sentence: by how much the run's own score is better or worse than its strongest baseline's."""
    shared = [name for name in metric_names(results) if all(name in result.metrics for result in results)]
    if len(results) < 2 or not shared:
        return ""
    name, own, baseline = shared[0], results[0], results[1]
    mine, other = own.metrics[name], baseline.metrics[name]
    if name.endswith("accuracy"):
        words = f"{100 * abs(mine - other):.2f} points {'above' if mine >= other else 'BELOW'}"
    elif rises(name):
        words = f"{abs(mine - other):.1f} points {'above' if mine >= other else 'BELOW'}"
    elif not falls(name) and other:  # a rate is neither good nor bad, but near what theory says or not
        words = f"{100 * abs(mine / other - 1):.2g} % away from"
    else:
        words = (
            f"{100 * abs(mine / other - 1):.1f} % {'below' if mine <= other else 'ABOVE'}"
            if other
            else f"{mine:.4g} against 0, as"
        )
    return f"{own.name}: {name.replace('_', ' ')} {metric_text(name, mine)}, {words} {baseline.name} ({metric_text(name, other)})."


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
    beaten = None
    if result is results[0] and len(results) > 1 and name in results[1].metrics:
        mine, other = result.metrics[name], results[1].metrics[name]
        if rises(name) or falls(name):
            beaten = mine > other if rises(name) else mine < other
    return Number(f"{result.name}: {name.replace('_', ' ')}", metric_text(name, result.metrics[name]), good=beaten)


def _repeat_section(settings: Mapping[str, Any]) -> Section:
    rows = [[key, str(value)] for key, value in settings["environment"].items()]
    rows += [["seed", str(settings["seed"])], ["started", settings["created"]]]
    return Section("Repeat it", [Code(settings["command"]), Table(["environment", ""], rows)])
