"""How answers are printed: tables on a terminal, tab-separated lines for other programs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuropil.runs.run import Run


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


def print_outcome(run: "Run") -> None:
    from neuropil.runs import overview

    results = run.results
    if results:
        print_table(["", *overview.metric_names(results)], overview.result_rows(results))
        print(overview.margin(results))
    for note in run.settings["facts"].get("notes", []):
        print(note, file=sys.stderr)
    print(f"Report: {run.report}" if run.report.exists() else f"Run: {run.folder}")
