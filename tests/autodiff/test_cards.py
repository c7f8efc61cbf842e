import base64
import io

import numpy as np
import pytest
from PIL import Image

from neuropil.autodiff import Var, graph, ops
from neuropil.autodiff.cards import COLOURS, SHADES, THUMBNAIL, array_row, box_card, heat_map, png, step_row, var_card


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(3.14159), ["3.14"]),
        (np.array(-0.0), ["0"]),
        (np.array([1.0, -2.5, 1e-7]), ["1 -2.5 1e-07"]),
        (np.array([[1.0, 20.0], [300.0, 4.0]]), ["  1  20", "300   4"]),
        (np.zeros((0, 3)), ["empty"]),
        (np.array([1.0, np.nan, np.inf]), ["2 not finite"]),
        (np.array([1.0, -1.0] * 10), ["0 ± 1"]),
    ],
)
def test_small_arrays_are_shown_and_large_ones_summed_up(array: np.ndarray, text: list[str]):
    assert array_row(array).text == text


def test_what_rounding_leaves_of_zero_is_not_shown():
    assert array_row(np.array([1.0, -1.0 + 1e-13] * 10)).text == ["0 ± 1"]


def test_a_heat_map_is_a_png_that_others_can_read():
    array = np.linspace(-1, 2, 6 * 7).reshape(6, 7)
    shades = heat_map(array)
    data = base64.b64decode(png(shades, COLOURS["value"]).removeprefix("data:image/png;base64,"))
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
    assert pixels.shape == (6, 7, 3)
    assert tuple(pixels[-1, -1]) == COLOURS["value"][1]  # the largest magnitude, full colour
    zero = np.unravel_index(np.abs(array).argmin(), array.shape)
    assert shades[zero] == SHADES
    assert tuple(pixels[zero]) == (255, 255, 255)
    assert pixels[0, 0, 2] > pixels[0, 0, 0]  # negative, blue


@pytest.mark.parametrize("shape", [(1000,), (3, 1000), (200, 50), (7, 5, 3, 2), (12, 1, 1), (1, 1, 9)])
def test_a_heat_map_of_any_array_is_small_and_keeps_its_mean(shape: tuple[int, ...]):
    array = np.random.default_rng(0).normal(size=shape)
    shades = heat_map(array)
    assert shades.shape[0] <= THUMBNAIL[0]
    assert shades.shape[1] <= THUMBNAIL[1]
    assert (heat_map(np.ones(shape)) == 2 * SHADES).all()
    assert (heat_map(np.zeros(shape)) == SHADES).all()


@pytest.mark.parametrize("shape", [(), (3,), (2, 4), (40,), (20, 30)])
def test_a_gradient_takes_the_same_room_before_and_after_it_is_known(shape: tuple[int, ...]):
    before, after = step_row(None, shape), step_row(np.full(shape, -1.2345e-5), shape)
    assert (before.width, before.height) == (after.width, after.height)
    assert {line.strip() for line in before.text} == {"·"}


def test_a_card_shows_name_shape_value_and_the_derivative_of_its_op():
    y = ops.tanh(Var([[0.5, -0.5]]))
    y.name = "a < b"
    card = var_card(y, array_row(np.array([[0.1, 0.2]]), "∂", "gradient"), "")
    for text in ("a &lt; b", "1 × 2", " 0.462 -0.462", "0.1 0.2", "tanh: ∂tanh x/∂x = 1 - tanh² x."):
        assert text in card.svg
    assert box_card(graph(y).box, "").height > 0
