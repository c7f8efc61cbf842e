"""A queue of runs, one at a time, each a process of its own.

All that is known of a run is on disk, so that a lab that was closed or killed leaves them going, and the next one goes
on with them and with the queue. One thread looks at the few files that change, and tells every page at once.
"""

import fcntl
import itertools
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import IO, Any

from neuropil.errors import InputError, RunError, nearest
from neuropil.files import make_folder, remove_parts, storing
from neuropil.http.json_values import finite
from neuropil.lab.forms import FilledForm
from neuropil.lab.queue import processes
from neuropil.lab.queue.feed import Feed
from neuropil.lab.queue.job import ENDED, Job, JobState, last_lines, outcome, read_progress
from neuropil.lab.queue.tail import Tail
from neuropil.runs.listing import curves, find_run, list_run, measured, run_folders

LAB = ".lab"
SECONDS_BETWEEN_LOOKS = 0.3
LOOKS_BETWEEN_LISTINGS = 7
SECONDS_TO_STOP = 20.0
"""After which a process that was told to stop, and has not, is killed."""
MOST_ENDED = 50
"""Jobs that are kept in the list after their end."""
LONGEST_NAME = 200
"""Bytes: file systems know 255, and files beside a run have longer names than it."""
PROGRAM = (sys.executable, "-m", "neuropil")


def lock(runs: Path) -> IO[str]:
    """A file that is held open for as long as one lab works on a folder of runs."""
    folder = runs.absolute() / LAB / "jobs"
    make_folder(folder)
    with storing(folder / "lock"):
        held = (folder / "lock").open("w")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        fix = "use the page that is open, or give another folder with --runs"
        raise InputError(f"the runs in {runs.absolute()} are open in another lab", fix=fix) from None
    return held


