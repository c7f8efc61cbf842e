"""Runs side by side: their scores, their sizes, and the options in which they differ."""

from collections.abc import Sequence

from neuropil.metrics import find_metric
from neuropil.runs.run import Run


def compare(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with one column per run."""
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    rows = [["system", *(run.name for run in runs)], ["seed", *(str(run.seed) for run in runs)]]
    rows += [
        [name, *(find_metric(name).text(run.metrics[name]) if name in run.metrics else "" for run in runs)]
        for name in names
    ]
    rows.append(["training seconds", *(f"{_seconds(run):,.0f}" for run in runs)])
    return ["", *(run.folder.name for run in runs)], rows + _differing_options(runs)


def _seconds(run: Run) -> float:
    return max((row.get("seconds", 0.0) for row in run.history), default=0.0)


def _differing_options(runs: Sequence[Run]) -> list[list[str]]:
    options = [{option.name: option.default for option in run.options.options()} for run in runs]
    names = dict.fromkeys(name for each in options for name in each)
    rows = [[f"--{name.replace('_', '-')}", *(str(each.get(name, "")) for each in options)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]
