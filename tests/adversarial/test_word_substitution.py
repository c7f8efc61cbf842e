"""Words substituted by near ones, in a classifier whose weakness is known."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.adversarial.word_substitution import Neighbours, SubstitutionConfig, substitute_words

#                   unknown  good   fine   bad    awful   film   movie
VALUE = torch.tensor([0.0, 2.0, 1.0, -2.0, -1.0, 0.0, 0.0])
EMBEDDING = torch.tensor([[0, 0], [1, 0], [1, 0.1], [-1, 0], [-1, 0.2], [0, 1], [0.1, 1]]).float()
ALLOWED = torch.arange(7) > 0
GOOD, FINE, BAD, AWFUL, FILM, MOVIE = range(1, 7)


def logits(tokens: Tensor) -> Tensor:
    """Class 1 where the values of the words add up to more than 0.5."""
    total = VALUE[tokens].sum(-1) - 0.5
    return torch.stack([-total, total], -1)


def near(**options: float) -> Neighbours:
    return Neighbours(EMBEDDING, ALLOWED, SubstitutionConfig().override(**options))


def test_neighbours_are_the_nearest_by_cosine_that_are_allowed():
    assert near(candidates=1).of(GOOD) == [FINE]
    assert near(similarity=0.05).of(FILM) == [MOVIE, AWFUL, FINE]
    assert near(similarity=0.999).of(FILM) == []


def test_the_word_that_matters_most_is_substituted_first_and_no_more_than_needed():
    tokens = torch.tensor([FILM, GOOD, FILM, FINE, AWFUL, AWFUL])  # 2 + 1 − 1 − 1 = 1: class 1
    found = substitute_words(logits, tokens, 1, near(words=1.0), unknown=0)
    assert (found.before, found.after, found.success) == (1, 0, True)
    assert found.changed == [1]
    assert found.tokens.tolist() == [FILM, FINE, FILM, FINE, AWFUL, AWFUL]


def test_no_more_words_are_substituted_than_allowed():
    tokens = torch.tensor([GOOD, GOOD, GOOD, GOOD, FILM])
    found = substitute_words(logits, tokens, 1, near(words=0.4), unknown=0)
    assert not found.success
    assert len(found.changed) == 2


def test_a_target_is_reached_or_not():
    tokens = torch.tensor([FINE, FILM])
    assert substitute_words(logits, tokens, 1, near(words=1.0), unknown=0, target=1).changed == []
    found = substitute_words(logits, torch.tensor([AWFUL, FINE]), 0, near(words=1.0), unknown=0, target=1)
    assert (found.before, found.after, found.success) == (0, 1, True)


def test_what_may_not_be_substituted_stays():
    tokens = torch.tensor([GOOD, 0])
    places = torch.tensor([False, False])
    assert substitute_words(logits, tokens, 1, near(words=1.0), unknown=0, places=places).changed == []


@given(tokens=st.lists(st.integers(0, 6), min_size=1, max_size=12), words=st.floats(0.05, 1))
def test_the_right_class_never_gains(tokens: list[int], words: float):
    text = torch.tensor(tokens)
    label = int(logits(text[None]).argmax())
    found = substitute_words(logits, text, label, near(words=words), unknown=0)
    before, after = (logits(each[None]).softmax(-1)[0, label].item() for each in (text, found.tokens))
    assert after <= before + 1e-6
    assert found.success == (found.after != label)
    replaceable = sum(token > 0 for token in tokens)
    assert len(found.changed) <= max(1, int(words * replaceable))
    assert all(tokens[place] > 0 for place in found.changed)


@pytest.mark.parametrize("texts", [[0, 0], [0]])
def test_a_text_without_words_is_left_as_it_is(texts: list[int]):
    assert substitute_words(logits, torch.tensor(texts), 0, near(), unknown=0).changed == []
