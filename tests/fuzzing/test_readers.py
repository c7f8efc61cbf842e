"""Readers and damaged files: each case is read, or refused with one sentence. `make fuzz` has many more of them."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.fuzzing.kept import FOUND, kept
from benchmarks.fuzzing.outcomes import FAULT
from benchmarks.fuzzing.readers import READERS
from benchmarks.fuzzing.worker import Tried, cases_of

import neuropil

CASES = 80
SLOW = {"series": 5, "lab": 20, "csv": 20, "checkpoint": 20, "config": 20, "labelled-texts": 30, "pairs": 30}
"""Of readers that take long for each."""
each_reader = pytest.mark.parametrize("name", READERS)


def faults(name: str, cases: Iterator[bytes], folder: Path) -> list[str]:
    tried = Tried(READERS[name], folder)
    outcomes = ((content, tried(content)) for content in cases)
    found = [(content, outcome.message) for content, outcome in outcomes if outcome.kind == FAULT]
    # In tests annotations are executed, and refuse what the readers themselves would refuse a few lines later.
    return [f"{message} ({content[:200]!r})" for content, message in found if not message.startswith("Beartype")]


def test_what_was_found_once_is_a_sentence_now_within_the_bounds_of_memory():
    """In a process of its own, whose memory is bounded."""
    root, source = Path(__file__).parents[2], str(Path(neuropil.__file__).parents[1])
    command = [sys.executable, "-m", "benchmarks.fuzzing.kept"]
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{name}: {len(kept(name))}" for name in sorted(os.listdir(FOUND))], done.stderr
    assert done.returncode == 0, done.stderr


@each_reader
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path):
    cases = cases_of(READERS[name], seed=1, known=[*READERS[name].seeds()])
    assert faults(name, itertools.islice(cases, SLOW.get(name, CASES)), tmp_path) == []


def test_found_files_are_of_readers():
    assert {folder.name for folder in FOUND.iterdir()} <= set(READERS)
