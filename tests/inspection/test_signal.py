import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection.signal import LayerSignal, SignalProfile, diagnose_signal, profile_signal
from neuropil.models.lstm import LSTM, LSTMConfig
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.rnn import RNN, RNNConfig
from neuropil.randomness import seeded


class Linear(nn.Module):
    """Layers without activation or bias, whose weights have a given variance."""

    def __init__(self, depth: int, width: int, variance: float):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        for index, layer in enumerate(self.layers):
            nn.init.normal_(layer.get_parameter("weight"), std=math.sqrt(variance), generator=seeded("signal", index))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def spread(values: np.ndarray) -> float:
    """Of rows: the standard deviation of each unit, as root mean square over units."""
    return float(np.sqrt(values.var(axis=0).mean()))


def test_a_small_mlp_has_the_signal_that_numpy_computes():
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(7, 5), activation="logistic", dropout=0.0, shape=(4,), outputs=3)).double()
    with torch.no_grad():
        for layer in model.hidden:
            layer.get_parameter("weight").mul_(4)
            layer.get_parameter("bias").normal_()
    x = torch.randn(20, 4, dtype=torch.double)
    profile = profile_signal(model, lambda: model(x))

    h, expected = x.numpy(), []
    for layer in [*model.hidden, model.output]:
        weight, bias = (layer.get_parameter(name).detach().numpy() for name in ("weight", "bias"))
        z = h @ weight.T + bias
        y = 1 / (1 + np.exp(-z))
        flat = (y * (1 - y) < 0.025).mean()
        expected.append((z.mean(), spread(z), np.abs(z).max(), spread(h), flat))
        h = y
    assert [layer.name for layer in profile.layers] == ["hidden.0", "hidden.1", "output"]
    for layer, (mean, z_spread, largest, h_spread, flat) in zip(profile.layers, expected, strict=True):
        assert (layer.mean, layer.spread, layer.largest) == pytest.approx((mean, z_spread, largest), rel=1e-9)
        assert layer.input_spread == pytest.approx(h_spread, rel=1e-9)
        if layer.name != "output":
            assert layer.activation == "logistic"
            assert layer.saturated_share == flat
            assert 0 < flat < 1
    assert profile.layers[-1].saturated_share is None


@pytest.mark.parametrize("gain", [0.5, 1.0, 2.0])
def test_linear_layers_multiply_the_spread_by_the_root_of_n_times_the_variance_of_weights(gain: float):
    width, depth = 400, 6
    model = Linear(depth, width, gain**2 / width)
    x = torch.randn(300, width, generator=seeded("x"))
    flow = [size for _, size in profile_signal(model, lambda: model(x)).flow()]
    np.testing.assert_allclose(flow, gain ** np.arange(1, depth + 1), rtol=0.1)


@pytest.mark.parametrize(("gain", "word"), [(0.3, "squashed"), (3.0, "blown up")])
def test_the_diagnosis_names_what_the_closed_form_says(gain: float, word: str):
    model = Linear(8, 200, gain**2 / 200)
    (sentence,) = diagnose_signal(profile_signal(model, lambda: model(torch.randn(50, 200, generator=seeded("x")))))
    factor = float(sentence.split("×")[0].split()[-1])
    assert factor == pytest.approx(max(gain, 1 / gain), rel=0.1)
    assert f"per layer from layers.0 to layers.7 ({word})" in sentence


def test_residuals_and_normalisation_carry_the_signal_that_logistic_units_squash():
    x = torch.randn(64, 32, generator=seeded("x"))

    def found(**options: bool) -> tuple[float, str]:
        torch.manual_seed(0)
        config = MLPConfig(hidden_sizes=(32,) * 8, activation="logistic", dropout=0.0, shape=(32,), **options)
        model = MLP(config).train()
        profile = profile_signal(model, lambda: model(x))
        flow = profile.flow()
        return flow[-1][1] / flow[0][1], diagnose_signal(profile)[-1]

    plain, sentence = found()
    assert plain < 0.25**7
    assert "(squashed)" in sentence
    for remedy in ({"residual": True}, {"batch_norm": True}):
        kept, sentence = found(**remedy)
        assert 0.1 < kept < 10
        assert sentence.endswith("from hidden.0 to output: neither squashed nor blown up.")


def test_several_calls_count_as_one_batch():
    layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    parts = torch.randn(30, 3).split([7, 3, 20])
    whole = profile_signal(layer, lambda: layer(torch.cat(parts))).layers[0]
    pieces = profile_signal(layer, lambda: [layer(part) for part in parts]).layers[0]
    for name in ("mean", "spread", "largest", "input_spread", "saturated_share"):
        assert getattr(pieces, name) == pytest.approx(getattr(whole, name), rel=1e-6)