class Jobs:
    """Use as a context: inside it the queue is worked off, and afterwards its processes go on by themselves. Every
    method may be called by any thread."""

    def __init__(
        self,
        runs: Path,
        *,
        at_once: int = 1,
        program: Sequence[str] = PROGRAM,
        seconds_to_stop: float = SECONDS_TO_STOP,
    ):
        self.runs, self.at_once, self.program, self.seconds_to_stop = runs.absolute(), at_once, program, seconds_to_stop
        self.folder, self.feed = self.runs / LAB / "jobs", Feed()
        self.lock, self.over, self.looks = threading.RLock(), threading.Event(), 0
        self.jobs: dict[str, Job] = {}
        self.children: dict[str, int] = {}
        self.following: dict[str, _Following] = {}
        self.listed: set[tuple[str, bool]] = set()
        self.thread = threading.Thread(target=self._work, daemon=True, name="jobs")

    def __enter__(self) -> "Jobs":
        self.locked = lock(self.runs)
        remove_parts(self.folder)
        for path in sorted(self.folder.glob("*.json")):
            try:
                job = Job.read(path)
            except RunError:
                continue  # the run itself is in its folder, and listed there
            if job.state == "running" and job.pid is None:  # killed between the two
                job.state = "queued"
            self.jobs[job.id] = job
            self.following[job.id] = _Following(self.runs / job.run, self._progress(job))
            self.following[job.id].news()
        self.listed = self._listing()
        self.look()
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.over.set()
        self.thread.join()
        self.locked.close()

    # --- what a person asks for ---------------------------------------------------------------------------------------

    def start(self, form: FilledForm, name: str = "") -> Job:
        """Put a run at the end of the queue; it begins at once where nothing is in its way. `name` is that of its
        folder."""
        with self.lock:
            run = self._free_name(name or f"{form.system}-{date.today().isoformat()}")
            return self._queue(form.system, run, list(form.command))

    def resume_run(self, run: str) -> Job:
        """Go on with a run that is not finished, whoever started it."""
        with self.lock:
            folder = find_run(self.runs, run)
            self.require_idle(run)
            listed = list_run(folder)
            if listed.state != "unfinished":
                got = f"{run!r}, which is {listed.state}"
                raise InputError("a run is resumed that is not finished", got=got)
            own = next((job for job in self.jobs.values() if job.run == run), None)
            if own is not None:
                return self.resume(own.id)
            return self._queue(listed.system, run, ["neuropil", "resume"])

    def pause(self, id: str) -> Job:
        """Its checkpoint is written, and the queue goes on with the next."""
        with self.lock:
            job = self._job(id, "running")
            return self._interrupt(job, "pausing")

    def resume(self, id: str) -> Job:
        """Before all that waits."""
        with self.lock:
            job = self._job(id, "paused", "stopped", "refused", "failed", "killed")
            job.place = min((each.place for each in self.jobs.values()), default=0.0) - 1
            self._change(job, "queued")
            self.look()
            return job

    def stop(self, id: str) -> Job:
        """What it has learned stays in its folder, and may be gone on with."""
        with self.lock:
            job = self._job(id, "queued", "running", "pausing", "paused")
            if job.active:
                return self._interrupt(job, "stopping")
            job.ended = time.time()
            return self._change(job, "stopped")

    def remove(self, id: str) -> None:
        """From the queue, or from the list of what has ended; the folder of the run stays."""
        with self.lock:
            job = self._job(id, "queued", "paused", *ENDED)
            del self.jobs[job.id], self.following[job.id]
            for path in (self.folder / f"{job.id}.json", self._log(job), self._progress(job)):
                path.unlink(missing_ok=True)
            self.feed.publish({"event": "removed", "id": id})

    def require_idle(self, run: str) -> None:
        """Before something is done to its folder."""
        with self.lock:
            if any(job.run == run and (job.active or job.state == "queued") for job in self.jobs.values()):
                rule = "this is done to a run that is neither under way nor waiting for it"
                raise InputError(rule, got=f"{run!r}", fix="stop it first")

    # --- what a page shows --------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """How all of them stand, as the first of a page's news."""
        with self.lock:
            ordered = sorted(self.jobs.values(), key=lambda job: (job.place, job.id))
            return {"event": "jobs", "jobs": [self._shown(job) for job in ordered]}

    def curves(self, id: str) -> dict[str, Any]:
        """What it measured so far; later rows come as news."""
        with self.lock:
            folder = self.runs / self._job(id).run
        return curves(folder)

    def previews(self, id: str) -> list[dict[str, Any]]:
        """What the model made of a fixed set at each validation so far."""
        with self.lock:
            folder = self.runs / self._job(id).run
        return Tail(folder / "previews.jsonl").added().rows

    def log(self, id: str, most: int = 200) -> str:
        """The last lines that it printed."""
        with self.lock:
            return "\n".join(last_lines(self._log(self._job(id)), most))

    def _shown(self, job: Job) -> dict[str, Any]:
        return job.to_dict() | {"progress": self.following[job.id].progress}

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _queue(self, system: str, run: str, command: list[str]) -> Job:
        now = time.time()
        number = next(each for each in itertools.count(int(1000 * now)) if str(each) not in self.jobs)
        place = max((each.place for each in self.jobs.values()), default=0.0) + 1
        job = Job(str(number), system, run, command, now, place)
        job.write(self.folder)  # before it is listed: what cannot be written is not queued either
        self.jobs[job.id] = job
        self.following[job.id] = _Following(self.runs / run, self._progress(job))
        self._change(job, "queued")
        self.look()
        return job

    def _free_name(self, name: str) -> str:
        if not re.fullmatch(r"\w[\w .,+=()-]{0,99}", name) or name.endswith((" ", ".")):
            rule = "a run is named with letters, digits, spaces and . , + = ( ) - _, and begins with a letter or digit"
            raise InputError(rule, got=f"{name[:120]!r}")
        if len(name.encode()) > LONGEST_NAME:
            raise InputError(f"the name of a run must have at most {LONGEST_NAME} bytes", got=f"{len(name.encode())}")
        taken = {job.run for job in self.jobs.values()}
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        return next(each for each in names if each not in taken and not (self.runs / each).exists())

    def _job(self, id: str, *states: JobState) -> Job:
        if id not in self.jobs:
            raise InputError("a job must be one that is listed", got=f"{id[:100]!r}", fix=nearest(id, self.jobs))
        job = self.jobs[id]
        if states and job.state not in states:
            raise InputError(f"this is done to a job that is {' or '.join(states)}", got=f"one that is {job.state}")
        return job

    def _change(self, job: Job, state: JobState, reason: str = "") -> Job:
        job.state, job.reason = state, reason
        job.write(self.folder)
        self.feed.publish({"event": "job", "job": self._shown(job)})
        return job

    def _interrupt(self, job: Job, state: JobState) -> Job:
        job.asked = time.monotonic()
        if job.pid is not None and processes.began(job.pid) == job.began:  # else it has just ended
            processes.interrupt(job.pid)
        return self._change(job, state)

    def _begin(self, job: Job) -> None:
        folder = self.runs / job.run
        known = (folder / "config.json").is_file() or (folder / "study.json").is_file()
        words = ["resume", str(folder)] if known else [*job.command[1:], "--out", str(folder)]
        if not known and job.command[1] == "resume":
            self._change(job, "failed", f"{folder} is gone")
            return
        job.started, job.ended, job.asked, job.pid = time.time(), None, None, None
        try:
            self._progress(job).unlink(missing_ok=True)
            self._change(job, "running")  # before it is, so that none is ever lost
            job.pid = processes.spawn([*self.program, *words], log=self._log(job), progress=self._progress(job))
        except (OSError, ValueError) as error:
            job.ended = time.time()
            self._change(job, "failed", f"it could not be started: {error}")
            return
        self.children[job.id], job.began = job.pid, processes.began(job.pid)
        job.write(self.folder)

    def _log(self, job: Job) -> Path:
        return self.folder / f"{job.id}.log"

    def _progress(self, job: Job) -> Path:
        return self.folder / f"{job.id}.progress"

    # --- looking ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_LOOKS):
            with suppress(OSError):  # a full disk may have room again at the next look
                self.look()

    def look(self) -> None:
        """Notice what has changed, tell it, and begin what can begin."""
        with self.lock:
            for job in [each for each in self.jobs.values() if each.active]:
                code = self._ended(job)
                self._follow(job)
                if code is not False:
                    self._end(job, code)
                elif job.state == "stopping" and job.pid and self._overdue(job):
                    processes.kill(job.pid)
            waiting = sorted((each for each in self.jobs.values() if each.state == "queued"), key=lambda job: job.place)
            free = self.at_once - sum(each.active for each in self.jobs.values())
            for job in waiting[: max(0, free)]:
                self._begin(job)
            self.looks += 1
            if self.looks % LOOKS_BETWEEN_LISTINGS == 0 and (listed := self._listing()) != self.listed:
                self.listed = listed
                self.feed.publish({"event": "runs"})

    def _overdue(self, job: Job) -> bool:
        return job.asked is None or time.monotonic() - job.asked > self.seconds_to_stop

    def _ended(self, job: Job) -> int | bool | None:
        """Its exit code, which is None where only the process that started it was told; False while it is alive."""
        if job.id in self.children:
            code = processes.exit_code(self.children[job.id])
            return False if code is None else code
        alive = job.pid is not None and job.began is not None and processes.began(job.pid) == job.began
        return False if alive else None

    def _end(self, job: Job, code: int | None) -> None:
        self.children.pop(job.id, None)
        job.pid, job.began, job.ended = None, None, time.time()
        self._change(job, *outcome(job, code, self._log(job), self.runs / job.run))
        ended = sorted((each for each in self.jobs.values() if each.state in ENDED), key=lambda job: job.ended or 0.0)
        for old in ended[:-MOST_ENDED]:
            if old is not job:  # the clock may have been set back meanwhile
                self.remove(old.id)

    def _follow(self, job: Job) -> None:
        for news in self.following[job.id].news():
            self.feed.publish({"event": news.pop("event"), "id": job.id, **news})

    def _listing(self) -> set[tuple[str, bool]]:
        """By which it is known that a run came, went or was finished."""
        return {(folder.name, (folder / "report.html").exists()) for folder in run_folders(self.runs)}


