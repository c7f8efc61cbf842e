"""word2vec's sampling beside gensim's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import Word2Vec as Gensim
from gensim.test.utils import datapath
from gensim.utils import simple_preprocess

from neuropil.data.formats.memory import in_memory
from neuropil.data.words.dataset import Vocabulary
from neuropil.data.words.files import WordDataConfig, prepare_words
from neuropil.models.word2vec.learner import keep_chances, noise_chances

SAMPLE = 1e-3


@pytest.fixture(scope="module")
def texts() -> list[list[str]]:
    lines = Path(datapath("lee_background.cor")).read_text(encoding="utf-8").splitlines()
    return [simple_preprocess(line) for line in lines]


@pytest.fixture(scope="module")
def vocabulary(texts: list[list[str]]) -> Vocabulary:
    data = in_memory({"train": texts, "test": texts[:20]}, parts=True)
    return prepare_words(WordDataConfig(data=data, validation=0.0)).vocabulary


@pytest.fixture(scope="module")
def theirs(texts: list[list[str]]) -> Any:
    model = Gensim(vector_size=4, min_count=5, sample=SAMPLE, ns_exponent=0.75)
    model.build_vocab(texts)
    return model


def test_the_vocabulary_has_the_same_words_with_the_same_counts(vocabulary: Vocabulary, theirs: Any):
    counts = {word: theirs.wv.get_vecattr(word, "count") for word in theirs.wv.index_to_key}
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)) == counts


def test_words_are_subsampled_with_the_same_chances(vocabulary: Vocabulary, theirs: Any):
    chances = [theirs.wv.get_vecattr(word, "sample_int") / 2**32 for word in vocabulary.words]
    assert keep_chances(vocabulary.counts, SAMPLE) == pytest.approx(np.array(chances), abs=1e-6)


def test_negative_samples_have_the_same_distribution(vocabulary: Vocabulary, theirs: Any):
    chances = np.diff(theirs.cum_table, prepend=0) / theirs.cum_table[-1]
    expected = chances[[theirs.wv.key_to_index[word] for word in vocabulary.words]]
    assert noise_chances(vocabulary.counts, 0.75) == pytest.approx(expected, abs=1e-8)
