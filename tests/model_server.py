"""A server in a thread of the tests, the real client of OpenAI, and a gate that says when its decoder may go on."""

import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
import openai

from neuropil.http.listening import address_of, bind
from neuropil.sampling.text.slots import SlottedDecoder
from neuropil.server.config import ServerConfig
from neuropil.server.decoding import TextWriter
from neuropil.server.serve import ModelServer, build

SECONDS_TO_END = 60
"""Far more than a server takes, so that only a fault runs into it."""


class Gate:
    """A decoder whose steps wait until they are let through, so that a test knows what is under way."""

    def __init__(self, writer: TextWriter):
        self.decoder: SlottedDecoder = writer.batching.decoder
        self.num_slots, self.vocab_size = self.decoder.num_slots, self.decoder.vocab_size
        self.steps, self.opened, self.holds = threading.Semaphore(0), False, False
        self.context, self.clear = self.decoder.context, self.decoder.clear
        self.length, self.slot_bytes = self.decoder.length, self.decoder.slot_bytes
        writer.batching.decoder = self

    def _wait(self) -> None:
        self.holds = not self.opened
        if self.holds:
            assert self.steps.acquire(timeout=30)
            self.holds = False

    def read(self, slot: int, tokens: Sequence[int]) -> Any:
        self._wait()
        return self.decoder.read(slot, tokens)

    def step(self, slots: Sequence[int], tokens: Sequence[int]) -> Any:
        self._wait()
        return self.decoder.step(slots, tokens)

    def let(self, steps: int) -> None:
        self.steps.release(steps)

    def open(self) -> None:
        self.opened = True
        self.steps.release(1000)


@dataclass
class Served:
    address: str
    server: ModelServer
    config: ServerConfig

    @cached_property
    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=30)

    @cached_property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.address}/v1", api_key=self.config.token or "none", max_retries=0)

    def complete(self, **options: Any) -> Any:
        """By the client of OpenAI."""
        create: Any = self.openai.completions.create
        return create(**options)

    def ask(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """By POST where there is a body."""
        if body is None:
            return self.http.get(path, **options)
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        return self.http.post(path, **content, **options)

    def close(self) -> None:
        self.http.close()
        self.openai.close()

    def error(self, path: str, body: Any, **options: Any) -> tuple[int, str, str | None]:
        """The status, the message and the field that it is about."""
        answer = self.ask(path, body, **options)
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return answer.status_code, error["message"], error["param"]

    def writer(self, name: str) -> TextWriter:
        writer = self.server.models.named[name].writer
        assert writer is not None
        return writer

    def figure(self, line: str) -> float:
        """Of /metrics, by its name and labels."""
        lines = self.ask("/metrics").text.splitlines()
        return next((float(each.rpartition(" ")[2]) for each in lines if each.rpartition(" ")[0] == line), 0.0)


def wait_until(true: Callable[[], object]) -> None:
    """For what another thread does soon."""
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


Serving = Callable[..., AbstractContextManager[Served]]


@contextmanager
def serving_thread(sources: Sequence[str], **options: Any) -> Iterator[Served]:
    config = ServerConfig(**{"slots": 16, "drain": 10.0, **options})
    with bind("127.0.0.1", 0, first=0, what="the server") as listening:
        server = build(sources, config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        served = Served(address_of(listening, "127.0.0.1"), server, config)
        try:
            yield served
        finally:
            served.close()
            server.handle_exit(signal.SIGTERM, None)
            thread.join(SECONDS_TO_END)
        assert not thread.is_alive(), stacks()


def stacks() -> str:
    """What every thread is doing: the one that does not end may wait for another."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames().items()
    return "\n".join(f"{names.get(number)}:\n{''.join(traceback.format_stack(frame))}" for number, frame in frames)
