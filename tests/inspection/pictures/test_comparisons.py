import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from neuropil.errors import InputError
from neuropil.inspection.pictures import learning_curves, loss_curves, softening, weight_spread
from neuropil.inspection.report.svg import figure_svg


def history(*losses: float) -> list[dict]:
    rows = [{"kind": "train", "epoch": 0.5, "loss": 9.0}]
    return rows + [
        {"kind": "validation", "epoch": epoch, "loss": loss, "accuracy": 1 - loss}
        for epoch, loss in enumerate(losses, 1)
    ]


def heights(axes: Axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]


def points(axes: Axes, label: str) -> list:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return np.asarray(line.get_xydata()).tolist()


def test_learning_curves_show_every_validation_of_each_network():
    figure = learning_curves({"slow": history(0.9, 0.8, 0.7), "fast": history(0.5, 0.2)}, "loss")
    assert points(figure.axes[0], "slow") == [[1, 0.9], [2, 0.8], [3, 0.7]]
    assert points(figure.axes[0], "fast") == [[1, 0.5], [2, 0.2]]
    assert figure.axes[0].get_ylabel() == "validation loss"


def test_the_legend_stands_in_the_order_in_which_the_curves_end():
    names = {"low": history(0.9, 0.1), "high": history(0.2, 0.8), "middle": history(0.5, 0.5)}
    (legend,) = learning_curves(names, "loss").legends
    assert [text.get_text() for text in legend.get_texts()] == ["high", "middle", "low"]


def test_accuracies_read_as_per_cent_and_losses_over_decades_are_logarithmic():
    (axes,) = learning_curves({"one": history(0.5, 0.2)}, "accuracy").axes
    assert axes.yaxis.get_major_formatter()(0.5, 0) == "50.0 %"
    (axes,) = learning_curves({"one": history(0.9, 0.01)}, "loss").axes
    assert axes.get_yscale() == "log"


def test_a_network_that_was_never_validated_is_named():
    with pytest.raises(InputError) as error:
        learning_curves({"good": history(0.5), "empty": history()}, "loss")
    assert str(error.value) == "learning curves need at least one validation of each network, but got none for empty."


def test_losses_and_gradients_are_drawn_side_by_side():
    z = torch.linspace(-2, 2, 5)
    paid, pull = loss_curves({"square": (z, z**2 / 2, z)}).axes
    assert points(paid, "square") == [[-2, 2], [-1, 0.5], [0, 0], [1, 0.5], [2, 2]]
    assert np.asarray(pull.lines[-1].get_xydata()).tolist() == [[-2, -2], [-1, -1], [0, 0], [1, 1], [2, 2]]


def test_softening_has_a_bar_for_each_unit_on_one_scale():
    figure = softening(["a", "b", "c"], {"soft": np.array([0.5, 0.3, 0.2]), "hard": np.array([1.0, 0.0, 0.0])})
    assert [heights(axes) for axes in figure.axes] == [[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_a_spread_counts_every_weight_and_has_one_bar_around_zero():
    figure = weight_spread(
        {"sparse": torch.cat([torch.zeros(90), torch.linspace(-1, 1, 10)]), "dense": torch.randn(100)}
    )
    counts = [heights(axes) for axes in figure.axes]
    assert [sum(bars) for bars in counts] == [100, 100]
    middle = len(counts[0]) // 2
    assert counts[0][middle] >= 90


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (
            lambda: learning_curves({}, "loss"),
            "learning curves need at least one validation of each network, but got none for no history.",
        ),
        (lambda: loss_curves({}), "a picture of losses needs at least one, but got none."),
        (lambda: softening(["a"], {}), "a picture of softening needs at least one function, but got none."),
        (lambda: weight_spread({}), "a picture of weights needs at least one set of them, but got none."),
    ],
)
def test_a_picture_of_nothing_is_refused(picture, message: str):
    with pytest.raises(InputError) as error:
        picture()
    assert str(error.value) == message


def test_every_picture_becomes_an_svg():
    z = torch.linspace(-2, 2, 9)
    for figure in (
        learning_curves({"one": history(0.5, 0.4)}, "loss"),
        loss_curves({"one": (z, z, z)}),
        softening(["a"], {"one": np.array([1.0])}),
        weight_spread({"one": z}),
    ):
        assert figure_svg(figure).startswith("<svg")
