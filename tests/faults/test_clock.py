"""The clock of the machine is wrong, or is set while something is under way: nothing is lost, nothing lasts less than
no time, and the newest run is the newest."""

import json
import os
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

import neuropil
from neuropil.errors import RunError
from neuropil.runs.listing import list_runs
from neuropil.runs.run import Run, load
from neuropil.runs.trash import DAY, KEPT_SECONDS, delete_run, deleted_runs, empty_trash, restore_run
from shims import preloaded

YEARS = 365.25 * 24 * 3600
WILD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
/* Ten years ahead and ten years behind, in turn. */
static long jump(void) { static long calls; return (calls++ % 2 ? 1 : -1) * 315576000L; }
int clock_gettime(clockid_t clock, struct timespec *told) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, told);
    if (!failed && clock == CLOCK_REALTIME) told->tv_sec += jump();
    return failed;
}
time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict told, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    told->tv_sec = now.tv_sec;
    told->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""
CHILD = """
import json, signal, sys, time
from pathlib import Path
import neuropil
from neuropil.lab.forms import FilledForm
from neuropil.lab.queue.jobs import Jobs
folder = Path(sys.argv[1])
assert abs(time.time() - time.time()) > 1e8
common = {"hidden_sizes": (16,), "batch_size": 256, "report": False, "show_progress": False}
neuropil.train("mlp", **common, epochs=3, checkpoint_seconds=0, out=folder / "epochs")
neuropil.train("mlp", **common, minutes=0.02, out=folder / "minutes")
deaf = "import signal, sys, time; signal.signal(2, signal.SIG_IGN); open(sys.argv[-1], 'w'); time.sleep(300)"
with Jobs(folder, program=[sys.executable, "-S", "-E", "-c", deaf], seconds_to_stop=3600.0) as jobs:
    job = jobs.start(FilledForm("mlp", 0, {}, ("neuropil", "train", "mlp")), "deaf")
    while not (folder / "deaf").exists():
        time.sleep(0.01)
    jobs.stop(job.id)
    for _ in range(4):
        jobs.look()
    states = [job.state]
    jobs.seconds_to_stop = 0.0
    while job.active:
        time.sleep(0.01)
    states.append(job.state)
print(json.dumps(states))
"""


def test_a_clock_that_jumps_changes_no_run_and_ends_none_early(tmp_path: Path):
    words = [sys.executable, "-c", CHILD, str(tmp_path)]
    made = subprocess.run(words, env=preloaded(WILD, tmp_path), capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout) == ["stopping", "stopped"]
    common = {"hidden_sizes": (16,), "batch_size": 256, "report": False, "show_progress": False}
    calm = neuropil.train("mlp", **common, epochs=3, out=tmp_path / "calm")
    wild, limited = load(tmp_path / "epochs"), load(tmp_path / "minutes")
    assert wild.weights.read_bytes() == calm.weights.read_bytes()
    for run in (wild, limited):
        assert run.finished
        seconds = [row["seconds"] for row in run.rows if "seconds" in row]
        assert seconds == sorted(seconds)
        assert seconds[0] >= 0
        assert seconds[-1] < 60


# --- what was told by a clock that was wrong --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("trained") / "mlp"
    return neuropil.train("mlp", out=folder, epochs=1, hidden_sizes=(8,), report=False, show_progress=False)


def copied(trained: Run, folder: Path, created: float, modified: float) -> None:
    """A run that was begun at one time, by its own words, and written to last at another, in seconds from now."""
    shutil.copytree(trained.folder, folder)
    config = folder / "config.json"
    content = json.loads(config.read_text())
    content["neuropil"]["created"] = datetime.fromtimestamp(time.time() + created).astimezone().isoformat()
    config.write_text(json.dumps(content))
    then = time.time() + modified
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then, then))


def test_a_run_from_the_future_is_listed_and_is_not_the_newest(trained: Run, tmp_path: Path):
    copied(trained, tmp_path / "yesterday", -DAY, 5 * YEARS)
    copied(trained, tmp_path / "ahead", 10 * YEARS, 10 * YEARS)
    copied(trained, tmp_path / "today", -60, -60)
    copied(trained, tmp_path / "set back", 10 * YEARS, -2 * DAY)
    copied(trained, tmp_path / "1970", -time.time(), 0)
    assert [each.name for each in list_runs(tmp_path)] == ["today", "yesterday", "set back", "1970", "ahead"]
    with pytest.raises(RunError) as error:
        load(tmp_path / "todya")
    got, fix = repr(str(tmp_path / "todya")), f"the newest here is {tmp_path / 'today'}"
    assert str(error.value) == f"a run is a folder with a config.json, but got {got}: {fix}."


def test_a_clock_that_is_wrong_for_an_hour_throws_nothing_away(trained: Run, tmp_path: Path):
    now = time.time()
    copied(trained, tmp_path / "mlp", -60, -60)
    deleted = delete_run(tmp_path, "mlp")
    for _ in range(3):
        empty_trash(tmp_path, now=now + 10 * YEARS)
    for moment in (0.0, KEPT_SECONDS - DAY, KEPT_SECONDS + 60, KEPT_SECONDS + DAY / 2):
        empty_trash(tmp_path, now=now + moment)
        assert deleted_runs(tmp_path) == [deleted]
    empty_trash(tmp_path, now=now - 10 * YEARS)
    assert restore_run(tmp_path, deleted.id) == "mlp"
    assert os.listdir(tmp_path / ".trash") == []


def test_a_run_of_a_machine_without_a_clock_is_packed(trained: Run, tmp_path: Path):
    copied(trained, tmp_path / "mlp", -time.time(), -time.time())
    load(tmp_path / "mlp").save(tmp_path / "sent.zip")
    assert load(tmp_path / "sent.zip").metrics == trained.metrics
