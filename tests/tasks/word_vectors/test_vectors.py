import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from neuropil.errors import InputError
from neuropil.tasks.word_vectors.vectors import WordVectors, near_spellings

# Royalty on the first axis, sex on the second, fruit on the third.
TOY = {
    "man": [0.0, 1.0, 0.0],
    "woman": [0.0, -1.0, 0.0],
    "king": [1.0, 1.0, 0.0],
    "queen": [1.0, -1.0, 0.0],
    "apple": [0.0, 0.0, 1.0],
    "pear": [0.0, 0.2, 2.0],
}


@pytest.fixture
def toy() -> WordVectors:
    return WordVectors(list(TOY), torch.tensor(list(TOY.values())), counts=(9, 8, 7, 6, 5, 4))


def refusal(function, *words) -> str:
    with pytest.raises(InputError) as error:
        function(*words)
    return str(error.value)


def test_king_minus_man_plus_woman_is_queen(toy: WordVectors):
    assert toy.analogy("king", "man", "woman", count=1)[0].word == "queen"


def test_neighbours_are_the_words_with_the_largest_cosines_but_the_word_itself(toy: WordVectors):
    assert toy.neighbours("man", count=2) == [
        ("king", pytest.approx(0.5**0.5)),
        ("pear", pytest.approx(0.2 / (0.04 + 4) ** 0.5)),
    ]


def test_there_are_never_more_neighbours_than_other_words(toy: WordVectors):
    assert len(toy.neighbours(["man", "king", "man"], "apple", count=100)) == 3


def test_the_odd_one_out_is_a_man_among_fruit(toy: WordVectors):
    assert toy.odd_one_out(["apple", "man", "pear"]) == "man"
    assert [each.word for each in toy.centrality(["apple", "man", "pear"])] == ["pear", "apple", "man"]


def test_a_vector_of_zeros_is_like_no_other():
    vectors = WordVectors(["a", "b", "nothing"], torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    assert vectors.similarity("a", "nothing") == 0
    assert [each.cosine for each in vectors.neighbours("nothing")] == [0, 0]


@given(st_numpy.arrays("float32", (7, 3), elements=st.integers(-99, 99)), st.integers(0, 6))
def test_cosines_are_those_that_torch_computes(values, asked: int):
    x = torch.tensor(values)
    vectors = WordVectors([str(number) for number in range(7)], x)
    expected = torch.nn.functional.cosine_similarity(x, x[asked], dim=1, eps=1e-30)
    for other in range(7):
        assert vectors.similarity(str(asked), str(other)) == pytest.approx(float(expected[other]), abs=1e-5)
    for word, cosine in vectors.neighbours(str(asked)):
        assert cosine == pytest.approx(float(expected[int(word)]), abs=1e-5)


def test_the_most_frequent_words_keep_their_vectors_and_counts(toy: WordVectors):
    few = toy.most_frequent(3)
    assert list(few.words) == ["man", "woman", "king"]
    assert few.counts == (9, 8, 7)
    assert torch.equal(few["king"], toy["king"])
    assert "queen" not in few
    assert len(toy.most_frequent(100)) == 6


def test_the_vectors_are_not_copied(toy: WordVectors):
    toy.neighbours("king")
    assert toy.most_frequent(4).vectors.data_ptr() == toy.vectors.data_ptr()


def test_an_unknown_word_is_refused_with_near_spellings(toy: WordVectors):
    assert refusal(toy.neighbours, "quene") == (
        "a word must be one of the vocabulary's 6, but got 'quene': did you mean 'queen'?"
    )
    assert refusal(toy.neighbours, "Apple") == (
        "a word must be one of the vocabulary's 6, but got 'Apple': did you mean 'apple'?"
    )
    assert refusal(toy.analogy, "king", "man", "xylophone") == (
        "a word must be one of the vocabulary's 6, but got 'xylophone': choose a word of the corpus."
    )


def test_near_spellings_are_the_likeliest_first_and_of_equals_the_more_frequent():
    known = ["the", "word", "world", "words", "worm", "King", "ward"]
    assert near_spellings("worl", known) == ["world", "word", "worm"]
    assert near_spellings("KING", known) == ["King"]
    assert near_spellings("x", known) == []


def test_questions_that_have_no_answer_are_refused(toy: WordVectors):
    assert refusal(toy.neighbours, []) == "neighbours are those of one word or several, but got none."
    assert refusal(lambda: toy.neighbours("king", count=0)) == "count must be at least 1, but got 0."
    assert refusal(toy.centrality, ["king", "queen", "king"]) == (
        "an odd one is found among three different words or more, but got 2."
    )


def test_vectors_that_are_not_finite_are_refused_by_their_word():
    vectors = WordVectors(["a", "b"], torch.tensor([[1.0], [torch.nan]]))
    assert refusal(vectors.similarity, "a", "b") == "word vectors must be finite, but got another one for 'b'."


def test_there_is_a_vector_for_each_word():
    got = refusal(WordVectors, ["a", "b"], torch.zeros(3, 2))
    assert got == "there must be a vector for each word, but got 3 vectors for 2 words."


def test_an_analogy_needs_a_fourth_word(toy: WordVectors):
    words = toy.words[:3]
    with pytest.raises(InputError) as error:
        toy.most_frequent(3).analogy(*words)
    assert str(error.value) == (
        "there must be other words than those that are asked for, but got a vocabulary of these 3 alone: train on more "
        "text."
    )
