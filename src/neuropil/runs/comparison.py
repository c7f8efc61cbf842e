"""Runs side by side: their scores, their sizes, and the options in which they differ."""

from collections.abc import Sequence
from pathlib import Path

from neuropil.config import describe_value, flag_of
from neuropil.errors import InputError
from neuropil.metrics import find_metric
from neuropil.runs.run import Run, load


def compare(runs: Sequence[Run | str | Path]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with one column per run or run folder."""
    if len(runs) < 2:
        raise InputError("neuropil compare needs two or more runs", got=f"{len(runs)}")
    opened = [run if isinstance(run, Run) else load(run) for run in runs]
    measured = [run.metrics for run in opened]
    names = dict.fromkeys(name for metrics in measured for name in metrics)
    rows = [["system", *(run.name for run in opened)], ["seed", *(str(run.seed) for run in opened)]]
    rows += [
        [name, *(find_metric(name).text(metrics[name]) if name in metrics else "" for metrics in measured)]
        for name in names
    ]
    seconds = [_seconds(run) for run in opened]
    rows += [["training seconds", *seconds]] if any(seconds) else []
    return ["", *(run.folder.name for run in opened)], rows + _differing_options(opened)


def _seconds(run: Run) -> str:
    """Nothing for what is not trained by steps."""
    seconds = max((row["seconds"] for row in run.rows if "seconds" in row), default=None)
    if seconds is None:
        return ""
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}"


def _differing_options(runs: Sequence[Run]) -> list[list[str]]:
    """Of the options that all of the runs have."""
    options = [{option.name: describe_value(option.default) for option in run.options.options()} for run in runs]
    names = [name for name in options[0] if all(name in each for each in options)]
    rows = [[flag_of(name), *(each[name] for each in options)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]
