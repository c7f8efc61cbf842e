"""A run is killed with no warning, and comes out as if it had not been."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neuropil.runs.run import load
from neuropil.training.checkpoint import saved_step

OPTIONS = [
    "--epochs",
    "30",
    "--hidden-sizes",
    "64",
    "--average",
    "0.9",
    "--checkpoint-seconds",
    "0.05",
    "--batch-size",
    "128",
]


def neuropil(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "neuropil", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    return output + errors


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.slow  # `tests/faults` kills at chosen moments, and `make torture` at many random ones
def test_a_run_killed_at_a_random_moment_resumes_to_the_same_bits(tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    unbroken = neuropil("train", "mlp", *OPTIONS, "--no-report", "--out", str(whole))
    killed = neuropil("train", "mlp", *OPTIONS, "--out", str(cut))
    wait_for(cut / "checkpoint.safetensors", killed)
    time.sleep(random.uniform(0, 1.5))  # noqa: S311 (any moment will do, and a new one each time)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    finish(unbroken)
    finish(neuropil("resume", str(cut)))
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()
    assert (cut / "report.html").exists()


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path):
    folder = tmp_path / "run"
    process = neuropil("train", "mlp", *OPTIONS, "--epochs", "100000", "--out", str(folder))
    wait_for(folder / "checkpoint.safetensors", process)
    os.kill(process.pid, signal.SIGINT)
    last = finish(process, code=130).splitlines()[-1]
    found = re.fullmatch(rf"neuropil: stopped at step (\d+); go on with: neuropil resume {folder}", last)
    assert found
    assert load(folder).progress.endswith(f" to step {found[1]}")
    assert saved_step(folder) == int(found[1])


def test_ctrl_c_after_the_last_line_changes_nothing(tmp_path: Path):
    folder = tmp_path / "run"
    process = neuropil("train", "mlp", *OPTIONS, "--epochs", "100000", "--out", str(folder))
    wait_for(folder / "checkpoint.safetensors", process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("neuropil: stopped at step "):
        assert process.poll() is None
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    finish(process, code=130)