def test_channels_are_the_units_of_a_convolution():
    model = nn.Sequential(nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.ReLU())
    x = torch.randn(6, 2, 8, 8)
    convolution, norm = profile_signal(model, lambda: model(x)).layers
    z = model[0](x).detach().permute(0, 2, 3, 1).reshape(-1, 5).double().numpy()
    assert convolution.spread == pytest.approx(spread(z), rel=1e-5)
    assert norm.spread == pytest.approx(1, abs=1e-3)
    assert (convolution.has_weights, norm.has_weights) == (True, False)
    assert (convolution.activation, norm.activation) == ("", "relu")
    assert norm.saturated_share == pytest.approx((model[:2](x) < 0).double().mean().item(), abs=1e-9)


def test_units_that_say_the_same_of_every_example_are_silent():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].get_parameter("bias")[:3] = -100.0
    profile = profile_signal(model, lambda: model(torch.randn(10, 3)))
    assert profile.layers[0].silent_share == 0.75
    assert "75 % of the units of 0 put out the same for every example of this batch." in diagnose_signal(profile)


def test_large_sums_saturate_and_the_words_say_where():
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(40, 40), activation="tanh", dropout=0.0, shape=(8,), outputs=2))
    with torch.no_grad():
        model.hidden[1].get_parameter("weight").mul_(50)
    sentences = diagnose_signal(profile_signal(model, lambda: model(torch.randn(30, 8))))
    (saturated,) = [sentence for sentence in sentences if "saturated" in sentence]
    assert saturated.startswith("9")
    assert "% of the tanh units of hidden.1 are saturated (their slope is below a tenth of the largest)" in saturated


def test_the_state_of_a_linear_recurrence_grows_by_w_at_each_step():
    """Where tanh is nearly linear and only the first input is not zero, h_t = w Q h_{t−1}."""
    w, steps = 1.5, 10
    cell = RNN(RNNConfig(input_size=4, hidden_size=6)).double()
    with torch.no_grad():
        cell.state_weight.mul_(w)
    x = torch.zeros(12, steps, 4, dtype=torch.double)
    x[:, 0] = 1e-6 * torch.randn(12, 4, dtype=torch.double)
    (layer,) = profile_signal(cell, lambda: cell(x)).layers
    np.testing.assert_allclose(np.array(layer.steps) / layer.steps[0], w ** np.arange(steps), rtol=1e-5)
    (sentence,) = diagnose_signal(SignalProfile([layer]))
    assert sentence.startswith("Over 10 steps the spread of RNN goes from ")


def test_gates_of_a_cell_are_seen_whichever_way_it_is_run():
    torch.manual_seed(0)
    cell = LSTM(LSTMConfig(input_size=3, hidden_size=5))
    x, lengths = 6 * torch.randn(4, 7, 3), torch.tensor([7, 5, 2, 1])
    (layer,), (other,) = (
        profile_signal(cell, lambda way=way: cell(x, None, lengths, way=way)).layers for way in ("loop", "fused")
    )
    assert layer.saturated_share == other.saturated_share
    assert layer.steps == pytest.approx(other.steps, rel=1e-4)
    outputs = cell(x, None, lengths).outputs.detach()
    rows = torch.cat([row[:length] for row, length in zip(outputs, lengths, strict=True)]).double().numpy()
    assert layer.spread == pytest.approx(spread(rows), rel=1e-4)
    assert layer.activation == "logistic, tanh"
    assert 0.05 < (layer.saturated_share or 0) < 0.95
    assert len(layer.steps) == 7
    assert layer.steps[0] == pytest.approx(spread(outputs[:, 0].double().numpy()), rel=1e-4)
    assert layer.steps[-1] == 0  # one sequence alone differs from none


def test_torchs_recurrent_layers_have_steps_too():
    model = nn.GRU(3, 4, batch_first=True)
    x = torch.randn(9, 5, 3)
    (layer,) = profile_signal(model, lambda: model(x)).layers
    h = model(x)[0].detach().double().numpy()
    np.testing.assert_allclose(layer.steps, [spread(h[:, step]) for step in range(5)], rtol=1e-5)


def test_looking_changes_nothing():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3))
    x, before, random = torch.randn(8, 6), copy.deepcopy(model.state_dict()), torch.get_rng_state()
    seen: list[Tensor] = []
    profile_signal(model, lambda: seen.append(model(x)))
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(seen[0], model(x))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_numbers_that_overflow_are_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[1].get_parameter("weight").fill_(3e38)
    first, *_ = diagnose_signal(profile_signal(model, lambda: model(9e3 * torch.ones(2, 2))))
    assert first.startswith("Numbers overflowed: outputs of 1 are not finite; ")


def test_spreads_without_a_trend_are_told_apart():
    layers = [LayerSignal(name, 0.0, size, size) for name, size in (("a", 1.0), ("b", 1e-4), ("c", 1.0))]
    assert diagnose_signal(SignalProfile(layers)) == [
        "The signal differs 10000× between layers without a trend from the input to the output: look at a, where it is "
        "largest, and b, where it is smallest."
    ]


def test_a_model_whose_layers_do_not_run_is_refused():
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(InputError) as error:
        profile_signal(model, lambda: F.relu(torch.ones(2)))
    assert str(error.value) == (
        "a signal is measured in layers that a model runs as modules, but got Sequential, none of whose layers ran so."
    )
