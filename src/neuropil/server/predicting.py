"""A thread that answers what is no generation of text: what waits for the same is answered together, in pieces, after
each of which it looks whether anybody still waits.

vectors = await queue.ask(embed, texts, key="embed")
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from neuropil.errors import NeuropilError, counted
from neuropil.server.config import ServerConfig
from neuropil.server.prometheus import Figures
from neuropil.server.refusals import Refusal, log_fault, shutting_down

MOST_TOGETHER = 256
"""Inputs of several requests that are answered together; one request may have more."""
PIECE = 32
"""Inputs of one call of the model: who has left, or waited too long, holds up the others for one call at most."""

Work = Callable[[Sequence[Any]], Sequence[Any]]
"""An answer for each input."""


@dataclass(eq=False)
class _Job:
    work: Work
    inputs: Sequence[Any]
    key: Hashable
    answer: asyncio.Future[Sequence[Any]]
    loop: asyncio.AbstractEventLoop

    def tell(self, found: Sequence[Any] | BaseException) -> None:
        def put() -> None:
            if self.answer.done():
                return
            if isinstance(found, BaseException):
                self.answer.set_exception(found)
            else:
                self.answer.set_result(found)

        try:
            self.loop.call_soon_threadsafe(put)
        except RuntimeError:  # the loop is closed, and nobody waits
            return


class PredictionQueue:
    def __init__(self, name: str, config: ServerConfig, figures: Figures):
        self.name, self.config, self.figures = name, config, figures
        self.jobs, self.changed, self.closing = deque[_Job](), threading.Condition(), False
        self.current: Sequence[_Job] = ()
        """Those that are being answered."""
        self.thread = threading.Thread(target=self._run, name=f"answers of {name}", daemon=True)
        self.thread.start()

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    @property
    def waiting(self) -> int:
        return len(self.jobs)

    @property
    def running(self) -> int:
        return len(self.current)

    async def ask(self, work: Work, inputs: Sequence[Any], key: Hashable = None) -> Sequence[Any]:
        """Requests of one key are answered by one call of the first one's work; without a key, each by itself."""
        loop = asyncio.get_running_loop()
        job = _Job(work, inputs, key, loop.create_future(), loop)
        with self.changed:
            if self.closing:
                raise shutting_down()
            if len(self.jobs) >= max(1, self.config.queue):
                wait = "waits" if len(self.jobs) == 1 else "wait"
                said = f"The server is busy: {counted(len(self.jobs), 'request')} {wait} already; ask again later."
                raise Refusal(429, said, code="queue_full", headers={"retry-after": "1"})
            self.jobs.append(job)
            self.changed.notify()
        try:
            async with asyncio.timeout(self.config.timeout):
                return await job.answer
        except TimeoutError:
            said = f"A request may take {self.config.timeout:g} seconds here, and this one took longer."
            raise Refusal(504, said, code="timeout") from None
        except asyncio.CancelledError:
            self.figures.cancelled.add(model=self.name)
            raise
        finally:
            with self.changed:  # who is gone holds no place
                if job in self.jobs:
                    self.jobs.remove(job)

    def stop(self) -> None:
        """Whatever waits is refused at once, and no other piece is begun."""
        with self.changed:  # while it is held, no job comes or goes
            self.closing = True
            for job in self.jobs:
                job.tell(shutting_down())
            self.changed.notify()

    def join(self, until: float) -> None:
        """What is being answered is waited for until this moment, and refused then."""
        self.thread.join(max(0.0, until - time.monotonic()))
        for job in self.current:
            job.tell(shutting_down())

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self.changed:
                while not (self.jobs or self.closing):
                    self.changed.wait()
                if self.closing:
                    return
                self.current = self._together()
            self._answer(self.current)
            if self.closing:
                return  # whoever has no answer by now gets none
            self.current = ()

    def _together(self) -> list[_Job]:
        """The first, and those that ask for the same."""
        waiting = list(self.jobs)
        together, count = waiting[:1], sum(len(job.inputs) for job in waiting[:1])
        for job in waiting[1:]:
            if job.key is not None and job.key == waiting[0].key and count + len(job.inputs) <= MOST_TOGETHER:
                together.append(job)
                count += len(job.inputs)
        self.jobs = deque(job for job in waiting if job not in together)
        return together

    def _answer(self, jobs: Sequence[_Job]) -> None:
        """Where several fail together, each is tried alone."""
        inputs, found = [each for job in jobs for each in job.inputs], list[Any]()
        try:
            for first in range(0, len(inputs), PIECE):
                if first and (self.closing or all(job.answer.done() for job in jobs)):
                    return
                found += jobs[0].work(inputs[first : first + PIECE])
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._answer([job])
                return
            if not isinstance(error, NeuropilError):
                self.figures.failures.add(model=self.name)
                log_fault(error)
            jobs[0].tell(error)
            return
        place = 0
        for job in jobs:
            job.tell(found[place : place + len(job.inputs)])
            place += len(job.inputs)
