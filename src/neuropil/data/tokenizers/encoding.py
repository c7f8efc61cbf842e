"""Texts to token numbers with any tokenizer: many texts at once, or one long text as one row of tokens.

A text of many tokens is kept in a file and mapped into memory, of which only what is read is loaded. It is cut into
tokens piece by piece. No token reaches from something that can be seen into the white space after it, so pieces that
end there have the tokens of the whole. Mostly such a piece is a word, and a text has the same words again and again:
what their tokens are is remembered, which is several times as fast as to look for them anew.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Protocol, runtime_checkable

import numpy as np
import tokenizers
import torch
from jaxtyping import Int32
from torch import Tensor

from neuropil.data.tokenizers.parsed import refused_by_library
from neuropil.errors import InputError
from neuropil.progress import measured

TEXTS_PER_TASK = 1_000
PIECE = 100_000
"""Characters."""
REMEMBERED, OF_A_WORD = 2**26, 100
"""Bytes for the words that are remembered, about, and what one takes beside its characters."""
IN_MEMORY = 2**26
"""Tokens from which on a text is mapped: 256 MB."""
BORDER = re.compile(r"(?<=\S)(?=[ \n])")


@runtime_checkable
class Encoding(Protocol):
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...


@runtime_checkable
class AnyTokenizer(Encoding, Protocol):
    """What a language model needs of its tokenizer, be it learned here or published."""

    @property
    def fingerprint(self) -> str:
        """Changes when any of its tokens does."""
        ...

    @property
    def independent_words(self) -> bool:
        """Whether what stands before a border of words never changes the tokens after it, nor the other way round."""
        ...

    def __len__(self) -> int: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def tokens(self, ids: Sequence[int]) -> list[str]: ...


UNENCODED = InputError(
    "a tokenizer must encode every text",
    got="one that fails at this one",
    fix="take its files from where the model comes from",
)


def encode_all(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Without tokens that no text has."""

    def encode(part: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(list(part), add_special_tokens=False)]

    parts = [texts[begin : begin + TEXTS_PER_TASK] for begin in range(0, len(texts), TEXTS_PER_TASK)]
    if len(parts) < 2:  # no thread is worth its start
        with refused_by_library(UNENCODED), own_threads():
            return [ids for part in parts for ids in encode(part)]
    with refused_by_library(UNENCODED), own_threads(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(chain.from_iterable(pool.map(encode, parts)))


def fingerprint_of(tokenizer: tokenizers.Tokenizer) -> str:
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()[:16]


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
        os.environ.pop(name, None)  # another thread may have been first


def encode_text(tokenizer: AnyTokenizer, text: str) -> Int32[Tensor, " token"]:
    """The tokens of the whole text. The file of a mapped one has no name, and is gone with the process."""
    parts: list[np.ndarray] = []
    with tempfile.TemporaryFile() as file:
        held = mapped = 0
        for tokens in encode_blocks(tokenizer, [text], len(text)):
            parts.append(tokens)
            held += len(tokens)
            if held + mapped > IN_MEMORY:
                file.write(np.concatenate(parts).data)
                mapped, held, parts = mapped + held, 0, []
        if not mapped:
            return torch.from_numpy(np.concatenate([np.empty(0, np.int32), *parts]))
        file.write(np.concatenate([np.empty(0, np.int32), *parts]).data)
        file.flush()
        return torch.from_numpy(np.memmap(file, dtype=np.int32, mode="r+"))


def encode_blocks(tokenizer: AnyTokenizer, blocks: Iterable[str], length: int) -> Iterator[Int32[np.ndarray, " _"]]:
    """The tokens of a text that comes in blocks, and has about `length` characters."""
    encode = RememberedWords(tokenizer) if tokenizer.independent_words else lambda piece: _row(tokenizer, piece)
    for piece in measured(pieces_of(blocks), "Splitting the text into tokens", len, length):
        yield encode(piece)


def _row(tokenizer: Encoding, piece: str) -> Int32[np.ndarray, " _"]:
    return np.array(tokenizer.encode([piece])[0], np.int32)


class RememberedWords:
    """The tokens of a piece of a text, word by word, each with the white space before it. They lie end to end in one
    row; where those of a word begin, and how many they are, is known by its number."""

    def __init__(self, tokenizer: Encoding):
        self.tokenizer = tokenizer
        self._forget()

    def __call__(self, piece: str) -> Int32[np.ndarray, " _"]:
        words = BORDER.split(piece)
        if self.size > REMEMBERED:
            self._forget()
        numbers = np.fromiter(map(self.number.get, words, repeat(-1)), np.int64, len(words))
        if len(new := np.flatnonzero(numbers < 0)):
            unknown = [words[place] for place in new.tolist()]
            self._learn([*dict.fromkeys(unknown)])
            numbers[new] = [self.number[word] for word in unknown]
        lengths, begins = self.lengths[numbers], self.begins[numbers]
        # The i-th token of the piece is that of its word which is as far from the word's first as i is from the place
        # where the word begins.
        ends = lengths.cumsum()
        return self.tokens[np.repeat(begins - ends + lengths, lengths) + np.arange(lengths.sum())]

    def _learn(self, words: Sequence[str]) -> None:
        encoded = self.tokenizer.encode(words)
        lengths = np.array([*map(len, encoded)], np.int64)
        self.begins = np.concatenate([self.begins, len(self.tokens) + lengths.cumsum() - lengths])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.tokens = np.concatenate([self.tokens, np.fromiter(chain.from_iterable(encoded), np.int32)])
        self.number.update(zip(words, range(len(self.number), len(self.number) + len(words)), strict=True))
        self.size += sum(map(len, words)) + OF_A_WORD * len(words)

    def _forget(self) -> None:
        self.number, self.size = dict[str, int](), 0
        self.begins, self.lengths = np.empty(0, np.int64), np.empty(0, np.int64)
        self.tokens = np.empty(0, np.int32)


def pieces_of(blocks: Iterable[str]) -> Iterator[str]:
    """Of a text that comes in blocks of any lengths."""
    text, begin = "", 0
    for block in blocks:
        text, begin = text[begin:] + block, 0
        while found := BORDER.search(text, begin + PIECE):
            yield text[begin : found.start()]
            begin = found.start()
    if begin < len(text):
        yield text[begin:]
