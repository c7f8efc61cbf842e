"""What came of one case: it was read, it was refused with a sentence, or a fault was found."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from benchmarks.fuzzing.reader import Read
from neuropil.errors import NeuropilError

READ, REFUSED, FAULT = "read", "refused", "fault"
LONGEST_SENTENCE = 4_000
"""Letters: what is longer fills a screen."""


@dataclass(frozen=True)
class Outcome:
    """`where` tells two outcomes apart: the lines that raised, or what kind of thing was read."""

    kind: str
    where: tuple[Any, ...]
    message: str = ""


def tried(read: Read, content: bytes) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = read(content)
    except NeuropilError as error:
        return _refused(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        return Outcome(
            FAULT, (type(error).__name__, *_lines(error.__traceback__)[-1:]), f"{type(error).__name__}: {error}"
        )
    return Outcome(READ, (result if isinstance(result, str) else type(result).__name__,))


def _refused(error: NeuropilError) -> Outcome:
    """With a sentence of bounded length in one line; and before memory was asked for, not after it was not given."""
    where, sentence = tuple(_lines(error.__traceback__)), str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return Outcome(FAULT, ("MemoryError", *where[-1:]), f"memory was asked for and not given: {error}")
        cause = cause.__cause__
    if len(sentence) > LONGEST_SENTENCE:
        return Outcome(FAULT, ("long sentence", *where[-1:]), f"a sentence of {len(sentence):,} letters")
    reason = error.__cause__
    if reason is not None:
        where = (*where, type(reason).__name__, *_lines(reason.__traceback__, ours=False)[-1:])
    return Outcome(REFUSED, where, sentence)


def _lines(traceback: TracebackType | None, *, ours: bool = True) -> list[tuple[str, int]]:
    """Of our own files, or of all."""
    return [*_frames(traceback, ours)]


def _frames(traceback: TracebackType | None, ours: bool) -> Iterator[tuple[str, int]]:
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not ours or "neuropil" in name:
            yield name.rpartition("neuropil")[2], traceback.tb_lineno
        traceback = traceback.tb_next
