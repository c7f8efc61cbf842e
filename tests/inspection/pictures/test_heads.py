import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from neuropil.errors import InputError
from neuropil.inspection.pictures.heads import head_importance, loss_by_heads
from neuropil.inspection.report.svg import figure_svg

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


def test_the_loss_is_drawn_against_the_number_of_heads_on_an_axis_from_zero():
    (axes,) = loss_by_heads({0: 0.5, 2: 0.6, 4: 2.0}).axes
    (line,) = axes.lines
    assert np.asarray(line.get_xydata()).tolist() == [[0, 0.5], [2, 0.6], [4, 2.0]]
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (lambda: head_importance({}, {}), "a picture of heads needs at least one layer, but got none."),
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
