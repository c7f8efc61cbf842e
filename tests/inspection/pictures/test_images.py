import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from neuropil.data.captions.embedded import make_scenes
from neuropil.errors import InputError
from neuropil.inspection.pictures.images import (
    LARGEST_SIDE,
    LIGHT,
    MOST_WORDS,
    activation_rows,
    caption_overlays,
    head_overlays,
    image_grid,
    overlay,
    patch_overlays,
    received_attention,
    rgb,
    rollout_overlays,
    similarity_matrix,
    thinned,
)
from neuropil.inspection.pictures.positions import position_encodings
from neuropil.inspection.report.svg import figure_svg
from neuropil.parts.positions import sinusoidal

GRID = (2, 3)


def drawn(axes) -> np.ndarray:
    (image,) = axes.images
    return np.asarray(image.get_array())


def test_every_patch_is_framed_once_and_what_it_looks_at_most_is_lit_most():
    weights = torch.eye(6).roll(1, dims=1)  # patch i looks at patch i + 1
    figure = patch_overlays(torch.zeros(4, 6), weights, GRID)
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


WEIGHTS = torch.softmax(torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(0)), -1)


def test_a_picture_that_patches_do_not_divide_is_lit_to_its_edge():
    figure = patch_overlays(torch.zeros(3, 5), WEIGHTS[0], GRID)
    assert all(drawn(axes).shape == (3, 5, 3) for axes in figure.axes)


def test_averages_share_one_scale():
    figure = received_attention(torch.zeros(2, 4, 6), torch.tensor([[0.5] + 5 * [0.1], 6 * [0.25]]), GRID, ["a", "b"])
    first, second = (drawn(axes) for axes in figure.axes)
    np.testing.assert_allclose(first[0, 0], 2 * second[0, 0])
    assert [axes.get_title(loc="center") for axes in figure.axes] == ["a", "b"]


IMAGES = torch.arange(2 * 4 * 6).reshape(2, 4, 6).to(torch.uint8)


def test_they_fit_into_a_report():
    for figure in (patch_overlays(IMAGES[0], WEIGHTS[0], GRID), position_encodings(sinusoidal(20, 512))):
        assert len(figure_svg(figure)) < 150_000


def test_light_lies_where_it_was_looked():
    look = np.zeros((3, 4))
    look[2, 1] = 1
    dark = overlay(np.zeros((12, 16, 3)), look)
    bright = np.unravel_index(dark.sum(-1).argmax(), (12, 16))
    assert 8 <= bright[0] < 12
    assert 4 <= bright[1] < 8
    np.testing.assert_allclose(dark[10, 5] / np.array(LIGHT), [0.8] * 3, atol=0.05)
    assert not dark[:3].any()


def test_each_picture_stands_before_its_words():
    images = [torch.full((6, 6), 255, dtype=torch.uint8), torch.zeros(6, 6, dtype=torch.uint8)]
    weights = [torch.ones(3, 2, 2), torch.ones(MOST_WORDS + 4, 2, 2)]
    words = [["a", "seven", "◁"], [f"w{index}" for index in range(MOST_WORDS + 4)]]
    lines = caption_overlays(images, weights, words).axes
    assert [[text.get_text() for text in axes.texts] for axes in lines] == [
        words[0],
        words[1][:MOST_WORDS],
        words[1][MOST_WORDS:],
    ]
    first, _, last = (np.asarray(axes.images[0].get_array()) for axes in lines)
    assert first.shape == (6, 7 * (MOST_WORDS + 1) - 1, 4)
    np.testing.assert_array_equal(first[:, :6], np.ones((6, 6, 4)))
    there = [
        [bool(line[:, 7 * place : 7 * place + 6, 3].all()) for place in range(MOST_WORDS + 1)] for line in (first, last)
    ]
    assert there == [[True] * 4 + [False] * (MOST_WORDS - 3), [False] + [True] * 4 + [False] * (MOST_WORDS - 4)]
    assert not first[:, 6, 3].any()  # a gap


def test_a_word_stands_over_the_middle_of_its_picture():
    (axes,) = caption_overlays([torch.zeros(6, 6)], [torch.ones(2, 2, 2)], [["a", "seven"]]).axes
    assert [getattr(text, "xy", None) for text in axes.texts] == [(7 + 2.5, -0.5), (14 + 2.5, -0.5)]


def test_colour_stays_colour():
    image = np.zeros((2, 2, 3), dtype=np.uint8)
    image[..., 1] = 255
    np.testing.assert_array_equal(rgb(image)[0, 0], [0, 1, 0])
    np.testing.assert_array_equal(rgb(image[..., 1])[0, 0], [1, 1, 1])


def test_a_drawing_is_small_enough_for_a_page():
    images = list(make_scenes(4, 0, 1).train.pictures[:, 0])
    figure = caption_overlays(images, [torch.rand(11, 6, 6) for _ in images], [["word"] * 11 for _ in images])
    assert len(figure_svg(figure)) < 150_000


