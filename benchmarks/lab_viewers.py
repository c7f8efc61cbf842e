"""Training in the lab with nobody and with 50 pages looking on. Goal: less than 5 % slower."""

import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast

from benchmarks.timing import alternate, ratio
from neuropil.lab.queue.job import Job
from neuropil.lab.queue.jobs import LAB

VIEWERS, ROUNDS = 50, 5
OPTIONS = {"updates": 4000}


class Lab:
    """A lab in a process of its own, over a folder that is gone after it."""

    def __init__(self, runs: Path):
        self.runs = runs
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        words = [sys.executable, "-m", "neuropil", "lab", "--runs", str(runs), "--no-open", "--port", str(self.port)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, json.dumps(body or {}), {"content-type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def stream(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port))
        opened.sendall(f"GET /api/events HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        return opened


@contextmanager
def watched(lab: Lab, viewers: int) -> Iterator[list[int]]:
    """By so many pages, each of which reads all that comes; yields the bytes that they read. They are read by one
    thread, as browsers on other machines would not take from this one."""
    chosen, streams, read, over = selectors.DefaultSelector(), [lab.stream() for _ in range(viewers)], [0], []

    def follow() -> None:
        while not over:
            for key, _ in chosen.select(0.1):
                read[0] += len(cast(socket.socket, key.fileobj).recv(2**16))

    for each in streams:
        chosen.register(each, selectors.EVENT_READ)
    thread = threading.Thread(target=follow)
    if streams:
        thread.start()
    yield read
    over.append(True)
    if streams:
        thread.join()
    for each in streams:
        each.close()


def trained(lab: Lab, viewers: int) -> float:
    """Seconds that the process of the run took, by the lab's own record of it, which is looked for on disk: a page that
    waits for it would be a viewer."""
    with watched(lab, viewers) as read:
        path = lab.runs / LAB / "jobs" / f"{lab.ask('POST', '/api/jobs/mlp', OPTIONS)['id']}.json"
        while (job := Job.read(path)).state in ("queued", "running"):
            time.sleep(0.2)
    if job.state != "finished" or read[0] < viewers * 1000:
        raise RuntimeError(f"{job.state}: {job.reason} ({read[0]} bytes read)")
    return (job.ended or 0.0) - (job.started or 0.0)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder) / "runs")
        taken: dict[int, list[float]] = {0: [], VIEWERS: []}
        work = {f"{each} viewers": lambda each=each: taken[each].append(trained(lab, each)) for each in taken}
        try:
            time.sleep(5)  # it listens, and PyTorch is loaded behind the first page
            alternate(work, ROUNDS)
        finally:
            lab.process.terminate()
            lab.process.wait()
    alone, seen = taken[0][1:], taken[VIEWERS][1:]
    print(f"mlp in the lab, nobody looking: {statistics.median(alone):.2f} s", [round(each, 2) for each in alone])
    print(f"mlp in the lab, {VIEWERS} viewers: {statistics.median(seen):.2f} s", [round(each, 2) for each in seen])
    print(f"with viewers / without: {ratio(seen, alone)}")


if __name__ == "__main__":
    main()
