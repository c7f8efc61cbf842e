import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.pictures.attention import LIGHT
from neuropil.inspection.pictures.rollout import LARGEST_SIDE, head_looks, rollouts, thinned
from neuropil.inspection.report.svg import figure_svg


def drawn(axes: object) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())  # type: ignore[attr-defined]


def test_a_picture_stands_beside_itself_lit_where_the_weight_is():
    look = torch.full((3, 4), 0.05)
    look[2, 1] = 0.3
    figure = rollouts([np.full((12, 16), 255, dtype=np.uint8)], [look], ["a title"])
    (axes,) = figure.axes
    assert axes.get_title() == "a title"
    pair = drawn(axes)
    assert pair.shape == (12, 16 + 1 + 16, 4)
    np.testing.assert_array_equal(pair[:, :16], np.ones((12, 16, 4)))
    lit = pair[:, 17:, :3]
    np.testing.assert_allclose(
        lit[9, 5], 0.8 * np.array(LIGHT) + 0.2 * 0.8, atol=0.08
    )  # light fades over between places
    np.testing.assert_allclose(lit[0, 0], [0.8] * 3)  # the least has no light


def test_pictures_may_have_different_sizes_and_the_last_row_may_be_short():
    images = [np.zeros((8, 8), dtype=np.uint8), np.zeros((20, 10, 3), dtype=np.uint8), np.zeros((8, 8), dtype=np.uint8)]
    figure = rollouts(images, [torch.rand(2, 2), torch.rand(5, 4), torch.rand(8, 8)], ["a", "b", "c"], columns=2)
    assert [len(axes.images) for axes in figure.axes] == [1, 1, 1, 0]


def test_heads_stand_in_rows_of_layers_over_their_pictures():
    figure = head_looks(
        np.zeros((12, 12), dtype=np.uint8),
        {"blocks.0.attention": torch.rand(2, 3, 3), "blocks.1.attention": torch.rand(2, 3, 3)},
    )
    assert [axes.get_ylabel() for axes in figure.axes] == ["blocks.0", "blocks.1"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["head 1", "head 2"]
    assert [text.xy for text in figure.axes[0].texts] == [(13 + 5.5, -0.5), (26 + 5.5, -0.5)]  # type: ignore[attr-defined]
    assert drawn(figure.axes[1]).shape == (12, 3 * 13 - 1, 4)


def test_a_photograph_is_thinned_out_and_a_page_stays_small():
    photograph = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    assert max(thinned(photograph).shape) == LARGEST_SIDE
    assert len(figure_svg(rollouts([photograph[::20, ::20]] * 6, [torch.rand(7, 7)] * 6, ["x"] * 6))) < 150_000


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(InputError) as error:
        rollouts([np.zeros((4, 4))], [], ["a"])
    assert (
        str(error.value)
        == "a picture of roll-outs needs weights and a title for each image, but got 1 images, 0 weights and 1 titles."
    )
    with pytest.raises(InputError) as error:
        head_looks(np.zeros((4, 4)), {})
    assert str(error.value) == "a picture of heads needs at least one layer, but got none."
