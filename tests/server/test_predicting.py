"""What waits for the same is answered together; what fails fails alone."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from model_server import wait_until
from neuropil.errors import InputError
from neuropil.server.config import ServerConfig
from neuropil.server.predicting import PIECE, PredictionQueue
from neuropil.server.prometheus import Figures
from neuropil.server.refusals import Refusal

MakeQueue = Callable[..., PredictionQueue]


@pytest.fixture
def make_queue() -> Iterator[MakeQueue]:
    made: list[PredictionQueue] = []

    def make(**options: Any) -> PredictionQueue:
        made.append(PredictionQueue("bert", ServerConfig(**options), Figures()))
        return made[-1]

    yield make
    for queue in made:
        close(queue)
        assert not queue.alive


def close(queue: PredictionQueue, seconds: float = 20) -> None:
    queue.stop()
    queue.join(time.monotonic() + seconds)


class Held:
    """Work that waits to be let on, and remembers what it was asked."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), list[list[Any]]()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        self.asked.append(list(inputs))
        assert self.go.wait(20)
        if "bad" in inputs:
            raise InputError("an input must be good", got="a bad one")
        if "broken" in inputs:
            raise RuntimeError("broken")
        return [f"{each}!" for each in inputs]


def test_requests_of_one_kind_are_answered_together(make_queue: MakeQueue):
    queue, work = make_queue(), Held()

    async def ask() -> list[Any]:
        first = asyncio.create_task(queue.ask(work, ["a"], "embed"))
        await asyncio.to_thread(wait_until, lambda: work.asked)
        others = [queue.ask(work, inputs, key) for inputs, key in asked]
        tasks = [asyncio.create_task(each) for each in others]
        await asyncio.to_thread(wait_until, lambda: queue.waiting == len(asked))
        work.go.set()
        return await asyncio.gather(first, *tasks)

    asked: list[tuple[list[str], str | None]] = [
        (["b", "c"], "embed"), (["d"], "other"), (["e"] * 300, "embed"), (["f"], "embed"), (["g"], None), (["h"], None)
    ]  # fmt: skip
    found = asyncio.run(ask())
    assert found == [["a!"], ["b!", "c!"], ["d!"], ["e!"] * 300, ["f!"], ["g!"], ["h!"]]
    pieces = [["e"] * PIECE] * (300 // PIECE) + [["e"] * (300 % PIECE)]
    assert work.asked == [["a"], ["b", "c", "f"], ["d"], *pieces, ["g"], ["h"]]


def test_who_fails_fails_alone(make_queue: MakeQueue, capsys: pytest.CaptureFixture[str]):
    queue, work = make_queue(), Held()

    async def ask() -> list[Any]:
        first = asyncio.create_task(queue.ask(work, ["first"], "embed"))
        await asyncio.to_thread(wait_until, lambda: work.asked)
        inputs = (["a"], ["bad"], ["broken"], ["b"])
        tasks = [asyncio.create_task(queue.ask(work, each, "embed")) for each in inputs]
        await asyncio.to_thread(wait_until, lambda: queue.waiting == 4)
        work.go.set()
        return await asyncio.gather(first, *tasks, return_exceptions=True)

    first, a, bad, broken, b = asyncio.run(ask())
    assert (first, a, b) == (["first!"], ["a!"], ["b!"])
    assert str(bad) == "an input must be good, but got a bad one."
    assert isinstance(broken, RuntimeError)
    assert queue.figures.failures.lines() == ['neuropil_failures_total{model="bert"} 1']
    assert queue.alive


def test_a_full_queue_a_slow_answer_and_a_client_that_goes(make_queue: MakeQueue):
    queue, work = make_queue(queue=1, timeout=0.05), Held()

    async def ask() -> None:
        first = asyncio.create_task(queue.ask(work, ["a"]))
        await asyncio.to_thread(wait_until, lambda: work.asked)
        leaving = asyncio.create_task(queue.ask(work, ["b"]))
        await asyncio.to_thread(wait_until, lambda: queue.waiting == 1)
        with pytest.raises(Refusal) as busy:
            await queue.ask(work, ["c"])
        assert (busy.value.status, busy.value.headers) == (429, {"retry-after": "1"})
        assert str(busy.value) == "The server is busy: 1 request waits already; ask again later."
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert queue.waiting == 0
        with pytest.raises(Refusal) as late:
            await first
        assert (late.value.status, str(late.value)) == (
            504,
            "A request may take 0.05 seconds here, and this one took longer.",
        )

    asyncio.run(ask())
    work.go.set()
    wait_until(lambda: not queue.running and not queue.waiting)
    assert work.asked == [["a"]]  # who left is not answered


def test_closing_refuses_who_waits(make_queue: MakeQueue):
    queue, work = make_queue(), Held()

    async def ask() -> list[Any]:
        tasks = [asyncio.create_task(queue.ask(work, [each])) for each in ("a", "b")]  # without a key, one by one
        await asyncio.to_thread(wait_until, lambda: queue.waiting == 1 and work.asked)
        closing = asyncio.create_task(asyncio.to_thread(close, queue))
        await asyncio.wait(tasks[1:], timeout=20)  # who waits need not wait for the one before
        work.go.set()
        await closing
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second = asyncio.run(ask())
    assert first == ["a!"]
    assert isinstance(second, Refusal)
    assert (second.status, str(second)) == (503, "The server is shutting down.")


def test_what_is_not_answered_in_time_is_refused(make_queue: MakeQueue):
    queue, work = make_queue(), Held()

    async def ask() -> Any:
        task = asyncio.create_task(queue.ask(work, ["a"]))
        await asyncio.to_thread(wait_until, lambda: work.asked)
        await asyncio.to_thread(close, queue, 0.0)
        return (await asyncio.gather(task, return_exceptions=True))[0]

    refused = asyncio.run(ask())
    work.go.set()
    assert isinstance(refused, Refusal)
    assert (refused.status, str(refused)) == (503, "The server is shutting down.")


@pytest.mark.parametrize("ending", [False, True])
def test_of_many_inputs_no_other_piece_is_begun_when_nobody_waits_for_it(make_queue: MakeQueue, ending: bool):
    queue, work, several = make_queue(), Held(), [f"{number}" for number in range(3 * PIECE)]

    async def ask() -> list[Any]:
        first = asyncio.create_task(queue.ask(work, several))
        await asyncio.to_thread(wait_until, lambda: work.asked)
        queue.stop() if ending else first.cancel()
        others = [] if ending else [asyncio.create_task(queue.ask(work, several))]
        await asyncio.sleep(0)
        work.go.set()
        await asyncio.to_thread(wait_until, lambda: not queue.alive if ending else len(work.asked) == 4)
        queue.join(time.monotonic())
        return await asyncio.gather(first, *others, return_exceptions=True)

    first, *others = asyncio.run(ask())
    assert isinstance(first, Refusal if ending else asyncio.CancelledError)
    assert others == ([] if ending else [[f"{each}!" for each in several]])
    assert [len(inputs) for inputs in work.asked] == [PIECE] * (1 if ending else 4)


class Gap(threading.Condition):
    """Where one thread, having given the lock back, goes on only when it is let."""

    def __init__(self, thread: threading.Thread):
        super().__init__()
        self.thread, self.reached, self.go = thread, threading.Event(), threading.Event()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        if threading.current_thread() is self.thread:
            self.reached.set()
            assert self.go.wait(20)


def test_a_shutdown_between_taking_a_job_and_answering_it_loses_neither_it_nor_one_that_came_meanwhile(
    make_queue: MakeQueue,
):
    queue, work = make_queue(timeout=20), Held()

    async def ask() -> list[Any]:
        tasks = [asyncio.create_task(queue.ask(work, [each])) for each in ("a", "b")]
        await asyncio.to_thread(wait_until, lambda: queue.waiting == 1 and work.asked)
        queue.changed = gap = Gap(queue.thread)  # which nobody waits at while the thread is busy with a
        work.go.set()
        assert await asyncio.to_thread(gap.reached.wait, 20)
        assert (queue.running, queue.waiting) == (1, 0)  # it has taken b
        tasks.append(asyncio.create_task(queue.ask(work, ["c"])))
        await asyncio.to_thread(wait_until, lambda: queue.waiting == 1)
        closing = asyncio.create_task(asyncio.to_thread(close, queue))
        await asyncio.to_thread(wait_until, lambda: queue.closing)
        gap.go.set()
        await closing
        return await asyncio.gather(*tasks, return_exceptions=True)

    a, b, c = asyncio.run(ask())
    assert (a, b) == (["a!"], ["b!"])  # what was begun is answered
    assert isinstance(c, Refusal)
    assert (c.status, str(c)) == (503, "The server is shutting down.")
