"""How answers are printed: tables on a terminal; for other programs tab-separated lines or JSON."""

import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

from neuropil.errors import DataWarning, StorageWarning
from neuropil.progress import is_heard

if TYPE_CHECKING:
    from neuropil.runs.data_preview import DataPreview
    from neuropil.runs.run import Run
    from neuropil.runs.tuning.folder import Tuning


@contextmanager
def heard_once() -> Iterator[None]:
    """Where torchrun has started many processes, the answers of all but the first are dropped."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, nullcontext() if is_heard() else redirect_stdout(nowhere):
        yield


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        for row in [header, *rows] if any(header) else rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


@contextmanager
def printed_warnings() -> Iterator[None]:
    """What is said of data while it is read and of folders, as a sentence without the line of code that says it."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if not is_heard():
                return
            if issubclass(category, DataWarning | StorageWarning):
                print(f"neuropil: {message}", file=sys.stderr)
            else:
                usual(message, category, *place)

        warnings.showwarning = show
        warnings.simplefilter("always", DataWarning)
        warnings.simplefilter("always", StorageWarning)
        yield


def print_json(*records: Mapping[str, Any]) -> None:
    """Each on a line of its own."""
    print_lines(map(json_line, records))


def json_line(record: Mapping[str, Any]) -> str:
    """What is no number is null, since JSON knows no NaN."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        valid = json.loads(json.dumps(record, default=str), parse_constant=lambda _: None)
        return json.dumps(valid, ensure_ascii=False)


def print_lines(lines: Iterable[str]) -> None:
    """Together: where each line of many is written by itself, that takes longer than a small model."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def print_data(data: "DataPreview") -> None:
    """What was understood of data, before it is trained on."""
    print(f"{data.source}\n")
    unit, columns = data.understood.unit, data.understood.columns
    print_table(["part", unit], [[part, f"{count:,}"] for part, count in data.parts.items()])
    if columns:
        rows = [[each.name, each.kind, ", ".join(each.values), "yes" if each.missing else ""] for each in columns]
        print_table(["column", "kind", "values", "missing"], rows)
    if data.classes:
        classes = [[each["name"], *(f"{each[part]:,}" for part in data.parts)] for each in data.classes]
        print_table(["class", *data.parts], classes)
    for sentence in (*data.notes, *data.warnings):
        print(sentence, file=sys.stderr)


def print_outcome(run: "Run", *, as_json: bool) -> None:
    from neuropil.runs import overview

    results = run.results
    if as_json:
        scores = [{"name": result.name, **result.metrics} for result in results]
        report = run.report if run.report.exists() else None
        notes = run.settings["facts"].get("notes", [])
        print_json({"run": run.folder, "report": report, "results": scores, "notes": notes})
        return
    if results:
        for group in overview.comparable(results) if sys.stdout.isatty() else [results]:
            print_table(["", *overview.metric_names(group)], overview.result_rows(group))
        print(overview.margin(results))
    print_notes(run)
    print(f"Report: {run.report}" if run.report.exists() else f"Run: {run.folder}")


def print_notes(run: "Run") -> None:
    """What was done to the data, but what a time limit chose, which was said before it began."""
    said = getattr(getattr(run.options, "training", None), "fitted", "")
    for note in run.settings["facts"].get("notes", []):
        if note != said:
            print(note, file=sys.stderr)


def print_search(tuning: "Tuning", *, as_json: bool) -> None:
    """What a search over hyper-parameters has found."""
    from neuropil.runs import overview

    results, best = tuning.results, tuning.best
    if as_json:
        scores = [{"name": result.name, **result.metrics} for result in results]
        chosen = {"trial": tuning.settings["best"], "options": tuning.chosen, "importance": tuning.importance}
        report = tuning.report if tuning.report.exists() else None
        notes = best.settings["facts"].get("notes", [])
        print_json({"run": best.folder, "report": report, "results": scores, **chosen, "notes": notes})
        return
    print_table(["", *overview.metric_names(results)], overview.result_rows(results))
    print(tuning.settings["outcome"], overview.margin(results), sep="\n")
    print_notes(best)
    print(f"Run: {best.folder}", best.settings["command"], sep="\n")
    if (seconds := tuning.settings["seconds"]) is not None:
        print(f"That command trains for a whole run, where each trial had {seconds:.3g} seconds.")
    if tuning.report.exists():
        print(f"Report: {tuning.report}")
