import pytest
import torch

from neuropil.errors import InputError
from neuropil.tasks.word_vectors import scores
from neuropil.tasks.word_vectors.questions import AnalogyQuestions, SimilarityPairs
from neuropil.tasks.word_vectors.scores import analogy_scores, similarity_scores
from neuropil.tasks.word_vectors.vectors import WordVectors

WORDS = {
    "man": [0.0, 1.0, 0.1],
    "woman": [0.0, -1.0, 0.1],
    "king": [1.0, 1.0, 0.0],
    "queen": [1.0, -1.0, 0.0],
    "Queen": [-1.0, 0.0, 1.0],
    "apple": [0.0, 0.0, 1.0],
}


@pytest.fixture
def toy() -> WordVectors:
    return WordVectors(list(WORDS), torch.tensor(list(WORDS.values())))


def test_the_accuracy_is_that_of_each_section_and_of_all_known_analogies(
    toy: WordVectors, monkeypatch: pytest.MonkeyPatch
):
    questions = AnalogyQuestions(
        {
            "royal": [("man", "king", "woman", "QUEEN"), ("woman", "queen", "man", "apple")],
            "fruit": [("man", "king", "woman", "pear")],
            "people": [("king", "man", "queen", "woman")],
        }
    )
    expected = {
        "accuracy": 2 / 3,
        "out_of_vocabulary": 1 / 4,
        "accuracy_of_royal": 1 / 2,
        "accuracy_of_people": 1.0,
    }
    assert analogy_scores(toy, questions) == pytest.approx(expected)
    monkeypatch.setattr(scores, "COSINES_AT_ONCE", 1)  # one question after the other
    assert analogy_scores(toy, questions) == pytest.approx(expected)


def test_only_the_most_frequent_words_are_compared_with(toy: WordVectors):
    questions = AnalogyQuestions({"royal": [("man", "king", "woman", "queen"), ("king", "man", "man", "apple")]})
    assert analogy_scores(toy, questions, vocabulary_size=4) == pytest.approx(
        {"accuracy": 1.0, "out_of_vocabulary": 0.5, "accuracy_of_royal": 1.0}
    )


def test_pairs_in_the_order_of_their_cosines_have_a_rank_correlation_of_one(toy: WordVectors):
    pairs = [("man", "king"), ("man", "woman"), ("Apple", "apple"), ("man", "pear")]
    found = similarity_scores(toy, SimilarityPairs(pairs, [5.0, 1.0, 9.5, 3.0]))
    assert found["spearman"] == pytest.approx(1)
    assert 0.9 < found["pearson"] < 1
    assert found["out_of_vocabulary"] == 0.25


def test_what_has_no_known_words_is_refused(toy: WordVectors):
    with pytest.raises(InputError) as error:
        analogy_scores(toy, AnalogyQuestions({"": [("a", "b", "c", "d")]}))
    assert str(error.value) == "some analogies must be of words among the vocabulary's 6, but got none of 1."
    with pytest.raises(InputError) as error:
        similarity_scores(toy, SimilarityPairs([("man", "king"), ("a", "b")], [1.0, 2.0]))
    assert str(error.value) == "two pairs or more must be of words among the vocabulary's 6, but got 1 of 2."


def test_a_correlation_with_what_does_not_vary_is_refused(toy: WordVectors):
    with pytest.raises(InputError) as error:
        similarity_scores(toy, SimilarityPairs([("man", "king"), ("man", "woman"), ("man", "pear")], [4.0, 4.0, 1.0]))
    assert str(error.value) == (
        "a correlation is that of judgements which differ from pair to pair, but got 4 for each of 2 pairs."
    )
    with pytest.raises(InputError) as error:
        similarity_scores(toy, SimilarityPairs([("man", "man"), ("apple", "apple")], [4.0, 1.0]))
    assert str(error.value) == (
        "a correlation is that of cosines which differ from pair to pair, but got 1 for each of 2 pairs."
    )


def test_an_analogy_of_all_words_that_there_are_has_no_answer(toy: WordVectors):
    questions = AnalogyQuestions({"royal": [("man", "king", "woman", "man")]})
    assert analogy_scores(toy, questions, vocabulary_size=3)["accuracy"] == 0
