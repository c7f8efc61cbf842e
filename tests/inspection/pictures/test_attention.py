import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from neuropil.errors import InputError
from neuropil.inspection.pictures.attention import (
    HeadScores,
    head_importance,
    head_shares,
    loss_by_heads,
    patch_attention,
    scores_by_heads,
)
from neuropil.inspection.report.svg import figure_svg

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


IMPORTANCE = {"encoder": torch.tensor([3.0, 4.0, 0.0]), "decoder": np.array([2.0, -1.0]), "idle": np.zeros(1)}


def squares(axes: Axes) -> list[list[float]]:
    (image,) = axes.images
    return np.ma.filled(np.ma.asarray(image.get_array()), np.nan).tolist()


def test_each_head_is_a_square_in_units_of_its_layer_and_what_is_not_there_stays_empty():
    figure = head_importance(IMPORTANCE, {})
    np.testing.assert_allclose(squares(figure.axes[0]), [[0.6, 0.8, 0], [1, 0, np.nan], [0, np.nan, np.nan]], atol=1e-6)
    assert figure.axes[0].images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["encoder", "decoder", "idle"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0", "1", "2"]


def test_crosses_mark_the_heads_that_are_removed():
    figure = head_importance(IMPORTANCE, {"encoder": [0, 2], "idle": [0]})
    marks = [point for line in figure.axes[0].lines for point in np.asarray(line.get_xydata()).tolist()]
    assert marks == [[0, 0], [2, 0], [0, 2]]
    assert all(line.get_marker() == "x" for line in figure.axes[0].lines)


def test_scores_by_heads_are_means_with_their_range_and_a_bound():
    errors = HeadScores("errors", "mean squared error", {"": {1: [0.7, 0.9], 4: [0.1, 0.3]}}, {1: 0.6, 4: 0.0})
    shares = HeadScores("shares", "accuracy", {"a": {2: [0.5]}, "b": {2: [0.25]}})
    left, right = scores_by_heads([errors, shares], "heads", logarithmic=True).axes
    mean, bound = left.get_lines()
    np.testing.assert_allclose(np.asarray(mean.get_xydata()), [(1, 0.8), (4, 0.2)])
    np.testing.assert_allclose(np.asarray(bound.get_xydata()), [(1, 0.6), (4, 0.0)])
    np.testing.assert_allclose(left.collections[0].get_datalim(left.transData).intervaly, (0.1, 0.9))
    assert left.get_ylim()[0] == 0
    assert [text.get_text() for text in left.get_xticklabels()] == ["1", "4"]
    assert [line.get_label() for line in right.get_lines()] == ["a", "b"]


def test_shares_of_heads_stand_in_one_matrix_for_each_network_on_one_scale():
    figure = head_shares({"one head": np.full((1, 3), 0.25), "2 heads": np.array([[0.9, 0, 0], [0, 0.8, 0.1]])})
    few, many, _ = figure.axes
    assert [axes.get_title(loc="left") for axes in (few, many)] == ["one head", "2 heads"]
    np.testing.assert_allclose(np.asarray(many.images[0].get_array()), [[0.9, 0, 0], [0, 0.8, 0.1]])
    assert few.images[0].get_clim() == many.images[0].get_clim() == (0, 1)


def test_the_loss_is_drawn_against_the_number_of_heads_on_an_axis_from_zero():
    (axes,) = loss_by_heads({0: 0.5, 2: 0.6, 4: 2.0}).axes
    (line,) = axes.lines
    assert np.asarray(line.get_xydata()).tolist() == [[0, 0.5], [2, 0.6], [4, 2.0]]
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (lambda: head_importance({}, {}), "a picture of heads needs at least one layer, but got none."),
        (lambda: scores_by_heads([], "heads"), "a picture of scores by heads needs at least one panel, but got none."),
        (lambda: head_shares({}), "a picture of heads needs at least one network, but got none."),
        (lambda: loss_by_heads({}), "a picture of losses by heads needs at least one loss, but got none."),
    ],
)
def test_a_picture_of_nothing_is_refused(picture, message: str):
    with pytest.raises(InputError) as error:
        picture()
    assert str(error.value) == message


def test_every_picture_becomes_an_svg():
    for figure in (head_importance(IMPORTANCE, {"encoder": [0]}), loss_by_heads({0: 1.0})):
        assert figure_svg(figure).startswith("<svg")