class _Following:
    """The files of one run that change while it is under way."""

    def __init__(self, folder: Path, progress: Path):
        self.path, self.stamp = progress, 0
        self.rows, self.previews = Tail(folder / "metrics.jsonl"), Tail(folder / "previews.jsonl")
        self.metrics: dict[str, float] = {}
        self.shown: Mapping[str, Any] = {}

    @property
    def progress(self) -> dict[str, Any]:
        """With the metrics of the latest validation."""
        return (
            {"title": None, "share": None, "seconds_left": None, "numbers": {}}
            | dict(self.shown)
            | {"metrics": self.metrics}
        )

    def news(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, tail in (("rows", self.rows), ("previews", self.previews)):
            added = tail.added()
            if added.rows or added.anew:
                found.append({"event": name, "anew": added.anew, "rows": added.rows})
            if name == "rows":
                latest = next((row for row in reversed(added.rows) if row.get("kind") == "validation"), None)
                self.metrics = self.metrics if latest is None else measured(latest)
        try:
            stamp = self.path.stat().st_mtime_ns
        except OSError:
            stamp = 0
        changed = bool(found) or stamp != self.stamp
        if stamp != self.stamp:
            self.stamp, self.shown = stamp, finite(dict(read_progress(self.path) or self.shown))
        return [*found, {"event": "progress", "progress": self.progress}] if changed else found
