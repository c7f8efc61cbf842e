from collections.abc import Callable

import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.gradients import GradientProfile, LayerGradient, diagnose
from neuropil.inspection.signal import LayerSignal, SignalProfile, diagnose_signal
from neuropil.lab.view import ask, find_view
from neuropil.lab.views.layers import shown
from neuropil.runs.pages.layers import LayerProfiles
from neuropil.runs.run import Run

VIEW = find_view("layers")


def test_what_is_shown_is_what_the_run_says(trained_run: Callable[..., Run]):
    run = trained_run("mlp", "deep_mlp", epochs=1, hidden_sizes=(16, 16))
    ask(VIEW, "read", run, {})  # reads the data, which may draw random numbers
    torch.manual_seed(0)  # of dropout
    answer = ask(VIEW, "read", run, {"examples": 1024})
    torch.manual_seed(0)
    gradients = run.gradients()
    assert {layer["name"]: layer["gradient_norm"] for layer in answer["layers"]} == pytest.approx(
        {layer.name: layer.gradient_norm for layer in gradients.layers}
    )
    assert answer["gradient_words"] == diagnose(gradients)
    signal, spreads = run.signal(), {layer["name"]: layer["spread"] for layer in answer["layers"]}
    assert [layer["name"] for layer in answer["layers"]] == [layer.name for layer in signal.layers]
    assert spreads == dict(signal.flow())
    assert answer["signal_words"] == diagnose_signal(signal)


def test_layers_stand_in_the_order_in_which_they_run():
    gradients = [LayerGradient(name, 1.0, 1.0) for name in ("unused", "reader", "embedding")]
    signal = [LayerSignal(name, 0.0, 1.0, 1.0) for name in ("embedding", "reader")]
    answer = shown(LayerProfiles(GradientProfile(1.0, gradients), SignalProfile(signal), {}))
    assert [layer["name"] for layer in answer["layers"]] == ["embedding", "reader", "unused"]


def test_smaller_weights_shrink_the_signal(trained_run: Callable[..., Run]):
    run = trained_run("mlp", "deep_mlp", epochs=1, hidden_sizes=(16, 16))
    whole, half = (ask(VIEW, "read", run, {"scale": scale})["layers"] for scale in (1, 0.5))
    assert half[0]["parameter_norm"] == pytest.approx(0.5 * whole[0]["parameter_norm"], rel=0.05)
    assert half[-1]["spread"] < 0.3 * whole[-1]["spread"]


def test_what_is_out_of_bounds_is_refused(trained_run: Callable[..., Run]):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", trained_run("mlp", "deep_mlp", epochs=1, hidden_sizes=(16, 16)), {"scale": 1000.0})
    assert str(refused.value) == "scale must be at most 100, but got 1000.0."
