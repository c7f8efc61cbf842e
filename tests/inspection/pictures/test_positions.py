import numpy as np
import pytest
import torch

from neuropil.inspection.pictures.positions import position_encodings, position_maps, position_similarity
from neuropil.parts.positions import sinusoidal


def drawn(axes) -> np.ndarray:
    (image,) = axes.images
    return np.asarray(image.get_array())


def test_sines_and_cosines_are_drawn_apart_on_the_axis_of_their_dimensions():
    encodings = sinusoidal(20, 512)
    sines, cosines, _ = position_encodings(encodings).axes
    np.testing.assert_array_equal(drawn(sines), encodings[:, 0::2])
    np.testing.assert_array_equal(drawn(cosines), encodings[:, 1::2])
    assert cosines.get_title(loc="left") == "cosines: dimensions 1, 3 … 511"
    assert sines.images[0].get_clim() == (-1, 1)


def test_a_position_is_most_like_itself():
    encodings = sinusoidal(30, 64)
    pairs, fall, _ = position_similarity(encodings, {"d = 64": encodings @ encodings[0] / 32}).axes
    np.testing.assert_allclose(np.diag(drawn(pairs)), 1, rtol=1e-5)
    assert drawn(pairs).max() <= 1 + 1e-5
    assert np.asarray(fall.lines[1].get_ydata())[0] == pytest.approx(1)


GRID = (2, 3)


def test_each_place_has_a_map_at_its_place():
    likeness = torch.arange(36.0).reshape(6, 6) / 36
    figure = position_maps({"a": likeness, "b": -likeness}, GRID)
    board = drawn(figure.axes[0])
    assert board.shape == (2 * 3 - 1, 3 * 4 - 1)
    np.testing.assert_allclose(board[3:5, 4:7], likeness[4].reshape(2, 3))  # patch 4 is in row 1, column 1
    assert figure.axes[1].get_title(loc="center") == "b"


def test_one_kind_of_positions_is_enough():
    visible = [axes for axes in position_maps({"a": torch.eye(6)}, GRID).axes if axes.get_visible()]
    assert len(visible) == 2  # with the colour bar
