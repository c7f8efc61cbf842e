"""A file of JSON lines that grows, and one that is written anew."""

import json
from pathlib import Path
from typing import Any

from neuropil.files import write_text
from neuropil.lab.queue.tail import Tail


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_only_what_was_added_is_read_and_half_a_line_is_left(tmp_path: Path):
    path, rows = tmp_path / "metrics.jsonl", [{"step": step} for step in range(4)]
    tail = Tail(path)
    assert tail.added() == ([], False)
    path.write_text(lines(*rows[:2]) + '{"step"', encoding="utf-8")
    assert tail.added() == (rows[:2], False)
    assert tail.added() == ([], False)
    with path.open("a", encoding="utf-8") as file:
        file.write(": 2}\n")
    assert tail.added() == (rows[2:3], False)


def test_a_file_written_anew_with_the_same_beginning_has_only_its_end_added(tmp_path: Path):
    path, rows = tmp_path / "metrics.jsonl", [{"step": step} for step in range(4)]
    tail = Tail(path)
    write_text(path, lines(*rows[:3]))
    tail.added()
    write_text(path, lines(*rows))
    assert tail.added() == (rows[3:], False)


def test_one_that_begins_otherwise_or_earlier_is_read_anew(tmp_path: Path):
    path, rows = tmp_path / "metrics.jsonl", [{"step": step} for step in range(4)]
    tail = Tail(path)
    write_text(path, lines(*rows))
    tail.added()
    write_text(path, lines(*rows[:2]))  # as a run that goes on from its checkpoint does
    assert tail.added() == (rows[:2], True)
    write_text(path, lines({"step": 7}, {"step": 8}, {"step": 9}))
    assert tail.added() == ([{"step": 7}, {"step": 8}, {"step": 9}], True)


def test_what_json_does_not_know_is_none_and_what_is_damaged_no_row(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"loss": NaN, "all": [1, -Infinity]}\n{"lo\n[1]\n', encoding="utf-8")
    assert Tail(path).added() == ([{"loss": None, "all": [1, None]}], False)
