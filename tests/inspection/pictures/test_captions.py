import numpy as np
import pytest
import torch

from neuropil.data.captions.embedded import make_scenes
from neuropil.errors import InputError
from neuropil.inspection.pictures.attention import LIGHT
from neuropil.inspection.pictures.captions import MOST_WORDS, caption_looks, lit, shade
from neuropil.inspection.report.svg import figure_svg


def test_light_lies_where_it_was_looked():
    look = np.zeros((3, 4))
    look[2, 1] = 1
    dark = lit(np.zeros((12, 16, 3)), look)
    bright = np.unravel_index(dark.sum(-1).argmax(), (12, 16))
    assert 8 <= bright[0] < 12
    assert 4 <= bright[1] < 8
    np.testing.assert_allclose(dark[10, 5] / np.array(LIGHT), [0.8] * 3, atol=0.05)
    assert not dark[:3].any()


def test_each_picture_stands_before_its_words():
    images = [torch.full((6, 6), 255, dtype=torch.uint8), torch.zeros(6, 6, dtype=torch.uint8)]
    weights = [torch.ones(3, 2, 2), torch.ones(MOST_WORDS + 4, 2, 2)]
    words = [["a", "seven", "◁"], [f"w{index}" for index in range(MOST_WORDS + 4)]]
    lines = caption_looks(images, weights, words).axes
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
    (axes,) = caption_looks([torch.zeros(6, 6)], [torch.ones(2, 2, 2)], [["a", "seven"]]).axes
    assert [getattr(text, "xy", None) for text in axes.texts] == [(7 + 2.5, -0.5), (14 + 2.5, -0.5)]


def test_colour_stays_colour():
    image = np.zeros((2, 2, 3), dtype=np.uint8)
    image[..., 1] = 255
    np.testing.assert_array_equal(shade(image)[0, 0], [0, 1, 0])
    np.testing.assert_array_equal(shade(image[..., 1])[0, 0], [1, 1, 1])


def test_a_drawing_is_small_enough_for_a_page():
    images = list(make_scenes(4, 0, 1).train.pictures[:, 0])
    figure = caption_looks(images, [torch.rand(11, 6, 6) for _ in images], [["word"] * 11 for _ in images])
    assert len(figure_svg(figure)) < 150_000


def test_weights_and_words_are_needed_for_each_picture():
    with pytest.raises(InputError) as error:
        caption_looks([torch.zeros(4, 4)], [], [["a"]])
    assert str(error.value) == (
        "a picture of looks needs weights and words for each image, but got 1 images, 0 weights and 1 captions."
    )
