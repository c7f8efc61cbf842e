"""What a report shows of word vectors: a map of the vocabulary and neighbours of frequent words."""

import unicodedata

import torch

from neuropil.inspection.report.page import Html, Section, Table
from neuropil.inspection.report.word_map import MappedWord, word_map_html
from neuropil.inspection.word_map import word_map
from neuropil.tasks.word_vectors.vectors import WordVectors

MAPPED, NEAR = 400, 8
"""Words on the map, and neighbours of each that it shows."""
IN_TABLE, NEAR_IN_TABLE = 12, 6
SKIPPED = 100
"""Most frequent words, in any language hardly one with a meaning of its own."""


def map_section(vectors: WordVectors) -> Section:
    words = [word for word in vectors.words if has_letter(word)][:MAPPED] or vectors.words[:MAPPED]
    points = word_map(torch.stack([vectors[word] for word in words])).tolist()
    mapped = [
        MappedWord(word, (x, y), vectors.counts[vectors.number(word)] if vectors.counts else None, near)
        for word, (x, y), near in zip(words, points, vectors.neighbours_of_each(words, NEAR), strict=True)
    ]
    about = (
        f"The {len(words):,} most frequent words of {len(vectors):,}, by t-SNE of their vectors at unit length: near "
        "each other are words that are used alike; distances between groups say little. Larger dots are more frequent."
    )
    return Section.of("Map of the vocabulary", about, Html(word_map_html(mapped)))


def neighbours_section(vectors: WordVectors) -> Section:
    rows = []
    for word in content_words(vectors)[:IN_TABLE]:
        near = ", ".join(f"{other} {cosine:.2f}" for other, cosine in vectors.neighbours(word, count=NEAR_IN_TABLE))
        count = [vectors.counts[vectors.number(word)]] if vectors.counts else []
        rows.append([word, *count, near])
    header = ["word", *(["count"] if vectors.counts else []), "nearest words, with their cosines"]
    words = "The nearest neighbours of some frequent words, by the cosine of their vectors."
    return Section.of("Neighbours", words, Table(header, rows))


def content_words(vectors: WordVectors) -> list[str]:
    """Frequent words that stand for something: of English without its stop words, else from some rank on."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    english = sum(word.lower() in ENGLISH_STOP_WORDS for word in vectors.words[:20]) >= 5
    words = vectors.words if english else vectors.words[min(SKIPPED, len(vectors) // 20) :]
    return [word for word in words if len(word) > 2 and word.isalpha() and word.lower() not in ENGLISH_STOP_WORDS]


def has_letter(word: str) -> bool:
    return any(unicodedata.category(letter).startswith("L") for letter in word)
