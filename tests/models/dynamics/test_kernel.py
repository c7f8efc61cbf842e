"""Series that stand for exp and log in the step of a network of populations, beside those of the standard library."""

import math

import numpy as np
import pytest

from neuropil.models.dynamics.kernel import exponentials, inverse_tangents, num_terms


@pytest.mark.parametrize("ratio", [0.001, 0.05, 0.5, 1.0])
def test_series_agree_with_the_standard_library_up_to_the_longest_step(ratio: float):
    x, values = np.linspace(-ratio, 0.0, 101), np.empty(101)
    exponentials(x, values, num_terms(ratio))
    np.testing.assert_allclose(values, [math.exp(each) for each in x], rtol=4e-16)
    x = np.linspace(1e-9, math.tanh(ratio / 2), 101)
    inverse_tangents(x, values, num_terms(ratio))
    np.testing.assert_allclose(values, [math.atanh(each) / each for each in x], rtol=1e-15)


@pytest.mark.parametrize("ratio", [0.05, 1.0])
def test_fewer_terms_would_be_too_few(ratio: float):
    values, fewer = np.empty(1), num_terms(ratio) - 2
    errors = []
    for series, x, truth in (
        (exponentials, -ratio, math.exp(-ratio)),
        (inverse_tangents, math.tanh(ratio / 2), ratio / 2 / math.tanh(ratio / 2)),
    ):
        series(np.array([x]), values, fewer)
        errors.append(abs(values[0] / truth - 1))
    assert max(errors) > 4e-16