def test_weights_and_words_are_needed_for_each_picture():
    with pytest.raises(InputError) as error:
        caption_overlays([torch.zeros(4, 4)], [], [["a"]])
    assert str(error.value) == (
        "a picture of attention over images needs weights and words for each image, but got 1 images, 0 weights and "
        "1 captions."
    )


@pytest.mark.parametrize("shape", [(5, 8, 8), (3, 4, 6, 3), (1, 2, 2)])
def test_a_grid_shows_every_image_under_its_caption(shape: tuple[int, ...]):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    captions = [f"image {index}" for index in range(len(images))]
    drawn = [axes for axes in image_grid(images, captions, columns=2).axes if axes.images]
    assert [axes.get_title(loc="center") for axes in drawn] == captions
    for axes, image in zip(drawn, images, strict=True):
        np.testing.assert_array_equal(np.asarray(axes.images[0].get_array()), image)


def test_bytes_are_drawn_as_they_are_and_numbers_on_their_own_scale():
    for images, limits in ((np.full((1, 2, 2), 100, np.uint8), (0, 255)), (np.array([[[1.0, 3.0]]]), (1, 3))):
        (axes,) = [axes for axes in image_grid(images).axes if axes.images]
        assert axes.images[0].get_clim() == limits


def test_too_few_captions_are_refused():
    with pytest.raises(InputError) as error:
        image_grid(np.zeros((2, 4, 4)), ["only one"])
    assert str(error.value) == "a grid of images needs one caption for each, but got 2 images and 1 captions."


def test_a_picture_stands_beside_itself_lit_where_the_weight_is():
    look = torch.full((3, 4), 0.05)
    look[2, 1] = 0.3
    figure = rollout_overlays([np.full((12, 16), 255, dtype=np.uint8)], [look], ["a title"])
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
    figure = rollout_overlays(
        images, [torch.rand(2, 2), torch.rand(5, 4), torch.rand(8, 8)], ["a", "b", "c"], columns=2
    )
    assert [len(axes.images) for axes in figure.axes] == [1, 1, 1, 0]


def test_heads_stand_in_rows_of_layers_over_their_pictures():
    figure = head_overlays(
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
    assert len(figure_svg(rollout_overlays([photograph[::20, ::20]] * 6, [torch.rand(7, 7)] * 6, ["x"] * 6))) < 150_000


def test_overlays_need_weights_and_titles_for_each_image():
    with pytest.raises(InputError) as error:
        rollout_overlays([np.zeros((4, 4))], [], ["a"])
    assert (
        str(error.value)
        == "a picture of roll-outs needs weights and a title for each image, but got 1 images, 0 weights and 1 titles."
    )
    with pytest.raises(InputError) as error:
        head_overlays(np.zeros((4, 4)), {})
    assert str(error.value) == "a picture of heads needs at least one layer, but got none."


def test_a_caption_a_row_a_picture_a_column_and_its_own_is_framed():
    similarity = torch.tensor([[0.9, 0.1], [-0.2, 0.5], [0.3, 0.4]])  # three pictures, two captions
    figure = similarity_matrix(
        similarity, [np.zeros((4, 4), dtype=np.uint8)] * 3, ["a seven", "a two left of a five and a nine below it"]
    )
    *pictures, cells = figure.axes
    assert len(pictures) == 3
    np.testing.assert_allclose(np.asarray(cells.images[0].get_array()), similarity.T)
    written = [text.get_text() for text in cells.texts]
    assert written == [
        "0.90",
        "−0.20",
        "0.30",
        "0.10",
        "0.50",
        "0.40",
        "a seven",
        "a two left of a five and a nine\nbelow it",
    ]
    assert [patch.get_xy() for patch in cells.patches] == [(-0.47, -0.47), (0.53, 0.53)]  # type: ignore[attr-defined]


def test_the_pictures_stand_over_their_columns():
    figure = similarity_matrix(torch.eye(8), [np.zeros((4, 4), dtype=np.uint8)] * 8, ["a"] * 8)
    *pictures, cells = figure.axes
    left, width = cells.get_position().x0, cells.get_position().width / 8
    for place, axes in enumerate(pictures):
        box = axes.get_position(original=True)
        assert (box.x0 + box.x1) / 2 == pytest.approx(left + (place + 0.5) * width)


def test_a_similarity_matrix_needs_a_number_for_each_pair():
    with pytest.raises(InputError) as error:
        similarity_matrix(torch.rand(2, 3), [np.zeros((4, 4))] * 2, ["a", "b"])
    assert str(error.value) == (
        "a picture of similarities needs a number for each image with each caption, but got 2×3 numbers, 2 images "
        "and 2 captions."
    )


def test_activation_maps_are_red_and_blue_up_to_their_own_scale():
    maps = np.array([[[2.0, -2.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.0]]])
    (axes,) = activation_rows({"stem": maps}, {"stem": [7, 3]}).axes
    (image,) = axes.images
    pixels = np.asarray(image.get_array())[..., :3]
    red, blue = pixels[0, 0], pixels[0, 1]
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    np.testing.assert_allclose(pixels[0, 3], red)  # the largest of the second map, beside a gap of one
    assert [text.get_text() for text in axes.texts] == ["7: 2", "3: 0.5"]
