"""Weights between tokens, drawn."""

import numpy as np

from neuropil.inspection.pictures.tokens import token_weights


def test_every_token_has_its_place_and_spaces_are_visible():
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    figure = token_weights(weights, queries=["a", "b"], keys=["x", " ", "z"])
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "␣", "z"]
    np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), weights)
