"""The table of the docs, of which one reader may be fuzzed anew."""

from pathlib import Path

import benchmarks.claims
import pytest
from benchmarks.fuzzing.__main__ import publish_rows, row
from benchmarks.fuzzing.worker import Result

from neuropil.runs.environment import environment


def test_rows_of_other_readers_stay_with_the_processor_that_they_were_made_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(benchmarks.claims, "PAGES", tmp_path)
    before = [["idx", "1,000,000", "15", "0", "299", "0.13 s", "37 MB", "128 MB", "another, 2 cores"]]
    publish_rows([*before, row("npz", Result(cases=5))])
    publish_rows([row("npz", Result(cases=2_000))])
    lines = (tmp_path / "fuzzing.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert [(cells[0], cells[1], cells[-1]) for cells in rows] == [
        ("reader", "cases", "processor"),
        ("---", "---", "---"),
        ("idx", "1,000,000", "another, 2 cores"),
        ("npz", "2,000", environment()["processor"]),
    ]
