from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import populations
from neuropil.inspection.pictures.style import PALETTE
from neuropil.inspection.report.svg import figure_svg

X = np.linspace(-1, 1, 21)
TIMES = np.arange(1.0, 101.0)


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_tuning_curves_have_the_colour_of_their_direction_and_of_many_some_are_drawn():
    figure = populations.tuning_curves(X, np.outer(X + 1, np.arange(1.0, 4.0)), rising=[True, False, True])
    (axes,) = figure.axes
    assert [line.get_color() for line in axes.lines] == [
        PALETTE[0],
        PALETTE[1],
        PALETTE[0],
    ]
    many = populations.tuning_curves(X, np.ones((21, 500)), rising=[True] * 500).axes[0]
    assert len(many.lines) == populations.MOST_CURVES
    assert many.get_title(loc="left") == "tuning curves of 60 of 500 neurons"


def test_decoded_curves_have_their_errors_below():
    figure = populations.decoded_curves(X, X**2, {"decoded": X**2 + 0.5}, noisy={"noisy": X**2 - 1}, ylabel="square")
    above, below = figure.axes
    assert labels(figure) == ["noisy", "wanted", "decoded"]
    dots, _, errors = below.lines
    np.testing.assert_allclose(np.asarray(errors.get_ydata()), 0.5)
    np.testing.assert_allclose(np.asarray(dots.get_ydata()), -1)
    assert dots.get_linestyle() == "None"
    assert above.get_ylabel() == "square"


def test_errors_lie_on_the_lines_of_theory_if_they_follow_it():
    sizes = [10, 40, 160]
    root, inverse = 3 / np.sqrt(sizes), 2 / np.array(sizes)
    left, right = populations.error_by_neurons(sizes, {"0.1": root, "0.2": 2 * root}, inverse).axes
    for axes, errors in ((left, [root, 2 * root]), (right, [inverse])):
        for law, points, expected in zip(axes.lines[::2], axes.lines[1::2], errors, strict=True):
            np.testing.assert_allclose(np.asarray(law.get_ydata()), expected)
            np.testing.assert_allclose(np.asarray(points.get_ydata()), expected)
    assert left.get_xscale() == left.get_yscale() == "log"


def test_spikes_stand_above_the_value_and_very_many_are_thinned():
    times, neurons = np.linspace(0, 100, 9000), np.arange(9000) % 50
    figure = populations.spikes_and_value(TIMES, {"value": np.sin(TIMES)}, times, neurons, num_neurons=50)
    raster, axes = figure.axes
    assert len(np.asarray(raster.lines[0].get_xdata())) == populations.MOST_SPIKES
    assert axes.get_xlabel() == "time (ms)"
    assert axes.get_xlim() == (0, 100)
    figure_svg(
        populations.spikes_and_value(TIMES, {"value": TIMES}, np.zeros(0), np.zeros(0, dtype=int), num_neurons=3)
    )


def test_a_name_has_one_colour_in_all_panels_and_long_lines_are_thinned_to_their_ends():
    long = np.arange(1.0, 5001.0)
    figure = populations.over_time(long, {"first": {"a": long, "b": long}, "second": {"b": -long}}, columns=2)
    first, second = figure.axes
    assert first.lines[1].get_color() == second.lines[0].get_color()
    assert labels(figure) == ["a", "b"]
    drawn = np.asarray(first.lines[0].get_xdata())
    assert len(drawn) <= populations.MOST_POINTS_OF_A_LINE
    assert (drawn[0], drawn[-1]) == (1, 5000)


def test_paths_share_one_scale():
    circle = populations.Path(np.cos(X), np.sin(X))
    far = populations.Path(5 * np.cos(X), np.sin(X))
    figure = populations.paths(
        {"left": {"a": circle, "b": far}, "right": {"a": circle}}, xlabel="first", ylabel="second"
    )
    left, right = figure.axes
    assert left.get_xlim() == right.get_xlim()
    assert (left.get_ylabel(), right.get_ylabel(), right.get_xlabel()) == ("second", "", "first")
    assert labels(figure) == ["a", "b"]
    assert not populations.paths({"one": {"a": circle}}).legends


def test_drift_is_drawn_over_what_is_allowed():
    figure = populations.drift(X, {"memory": 0.1 * X}, allowed=1.0)
    assert labels(figure) == ["within 1 %", "memory"]
    assert figure.axes[0].get_ylabel() == "drift (% of the radius / s)"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: populations.tuning_curves(X, np.zeros((21, 0)), rising=[]),
            "a picture of tuning curves needs at least one neuron, but got none.",
        ),
        (
            lambda: populations.decoded_curves(X, X, {}),
            "a picture of what is decoded needs at least one curve, but got none.",
        ),
        (
            lambda: populations.error_by_neurons([10], {"0.1": X[:1]}, X[:1]),
            "a picture of errors needs at least two sizes of population and one noise, but got 1 and 1.",
        ),
        (
            lambda: populations.spikes_and_value(TIMES, {}, TIMES, np.zeros(100, dtype=int), num_neurons=1),
            "a picture of spikes and value needs at least one value, but got none.",
        ),
        (
            lambda: populations.over_time(TIMES, {"empty": {}}),
            "a picture over time needs at least one value in each panel, but got none.",
        ),
        (lambda: populations.paths({}), "a picture of paths needs at least one path in each panel, but got none."),
        (lambda: populations.drift(X, {}), "a picture of drift needs at least one memory, but got none."),
    ],
)
def test_nothing_to_draw_is_refused(draw: Callable[[], Figure], message: str):
    with pytest.raises(InputError) as error:
        draw()
    assert str(error.value) == message


def test_condition_numbers_have_a_line_for_each_noise_and_the_spectrum_its_floor():
    curves = {"none": np.array([1e3, 1e9]), "0.1": np.array([20.0, 50.0])}
    figure = populations.condition_numbers([10, 100], curves, np.array([5.0, 1.0, 1e-6]), 0.3, neurons=3)
    left, right = figure.axes
    legend = left.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["none", "0.1"]
    np.testing.assert_allclose(np.asarray(left.lines[0].get_ydata()), [1e3, 1e9])
    np.testing.assert_allclose(np.asarray(right.lines[0].get_ydata()), [5, 1, 1e-6])
    np.testing.assert_allclose(np.asarray(right.lines[1].get_ydata()), 0.3)
    assert (left.get_yscale(), right.get_yscale()) == ("log", "log")
    assert right.get_title(loc="left") == "eigenvalues of HᵀH, 3 neurons"
    assert figure_svg(figure)
    with pytest.raises(InputError) as error:
        populations.condition_numbers([10], curves, X, 0.3, neurons=3)
    rule = "a picture of condition numbers needs at least two sizes of population and one noise"
    assert str(error.value) == f"{rule}, but got 1 and 2."
