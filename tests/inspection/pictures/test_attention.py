import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from neuropil.errors import InputError
from neuropil.inspection.pictures.attention import (
    LIGHT,
    patch_attention,
    patch_averages,
    patch_looks,
    position_encodings,
    position_likeness,
    position_maps,
)
from neuropil.inspection.report.svg import figure_svg
from neuropil.parts.positions import sinusoidal

GRID = (2, 3)
IMAGES = torch.arange(2 * 4 * 6).reshape(2, 4, 6).to(torch.uint8)
WEIGHTS = torch.softmax(torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(0)), -1)


def drawn(axes) -> np.ndarray:
    (image,) = axes.images
    return np.asarray(image.get_array())


def test_every_picture_stands_over_its_matrices():
    figure = patch_attention(IMAGES, {"layer 1": WEIGHTS, "layer 2": 1 - WEIGHTS}, GRID, ["seven", "one"])
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="center") for axes in shown[:2]] == ["seven", "one"]
    np.testing.assert_array_equal(drawn(shown[1]), IMAGES[1])
    np.testing.assert_allclose(drawn(shown[2]), WEIGHTS[0])
    np.testing.assert_allclose(drawn(shown[5]), 1 - WEIGHTS[1])
    assert [axes.get_ylabel() for axes in shown[2:]] == ["layer 1\npatch", "", "layer 2\npatch", ""]


def test_patches_are_numbered_where_there_is_room_for_it():
    figure = patch_attention(IMAGES[:1], {"layer 1": WEIGHTS[:1]}, GRID, ["seven"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "3", "4", "5", "6"]
    assert len(figure.axes[0].lines) == 3
    many = patch_attention(torch.zeros(1, 16, 16), {"layer 1": torch.full((1, 64, 64), 1 / 64)}, (8, 8), ["black"])
    assert not many.axes[0].texts


def test_colour_is_drawn_in_colour():
    figure = patch_attention(IMAGES[..., None].expand(2, 4, 6, 3), {"layer 1": WEIGHTS}, GRID, ["a", "b"])
    assert drawn(figure.axes[0]).shape == (4, 6, 3)


def test_a_title_for_each_picture_is_needed():
    with pytest.raises(InputError) as error:
        patch_attention(IMAGES, {"layer 1": WEIGHTS}, GRID, ["seven"])
    assert str(error.value) == "a picture of attention needs one title for each image, but got 2 images and 1 titles."


def test_every_patch_is_framed_once_and_what_it_looks_at_most_is_lit_most():
    weights = torch.eye(6).roll(1, dims=1)  # patch i looks at patch i + 1
    figure = patch_looks(torch.zeros(4, 6), weights, GRID)
    corners = []
    for index, axes in enumerate(figure.axes):
        (frame,) = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        corners.append(frame.get_xy())
        row, column = divmod((index + 1) % 6, 3)
        lit = drawn(axes)
        assert (lit[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].sum() / lit.sum()).item() == pytest.approx(1)
    assert corners == [(2 * column - 0.5, 2 * row - 0.5) for row in range(2) for column in range(3)]
    brightest = drawn(figure.axes[0])[0, 2]
    np.testing.assert_allclose(brightest / np.array(LIGHT), [0.85] * 3)
    assert to_rgb(LIGHT) == LIGHT


def test_a_picture_that_patches_do_not_divide_is_lit_to_its_edge():
    figure = patch_looks(torch.zeros(3, 5), WEIGHTS[0], GRID)
    assert all(drawn(axes).shape == (3, 5, 3) for axes in figure.axes)


def test_averages_share_one_scale():
    figure = patch_averages(torch.zeros(2, 4, 6), torch.tensor([[0.5] + 5 * [0.1], 6 * [0.25]]), GRID, ["a", "b"])
    first, second = (drawn(axes) for axes in figure.axes)
    np.testing.assert_allclose(first[0, 0], 2 * second[0, 0])
    assert [axes.get_title(loc="center") for axes in figure.axes] == ["a", "b"]


def test_sines_and_cosines_are_drawn_apart_on_the_axis_of_their_dimensions():
    encodings = sinusoidal(20, 512)
    sines, cosines, _ = position_encodings(encodings).axes
    np.testing.assert_array_equal(drawn(sines), encodings[:, 0::2])
    np.testing.assert_array_equal(drawn(cosines), encodings[:, 1::2])
    assert cosines.get_title(loc="left") == "cosines: dimensions 1, 3 … 511"
    assert sines.images[0].get_clim() == (-1, 1)


def test_a_position_is_most_like_itself():
    encodings = sinusoidal(30, 64)
    pairs, fall, _ = position_likeness(encodings, {"d = 64": encodings @ encodings[0] / 32}).axes
    np.testing.assert_allclose(np.diag(drawn(pairs)), 1, rtol=1e-5)
    assert drawn(pairs).max() <= 1 + 1e-5
    assert np.asarray(fall.lines[1].get_ydata())[0] == pytest.approx(1)


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


def test_they_fit_into_a_report():
    for figure in (patch_looks(IMAGES[0], WEIGHTS[0], GRID), position_encodings(sinusoidal(20, 512))):
        assert len(figure_svg(figure)) < 150_000
