"""Phrases: two words that occur together far more often than apart become one, as in new_york (Mikolov et al. 2013).

    score(a, b) = (count(a b) − δ) / (count(a) count(b)) · N        N words in all

joins a and b where it is above a threshold. A second pass finds phrases of up to four words, a third of up to eight.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from neuropil.data.words.dataset import EncodedWords, NumberFile, Vocabulary

JOINED_BY = "_"
MOST_PAIRS = 50_000_000
"""Different pairs that are counted at the same time; where there are more, the rarest are forgotten."""


class WordPairs(NamedTuple):
    """Words that follow each other, in the order of their numbers, and how often they do."""

    first: Int64[np.ndarray, " pair"]
    second: Int64[np.ndarray, " pair"]
    times: Int64[np.ndarray, " pair"]

    def take(self, chosen: Bool[np.ndarray, " pair"]) -> "WordPairs":
        return WordPairs(*(column[chosen] for column in self))


def count_pairs(words: EncodedWords, size: int) -> WordPairs:
    keys, counts, rarest = np.empty(0, np.int64), np.empty(0, np.int64), 1
    for block in words.blocks():
        first, second = block[:-1].astype(np.int64), block[1:].astype(np.int64)
        new = (first * size + second)[(first >= 0) & (second >= 0)]
        found, times = np.unique(new, return_counts=True)
        keys, place = np.unique(np.concatenate([keys, found]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, times]), minlength=len(keys)).astype(np.int64)
        while len(keys) > MOST_PAIRS:
            keys, counts, rarest = keys[counts > rarest], counts[counts > rarest], rarest + 1
    return WordPairs(keys // size, keys % size, counts)


def phrase_scores(pairs: WordPairs, vocabulary: Vocabulary, discount: int) -> Float64[np.ndarray, " pair"]:
    """With N as the number of words that are in the vocabulary."""
    alone, total = vocabulary.counts.astype(np.float64), float(vocabulary.counts.sum())
    # score(a, b) = (count(a b) − δ) / (count(a) count(b)) · N
    return (pairs.times - discount) / (alone[pairs.first] * alone[pairs.second]) * total


def find_phrases(words: EncodedWords, vocabulary: Vocabulary, *, discount: int, threshold: float) -> WordPairs:
    """The pairs that are to be joined; `discount` is δ, below which no pair is a phrase."""
    pairs = count_pairs(words, len(vocabulary))
    return pairs.take(phrase_scores(pairs, vocabulary, discount) > threshold)


def with_phrases(vocabulary: Vocabulary, phrases: WordPairs) -> tuple[str, ...]:
    """The words, and after them the phrases."""
    names = vocabulary.words
    pairs = zip(phrases.first.tolist(), phrases.second.tolist(), strict=True)
    return names + tuple(f"{names[first]}{JOINED_BY}{names[second]}" for first, second in pairs)


def join_phrases(words: EncodedWords, phrases: WordPairs, size: int) -> EncodedWords:
    """From left to right, each word in one phrase at most; phrase i becomes the word `size` + i."""
    joined, keys = NumberFile(), phrases.first * size + phrases.second
    for block in words.blocks():
        joined.write(join(block, keys, size))
    return joined.mapped()


def join(words: Int32[np.ndarray, " place"], keys: Int64[np.ndarray, " phrase"], size: int) -> np.ndarray:
    first, second = words[:-1].astype(np.int64), words[1:].astype(np.int64)
    pairs = np.where((first >= 0) & (second >= 0), first * size + second, -1)
    phrase = np.searchsorted(keys, pairs)
    joins = keys[np.minimum(phrase, len(keys) - 1)] == pairs if len(keys) else np.zeros(len(pairs), bool)
    # Of phrases that overlap, as in a b c with a b and b c, the first is joined, then the third, and so on.
    places = np.arange(len(joins))
    before = np.maximum.accumulate(np.where(joins, -1, places)) if len(joins) else places
    joins &= (places - before) % 2 == 1
    joined = words.copy()
    joined[:-1][joins] = size + phrase[joins]
    return np.delete(joined, places[joins] + 1)
