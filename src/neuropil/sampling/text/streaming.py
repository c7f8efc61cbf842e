"""Tokens to text while they are written: what can still change is held back.

A character of several tokens waits for the last of them, and the beginning of a stop string until it has become one or
can no longer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from neuropil.errors import InputError
from neuropil.sampling.text.generation import Ending, Generation

Decode: TypeAlias = Callable[[Sequence[int]], str]

HALF_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""What a text ends with as long as the bytes of its last character are not all there."""


class Piece(NamedTuple):
    row: int
    text: str
    ended: Ending | None
    """Why nothing follows in this row, where nothing does."""


def streamed(
    writing: Generation, decode: Decode, before: Sequence[Sequence[int]] = (), stops: Sequence[str] = ()
) -> Iterator[Piece]:
    """The text of each row as it grows, without stop strings and end tokens; `before` are the prompts' tokens."""
    require_stops(stops)
    prompts = [before[row // writing.samples] if before else () for row in range(len(writing.ended))]
    texts = [(Decoding(decode, prompt), Stopping(stops)) for prompt in prompts]
    for row, token, ended in writing:
        decoding, stopping = texts[row]
        text = stopping.add("" if ended == "end" else decoding.add(token))
        if stopping.stopped:
            writing.stop(row)
        elif ended:
            text += stopping.add(decoding.finish())
            text += stopping.finish()
        ended = "stopped" if stopping.stopped else ended
        if text or ended:
            yield Piece(row, text, ended)


def as_text(tokens: Iterable[int], decode: Decode, before: Sequence[int] = ()) -> Iterator[str]:
    """The text of tokens that come one at a time; joined, it is what they say together."""
    decoding = Decoding(decode, before)
    for token in tokens:
        if text := decoding.add(token):
            yield text
    if text := decoding.finish():
        yield text


class Decoding:
    """`before` is what stands before the text: a word knows from it whether a space comes first."""

    def __init__(self, decode: Decode, before: Sequence[int] = ()):
        self.decode = decode
        self.known, self.new, self.given = list(before[-1:]), [], len(decode(before[-1:]))

    def add(self, token: int) -> str:
        self.new.append(token)
        text = self.decode([*self.known, *self.new])
        piece = text[self.given :].removesuffix(HALF_CHARACTER)
        self.given += len(piece)
        if piece and self.given == len(text):  # all is said, and the last token is what the next one needs to know
            self.known, self.new, self.given = [token], [], len(self.decode([token]))
        return piece

    def finish(self) -> str:
        return self.decode([*self.known, *self.new])[self.given :] if self.new else ""


class Stopping:
    """Gives a text back until a stop string is complete; of several, the first to be complete counts."""

    def __init__(self, stops: Sequence[str]):
        self.stops, self.held, self.stopped = stops, "", False

    def add(self, text: str) -> str:
        self.held += text
        found = [(place + len(stop), place) for stop in self.stops if (place := self.held.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._give(min(found)[1])
        return self._give(len(self.held) - max((beginning(self.held, stop) for stop in self.stops), default=0))

    def finish(self) -> str:
        """What was held back, when nothing more comes."""
        return "" if self.stopped else self._give(len(self.held))

    def _give(self, count: int) -> str:
        given, self.held = self.held[:count], self.held[count:]
        return given


def beginning(text: str, stop: str) -> int:
    """How many characters at the end of the text may be the beginning of the stop string."""
    return next((count for count in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:count])), 0)


def require_stops(stops: Sequence[str]) -> None:
    if "" in stops:
        raise InputError("a stop string must have at least one character", got="an empty one")
