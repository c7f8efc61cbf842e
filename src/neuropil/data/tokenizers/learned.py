"""Texts to token numbers and back, kept as a plain `tokenizer.json` that Hugging Face's libraries read too.

Three kinds: byte-level BPE, which knows no unknown text and gives every text back exactly; characters, one for each
Unicode code point; and words, split at spaces and punctuation. Letters keep their case. The learned merges are Hugging
Face's. Beside them, new tokenizers of the published kinds: byte-level BPE as GPT-2 has it, WordPiece as BERT has it,
and CLIP's BPE, which knows where a word ends.

The same texts always give the same tokenizer. Where they have fewer tokens to offer than `vocabulary`, it is smaller.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from neuropil.data.tokenizers import published
from neuropil.data.tokenizers.byte_level import byte_labels, byte_of_letter, bytes_of
from neuropil.data.tokenizers.encoding import encode_all, fingerprint_of, own_threads
from neuropil.data.tokenizers.parsed import parse_tokenizer, refused_by_library
from neuropil.data.tokenizers.published import CONTINUED, FAMILIES, WORD_END, PublishedTokenizer
from neuropil.errors import RunError
from neuropil.files import write_text
from neuropil.progress import tracked
from neuropil.protocols import END, PADDING, START, UNKNOWN

AnyTrainer: TypeAlias = trainers.BpeTrainer | trainers.WordPieceTrainer
Kind = Literal["bpe", "characters", "words"]

SPECIAL = ("<pad>", "<start>", "<end>", "\N{REPLACEMENT CHARACTER}")
"""In the order of their numbers. No merge makes one of the first three: BPE here keeps letters and brackets apart."""
LEARNING = "Learning the vocabulary"


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
        """BPE keeps all 256 bytes, however small the vocabulary."""
        if kind == "bpe":
            return cls(kind, _merge_bytes(texts, vocabulary, SPECIAL))
        seen = tracked(texts, LEARNING)
        if kind == "characters":
            split, decoder = pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated"), decoders.Fuse()
            counts = Counter(chain.from_iterable(seen))
        else:
            split, decoder = pre_tokenizers.Whitespace(), None
            counts = Counter(word for text in seen for word, _ in split.pre_tokenize_str(text))
        model = models.WordLevel(_most_frequent(counts, vocabulary), unk_token=SPECIAL[UNKNOWN])
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.pre_tokenizer, tokenizer.decoder = split, decoder
        tokenizer.add_special_tokens(list(SPECIAL))
        return cls(kind, tokenizer)

    def __len__(self) -> int:
        return len(self._ids)

    independent_words = True

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self._tokenizer)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token numbers without start and end."""
        if self.kind == "characters":
            return [[self._ids.get(character, UNKNOWN) for character in text] for text in texts]
        return encode_all(self._tokenizer, texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text; padding, start and end say nothing. Words are joined by single spaces."""
        return self._tokenizer.decode([number for number in ids if number >= UNKNOWN], skip_special_tokens=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """A label for each token. A character of several tokens stands at the last of them, "…" at the others."""
        if self.kind != "bpe":
            return [self._texts[number] for number in ids]
        return byte_labels([SPECIAL[number] if number <= UNKNOWN else self._bytes(number) for number in ids])

    def save(self, path: Path) -> None:
        write_text(path, self._tokenizer.to_str(pretty=True))

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        rule = f"{path} must be the tokenizer that neuropil wrote"
        if not path.exists():
            raise RunError(rule, got="no such file", fix="train again or restore it")
        with refused_by_library(RunError(rule, got="a damaged file or another kind", fix="train again or restore it")):
            content = path.read_text(encoding="utf-8")
            tokenizer = parse_tokenizer(content)
            kind = KIND_OF_SPLIT[json.loads(content)["pre_tokenizer"]["type"]]
        if tuple(map(tokenizer.id_to_token, range(len(SPECIAL)))) != SPECIAL:
            raise RunError(rule, got="one with other special tokens", fix="train again or restore it")
        return cls(kind, tokenizer)

    def _bytes(self, number: int) -> bytes:
        return bytes_of(self._texts[number])


KIND_OF_SPLIT: dict[str, Kind] = {"ByteLevel": "bpe", "Split": "characters", "Whitespace": "words"}


# --- of the published kinds -------------------------------------------------------------------------------------------


def learn_merges(texts: Sequence[str], vocabulary: int) -> PublishedTokenizer:
    """GPT-2's: frequent neighbours become one token. All 256 bytes are kept, so that every text comes back."""
    special = FAMILIES["gpt2"].special
    return PublishedTokenizer(_merge_bytes(texts, vocabulary, sorted(set(special.values()))), "gpt2", special)


def learn_word_pieces(texts: Sequence[str], vocabulary: int) -> PublishedTokenizer:
    """BERT's: frequent words are one token, others are put together from pieces. Letters lose their case."""
    special = FAMILIES["bert"].special
    normalizer, split = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    learner = tokenizers.Tokenizer(models.WordPiece(unk_token=special["unk_token"]))
    learner.normalizer, learner.pre_tokenizer = normalizer, split
    # The library numbers letters inside words in an order that differs from run to run: here they are numbered first.
    words = (word for text in texts for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)))
    inside = {letter for word in words for letter in word[1:]}
    first = [*special.values(), *(f"{CONTINUED}{letter}" for letter in sorted(inside))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=first, continuing_subword_prefix=CONTINUED
    )
    _learn(learner, texts, trainer)
    tokenizer = tokenizers.Tokenizer(models.WordPiece(learner.get_vocab(), unk_token=special["unk_token"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, split
    tokenizer.add_special_tokens(list(special.values()))
    published.finish_word_pieces(tokenizer, special["cls_token"], special["sep_token"])
    return PublishedTokenizer(tokenizer, "bert", special)


def learn_clip_vocabulary(captions: Sequence[str], size: int) -> PublishedTokenizer:
    """CLIP's: bytes, bytes that end a word, merged pieces in the order of their merges, start and end of a text.

    At most `size` tokens, and no fewer than all bytes need, so that every text can be written in it.
    """
    letters = sorted(byte_of_letter())
    special = [FAMILIES["clip"].special[role] for role in ("bos_token", "eos_token")]
    base = [*letters, *(letter + WORD_END for letter in letters)]
    merges = _clip_merges(captions, max(0, size - len(base) - len(special)))
    vocabulary = dict.fromkeys([*base, *("".join(pair) for pair in merges), *special])
    with tempfile.TemporaryDirectory() as folder:
        write_text(Path(folder, "vocab.json"), json.dumps({token: number for number, token in enumerate(vocabulary)}))
        lines = "".join(f"{first} {second}\n" for first, second in merges)
        write_text(Path(folder, "merges.txt"), f"#version: 0.2\n{lines}")
        return PublishedTokenizer.load(folder)


def _clip_merges(captions: Sequence[str], most: int) -> list[tuple[str, str]]:
    """Pairs of pieces, the most frequent first."""
    learner = tokenizers.Tokenizer(models.BPE(end_of_word_suffix=WORD_END))
    learner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    learner.pre_tokenizer = published.split_for_clip()
    alphabet = sorted(byte_of_letter())
    # The trainer counts only those letters that it meets at the end of a word.
    size = 2 * len(alphabet) + most
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, end_of_word_suffix=WORD_END)
    _learn(learner, captions, trainer)
    merges = [(first, second) for first, second in json.loads(learner.to_str())["model"]["merges"]]
    return merges[:most]


def _merge_bytes(texts: Sequence[str], vocabulary: int, special: Sequence[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    known, alphabet = list(special), sorted(byte_of_letter())
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=known, initial_alphabet=alphabet)
    _learn(tokenizer, texts, trainer)
    return tokenizer


def _most_frequent(counts: Counter[str], vocabulary: int) -> dict[str, int]:
    ranked = sorted(counts.keys() - set(SPECIAL), key=lambda token: (-counts[token], token))
    return {token: number for number, token in enumerate([*SPECIAL, *ranked[: max(vocabulary - len(SPECIAL), 0)]])}


def _learn(tokenizer: tokenizers.Tokenizer, texts: Sequence[str], trainer: AnyTrainer) -> None:
    trainer.show_progress = False
    with own_threads():
        tokenizer.train_from_iterator(tracked(texts, LEARNING), trainer)
