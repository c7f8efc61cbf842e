"""The queue: runs are processes that outlive it, and all that it knows is on disk."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neuropil.errors import InputError, RunError
from neuropil.lab.forms import FilledForm, filled
from neuropil.lab.queue import processes
from neuropil.lab.queue.job import NO_MEMORY, Job
from neuropil.lab.queue.jobs import Jobs
from neuropil.runs.listing import list_run

PROGRAM = '''
"""Does to a folder what neuropil does to it, and ends as it is told to; it begins in a hundredth of the time."""
import json, os, signal, sys, time
from pathlib import Path

folder, path = Path(sys.argv[-1]), Path(os.environ["NEUROPIL_PROGRESS"])
rows, how = folder / "metrics.jsonl", sys.argv[3] if sys.argv[1] == "train" else "finish"
if how == "refuse":
    sys.exit(print("neuropil: epochs must be at least 1, but got 0.", file=sys.stderr) or 2)
settings = {"format": 2, "recipe": "mlp", "seed": 0, "options": {}, "facts": {}, "command": "neuropil train mlp"}
folder.mkdir(exist_ok=True)
(folder / "config.json").write_text(json.dumps({"neuropil": settings}))
for step in (1, 2):
    with rows.open("a") as file:
        file.write(json.dumps({"kind": "validation", "step": step, "loss": 1 / step, "accuracy": float("nan")}) + "\\n")
path.write_text(json.dumps({"title": "mlp", "share": 0.5, "seconds_left": 9.0, "numbers": {"step": 2}}))
if how == "crash":
    raise RuntimeError("no way on")
if how == "memory":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "finish":
    with rows.open("a") as file:
        file.write(json.dumps({"kind": "result", "name": "mlp", "step": 2, "accuracy": 0.9}) + "\\n")
    (folder / "report.html").write_text("")
    sys.exit(0)
if how == "deaf":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
(folder / "ready").touch()
try:
    time.sleep(300)
except KeyboardInterrupt:
    sys.exit(print("neuropil: stopped at step 2; go on with: neuropil resume", file=sys.stderr) or 130)
'''


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return [sys.executable, "-S", "-E", str(tmp_path / "program.py")]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    """Whatever a test leaves running is ended after it."""
    yield tmp_path / "runs"
    for path in (tmp_path / "runs" / ".lab" / "jobs").glob("*.json"):
        try:
            job = Job.read(path)
        except RunError:
            continue
        if job.pid is not None and processes.began(job.pid) == job.began:
            processes.kill(job.pid)


@pytest.fixture
def jobs(runs: Path, program: list[str]) -> Iterator[Jobs]:
    with Jobs(runs, program=program) as opened:
        yield opened


def told(how: str) -> FilledForm:
    return FilledForm("mlp", 0, {}, ["neuropil", "train", "mlp", how])


def wait(jobs: Jobs, true: Callable[[], Any]) -> None:
    """Looking oftener than the thread does."""
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until, [job.to_dict() for job in jobs.jobs.values()]
        time.sleep(0.02)
        jobs.look()


def begin(jobs: Jobs, how: str) -> Job:
    job = jobs.start(told(how))
    wait(jobs, lambda: (jobs.runs / job.run / "ready").exists())
    return job


def record(jobs: Jobs, job: Job) -> Job:
    return Job.read(jobs.folder / f"{job.id}.json")


# --- a queue ----------------------------------------------------------------------------------------------------------


def test_one_run_after_the_other_each_in_a_folder_of_its_own(jobs: Jobs):
    first, second = begin(jobs, "wait"), jobs.start(told("finish"))
    assert (first.state, second.state) == ("running", "queued")
    assert first.run.startswith("mlp-20")
    assert second.run == f"{first.run}-2"
    jobs.pause(first.id)
    assert first.state == "pausing"
    wait(jobs, lambda: second.state == "finished")
    assert (first.state, first.reason, first.pid) == ("paused", "", None)
    assert list_run(jobs.runs / second.run).state == "finished"
    jobs.resume(first.id)
    wait(jobs, lambda: first.state == "finished")
    assert {path.stem for path in jobs.folder.glob("*.json")} == {first.id, second.id}
    assert record(jobs, first) == first


def test_several_at_once_where_that_is_asked_for(runs: Path, program: list[str]):
    with Jobs(runs, program=program, at_once=2) as jobs:
        states = [jobs.start(told("wait")).state for _ in range(3)]
    assert states == ["running", "running", "queued"]


def test_what_is_resumed_goes_before_what_waits(jobs: Jobs):
    first, second, third = begin(jobs, "wait"), jobs.start(told("wait")), jobs.start(told("finish"))
    jobs.pause(first.id)
    wait(jobs, lambda: second.state == "running")
    jobs.resume(first.id)
    assert [each["id"] for each in jobs.snapshot()["jobs"]] == [first.id, second.id, third.id]
    jobs.stop(second.id)
    wait(jobs, lambda: third.state == "finished")
    assert first.state == "finished"
    assert (first.ended or 0) <= (third.started or 0)


def test_a_run_that_waits_is_taken_out_of_the_queue(jobs: Jobs):
    first, second, third = begin(jobs, "wait"), jobs.start(told("finish")), jobs.start(told("finish"))
    jobs.remove(second.id)
    jobs.stop(third.id)
    assert third.state == "stopped"
    jobs.stop(first.id)
    wait(jobs, lambda: first.state == "stopped")
    assert not (jobs.runs / second.run).exists()
    assert not (jobs.runs / third.run).exists()
    with pytest.raises(InputError) as caught:
        jobs.pause(second.id)
    assert str(caught.value).startswith(f"a job must be one that is listed, but got '{second.id}': ")


def test_what_cannot_be_done_now_is_refused(jobs: Jobs):
    job = jobs.start(told("finish"))
    wait(jobs, lambda: job.state == "finished")
    with pytest.raises(InputError) as caught:
        jobs.pause(job.id)
    assert str(caught.value) == "this is done to a job that is running, but got one that is finished."
    with pytest.raises(InputError) as caught:
        jobs.resume_run(job.run)
    assert str(caught.value) == f"a run is resumed that is not finished, but got '{job.run}', which is finished."
    with pytest.raises(InputError) as caught:
        jobs.start(told("finish"), "../elsewhere")
    assert str(caught.value) == (
        "a run is named with letters, digits, spaces and . , + = ( ) - _, and begins with a letter or digit, "
        "but got '../elsewhere'."
    )
    assert jobs.start(told("finish"), "my run (2)").run == "my run (2)"


def test_nothing_is_done_to_the_folder_of_a_run_that_is_under_way(jobs: Jobs):
    job = begin(jobs, "wait")
    with pytest.raises(InputError) as caught:
        jobs.require_idle(job.run)
    assert str(caught.value) == (
        f"this is done to a run that is neither under way nor waiting for it, but got '{job.run}': stop it first."
    )
    jobs.stop(job.id)
    wait(jobs, lambda: job.state == "stopped")
    jobs.require_idle(job.run)
    resumed = jobs.resume_run(job.run)
    assert resumed is job
    wait(jobs, lambda: job.state == "finished")


def test_a_run_of_the_command_line_is_resumed_in_the_queue(jobs: Jobs):
    job = begin(jobs, "wait")
    jobs.stop(job.id)
    wait(jobs, lambda: job.state == "stopped")
    jobs.remove(job.id)
    resumed = jobs.resume_run(job.run)
    assert resumed.command == ["neuropil", "resume"]
    wait(jobs, lambda: resumed.state == "finished")


# --- how they end -----------------------------------------------------------------------------------------------------


def test_what_is_refused_is_shown_in_its_one_sentence(jobs: Jobs):
    job = jobs.start(told("refuse"))
    wait(jobs, lambda: not job.active)
    assert (job.state, job.reason) == ("refused", "epochs must be at least 1, but got 0.")


def test_a_crash_shows_the_last_lines_of_its_log(jobs: Jobs):
    job = jobs.start(told("crash"))
    wait(jobs, lambda: not job.active)
    assert job.state == "failed"
    assert job.reason.startswith("Traceback (most recent call last):\n")
    assert job.reason.endswith("\nRuntimeError: no way on")
    assert jobs.log(job.id) == job.reason


def test_one_that_the_system_killed_says_so(jobs: Jobs):
    job = jobs.start(told("memory"))
    wait(jobs, lambda: not job.active)
    assert (job.state, job.reason) == ("killed", NO_MEMORY)


def test_one_that_does_not_listen_is_killed_after_a_while(runs: Path, program: list[str]):
    with Jobs(runs, program=program, seconds_to_stop=0.1) as jobs:
        job = begin(jobs, "deaf")
        pid = job.pid
        jobs.stop(job.id)
        wait(jobs, lambda: not job.active)
        assert (job.state, job.reason) == ("stopped", "")
        assert pid is not None
        assert processes.began(pid) is None


# --- a lab that is closed, and another that is opened -----------------------------------------------------------------


def test_another_lab_goes_on_with_what_runs_and_with_the_queue(runs: Path, program: list[str]):
    with Jobs(runs, program=program) as jobs:
        first, second = begin(jobs, "wait"), jobs.start(told("finish"))
    with Jobs(runs, program=program) as again:
        adopted = again.jobs[first.id]
        assert (adopted.state, adopted.pid) == ("running", first.pid)
        assert again.jobs[second.id].state == "queued"
        assert again.snapshot()["jobs"][0]["progress"] == {
            "title": "mlp",
            "share": 0.5,
            "seconds_left": 9.0,
            "numbers": {"step": 2},
            "metrics": {"loss": 0.5},
        }
        again.pause(first.id)
        wait(again, lambda: again.jobs[second.id].state == "finished")
        assert adopted.state == "paused"


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ("finish", "finished", ""),
        ("refuse", "refused", "epochs must be at least 1, but got 0."),
        ("memory", "killed", NO_MEMORY),
        ("crash", "failed", "Traceback"),
    ],
)
def test_what_ended_while_no_lab_was_open_is_told_from_what_it_left(
    runs: Path, program: list[str], how: str, state: str, reason: str
):
    with Jobs(runs, program=program) as jobs:
        job = jobs.start(told(how))
        wait(jobs, lambda: not job.active)
    written = json.loads((jobs.folder / f"{job.id}.json").read_text())
    written |= {"state": "running", "reason": "", "pid": os.getpid(), "began": "another process of that number"}
    (jobs.folder / f"{job.id}.json").write_text(json.dumps(written))
    with Jobs(runs, program=program) as again:
        found = again.jobs[job.id]
        assert found.state == state
        assert found.reason.startswith(reason)
        assert bool(found.reason) == bool(reason)


def test_two_labs_do_not_open_the_same_runs(jobs: Jobs):
    with pytest.raises(InputError) as caught, Jobs(jobs.runs):
        pass
    assert str(caught.value) == (
        f"the runs in {jobs.runs} are open in another lab: "
        "use the page that is open, or give another folder with --runs."
    )


def test_a_damaged_record_is_no_obstacle(runs: Path, program: list[str]):
    (runs / ".lab" / "jobs").mkdir(parents=True)
    (runs / ".lab" / "jobs" / "1.json").write_text("{")
    with Jobs(runs, program=program) as jobs:
        assert jobs.jobs == {}


# --- news -------------------------------------------------------------------------------------------------------------


def test_every_page_hears_what_happens_and_how_things_stood_before(jobs: Jobs):
    async def hear() -> list[Any]:
        found: list[Any] = []
        async for news in jobs.feed.follow(jobs.snapshot):
            found.append(json.loads(news.decode().removeprefix("data: ")))
            if len(found) == 1:
                await asyncio.to_thread(jobs.start, told("finish"))
            if found[-1].get("job", {}).get("state") == "finished":
                return found
        return found

    async def hear_twice() -> list[list[Any]]:
        return list(await asyncio.gather(asyncio.wait_for(hear(), 60), asyncio.wait_for(hear(), 60)))

    for heard in asyncio.run(hear_twice()):
        assert heard[0]["event"] == "jobs"
        events = [each["event"] for each in heard[1:]]
        assert {"job", "rows", "progress"} <= set(events)
        rows = [row for each in heard if each["event"] == "rows" for row in each["rows"]]
        assert {"kind": "validation", "step": 2, "loss": 0.5, "accuracy": None} in rows
    assert jobs.feed.readers == {}


def test_a_page_that_is_too_slow_is_sent_away(jobs: Jobs):
    async def hear() -> int:
        count = 0
        async for _ in jobs.feed.follow(jobs.snapshot):
            count += 1
            if count == 1:
                for number in range(1000):
                    jobs.feed.publish({"event": "runs", "number": number})
                await asyncio.sleep(0)
        return count

    assert asyncio.run(asyncio.wait_for(hear(), 60)) < 300


# --- a run of neuropil ------------------------------------------------------------------------------------------------


def test_training_is_paused_and_goes_on_where_it_stopped(runs: Path):
    with Jobs(runs) as jobs:
        job = jobs.start(filled("mlp", {"hidden_sizes": [4], "epochs": 1_000_000}))
        following = jobs.following[job.id]
        wait(jobs, lambda: following.progress["metrics"] and following.progress["numbers"])
        assert following.progress["title"] == "mlp"
        assert set(following.progress["numbers"]) == {"step", "epoch", "examples_per_second", "loss"}
        assert set(following.progress["metrics"]) == {"loss", "accuracy"}
        jobs.pause(job.id)
        wait(jobs, lambda: not job.active)
        assert (job.state, job.reason) == ("paused", "")
        assert (runs / job.run / "checkpoint.safetensors").is_file()
        step = jobs.curves(job.id)["train"]["loss"][-1][0]
        jobs.resume(job.id)
        wait(jobs, lambda: jobs.curves(job.id)["train"]["loss"][-1][0] > step)
        os.kill(job.pid or 0, signal.SIGTERM)  # as when the machine is shut down
        wait(jobs, lambda: not job.active)
        assert (job.state, job.reason) == ("paused", "it was interrupted from outside")
        lines = (runs / job.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        steps = [row["step"] for row in map(json.loads, lines) if row["kind"] == "validation"]
        assert steps == sorted(set(steps))  # none twice


# --- what cannot begin ------------------------------------------------------------------------------------------------


def test_a_process_that_cannot_be_started_says_why(runs: Path):
    with Jobs(runs, program=["/no/such/program"]) as jobs:
        job = jobs.start(told("finish"))
        said = "it could not be started: [Errno 2] No such file or directory: '/no/such/program'"
        assert (job.state, job.reason) == ("failed", said)
        assert (record(jobs, job).state, jobs.thread.is_alive()) == ("failed", True)


def test_a_word_that_no_process_can_be_given_leaves_the_queue_and_the_next_lab_alone(runs: Path, program: list[str]):
    with Jobs(runs, program=program) as jobs:
        job = jobs.start(told("\ud800"))
        assert job.state == "failed"
        job.state = "running"
        job.write(jobs.folder)  # as a lab leaves it that is killed before the process begins
    with Jobs(runs, program=program) as again:
        assert again.jobs[job.id].state == "failed"


def test_what_cannot_be_written_down_is_not_queued(jobs: Jobs, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("neuropil.lab.queue.job.write_text", full)
    with pytest.raises(OSError, match="No space left"):
        jobs.start(told("finish"))
    assert jobs.snapshot()["jobs"] == []


def test_a_name_that_is_too_long_for_a_folder_is_refused(jobs: Jobs):
    with pytest.raises(InputError) as error:
        jobs.start(told("finish"), "\u6f22" * 80)
    assert str(error.value) == "the name of a run must have at most 200 bytes, but got 240."


def test_a_process_of_the_same_number_is_not_interrupted(jobs: Jobs):
    """An earlier lab started it; it has ended since, and its number is another's now."""
    job, other = begin(jobs, "wait"), os.posix_spawn("/bin/sleep", ["sleep", "300"], os.environ)
    own, job.pid = job.pid, other
    jobs.pause(job.id)
    assert os.waitpid(other, os.WNOHANG) == (0, 0)
    os.kill(other, signal.SIGKILL)
    assert os.waitpid(other, 0)[0] == other
    job.pid = own


def test_a_run_that_was_refused_on_its_way_is_gone_on_with(jobs: Jobs):
    """As one is whose disk was full, or whose data was not there for a while."""
    job = begin(jobs, "wait")
    jobs.pause(job.id)
    wait(jobs, lambda: job.state == "paused")
    job.state = "refused"
    jobs.resume_run(job.run)
    wait(jobs, lambda: job.state == "finished")
