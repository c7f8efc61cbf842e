"""One thread that writes the texts of all requests to one model; who asks waits without a thread.

call = writer.submit(requests)        refused where too many wait
async for index, update in call: …    what is added to each of its texts
call.cancel()                         which may be done at any time, and again
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from neuropil.memory import require_room
from neuropil.sampling.text.continuous_batching import ContinuousBatching, GrowingText, TextRequest, TextUpdate
from neuropil.server.config import ServerConfig
from neuropil.server.prometheus import Figures
from neuropil.server.refusals import Refusal, log_fault, shutting_down
from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel
from neuropil.tasks.language_modelling.predictor import LanguageModel

LONGEST_WAIT = 60
"""Seconds that a client is told to wait before it asks again, at most."""


@dataclass(eq=False)
class _Writing:
    """One text of a call, as the thread knows it."""

    call: "TextCall"
    index: int
    text: GrowingText
    begun: float | None = None
    latest: float | None = None
    """When it got its last token."""


class TextCall:
    """The texts of one HTTP request, whose updates come to the event loop that made it."""

    def __init__(self, writer: "TextWriter", requests: Sequence[TextRequest], deadline: float):
        self.writer, self.requests, self.deadline = writer, requests, deadline
        self.asked = time.monotonic()
        self.loop = asyncio.get_running_loop()
        self.updates: asyncio.Queue[tuple[int, TextUpdate] | Refusal] = asyncio.Queue()
        self.open = len(requests)

    async def __aiter__(self) -> AsyncIterator[tuple[int, TextUpdate]]:
        async for found in self.patiently(None):
            if found is not None:
                yield found

    async def patiently(self, seconds: float | None) -> AsyncIterator[tuple[int, TextUpdate] | None]:
        """None each time that nothing has come for so long."""
        while self.open:
            try:
                async with asyncio.timeout(seconds):
                    found = await self.updates.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(found, Refusal):
                self.open = 0
                raise found
            if found[1].ended or found[1].failure:
                self.open -= 1
            yield found

    def cancel(self) -> None:
        """If it has not ended by itself."""
        if self.open:
            self.open = 0
            self.writer.cancel(self)


@dataclass
class _Commands:
    """What the event loop tells the thread."""

    begin: list[TextCall] = field(default_factory=list)
    cancel: list[TextCall] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.begin or self.cancel)


class TextWriter:
    def __init__(self, name: str, model: LanguageModel, config: ServerConfig, figures: Figures):
        self.name, self.model, self.config, self.figures = name, model, config, figures
        decoder = model.slots(config.slots, config.precision if isinstance(model, GPT2LanguageModel) else "float32")
        longest = decoder.context or self.longest_prompt + config.max_tokens
        require_room(f"the texts of {config.slots} slots", config.slots * decoder.slot_bytes(longest))
        decoder.read(0, [0])  # which compiles what is to be compiled before a client waits for it
        decoder.step([0], [0])
        self.batching = ContinuousBatching(
            decoder, model.tokenizer.decode, end=model.end, never=model.never, piece=config.piece
        )
        self.commands, self.changed = _Commands(), threading.Condition()
        self.writing: dict[GrowingText, _Writing] = {}
        self.outstanding, self.closing = 0, False
        self.thread = threading.Thread(target=self._run, name=f"texts of {name}", daemon=True)
        self.thread.start()

    @property
    def longest_prompt(self) -> int:
        limits = [limit for limit in (self.model.context, self.config.max_prompt) if limit is not None]
        return min(limits, default=self.config.max_body)

    @property
    def alive(self) -> bool:
        return self.thread.is_alive()

    @property
    def most_texts(self) -> int:
        """That are written or wait at one time."""
        return self.config.slots + self.config.queue

    @property
    def running(self) -> int:
        return self.batching.running

    @property
    def waiting(self) -> int:
        return max(0, self.outstanding - self.running)

    def submit(self, requests: Sequence[TextRequest]) -> TextCall:
        """For an event loop. Each of its texts needs a place; either all get one or none."""
        for request in requests:
            self.batching.require(request)
        call = TextCall(self, requests, time.monotonic() + self.config.timeout)
        with self.changed:
            if self.closing:
                raise shutting_down()
            room = self.most_texts - self.outstanding
            if len(requests) > room:
                said = f"The server is busy: it has room for {room:,} more texts, but got {len(requests):,}"
                said += "; ask again later."
                raise Refusal(429, said, code="queue_full", headers={"retry-after": f"{self._seconds_to_wait()}"})
            self.outstanding += len(requests)
            self.commands.begin.append(call)
            self.changed.notify()
        return call

    def cancel(self, call: TextCall) -> None:
        with self.changed:
            self.commands.cancel.append(call)
            self.changed.notify()

    def stop(self) -> None:
        """Whatever is not done is refused, after the step that is under way."""
        with self.changed:
            self.closing = True
            self.changed.notify()

    def join(self, until: float) -> None:
        self.thread.join(max(0.0, until - time.monotonic()))

    def _seconds_to_wait(self) -> int:
        """Until about one text of those in the slots has ended, and so a place in the queue is free."""
        each = self.figures.text_seconds.mean(1.0, model=self.name)
        return max(1, min(LONGEST_WAIT, math.ceil(each / self.config.slots)))

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self.changed:
                while not (self.commands or self.closing or not self.batching.idle):
                    self.changed.wait()
                commands, self.commands = self.commands, _Commands()
                closing = self.closing
            try:
                for call in commands.begin:
                    self._begin(call)
                for call in commands.cancel:
                    self._drop(call)
                if closing:
                    self._refuse_all(shutting_down())
                    return
                self._drop_late()
                self._deliver(self.batching.step())
            except Exception as error:  # of the scheduler itself, after which nobody's text can be trusted
                log_fault(error)
                failed = Refusal(500, "The server failed while it wrote this text.", code="internal_error")
                self._refuse_all(failed, commands.begin)

    def _begin(self, call: TextCall) -> None:
        for index, request in enumerate(call.requests):
            text = self.batching.add(request)
            self.writing[text] = _Writing(call, index, text)

    def _drop(self, call: TextCall) -> None:
        """Its client is gone."""
        if self._forget([each for each in self.writing.values() if each.call is call]):
            self.figures.cancelled.add(model=self.name)

    def _drop_late(self) -> None:
        now = time.monotonic()
        for call in {each.call for each in self.writing.values() if each.call.deadline < now}:
            late = [each for each in self.writing.values() if each.call is call]
            began = any(each.begun is not None for each in late)
            self._forget(late)
            said = f"A request may take {self.config.timeout:g} seconds here, and this one took longer"
            refusal = Refusal(504, f"{said}{'' if began else ', without leaving the queue'}.", code="timeout")
            self._send([(call, refusal)])

    def _refuse_all(self, refusal: Refusal, begun: Sequence[TextCall] = ()) -> None:
        """Those that are written, and those of `begun` that may not be yet."""
        calls = {each.call for each in self.writing.values()} | set(begun)
        self._forget(list(self.writing.values()))
        with self.changed:
            self.outstanding = sum(len(call.requests) for call in self.commands.begin)
        self._send([(call, refusal) for call in calls])

    def _forget(self, dropped: Sequence[_Writing]) -> int:
        for each in dropped:
            self.batching.cancel(each.text)
            del self.writing[each.text]
        with self.changed:
            self.outstanding -= len(dropped)
        return len(dropped)

    def _deliver(self, updates: Sequence[TextUpdate]) -> None:
        now, done = time.monotonic(), list[_Writing]()
        news: list[tuple[TextCall, tuple[int, TextUpdate]]] = []
        for update in updates:
            each = self.writing[update.growing]
            self._measure(each, update, now)
            news.append((each.call, (each.index, update)))
            if update.ended or update.failure:
                done.append(each)
        for text in self.writing.values():
            if text.begun is None and text.text.slot is not None:
                text.begun = now
        self._forget(done)
        self._send(news)

    def _measure(self, each: _Writing, update: TextUpdate, now: float) -> None:
        figures, model = self.figures, self.name
        if update.failure is not None:
            figures.failures.add(model=model)
            log_fault(update.failure)
        if update.written:
            figures.generated_tokens.add(update.written, model=model)
            if each.latest is None:
                figures.first_token.observe(now - each.call.asked, model=model)
            else:
                figures.token_seconds.observe(now - each.latest, model=model)
            each.latest = now
        if update.ended and each.begun is not None:
            figures.text_seconds.observe(now - each.begun, model=model)

    def _send(self, news: Sequence[tuple[TextCall, tuple[int, TextUpdate] | Refusal]]) -> None:
        """To the event loop, which is woken once."""

        def put() -> None:
            for call, each in news:
                call.updates.put_nowait(each)

        if news:
            try:
                news[0][0].loop.call_soon_threadsafe(put)
            except RuntimeError:  # the loop is closed, and nobody waits
                return
