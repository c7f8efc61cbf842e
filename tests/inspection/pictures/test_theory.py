import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.gradients import GradientProfile, LayerGradient, TimeProfile
from neuropil.inspection.pictures.theory import activation_curves, approximation, gradient_flow, gradient_through_time


def profile(*norms: float) -> GradientProfile:
    return GradientProfile(1.0, [LayerGradient(f"layer {index}", 1.0, norm, norm) for index, norm in enumerate(norms)])


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


def test_networks_of_different_depth_meet_at_the_output_beside_the_bound():
    figure = gradient_flow({"deep": profile(1e-3, 0.1, 10.0), "shallow": profile(2.0, 4.0)}, bound=0.25)
    deep, shallow, bound = (np.asarray(line.get_xydata()) for line in figure.axes[0].lines)
    np.testing.assert_allclose(deep, [(1, 1e-4), (2, 0.01), (3, 1)])
    np.testing.assert_allclose(shallow, [(2, 0.5), (3, 1)])
    np.testing.assert_allclose(bound, [(1, 0.0625), (2, 0.25), (3, 1)])


def test_layers_are_named_where_all_networks_have_the_same():
    (axes,) = gradient_flow({"a": profile(1.0, 2.0), "b": profile(3.0, 4.0)}).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["layer 0", "layer 1"]


def test_a_layer_without_gradient_leaves_a_gap():
    (axes,) = gradient_flow({"a": profile(1.0, 0.0, 2.0)}).axes
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_ydata()), [0.5, np.nan, 1])


def test_a_network_of_one_layer_is_refused():
    with pytest.raises(InputError) as error:
        gradient_flow({"a": profile(1.0)})
    assert str(error.value) == "a picture of gradient flow needs a network of at least two layers, but got 1."


def test_time_runs_to_the_right_and_gradients_are_relative_to_the_last_step():
    (axes,) = gradient_through_time({"w = 0.1": TimeProfile([2.0, 0.2, 0.02])}).axes
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_xydata()), [(0, 1), (1, 0.1), (2, 0.01)])
    assert axes.get_xlim()[0] > axes.get_xlim()[1]
    assert axes.get_yscale() == "log"


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
