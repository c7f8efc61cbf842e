"""Trials in several processes at once, which are killed, stopped and lost."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import neuropil
from command_line import said
from neuropil.cli import main
from neuropil.runs.tuning import workers
from neuropil.runs.tuning.folder import DATA, Tuning
from neuropil.runs.tuning.parallel import Crew
from neuropil.runs.tuning.session import Course
from neuropil.runs.tuning.study import resume_tuning, tune
from neuropil.runs.tuning.trial import TrialEnd
from neuropil.runs.tuning.workers import Message, Worker, WorkerProcess, device_environment, ending_in_words
from real_data import digits

SMALL: dict[str, Any] = {"hidden_sizes": (8,), "epochs": 9, "batch_size": 256, "seed": 2, "workers": 2}
LONG = ["--hidden-sizes", "64", "--epochs", "400", "--checkpoint-seconds", "0.1", "--trials", "4", "--workers", "2"]


def search(folder: Path, **options: Any) -> Tuning:
    return tune("mlp", **SMALL | options, out=folder, report=False, show_progress=False)


def killing(numbers: Counter[int], patched: pytest.MonkeyPatch) -> None:
    """Kill the worker of a trial when it reports, as often as its number is counted."""
    usual = Crew._hear

    def hear(self: Crew, worker: Worker, message: Message | None) -> None:
        course = self.courses.get(worker)
        if course is not None and message is not None and "points" in message and numbers[course.trial.number]:
            numbers[course.trial.number] -= 1
            assert isinstance(worker.host, WorkerProcess)
            os.kill(worker.host.pid, signal.SIGKILL)
        usual(self, worker, message)

    patched.setattr(Crew, "_hear", hear)


def worker_ids(folder: Path) -> list[int]:
    """Of the processes that train trials in a folder."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        words = command.read_bytes().split(b"\0") if command.exists() else []
        if workers.MODULE.encode() in words and str(folder).encode() in words:
            found.append(int(command.parent.name))
    return found


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Tuning:
    """With data in memory, and a worker that is killed once."""
    images, labels = digits()
    folder = tmp_path_factory.mktemp("tuned") / "search"
    with pytest.MonkeyPatch.context() as patched:
        killing(Counter({2: 1}), patched)
        return search(folder, data=(images[:400], labels[:400]), trials=5)


def test_all_trials_are_trained_though_a_worker_was_killed(found: Tuning):
    assert [trial.number for trial in found.rows] == [1, 2, 3, 4, 5]
    assert {trial.state for trial in found.rows} <= {"complete", "pruned"}
    for trial in found.rows:
        rows = neuropil.load(found.trial_folder(trial.number)).rows
        assert [value for _, value in trial.curve] == [row["loss"] for row in rows if row["kind"] == "validation"]


def test_the_best_is_chosen_as_one_process_would(found: Tuning):
    best = min((trial for trial in found.rows if trial.state == "complete"), key=lambda trial: trial.value or 0)
    assert found.settings["best"] == best.number
    assert found.best.finished
    assert found.best.metrics == found.results[0].metrics


def test_a_trial_of_a_worker_is_the_run_that_its_options_give_here(found: Tuning, tmp_path: Path):
    images, labels = digits()
    own = {name: value for name, value in SMALL.items() if name != "workers"}
    neuropil.train(
        "mlp", data=(images[:400], labels[:400]), **own | found.chosen, out=tmp_path / "again", show_progress=False
    )
    weights = "model.safetensors"
    assert (tmp_path / "again" / weights).read_bytes() == (found.folder / "best" / weights).read_bytes()


def test_nothing_of_the_workers_is_left(found: Tuning):
    assert not worker_ids(found.folder)
    left = [path.name for path in found.folder.rglob(".*")]
    assert left == []
    assert DATA.startswith(".")


def test_the_command_repeats_the_search_with_as_many_workers(found: Tuning):
    assert "trials=5, workers=2, seed=2" in found.settings["command"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("mlp --workers 0", "--workers must be at least 1, but got 0."),
        (
            "mlp --ray 127.0.0.1:1",
            "--ray must name a Ray cluster that runs, but got '127.0.0.1:1': "
            "start one with `ray start --head`, or leave --ray out.",
        ),
    ],
)
def test_bad_words_get_one_sentence_and_leave_nothing(
    words: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, "tune", *words.split(), code=2).splitlines()[-1] == f"neuropil: {complaint}"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("code", "last", "words"),
    [
        (-9, "", "its process was killed (SIGKILL), as Linux does where memory runs out"),
        (-11, "Segmentation fault", "its process ended by SIGSEGV: Segmentation fault"),
        (2, "", "its process ended with exit code 2"),
    ],
)
def test_the_reason_of_a_lost_worker(code: int, last: str, words: str):
    assert ending_in_words(code, last) == words


