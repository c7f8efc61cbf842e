"""Nearest tokens, beside scikit-learn's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from neuropil.errors import InputError
from neuropil.inspection.neighbours import neighbours


@settings(deadline=None, max_examples=25)
@given(number=st.integers(2, 30), width=st.integers(1, 9), count=st.integers(1, 40), seed=st.integers(0, 99))
def test_they_are_the_ones_with_the_largest_cosines(number: int, width: int, count: int, seed: int):
    torch.manual_seed(seed)
    embedding, token = torch.randn(number, width), seed % number
    found = neighbours(embedding, token, count)
    others = np.delete(cosine_similarity(embedding.numpy())[token], token)
    assert len(found) == min(count, number - 1)
    assert token not in {other.token for other in found}
    assert [other.cosine for other in found] == pytest.approx(sorted(others, reverse=True)[: len(found)], abs=1e-5)


def test_a_vector_of_zeros_is_like_nothing():
    embedding = torch.tensor([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    assert [tuple(other) for other in neighbours(embedding, 0)] == [(2, 1.0), (1, 0.0), (3, -1.0)]


def test_a_number_that_is_no_token_is_refused():
    with pytest.raises(InputError) as error:
        neighbours(torch.randn(5, 2), 5)
    assert str(error.value) == "a token's number must be from 0 to 4, but got 5."
