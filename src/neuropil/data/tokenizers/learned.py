"""Texts to token numbers and back, kept as a plain `tokenizer.json` that Hugging Face's libraries read too.

Three kinds: byte-level BPE, which knows no unknown text and gives every text back exactly; characters, one for each Unicode code
point; and words, split at spaces and punctuation. Letters keep their case. The learned merges are Hugging Face's.
"""

import codecs
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from neuropil.data.formats.contents import tracked
from neuropil.errors import RunError
from neuropil.files import write_text
from neuropil.protocols import END, PADDING, START, UNKNOWN

Kind = Literal["bpe", "characters", "words"]

SPECIAL = ("<pad>", "<start>", "<end>", "\N{REPLACEMENT CHARACTER}")
"""In the order of their numbers. No merge makes one of the first three, since BPE here keeps letters and brackets apart."""
TO_BE_CONTINUED = "…"
TEXTS_PER_TASK = 1_000


class Tokenizer:
    padding, start, end, unknown = PADDING, START, END, UNKNOWN

    def __init__(self, kind: Kind, tokenizer: tokenizers.Tokenizer):
        self.kind, self._tokenizer = kind, tokenizer
        # A user's text may say "<end>" and mean these five letters.
        self._tokenizer.encode_special_tokens = True
        self._ids = tokenizer.get_vocab()
        self._texts = {number: text for text, number in self._ids.items()}

    @classmethod
    def train(cls, texts: Sequence[str], kind: Kind, vocabulary: int = 8_000) -> "Tokenizer":
        """The same texts always give the same tokenizer. Where they have fewer tokens to offer than `vocabulary`, it is smaller.

        BPE keeps all 256 bytes, however small the vocabulary.
        """
        seen = tracked(texts, "Learning the vocabulary")
        if kind == "bpe":
            return cls(kind, _merge_bytes(seen, vocabulary))
        if kind == "characters":
            split, decoder = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated"), decoders.Fuse()
            counts = Counter(chain.from_iterable(seen))
        else:
            split, decoder = pre_tokenizers.Whitespace(), None
            counts = Counter(word for text in seen for word, _ in split.pre_tokenize_str(text))
        tokenizer = tokenizers.Tokenizer(
            models.WordLevel(_most_frequent(counts, vocabulary), unk_token=SPECIAL[UNKNOWN])
        )
        tokenizer.pre_tokenizer, tokenizer.decoder = split, decoder
        tokenizer.add_special_tokens(list(SPECIAL))
        return cls(kind, tokenizer)

    def __len__(self) -> int:
        return len(self._ids)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers without start and end."""
        if self.kind == "characters":
            return [[self._ids.get(character, UNKNOWN) for character in text] for text in texts]
        return encode_all(self._tokenizer, texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text; padding, start and end say nothing. Words are joined by single spaces."""
        return self._tokenizer.decode([number for number in ids if number >= UNKNOWN], skip_special_tokens=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """A label for each token. A character that several tokens make up stands at the last of them; the others have the label "…"."""
        if self.kind != "bpe":
            return [self._texts[number] for number in ids]
        return byte_labels([SPECIAL[number] if number <= UNKNOWN else self._bytes(number) for number in ids])

    def save(self, path: Path) -> None:
        write_text(path, self._tokenizer.to_str(pretty=True))

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        rule = f"{path} must be the tokenizer that neuropil wrote"
        try:
            content = path.read_text(encoding="utf-8")
            tokenizer = tokenizers.Tokenizer.from_str(content)
            kind = KIND_OF_SPLIT[json.loads(content)["pre_tokenizer"]["type"]]
        except FileNotFoundError as cause:
            raise RunError(rule, got="no such file", fix="train again or restore it") from cause
        except Exception as cause:  # the library raises nothing more special than this
            raise RunError(rule, got="a damaged file or another kind", fix="train again or restore it") from cause
        if tuple(map(tokenizer.id_to_token, range(len(SPECIAL)))) != SPECIAL:
            raise RunError(rule, got="one with other special tokens", fix="train again or restore it")
        return cls(kind, tokenizer)

    def _bytes(self, number: int) -> bytes:
        return bytes_of(self._texts[number])


KIND_OF_SPLIT: dict[str, Kind] = {"ByteLevel": "bpe", "Split": "characters", "Whitespace": "words"}


def encode_all(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Without tokens that no text has."""

    def encode(part: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(list(part), add_special_tokens=False)]

    parts = [texts[begin : begin + TEXTS_PER_TASK] for begin in range(0, len(texts), TEXTS_PER_TASK)]
    with own_threads(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(chain.from_iterable(pool.map(encode, parts)))


@cache
def byte_of_letter() -> dict[str, int]:
    """Byte-level BPE writes each byte as a letter: itself where it can be seen in Latin-1, otherwise the next one from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + place): byte for place, byte in enumerate(hidden)}


def bytes_of(token: str) -> bytes:
    return bytes(map(byte_of_letter().__getitem__, token))


def byte_labels(tokens: Sequence[bytes | str]) -> list[str]:
    """A label for each token of bytes; texts are labels already. A character of several tokens stands at the last, "…" at the others."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    labels = [token if isinstance(token, str) else decoder.decode(token) or TO_BE_CONTINUED for token in tokens]
    if rest := decoder.decode(b"", final=True):
        last = max(place for place, token in enumerate(tokens) if isinstance(token, bytes))
        labels[last] = labels[last].removesuffix(TO_BE_CONTINUED) + rest
    return labels


def _merge_bytes(texts: Iterator[str], vocabulary: int) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(byte_of_letter()),
        show_progress=False,
    )
    with own_threads():
        tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _most_frequent(counts: Counter[str], vocabulary: int) -> dict[str, int]:
    ranked = sorted(counts.keys() - set(SPECIAL), key=lambda token: (-counts[token], token))
    return {token: number for number, token in enumerate([*SPECIAL, *ranked[: max(vocabulary - len(SPECIAL), 0)]])}


@contextmanager
def own_threads() -> Iterator[None]:
    """Keep the library from starting threads, which would make it warn at every later fork of the process; ours do as well.

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
