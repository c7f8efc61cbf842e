import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.pictures.predictive_coding import (
    completed,
    cosines_over_settling,
    generated,
    gradient_while_settling,
    settling,
)
from neuropil.inspection.report.svg import figure_svg


def drawn(axes: object) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())  # type: ignore[attr-defined]


def test_energies_are_shares_of_the_first_and_parts_are_stacked():
    energies = {"learning": torch.tensor([8.0, 4.0, 2.0]), "inference": torch.tensor([3.0, 3.0, 1.5])}
    parts = {"input → layer 1": torch.tensor([0.0, 1.0, 1.0]), "layer 1 → target": torch.tensor([8.0, 3.0, 1.0])}
    falling, layers = settling(energies, parts, title="where it goes").axes
    first, second = (np.asarray(each.get_ydata(), dtype=float) for each in falling.lines)
    np.testing.assert_allclose(first, [1, 0.5, 0.25])
    np.testing.assert_allclose(second, [1, 1, 0.5])
    assert layers.get_title(loc="left") == "where it goes"
    heights = [
        np.asarray(path.vertices)[:, 1].max() for collection in layers.collections for path in collection.get_paths()
    ]
    assert max(heights) == 8


def test_a_layer_that_does_not_change_yet_has_no_line_there():
    cosines = {"2 layers": torch.tensor([[torch.nan, 0.9], [0.8, 0.95]]), "3 layers": torch.rand(2, 3)}
    figure = cosines_over_settling([1, 10], cosines)
    first, second = figure.axes
    assert np.isnan(np.asarray(first.lines[0].get_ydata(), dtype=float)[0])
    assert [len(axes.lines) for axes in (first, second)] == [3, 4]  # one is the line at which both agree
    assert first.get_title(loc="left") == "2 layers"
    assert figure_svg(figure)


def test_generated_pictures_stand_under_their_classes():
    images = [[np.full((8, 8), 20 * number, dtype=np.uint8) for number in range(10)]]
    figure = generated(images, [str(number) for number in range(10)])
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == [str(number) for number in range(10)]
    np.testing.assert_allclose(drawn(axes)[:, 9 * 9 : 9 * 9 + 8, 0], 180 / 255)


def test_what_is_covered_has_a_colour_of_its_own():
    hidden = np.zeros((8, 6), dtype=bool)
    hidden[4:] = True
    image = np.full((8, 6), 255, dtype=np.uint8)
    figure = completed([image] * 3, [image // 2] * 3, [image] * 3, hidden)
    assert [axes.get_ylabel() for axes in figure.axes] == ["covered", "completed", "as it was"]
    covered = drawn(figure.axes[0])
    np.testing.assert_allclose(covered[:4, :6], 1)
    assert (covered[4:, :6, 2] > covered[4:, :6, 0]).all()
    np.testing.assert_allclose(drawn(figure.axes[1])[:, :6, :3], 127 / 255)


def test_pictures_in_colour_are_drawn_in_colour():
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[..., 0] = 255
    (axes,) = generated([[image, image]], ["a", "b"]).axes
    np.testing.assert_allclose(drawn(axes)[0, 0], [1, 0, 0, 1])


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(InputError) as error:
        settling({}, {}, title="")
    assert str(error.value) == "a picture of settling needs energies and their parts, but got 0 energies and 0 parts."
    with pytest.raises(InputError) as error:
        cosines_over_settling([1, 2], {"a": torch.rand(3, 2)})
    assert str(error.value) == "a picture of cosines needs a row for each step, but got [3] rows."
    with pytest.raises(InputError) as error:
        generated([[np.zeros((2, 2))]], ["a", "b"])
    assert str(error.value) == "a picture of generated images needs rows of one for each class, but got [1] images."


def test_gradients_have_a_line_for_each_kind_of_error_nodes_and_one_for_rest():
    shares = {"equilibrium": torch.tensor([1.0, 0.1, 0.001]), "τ = 3": torch.tensor([1.0, 0.5, 0.2])}
    (axes,) = gradient_while_settling(shares, rest=0.01).axes
    first, second, rest = (np.asarray(each.get_ydata(), dtype=float) for each in axes.lines)
    np.testing.assert_allclose(first, [1, 0.1, 0.001])
    np.testing.assert_allclose(second, [1, 0.5, 0.2])
    np.testing.assert_allclose(rest, 0.01)
    assert axes.get_yscale() == "log"
    with pytest.raises(InputError) as error:
        gradient_while_settling({}, rest=0.01)
    assert str(error.value) == "a picture of settling needs gradients, but got none."
