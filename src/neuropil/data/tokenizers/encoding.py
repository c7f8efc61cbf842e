"""Texts to token numbers with any tokenizer: many texts at once, or one long text as one row of tokens.

A text of many tokens is kept in a file and mapped into memory, of which only what is read is loaded. It is cut into
tokens piece by piece. No token reaches from something that can be seen into the white space after it, so pieces that
end there have the tokens of the whole.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import Protocol, runtime_checkable

import numpy as np
import tokenizers
import torch
from jaxtyping import Int32
from torch import Tensor

from neuropil.progress import tracked

TEXTS_PER_TASK = 1_000
PIECE = 100_000
"""Characters."""
PIECES_AT_ONCE = 32
IN_MEMORY = 2**26
"""Tokens from which on a text is mapped: 256 MB."""
BORDER = re.compile(r"(?<=\S)(?=[ \n])")


@runtime_checkable
class Encoding(Protocol):
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...


@runtime_checkable
class AnyTokenizer(Encoding, Protocol):
    """What a language model needs of its tokenizer, be it learned here or published."""

    def __len__(self) -> int: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def tokens(self, ids: Sequence[int]) -> list[str]: ...


def encode_all(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Without tokens that no text has."""

    def encode(part: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(list(part), add_special_tokens=False)]

    parts = [texts[begin : begin + TEXTS_PER_TASK] for begin in range(0, len(texts), TEXTS_PER_TASK)]
    with own_threads(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(chain.from_iterable(pool.map(encode, parts)))


@contextmanager
def own_threads() -> Iterator[None]:
    """Keep the library from starting threads, which would make it warn at every later fork; ours do as well.

    What the user has set stays as it is.
    """
    name = "TOKENIZERS_PARALLELISM"
    if name in os.environ:
        yield
        return
    os.environ[name] = "false"
    try:
        yield
    finally:
        del os.environ[name]


def encode_text(tokenizer: Encoding, text: str) -> Int32[Tensor, " token"]:
    """The tokens of the whole text. The file of a mapped one has no name, and is gone with the process."""
    borders = list(_borders(text))
    groups = [borders[begin : begin + PIECES_AT_ONCE + 1] for begin in range(0, len(borders) - 1, PIECES_AT_ONCE)]
    parts: list[np.ndarray] = []
    with tempfile.TemporaryFile() as file:
        held = mapped = 0
        for group in tracked(groups, "Splitting the text into tokens"):
            encoded = tokenizer.encode([text[begin:end] for begin, end in pairwise(group)])
            parts += [np.array(ids, dtype=np.int32) for ids in encoded]
            held += sum(map(len, encoded))
            if held + mapped > IN_MEMORY:
                file.write(np.concatenate(parts).tobytes())
                mapped, held, parts = mapped + held, 0, []
        if not mapped:
            return torch.from_numpy(np.concatenate([np.empty(0, np.int32), *parts]))
        file.write(np.concatenate([np.empty(0, np.int32), *parts]).tobytes())
        file.flush()
        return torch.from_numpy(np.memmap(file, dtype=np.int32, mode="r+"))


def _borders(text: str) -> Iterator[int]:
    """Where pieces begin and end."""
    place = 0
    yield place
    while found := BORDER.search(text, place + PIECE):
        place = found.start()
        yield place
    if place < len(text):
        yield len(text)
