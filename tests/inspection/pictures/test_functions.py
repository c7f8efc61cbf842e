import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from neuropil.errors import InputError
from neuropil.inspection.pictures.functions import (
    activation_curves,
    approximation,
    approximation_of_two,
    loss_curves,
    softmax_bars,
)
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.pictures.weights import weight_histograms
from neuropil.inspection.report.svg import figure_svg


def points(axes: Axes, label: str) -> list:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return np.asarray(line.get_xydata()).tolist()


def test_losses_and_gradients_are_drawn_side_by_side():
    z = torch.linspace(-2, 2, 5)
    paid, pull = loss_curves({"square": (z, z**2 / 2, z)}).axes
    assert points(paid, "square") == [[-2, 2], [-1, 0.5], [0, 0], [1, 0.5], [2, 2]]
    assert np.asarray(pull.lines[-1].get_xydata()).tolist() == [[-2, -2], [-1, -1], [0, 0], [1, 1], [2, 2]]


def heights(axes: Axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]


def test_softening_has_a_bar_for_each_unit_on_one_scale():
    figure = softmax_bars(["a", "b", "c"], {"soft": np.array([0.5, 0.3, 0.2]), "hard": np.array([1.0, 0.0, 0.0])})
    assert [heights(axes) for axes in figure.axes] == [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (
            lambda: learning_curves({}, "loss"),
            "learning curves need at least one validation of each network, but got none for no history.",
        ),
        (lambda: loss_curves({}), "a picture of losses needs at least one, but got none."),
        (lambda: softmax_bars(["a"], {}), "a picture of softmax needs at least one function, but got none."),
        (lambda: weight_histograms({}), "a picture of weights needs at least one set of them, but got none."),
    ],
)
def test_a_picture_of_nothing_is_refused(picture, message: str):
    with pytest.raises(InputError) as error:
        picture()
    assert str(error.value) == message


def history(*losses: float) -> list[dict]:
    rows = [{"kind": "train", "epoch": 0.5, "loss": 9.0}]
    return rows + [
        {"kind": "validation", "epoch": epoch, "loss": loss, "accuracy": 1 - loss}
        for epoch, loss in enumerate(losses, 1)
    ]


def test_every_picture_becomes_an_svg():
    z = torch.linspace(-2, 2, 9)
    for figure in (
        learning_curves({"one": history(0.5, 0.4)}, "loss"),
        loss_curves({"one": (z, z, z)}),
        softmax_bars(["a"], {"one": np.array([1.0])}),
        weight_histograms({"one": z}),
    ):
        assert figure_svg(figure).startswith("<svg")


def test_every_activation_is_drawn_with_its_derivative_on_shared_axes():
    x = np.linspace(-3, 3, 61)
    figure = activation_curves({"tanh": (x, np.tanh(x), 1 - np.tanh(x) ** 2), "identity": (x, x, np.ones_like(x))})
    tanh, identity = figure.axes
    assert (tanh.get_title(loc="left"), identity.get_title(loc="left")) == ("tanh", "identity")
    curve, derivative = tanh.lines[-2:]
    np.testing.assert_allclose(
        np.asarray(derivative.get_ydata()), np.gradient(np.asarray(curve.get_ydata()), x), atol=0.02
    )
    assert tanh.get_ylim() == identity.get_ylim()


def test_no_activation_is_refused():
    with pytest.raises(InputError) as error:
        activation_curves({})
    assert str(error.value) == "a picture of activations needs at least one, but got none."


def test_an_error_that_halves_as_units_double_has_slope_minus_one():
    x = np.linspace(0, 1, 50)
    figure = approximation(x, x, np.round(4 * x) / 4, [x, -x], {units: 3 / units for units in (4, 8, 16, 32)})
    function, _, error = figure.axes
    assert error.get_title(loc="left") == "slope −1.00"
    assert error.get_xscale() == error.get_yscale() == "log"
    assert function.get_title(loc="left") == "largest error 0.12"


def test_a_perfect_approximation_needs_no_slope():
    x = np.linspace(0, 1, 5)
    *_, error = approximation(x, x, x, [], {4: 0.0, 8: 0.0}).axes
    assert error.get_title(loc="left") == ""


def test_a_function_of_two_variables_its_network_and_their_difference_share_a_figure():
    values = np.outer(np.arange(3.0), np.arange(3.0))
    figure = approximation_of_two(values, values + 0.25, {"n = 2": {10: (0.25, 1.0), 100: (0.1, 0.5)}})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert "difference, at most 0.25" in titles
    (error,) = [axes for axes in figure.axes if axes.get_xlabel() == "units"]
    assert points(error, "n = 2") == [[10, 0.25], [100, 0.1]]
    assert points(error, "n = 2, bound") == [[10, 1.0], [100, 0.5]]
