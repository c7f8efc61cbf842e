"""Two processes and one folder: the second is refused in a sentence, and nothing is left of the first when it was
killed."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import neuropil
from command_line import said
from neuropil.errors import RunError
from neuropil.files import locked
from neuropil.runs.planned import new_folder
from neuropil.runs.trash import delete_run
from shims import preloaded

OPTIONS = ["--epochs", "100000", "--hidden-sizes", "8", "--batch-size", "1024", "--checkpoint-seconds", "0.05"]
ENDLESS = [*OPTIONS, "--no-report"]


@contextmanager
def at_work(words: list[str], sign: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has written the file `sign`; it is killed on leaving, if it is still alive."""
    command = [sys.executable, "-m", "neuropil", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not sign.exists():
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


def refusal(folder: Path, process: subprocess.Popen[bytes]) -> str:
    got = f"process {process.pid}, which works on it"
    return f"one process at a time works on {folder}, but got {got}: wait until it ends, or stop it."


def test_a_run_that_is_under_way_is_left_alone_and_taken_up_when_its_process_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    runs, folder = tmp_path / "runs", tmp_path / "runs" / "mlp"
    with at_work(["train", "mlp", *ENDLESS, "--out", str(folder)], folder / "checkpoint.safetensors") as process:
        refused = refusal(folder, process)
        assert said(capsys, "resume", str(folder), code=2) == f"neuropil: {refused}"
        assert said(capsys, "train", "mlp", "--out", str(folder), code=2) == (
            f"neuropil: the output folder must be new or empty, but got {str(folder)!r}: "
            "choose another, or neuropil resume it."
        )
        with pytest.raises(RunError, match=re.escape(refused)):
            delete_run(runs, "mlp")
        assert said(capsys, "train", "mlp", "--out", str(runs), code=2).startswith("neuropil: the output folder must")
        assert process.poll() is None
    assert (folder / ".lock").read_text().startswith(f"{process.pid} ")
    with locked(folder):  # by the system it was forgotten
        pass
    assert not (folder / ".lock").exists()
    delete_run(runs, "mlp")


def test_a_search_that_is_under_way_is_left_alone_with_its_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "tuned"
    options = ["--epochs", "100000", "--batch-size", "1024", "--checkpoint-seconds", "0.05", "--trials", "3"]
    words = ["tune", "mlp", *options, "--out", str(folder)]
    with at_work(words, folder / "trials" / "001" / "checkpoint.safetensors") as process:
        study = (folder / "study.json").read_bytes()
        refused = f"neuropil: {refusal(folder, process)}"
        assert said(capsys, "resume", str(folder), code=2) == refused
        assert said(capsys, *words, code=2) == refused
        trial = folder / "trials" / "001"
        assert said(capsys, "resume", str(trial), code=2) == f"neuropil: {refusal(trial, process)}"
        assert (folder / "study.json").read_bytes() == study
    with locked(folder):
        pass


def test_runs_that_are_started_at_one_moment_get_folders_of_their_own(tmp_path: Path):
    with ThreadPoolExecutor(16) as threads:
        found = [*threads.map(lambda _: new_folder(tmp_path / "mlp", None), range(64))]
    assert sorted(path.name for path in found) == sorted(["mlp", *(f"mlp-{number}" for number in range(2, 65))])


def test_of_two_that_begin_in_one_folder_the_second_is_refused(tmp_path: Path):
    with locked(tmp_path), pytest.raises(RunError) as error, locked(tmp_path):
        pass
    got = f"process {os.getpid()}, which works on it"
    assert str(error.value) == (
        f"one process at a time works on {tmp_path}, but got {got}: wait until it ends, or stop it."
    )
    with locked(tmp_path), pytest.raises(RunError):
        neuropil.train("mlp", epochs=1, hidden_sizes=(8,), report=False, show_progress=False, out=tmp_path)
    assert os.listdir(tmp_path) == []


def test_all_processes_of_one_distributed_run_work_on_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with locked(tmp_path):
        monkeypatch.setenv("RANK", "1")
        with locked(tmp_path):
            pass
        monkeypatch.setenv("RANK", "0")
        with pytest.raises(RunError), locked(tmp_path):
            pass


def test_a_file_system_without_locks_is_said_to_be_one(tmp_path: Path):
    """As NFS is where its lock service does not run."""
    shim = "#include <errno.h>\nint flock(int file, int operation) { errno = ENOLCK; return -1; }\n"
    code = """
import sys
from pathlib import Path
from neuropil.cli.output import printed_warnings
from neuropil.files import locked
with printed_warnings(), locked(Path(sys.argv[1])), locked(Path(sys.argv[1])):
    pass
"""
    (tmp_path / "run").mkdir()
    words = [sys.executable, "-c", code, str(tmp_path / "run")]
    made = subprocess.run(words, env=preloaded(shim, tmp_path), capture_output=True, text=True, check=True)
    reason = "[Errno 37] No locks available"
    sentence = (
        f"neuropil: {tmp_path / 'run'} is on a file system without locks ({reason}): start no second process on it"
    )
    assert made.stderr.splitlines() == [sentence] * 2
    assert os.listdir(tmp_path / "run") == []


def test_a_folder_that_is_being_packed_leaves_out_what_its_process_holds(tmp_path: Path):
    run = neuropil.train("mlp", epochs=1, hidden_sizes=(8,), report=False, show_progress=False, out=tmp_path / "run")
    with locked(run.folder):
        (run.folder / ".model.safetensors.abcdefgh.part").write_text("half")
        run.save(tmp_path / "sent.zip")
    shutil.rmtree(run.folder)
    assert sorted(os.listdir(neuropil.load(tmp_path / "sent.zip").folder)) == [
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
        "training_examples.npy",
    ]
