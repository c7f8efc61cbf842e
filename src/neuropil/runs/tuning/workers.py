"""Processes that train trials for the one that searches, and a pool of them.

A worker is `python -m neuropil.runs.tuning.worker`, which is told and tells one JSON object a line through its pipes:
nothing is pickled, and a model that runs out of memory or crashes takes no other with it. It may run on another
machine, where a cluster starts it (`ray_cluster.py`): all that is needed of it there is in `Host`.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeAlias, cast, runtime_checkable

import torch

import neuropil

Message: TypeAlias = Mapping[str, Any]
MODULE = "neuropil.runs.tuning.worker"
SECONDS_TO_STOP = 30.0
"""For the update under way and a checkpoint, before a worker is killed."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
LONGEST_REASON = 300


@runtime_checkable
class Host(Protocol):
    """Where a worker runs, seen from here."""

    def send(self, line: str) -> None: ...

    def receive(self) -> str | None:
        """The next line; nothing when the worker is no more."""
        ...

    def terminate(self) -> None:
        """Ask it to save a checkpoint and end."""
        ...

    def kill(self) -> None: ...

    def ending(self) -> tuple[int, str]:
        """The exit code, which is the negative number of a signal, and the last line of its errors."""
        ...


class WorkerProcess:
    """A worker on this machine, for the search in `folder`."""

    def __init__(self, folder: str, threads: int, environment: Mapping[str, str] | None = None):
        root = str(Path(neuropil.__file__).parents[1])
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        own = {**os.environ, **dict.fromkeys(THREADS, str(threads)), "PYTHONPATH": os.pathsep.join(paths)}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it has ended
        # A session of its own: Ctrl-C is for the search, which ends its workers in order.
        self.process = subprocess.Popen(  # noqa: S603  # a program of our own
            [sys.executable, "-P", "-m", MODULE, folder, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**own, **(environment or {})},
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self.stdin, self.stdout = cast(TextIO, self.process.stdin), cast(TextIO, self.process.stdout)

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, line: str) -> None:
        with suppress(BrokenPipeError):  # that it is no more is seen where its answer is read
            self.stdin.write(f"{line}\n")
            self.stdin.flush()

    def receive(self) -> str | None:
        line = self.stdout.readline()
        return line if line.endswith("\n") else None  # one that was killed has perhaps begun a line

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    def ending(self) -> tuple[int, str]:
        code = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        self.errors.close()
        for pipe in (self.stdin, self.stdout):
            with suppress(OSError):
                pipe.close()
        return code, lines[-1][:LONGEST_REASON] if lines else ""


class Worker:
    """A host, and a thread that hands on what comes from it."""

    def __init__(self, host: Host, inbox: "queue.SimpleQueue[tuple[Worker, Message | None]]"):
        self.host = host
        self.stopped = False
        self.reader = threading.Thread(target=self._read, args=(inbox,), daemon=True)
        self.reader.start()

    def _read(self, inbox: "queue.SimpleQueue[tuple[Worker, Message | None]]") -> None:
        while (line := self.host.receive()) is not None:
            inbox.put((self, json.loads(line)))
        inbox.put((self, None))

    def send(self, message: Message) -> None:
        self.host.send(json.dumps(message))

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.host.terminate()


class Pool:
    """At most `size` workers at once, each with so many `threads`; `start` makes the host of the worker of a number."""

    def __init__(self, size: int, threads: int, start: Callable[[int], Host], close: Callable[[], None] | None = None):
        self.size, self.threads, self.start, self.also_close = size, threads, start, close
        self.inbox: queue.SimpleQueue[tuple[Worker, Message | None]] = queue.SimpleQueue()
        self.workers: list[Worker] = []
        self.started = 0

    def open(self) -> Worker:
        worker = Worker(self.start(self.started), self.inbox)
        self.started += 1
        self.workers.append(worker)
        return worker

    def receive(self, seconds: float) -> tuple[Worker, Message | None] | None:
        """What a worker says next, or that it is no more; nothing where none says anything for so long."""
        with suppress(queue.Empty):
            worker, message = self.inbox.get(timeout=seconds)
            if message is None:
                self.workers.remove(worker)
            return worker, message
        return None

    def close(self) -> None:
        """Ask all of them to end, and kill those that do not."""
        for worker in self.workers:
            worker.stop()
            worker.send({"end": None})  # to one that waits for an answer
        for worker in self.workers:
            worker.reader.join(SECONDS_TO_STOP)
            worker.host.kill()
            worker.host.ending()
        self.workers.clear()
        if self.also_close is not None:
            self.also_close()


def local_pool(folder: Path, workers: int) -> Pool:
    """On this machine, whose processors and graphics cards the workers share."""
    threads = threads_each(workers)
    return Pool(workers, threads, lambda number: WorkerProcess(str(folder), threads, device_environment(number)))


def threads_each(workers: int) -> int:
    """Of the threads that one process alone would use."""
    return max(1, torch.get_num_threads() // workers)


def device_environment(number: int) -> dict[str, str]:
    """One graphics card for each worker, in turns, where there are several."""
    cards = torch.cuda.device_count()
    if cards < 2:
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(cards)))).split(",")
    return {"CUDA_VISIBLE_DEVICES": visible[number % cards]}


def ending_in_words(code: int, last: str) -> str:
    """Why a worker is no more."""
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL), as Linux does where memory runs out"
    how = f"with exit code {code}"
    if code < 0:
        with suppress(ValueError):
            how = f"by {signal.Signals(-code).name}"
    return f"its process ended {how}" + (f": {last}" if last else "")