def test_workers_take_the_graphics_cards_in_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device_environment(3) == {}
    monkeypatch.setattr(workers.torch.cuda, "device_count", lambda: 2)
    assert [device_environment(number)["CUDA_VISIBLE_DEVICES"] for number in range(3)] == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert [device_environment(number)["CUDA_VISIBLE_DEVICES"] for number in range(3)] == ["4", "7", "4"]


# --- bad days ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_trial_that_kills_two_workers_has_failed_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    killing(Counter({3: 2}), monkeypatch)
    words = ["--hidden-sizes", "8", "--epochs", "9", "--trials", "4", "--workers", "2", "--no-report"]
    main(["tune", "mlp", *words, "--out", str(tmp_path / "search")])
    rows = Tuning.load(tmp_path / "search").rows
    reason = "its process was killed (SIGKILL), as Linux does where memory runs out"
    assert [trial.reason for trial in rows] == ["", "", reason, ""]
    assert rows[2].state == "failed"
    assert not (tmp_path / "search" / "trials" / "003" / "checkpoint.safetensors").exists()
    assert f"trial 3 of 4; failed: {reason}; " in capsys.readouterr().err


def started(folder: Path) -> "subprocess.Popen[str]":
    """A search of long trials in a process of its own, when both of its first two have a checkpoint."""
    words = [sys.executable, "-m", "neuropil", "tune", "mlp", *LONG, "--no-report", "--out", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoints = [folder / "trials" / number / "checkpoint.safetensors" for number in ("001", "002")]

    def begun() -> bool:
        assert process.poll() is None, process.communicate()
        return all(path.exists() for path in checkpoints)

    wait_until(begun)
    return process


@pytest.mark.slow
def test_a_search_that_is_killed_takes_its_workers_with_it_and_goes_on(tmp_path: Path):
    folder = tmp_path / "search"
    process = started(folder)
    assert len(worker_ids(folder)) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not worker_ids(folder), seconds=10)
    assert [trial.state for trial in Tuning.load(folder).rows] == ["running", "running"]
    steps = [json.loads(line)["step"] for line in (folder / "trials/001/metrics.jsonl").read_text().splitlines()]
    found = resume_tuning(folder, show_progress=False)
    assert [trial.number for trial in found.rows] == [1, 2, 3, 4]
    assert found.rows[0].state == "complete"
    assert found.finished
    rows = neuropil.load(found.trial_folder(1)).rows
    assert [row["step"] for row in rows][: len(steps) // 2] == steps[: len(steps) // 2]  # each once


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_search_that_is_stopped_saves_and_says_how_to_go_on(end: signal.Signals, tmp_path: Path):
    folder = tmp_path / "search"
    process = started(folder)
    process.send_signal(end)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert complaint.strip().splitlines()[-1] == (
        f"neuropil: stopped; go on with: neuropil resume {shlex.quote(str(folder))}"
    )
    assert not worker_ids(folder)
    assert [trial.state for trial in Tuning.load(folder).rows] == ["running", "running"]


@pytest.mark.slow
def test_a_time_limit_ends_all_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    usual = Course.close

    def close(self: Course, end: TrialEnd) -> None:
        usual(self, end)
        if self.trial.number == 1:  # then the time is over
            self.session.deadline = 0.0

    monkeypatch.setattr(Course, "close", close)
    found = search(tmp_path / "search", epochs=30, trials=50)
    states = [trial.state for trial in found.rows]
    assert states[0] == "complete"
    assert len(states) < 50
    assert {*states} <= {"complete", "pruned", "stopped"}
    assert found.finished
    assert not worker_ids(found.folder)


@pytest.mark.slow
def test_a_search_on_a_ray_cluster(tmp_path: Path):
    ray = str(Path(sys.executable).with_name("ray"))
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": "/tmp/neuropil-ray"}  # noqa: S108  # paths of sockets are short
    head = [ray, "start", "--head", "--num-cpus", "2", "--include-dashboard", "false", "--port", "0"]
    folder = tmp_path / "search"
    words = ["tune", "mlp", "--hidden-sizes", "8", "--epochs", "9", "--trials", "4", "--workers", "2", "--ray", "auto"]
    try:
        if subprocess.run(head, env=environment, capture_output=True).returncode:
            pytest.skip("no Ray cluster starts here in the time that it gives itself")
        command = [sys.executable, "-m", "neuropil", *words, "--no-report", "--out", str(folder)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    finally:
        subprocess.run([ray, "stop", "--force"], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    found = Tuning.load(folder)
    assert [trial.number for trial in found.rows] == [1, 2, 3, 4]
    assert {trial.state for trial in found.rows} <= {"complete", "pruned"}, [trial.reason for trial in found.rows]
    assert found.finished
    assert not worker_ids(folder)
