"""Continuous batching: the texts of many requests grow together in the slots of one decoder, and each comes and goes at
any step.

    step:   texts that wait take the slots that are free; then, by turns,
            some tokens of the prompts are read, at most `piece`, or
            one token is appended to every text whose prompt has been read

So a long prompt holds the others up by one piece for each token. What a text gets depends on its prompt, its options
and its seed, and on no other text: it has random numbers of its own, the same that `generate` draws. Where one fails,
it alone ends.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32

from neuropil.errors import InputError
from neuropil.randomness import seeded
from neuropil.sampling.text.filters import SamplingConfig, sample_tokens
from neuropil.sampling.text.generation import Ending, limit_of, require_beginnings, require_counts, require_room
from neuropil.sampling.text.slots import SlottedDecoder
from neuropil.sampling.text.streaming import Decode, Decoding, Stopping, require_stops

Logits = Float32[np.ndarray, " token"]


@dataclass(frozen=True)
class TextRequest:
    """`sample` is the number of the text among several of one prompt and seed. With `alternatives` each token comes
    with its log-probability and those of so many most probable ones, as the model gives them, before temperature and
    filters; with `scored_prompt` those of the prompt do too, and are read one by one."""

    prompt: Sequence[int]
    sampling: SamplingConfig
    length: int | None = None
    stops: Sequence[str] = ()
    seed: int = 0
    sample: int = 0
    alternatives: int | None = None
    scored_prompt: bool = False


class TokenScore(NamedTuple):
    token: int
    log_probability: float | None
    """None at the first token of a prompt, which nothing comes before."""
    alternatives: list[tuple[int, float]]


class TextUpdate(NamedTuple):
    """What one step added to a text; `failure` is why there is no more of it, where that is no ordinary end."""

    growing: "GrowingText"
    text: str = ""
    written: int = 0
    """Tokens, that which ends the text included."""
    scores: Sequence[TokenScore] = ()
    ended: Ending | None = None
    failure: Exception | None = None


class GrowingText:
    """A request on its way: waiting, in a slot, or done."""

    def __init__(self, request: TextRequest, decode: Decode, context: int | None):
        self.request, self.limit = request, limit_of(request.prompt, request.length, context)
        self.tokens = list(request.prompt)
        """All that the decoder is to have read, which a token that was just drawn is not yet."""
        self.read, self.written = 0, 0
        self.forced = deque(request.prompt[1:]) if request.scored_prompt else deque[int]()
        self.generator = seeded(request.seed, request.sample, *request.prompt)
        self.decoding, self.stopping = Decoding(decode, request.prompt), Stopping(request.stops)
        self.slot: int | None = None
        self.done = False

    @property
    def to_read(self) -> int:
        """Tokens of the prompt before the first that is chosen, or forced."""
        return 1 if self.request.scored_prompt else len(self.request.prompt)


class ContinuousBatching:
    """For one thread. `end` is the token that ends a text, `never` are tokens that are not drawn, and `piece` is how
    many tokens of prompts one step reads at most."""

    def __init__(
        self,
        decoder: SlottedDecoder,
        decode: Decode,
        *,
        end: int | None = None,
        never: Sequence[int] = (),
        piece: int = 64,
    ):
        if piece < 1:
            raise InputError("a piece of a prompt has one token or more", got=f"{piece}")
        self.decoder, self.decode, self.end, self.never, self.piece = decoder, decode, end, never, piece
        self.free = list(range(decoder.num_slots))
        self.waiting, self.reading = deque[GrowingText](), deque[GrowingText]()
        self.writing: list[GrowingText] = []
        self.has_read = False
        """Whether the last step read prompts."""

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.reading or self.writing)

    @property
    def running(self) -> int:
        return len(self.reading) + len(self.writing)

    def require(self, request: TextRequest) -> None:
        """Whether it can be added."""
        require_beginnings([request.prompt])
        require_room([request.prompt], self.decoder.context)
        require_counts(request.length, 1)
        require_stops(request.stops)
        unknown = next((token for token in request.prompt if not 0 <= token < self.decoder.vocab_size), None)
        if unknown is not None:
            raise InputError(f"tokens are numbers from 0 to {self.decoder.vocab_size - 1}", got=f"{unknown}")

    def add(self, request: TextRequest) -> GrowingText:
        self.require(request)
        text = GrowingText(request, self.decode, self.decoder.context)
        self.waiting.append(text)
        return text

    def cancel(self, text: GrowingText) -> None:
        """Its slot is free at the next step."""
        if text.done:
            return
        text.done = True
        for texts in (self.waiting, self.reading, self.writing):
            if text in texts:
                texts.remove(text)
        if text.slot is not None:
            self.free.append(text.slot)

    def step(self) -> list[TextUpdate]:
        """What it added, at most one update for each text."""
        updates: list[TextUpdate] = []
        while self.waiting and self.free:
            self._begin(self.waiting.popleft(), updates)
        if self.reading and not (self.has_read and self.writing):
            self.has_read = True
            found = self._read_pieces()
        else:
            self.has_read = False
            found = self._append(self.writing)
        for text, logits in found:
            self._choose(text, logits, updates)
        return updates

    def _begin(self, text: GrowingText, updates: list[TextUpdate]) -> None:
        if text.limit.tokens == 0 and not text.request.scored_prompt:
            text.done = True
            updates.append(TextUpdate(text, ended=text.limit.ending))
            return
        text.slot = self.free.pop()
        self.decoder.clear(text.slot)
        self.reading.append(text)

    def _read_pieces(self) -> list[tuple[GrowingText, Logits | Exception]]:
        """The texts whose prompts have been read by now, with their logits."""
        budget, ready = self.piece, list[tuple[GrowingText, Logits | Exception]]()
        while self.reading and budget > 0:
            text = self.reading.popleft()
            count = min(budget, text.to_read - text.read)
            logits = self._read(text, text.tokens[text.read : text.read + count])
            text.read, budget = text.read + count, budget - count
            if text.read < text.to_read and not isinstance(logits, Exception):
                self.reading.append(text)
            else:
                self.writing.append(text)
                ready.append((text, logits))
        return ready

    def _read(self, text: GrowingText, tokens: Sequence[int]) -> Logits | Exception:
        try:
            return self.decoder.read(_slot(text), tokens)
        except Exception as error:
            return error

    def _append(self, texts: Sequence[GrowingText]) -> list[tuple[GrowingText, Logits | Exception]]:
        """A step that fails may have left any of its slots half written: each is read anew by itself, and the one that
        it failed for fails again."""
        if not texts:
            return []
        slots, tokens = [_slot(text) for text in texts], [text.tokens[text.read] for text in texts]
        for text in texts:
            text.read += 1
        found: Sequence[Logits | Exception]
        try:
            found = list(self.decoder.step(slots, tokens))
        except Exception:
            for slot in slots:
                self.decoder.clear(slot)
            found = [self._read(text, text.tokens[: text.read]) for text in texts]
        return list(zip(texts, found, strict=True))

    def _choose(self, text: GrowingText, logits: Logits | Exception, updates: list[TextUpdate]) -> None:
        if isinstance(logits, Exception):
            self._fail(text, logits, updates)
            return
        try:
            update = self._forced(text, logits) if text.forced else self._drawn(text, logits)
        except Exception as error:
            self._fail(text, error, updates)
            return
        updates.append(update)
        if update.ended:
            self.cancel(text)

    def _fail(self, text: GrowingText, error: Exception, updates: list[TextUpdate]) -> None:
        updates.append(TextUpdate(text, failure=error))
        self.cancel(text)

    def _forced(self, text: GrowingText, logits: Logits) -> TextUpdate:
        """The prompt's own next token, with its score."""
        scores = [] if text.read > 1 else [TokenScore(text.tokens[0], None, [])]
        scores += self._scores(text, text.forced.popleft(), logits)
        if not text.forced and text.limit.tokens == 0:
            return TextUpdate(text, scores=scores, ended=text.limit.ending)
        return TextUpdate(text, scores=scores)

    def _drawn(self, text: GrowingText, logits: Logits) -> TextUpdate:
        request = text.request
        if text.limit.tokens == 0:  # its prompt of one token is scored, and that is all
            return TextUpdate(text, scores=[TokenScore(text.tokens[0], None, [])], ended=text.limit.ending)
        first = request.scored_prompt and len(request.prompt) == 1 and not text.written
        scores = [TokenScore(text.tokens[0], None, [])] if first else []
        z, seen = torch.from_numpy(logits)[None], None
        if request.sampling.repetition_penalty != 1:
            seen = torch.zeros(z.shape, dtype=torch.bool)
            seen[0, text.tokens] = True
        token = int(sample_tokens(z, request.sampling, [text.generator], seen=seen, never=self.never)[0])
        text.tokens.append(token)
        text.written += 1
        ended: Ending | None = None
        if token == self.end:
            ended = "end"
        elif text.written == text.limit.tokens:
            ended = text.limit.ending
        if ended != "end":
            scores += self._scores(text, token, logits)
        added = text.stopping.add("" if ended == "end" else text.decoding.add(token))
        if ended and not text.stopping.stopped:
            added += text.stopping.add(text.decoding.finish())
            added += text.stopping.finish()
        return TextUpdate(text, added, 1, scores, "stopped" if text.stopping.stopped else ended)

    def _scores(self, text: GrowingText, token: int, logits: Logits) -> list[TokenScore]:
        count = text.request.alternatives
        if count is None:
            return []
        scores = torch.from_numpy(logits).double().log_softmax(-1)
        best = scores.topk(min(count, len(scores)))
        alternatives = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        return [TokenScore(token, float(scores[token]), alternatives)]


def _slot(text: GrowingText) -> int:
    if text.slot is None:
        raise RuntimeError("a text that waits has no slot")
    return text.slot
