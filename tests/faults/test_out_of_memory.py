"""Memory runs out in one run: it says so in a sentence, or the system ends it; others go on, and so can it."""

import itertools
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kill_points import KillPoints
from neuropil.lab.forms import filled
from neuropil.lab.queue.job import NO_MEMORY
from neuropil.lab.queue.jobs import Jobs
from neuropil.runs.run import load

OPTIONS = '{"epochs": 2, "hidden_sizes": (6000,), "batch_size": 2000, "checkpoint_seconds": 0}'
TRAIN = f"""
from neuropil.runs.start import train
train("mlp", **{OPTIONS}, report=False, show_progress=False, out=folder / "run")
"""
GO_ON = """
from neuropil.runs.run import load
from neuropil.files import locked
from neuropil.runs.start import complete
run = load(folder / "run")
with locked(run.folder):
    complete(run, run.experiment(), False, report=False)
"""
MEGABYTE = 2**20
SENTENCE = (
    r"InputError: a run must fit into memory, but got [0-9.]+ [kM]B asked for at once, of [0-9.]+ [kM]B free: "
    r"choose smaller batches or a smaller model\."
)


def test_what_cannot_be_allocated_is_a_sentence_and_leaves_a_run_that_goes_on(mortal: KillPoints, tmp_path: Path):
    for folder in ("whole", "short", "cut"):
        (tmp_path / folder).mkdir()
    assert not mortal.run(TRAIN, tmp_path / "whole").said
    short = mortal.run(TRAIN, tmp_path / "short", room=30 * MEGABYTE)
    assert re.fullmatch(SENTENCE, short.said), short.said
    assert os.listdir(tmp_path / "short") == []
    cut = tmp_path / "cut" / "run"
    for change in itertools.count(20, 4):
        assert mortal.run(TRAIN, tmp_path / "cut", change=change).killed
        if (cut / "checkpoint.safetensors").exists():
            break
        for path in cut.iterdir():
            path.unlink()
    again = mortal.run(GO_ON, tmp_path / "cut", room=30 * MEGABYTE)
    assert re.fullmatch(SENTENCE, again.said), again.said
    assert (cut / "checkpoint.safetensors").exists()
    assert not mortal.run(GO_ON, tmp_path / "cut").said
    assert load(cut).weights.read_bytes() == load(tmp_path / "whole" / "run").weights.read_bytes()


# --- by the system ----------------------------------------------------------------------------------------------------

GROUPS = Path("/sys/fs/cgroup")
LIMITS = {GROUPS / "memory": "memory.limit_in_bytes", GROUPS: "memory.max"}
"""Of the first and of the second version of control groups."""
PROGRAM = """
import os, sys
from pathlib import Path
if sys.argv[-1].endswith("large"):
    (Path(os.environ["GROUP"]) / "cgroup.procs").write_text(str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "neuropil", *sys.argv[1:]])
"""


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A control group whose memory can be limited."""
    for root, limit in LIMITS.items():
        folder = root / f"neuropil-{os.getpid()}"
        if not (root / "cgroup.procs").exists() or not os.access(root, os.W_OK):
            continue
        folder.mkdir()
        if (folder / limit).exists():
            monkeypatch.setenv("GROUP", str(folder))
            yield folder, limit
            folder.rmdir()
            return
        folder.rmdir()
    pytest.skip("no right to limit the memory of a process")


@pytest.mark.slow
def test_a_run_that_the_system_ended_tells_why_and_the_queue_goes_on(group: tuple[Path, str], tmp_path: Path):
    """The real killer: a group of processes may have less memory than the interpreter needs with PyTorch in it."""
    folder, limit = group
    (folder / limit).write_text(str(100 * MEGABYTE))
    (tmp_path / "program.py").write_text(PROGRAM)
    small = {"epochs": 2, "hidden_sizes": [8], "batch_size": 512}
    with Jobs(tmp_path / "runs", program=[sys.executable, "-S", str(tmp_path / "program.py")]) as jobs:
        large, next_one = jobs.start(filled("mlp", small), "large"), jobs.start(filled("mlp", small), "small")
        while next_one.state in ("queued", "running"):
            time.sleep(0.05)
        assert (large.state, large.reason) == ("killed", NO_MEMORY)
        assert next_one.state == "finished"
        (folder / limit).write_text(str(4000 * MEGABYTE))
        jobs.resume(large.id)
        while large.state in ("queued", "running"):
            time.sleep(0.05)
        assert large.state == "finished"
    runs = tmp_path / "runs"
    assert load(runs / "large").weights.read_bytes() == load(runs / "small").weights.read_bytes()
