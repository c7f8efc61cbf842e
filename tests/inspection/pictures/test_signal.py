import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.pictures.signal import large_weights, signal_flow, signal_over_steps
from neuropil.inspection.signal import LayerSignal, SignalProfile


def profile(*spreads: float, saturated: float | None = None) -> SignalProfile:
    return SignalProfile(
        [
            LayerSignal(f"layer {index}", 0.0, size, size, saturated_share=saturated)
            for index, size in enumerate(spreads)
        ]
    )


def test_spreads_are_drawn_from_the_input_and_saturation_below_them():
    spread, saturated = signal_flow({"deep": profile(1.0, 0.1, 0.01, saturated=0.4), "flat": profile(2.0, 2.0)}).axes
    deep, flat = (np.asarray(line.get_xydata()) for line in spread.lines)
    np.testing.assert_allclose(deep, [(1, 1), (2, 0.1), (3, 0.01)])
    np.testing.assert_allclose(flat, [(1, 2), (2, 2)])
    assert spread.get_yscale() == "log"
    np.testing.assert_allclose(np.asarray(saturated.lines[0].get_ydata()), [0.4] * 3)


def test_the_activation_behind_a_normalisation_is_that_of_the_layer_before():
    layers = [
        LayerSignal("a", 0.0, 1.0, 1.0),
        LayerSignal("norm", 0.0, 1.0, 1.0, saturated_share=0.3, has_weights=False),
        LayerSignal("b", 0.0, 1.0, 1.0),
    ]
    _, saturated = signal_flow({"": SignalProfile(layers)}).axes
    np.testing.assert_allclose(np.asarray(saturated.lines[0].get_ydata()), [0.3, np.nan])


def test_without_activations_there_is_one_panel_and_without_layers_none():
    assert len(signal_flow({"": profile(1.0, 2.0)}).axes) == 1
    with pytest.raises(InputError) as error:
        signal_flow({"": profile(1.0)})
    assert str(error.value) == "a picture of the signal needs a network of at least two layers, but got 1."


def test_steps_are_counted_from_one():
    (axes,) = signal_over_steps({"cell": (0.5, 0.6, 0.7)}).axes
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_xydata()), [(1, 0.5), (2, 0.6), (3, 0.7)])


def test_a_gradient_of_zero_leaves_a_gap():
    kept, saturated = large_weights({"high": {1: (0.5, 0.2), 2: (0.0, 1.0)}}).axes
    np.testing.assert_array_equal(np.asarray(kept.lines[0].get_ydata()), [0.5, np.nan])
    np.testing.assert_array_equal(np.asarray(saturated.lines[0].get_ydata()), [0.2, 1.0])
