"""Phrases, beside gensim's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models.phrases import Phrases
from gensim.test.utils import datapath
from gensim.utils import simple_preprocess

from neuropil.data.formats.memory import in_memory
from neuropil.data.words.dataset import END, UNKNOWN, EncodedWords
from neuropil.data.words.files import WordDataConfig, prepare_words
from neuropil.data.words.phrases import WordPairs, count_pairs, join, join_phrases


def mikolov_score(worda_count, wordb_count, bigram_count, len_vocab, min_count, corpus_word_count):
    """Of word2phrase.c, whose N counts words; gensim's own counts different words."""
    return (bigram_count - min_count) / worda_count / wordb_count * corpus_word_count


@pytest.fixture(scope="module")
def texts() -> list[list[str]]:
    lines = Path(datapath("lee_background.cor")).read_text(encoding="utf-8").splitlines()
    return [simple_preprocess(line) for line in lines]


def test_phrases_are_those_of_gensim_with_the_same_score(texts: list[list[str]]):
    scoring: Any = mikolov_score
    theirs = Phrases(texts, min_count=1, threshold=200.0, scoring=scoring, delimiter="_")
    expected = {phrase for phrase, score in theirs.find_phrases(texts).items() if score > 200}
    data = in_memory({"train": texts, "test": texts[:20]}, parts=True)
    ours = prepare_words(WordDataConfig(data=data, validation=0.0, min_count=1, phrases=1, phrase_threshold=200.0))
    assert {word for word in ours.vocabulary.words if "_" in word} == expected
    assert len(expected) > 50


def test_a_second_pass_joins_phrases_of_more_words():
    texts = [["in", "new", "york", "city", "x", str(number)] for number in range(20)]
    data = in_memory({"train": texts, "test": texts[:2]}, parts=True)
    options = {"data": data, "validation": 0.0, "min_count": 2, "phrase_threshold": 2.0}
    once = prepare_words(WordDataConfig(phrases=1, **options)).vocabulary.words
    twice = prepare_words(WordDataConfig(phrases=2, **options)).vocabulary.words
    assert max(word.count("_") for word in once) == 1
    assert "in_new_york_city" in twice


def test_of_overlapping_phrases_the_first_is_joined():
    words = np.array([0, 1, 2, 1, 2, 3, END, 1, UNKNOWN, 2], np.int32)
    keys = np.sort(np.array([0 * 4 + 1, 1 * 4 + 2, 2 * 4 + 1]))  # 0 1, 1 2 and 2 1
    assert join(words, keys, 4).tolist() == [4, 6, 2, 3, END, 1, UNKNOWN, 2]


def test_without_phrases_words_stay_as_they_are():
    words = EncodedWords(np.array([0, 1, END, 1], np.int32))
    none = WordPairs(*(np.empty(0, np.int64) for _ in range(3)))
    assert join_phrases(words, none, 2).numbers.tolist() == [0, 1, END, 1]


def test_pairs_are_counted_within_sentences():
    words = EncodedWords(np.array([0, 1, 0, 1, END, 1, 1, UNKNOWN, 0], np.int32))
    first, second, count = count_pairs(words, 2)
    assert list(zip(first.tolist(), second.tolist(), count.tolist(), strict=True)) == [(0, 1, 2), (1, 0, 1), (1, 1, 1)]
