"""News for any number of pages: each piece is written as JSON once, whoever reads it, and given out by the event loop
that serves the pages."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

MOST_WAITING = 256
"""Pieces of news that wait for one reader: one that is slower is sent away, and asks anew."""
SECONDS_BETWEEN_SIGNS = 15.0
"""Of life, where there are no news: a page that has gone is noticed by them."""


class Feed:
    """`publish` may be called by any thread; each `follow` is a page's own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.readers: dict[asyncio.AbstractEventLoop, set[asyncio.Queue[bytes | None]]] = {}
        self.closed = False

    def publish(self, news: Mapping[str, Any]) -> None:
        if self.readers:
            self._give_all(sent(news))

    def close(self) -> None:
        """Every page is sent away, and those that come later too."""
        self.closed = True
        self._give_all(None)

    def _give_all(self, written: bytes | None) -> None:
        with self.lock:
            loops = {loop: tuple(queues) for loop, queues in self.readers.items()}
        for loop, queues in loops.items():
            with suppress(RuntimeError):  # a loop that was closed meanwhile
                loop.call_soon_threadsafe(_give, queues, written)

    async def follow(self, first: Callable[[], Mapping[str, Any]]) -> AsyncIterator[bytes]:
        """Server-sent events; `first` tells how things stand, and is asked when no news can be missed any more."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes | None](MOST_WAITING)
        with self.lock:
            self.readers.setdefault(loop, set()).add(queue)
        try:
            yield sent(await asyncio.to_thread(first))
            while not self.closed:
                try:
                    news = await asyncio.wait_for(queue.get(), SECONDS_BETWEEN_SIGNS)
                except TimeoutError:
                    news = b": still here\n\n"
                if news is None:
                    return
                yield news
        finally:
            with self.lock:
                self.readers[loop].discard(queue)
                if not self.readers[loop]:
                    del self.readers[loop]


def sent(news: Mapping[str, Any]) -> bytes:
    """As an event for a page's `EventSource`."""
    return f"data: {json.dumps(news, allow_nan=False, separators=(',', ':'))}\n\n".encode()


def _give(queues: tuple[asyncio.Queue[bytes | None], ...], written: bytes | None) -> None:
    for queue in queues:
        if not queue.full():
            queue.put_nowait(written)
        else:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(None)
