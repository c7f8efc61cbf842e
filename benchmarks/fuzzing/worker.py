"""Cases one after the other in a child process, whose memory is bounded, and which is watched for hanging and for
dying: the case that it is at stands in memory that both processes see."""

import math
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO

from benchmarks.fuzzing.mutations import LONGEST
from benchmarks.fuzzing.outcomes import FAULT, READ, Outcome, tried
from benchmarks.fuzzing.reader import Reader

MEMORY_FOLDER = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())  # noqa: S108
PATIENCE = 20.0
"""Seconds after which a case hangs."""
SECONDS_TO_BEGIN = 200
"""That a reader has at first: some compile kernels."""
MOST_SEEDS = 400
"""Cases that are kept to be changed further, since nothing before had their outcome."""
ALLOCATED = 8
"""Times the bound that may be asked for: what is asked for and not touched costs nothing."""
HEADER = struct.Struct("<QQdddQ")
"""Cases done, outcomes, seconds of the slowest, the largest memory in bytes, seconds in all, length of the case."""


@dataclass
class Result:
    cases: int = 0
    outcomes: int = 0
    slowest: float = 0.0
    memory: float = 0.0
    seconds: float = 0.0
    faults: dict[tuple[object, ...], tuple[bytes, str]] = field(default_factory=dict)


def cases_of(reader: Reader, seed: int, known: list[bytes]) -> Iterator[bytes]:
    """Endless: the seeds as they are, then changed. `known` grows as new outcomes are found."""
    source = random.Random(seed)  # noqa: S311
    yield from list(known)
    while True:
        yield reader.mutation(source, known[int(source.random() * len(known))])


def fuzz(reader: Reader, cases: int, seconds: float, seed: int = 0) -> Result:
    """Seeds that are changed at random."""
    seeds = [*reader.seeds()]
    return _tried_in_children(
        reader, lambda done, deaths: cases_of(reader, seed + deaths * 1_000_003, seeds), seeds, cases, seconds
    )


def replay(reader: Reader, cases: Sequence[bytes]) -> Result:
    """These cases as they are, each of them used too."""
    thorough = replace(reader, each=1)
    return _tried_in_children(thorough, lambda done, deaths: iter(cases[done:]), [], len(cases), math.inf)


def _tried_in_children(
    reader: Reader, source: Callable[[int, int], Iterator[bytes]], known: list[bytes], cases: int, seconds: float
) -> Result:
    """The source is asked for its cases after so many of them and so many deaths: a child is started again where one
    died."""
    result, deaths = Result(), 0
    with mmap.mmap(-1, HEADER.size + 4 * LONGEST) as shared, tempfile.TemporaryDirectory(dir=MEMORY_FOLDER) as name:
        found = Path(name, "found")
        found.mkdir()
        while result.cases < cases and result.seconds < seconds:
            HEADER.pack_into(shared, 0, 0, 0, 0.0, 0.0, 0.0, 0)
            contents = islice(source(result.cases, deaths), cases - result.cases)
            child = os.fork()
            if child == 0:
                _child(reader, contents, known, seconds - result.seconds, shared, Path(name))
            died = _watch(child, shared)
            done, outcomes, slowest, memory, took, length = HEADER.unpack_from(shared, 0)
            result.cases, result.outcomes = result.cases + done, max(result.outcomes, outcomes)
            result.slowest, result.memory = max(result.slowest, slowest), max(result.memory, memory)
            result.seconds += took
            if died:
                content = bytes(shared[HEADER.size : HEADER.size + length])
                result.faults.setdefault((died,), (content, died))
                result.cases, deaths = result.cases + 1, deaths + 1
        for path in sorted(found.glob("*.case")):
            message = path.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
            result.faults.setdefault((path.stem,), (path.read_bytes(), message))
    return result


def _watch(child: int, shared: mmap.mmap) -> str:
    """How it died, if it did: by a signal, or since it had to be stopped."""
    at, since = -1, time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done and os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit("the fuzzing itself failed, as it says above")
        if done:
            return f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else ""
        now = HEADER.unpack_from(shared, 0)[0]
        if now != at:
            at, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE + (SECONDS_TO_BEGIN if at == 0 else 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"hung for {PATIENCE:g} seconds"
        time.sleep(0.05)


def _child(
    reader: Reader, contents: Iterator[bytes], known: list[bytes], seconds: float, shared: mmap.mmap, folder: Path
) -> None:
    """Ends here, whatever comes: with what it found in files."""
    code = 1
    try:
        with quiet() as loud:
            try:
                _work(reader, contents, known, seconds, shared, folder)
                code = 0
            except BaseException:
                traceback.print_exc(file=loud)
    finally:
        os._exit(code)


def _work(
    reader: Reader, contents: Iterator[bytes], known: list[bytes], seconds: float, shared: mmap.mmap, folder: Path
) -> None:
    tried_by = Tried(reader, folder)
    before = peak()
    bounded(reader.bound)
    done, slowest, memory, began, outcomes = 0, 0.0, 0.0, time.monotonic(), set[object]()
    for content in contents:
        if time.monotonic() - began > seconds:
            break
        HEADER.pack_into(shared, 0, done, len(outcomes), slowest, memory, time.monotonic() - began, len(content))
        shared[HEADER.size : HEADER.size + len(content)] = content[: 4 * LONGEST]
        start = time.perf_counter()
        outcome = tried_by(content, thoroughly=done % reader.each == 0)
        slowest = max(slowest, time.perf_counter() - start)
        if (grown := peak() - before) > memory:
            memory = grown
            if grown > reader.bound:
                outcome = Outcome(FAULT, ("memory", grown // 10**8), f"took {grown / 1e6:,.0f} MB")
        key = (outcome.kind, outcome.where)
        if key not in outcomes:
            outcomes.add(key)
            if outcome.kind == FAULT:
                path = folder / "found" / f"{abs(hash(str(outcome.where))):x}"
                path.with_suffix(".case").write_bytes(content)
                path.with_suffix(".txt").write_text(outcome.message, encoding="utf-8", errors="replace")
            elif len(known) < MOST_SEEDS:
                known.append(content)
        done += 1
    HEADER.pack_into(shared, 0, done, len(outcomes), slowest, memory, time.monotonic() - began, 0)


@contextmanager
def quiet() -> Iterator[IO[str]]:
    """Without the streams to which decoders write what they think of a file; what is yielded is still heard."""
    kept = [os.dup(stream) for stream in (1, 2)]
    with open(os.devnull, "w", encoding="utf-8") as nothing, open(os.dup(2), "w", encoding="utf-8") as loud:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
        try:
            yield loud
        finally:
            for stream, own in zip((1, 2), kept, strict=True):
                os.dup2(own, stream)
                os.close(own)


class Tried:
    """A reader at work in a folder of its own."""

    def __init__(self, reader: Reader, folder: Path):
        self.folders = [Path(tempfile.mkdtemp(dir=folder)) for _ in range(2)]
        self.read = reader.begin(self.folders[0])
        self.use = None if reader.use is None else reader.use(self.folders[1])

    def __call__(self, content: bytes, *, thoroughly: bool = True) -> Outcome:
        outcome = tried(self.read, content)
        if thoroughly and outcome.kind == READ and self.use is not None:
            return tried(self.use, content)
        return outcome

    def close(self) -> None:
        for folder in self.folders:
            shutil.rmtree(folder)


def bounded(size: int) -> None:
    """No more may be asked for than so much beyond what there is now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + ALLOCATED * size
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak() -> int:
    """Bytes that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
