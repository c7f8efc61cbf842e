"""Queries, scores and files of word vectors beside gensim's, on vectors that gensim trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors, Word2Vec
from gensim.test.utils import datapath
from gensim.utils import simple_preprocess

from neuropil.data.formats.paths import opened
from neuropil.pretrained.word_vectors import read_vectors, write_vectors
from neuropil.tasks.word_vectors.questions import AnalogyQuestions, SimilarityPairs, read_questions
from neuropil.tasks.word_vectors.scores import analogy_scores, similarity_scores
from neuropil.tasks.word_vectors.vectors import SimilarWord, WordVectors

WORDSIM, SIMLEX, ANALOGIES = map(datapath, ("wordsim353.tsv", "simlex999.txt", "questions-words.txt"))


@pytest.fixture(scope="module")
def theirs() -> Any:
    """Of the news of the Lee corpus; one thread, so that they are the same each time."""
    texts = [simple_preprocess(line) for line in Path(datapath("lee_background.cor")).read_text().splitlines()]
    return Word2Vec(texts, vector_size=24, min_count=3, epochs=4, sg=1, seed=1, workers=1).wv


@pytest.fixture(scope="module")
def ours(theirs: Any) -> WordVectors:
    return vectors_of(theirs)


def vectors_of(theirs: Any) -> WordVectors:
    return WordVectors(theirs.index_to_key, torch.from_numpy(theirs.vectors))


def assert_same(found: list[SimilarWord], expected: list[tuple[str, float]]) -> None:
    """In value and in order; of two words whose cosines differ by less than rounding does, either may be first."""
    cosines = [cosine for _, cosine in expected]
    assert [cosine for _, cosine in found] == pytest.approx(cosines, abs=1e-6)
    by_word = dict(expected)
    assert [by_word.get(word, cosines[-1]) for word, _ in found] == pytest.approx(cosines, abs=1e-6)


def test_neighbours_are_those_of_gensim(theirs: Any, ours: WordVectors):
    for word in theirs.index_to_key[::100]:
        assert_same(ours.neighbours(word, count=25), theirs.most_similar(word, topn=25))
    words = theirs.index_to_key
    assert_same(ours.neighbours(words[5:9], words[20:22]), theirs.most_similar(words[5:9], words[20:22]))


def test_analogies_are_those_of_gensim(theirs: Any, ours: WordVectors):
    for a, b, c in zip(theirs.index_to_key[::90], theirs.index_to_key[3::80], theirs.index_to_key[7::70], strict=False):
        assert_same(ours.analogy(a, b, c), theirs.most_similar(positive=[a, c], negative=[b]))


def test_the_odd_one_out_is_that_of_gensim(theirs: Any, ours: WordVectors):
    for begin in range(0, 900, 45):
        words = theirs.index_to_key[begin : begin + 180 : 36]
        expected = [(word, cosine) for cosine, word in theirs.rank_by_centrality(words)]
        assert_same(ours.centrality(words), expected)
        assert ours.odd_one_out(words) == theirs.doesnt_match(words)


def test_similarities_are_those_of_gensim(theirs: Any, ours: WordVectors):
    for word, other in zip(theirs.index_to_key[::60], theirs.index_to_key[9::50], strict=False):
        assert ours.similarity(word, other) == pytest.approx(theirs.similarity(word, other), abs=1e-6)


@pytest.mark.parametrize("path", [WORDSIM, SIMLEX])
def test_correlations_with_people_are_those_of_gensim(theirs: Any, ours: WordVectors, path: str):
    pearson, spearman, unknown = theirs.evaluate_word_pairs(path)
    judged = read_questions(Path(path))
    assert isinstance(judged, SimilarityPairs)
    found = similarity_scores(ours, judged)
    assert found["pearson"] == pytest.approx(pearson[0], abs=1e-6)
    assert found["spearman"] == pytest.approx(spearman[0], abs=1e-6)
    assert 100 * found["out_of_vocabulary"] == pytest.approx(unknown)


def test_analogy_accuracies_are_those_of_gensim_section_by_section(tmp_path: Path):
    """On random vectors under which every third analogy holds, each word in three spellings."""
    lines = [
        line
        for number, line in enumerate(Path(ANALOGIES).read_text().splitlines())
        if number % 40 == 0 or line[0] == ":"
    ]
    (tmp_path / "analogies.txt").write_text("\n".join(lines))
    analogies = [line.split() for line in lines if line[0] != ":"]
    generator = np.random.default_rng(0)
    places = {word: generator.normal(size=8) for analogy in analogies for word in analogy}
    for a, b, c, d in analogies[::3]:
        places[d] = places[b] - places[a] + places[c]
    spellings = {spelt(word): place for word, place in places.items() for spelt in (str, str.upper, str.lower)}
    theirs: Any = KeyedVectors(8)
    near = [place + 0.1 * generator.normal(size=8) for place in spellings.values()]
    theirs.add_vectors(list(spellings), np.array(near, dtype=np.float32))
    known = int(0.9 * len(spellings))
    accuracy, sections = theirs.evaluate_word_analogies(str(tmp_path / "analogies.txt"), restrict_vocab=known)
    counts = {each["section"]: (len(each["correct"]), len(each["incorrect"])) for each in sections}
    expected = {name: right / (right + wrong) for name, (right, wrong) in counts.items() if right + wrong}
    questions = read_questions(tmp_path / "analogies.txt")
    assert isinstance(questions, AnalogyQuestions)
    found = analogy_scores(vectors_of(theirs), questions, vocabulary_size=known)
    assert 0.1 < found["accuracy"] == accuracy < 0.5
    assert found.pop("out_of_vocabulary") == pytest.approx(1 - sum(counts["Total accuracy"]) / len(analogies))
    assert {name.removeprefix("accuracy_of_"): share for name, share in found.items()} == {
        "accuracy": expected.pop("Total accuracy"),
        **expected,
    }


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # gensim's
@pytest.mark.parametrize("name", ["v.bin", "v.vec", "v.txt", "v.bin.gz", "v.vec.gz", "v.txt.gz"])
def test_files_are_exchanged_with_gensim_both_ways(theirs: Any, tmp_path: Path, name: str):
    binary, header = ".bin" in name, ".txt" not in name
    theirs.save_word2vec_format(str(tmp_path / f"theirs-{name}"), binary=binary, write_header=header)
    words, vectors = read_vectors(tmp_path / f"theirs-{name}")
    assert words == theirs.index_to_key
    assert np.array_equal(vectors.numpy(), theirs.vectors)
    write_vectors(tmp_path / name, words, vectors, None if header else "glove")
    again = KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=binary, no_header=not header)
    assert again.index_to_key == words
    assert np.array_equal(again.vectors, theirs.vectors)
    with opened(tmp_path / name) as ours, opened(tmp_path / f"theirs-{name}") as expected:
        assert ours.read() == expected.read()


@pytest.mark.parametrize("name", ["high_precision.kv.bin", "high_precision.kv.txt", "euclidean_vectors.bin"])
def test_files_that_came_with_gensim_are_read_as_it_does(name: str):
    expected = KeyedVectors.load_word2vec_format(datapath(name), binary=name.endswith("bin"))
    words, vectors = read_vectors(Path(datapath(name)))
    assert words == expected.index_to_key
    assert np.array_equal(vectors.numpy(), expected.vectors)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # gensim's
def test_a_file_of_glove_is_read_as_gensim_does():
    expected = KeyedVectors.load_word2vec_format(datapath("test_glove.txt"), no_header=True)
    words, vectors = read_vectors(Path(datapath("test_glove.txt")))
    assert words == expected.index_to_key
    assert np.array_equal(vectors.numpy(), expected.vectors)
