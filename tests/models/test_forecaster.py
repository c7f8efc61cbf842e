import math

import numpy as np
import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.forecaster import (
    LEVELS,
    MEDIAN,
    Autoregression,
    Forecaster,
    ForecasterConfig,
    QuantileRegression,
    choose_lags,
    least_squares,
    level_and_spread,
    pinball,
)
from neuropil.models.recurrent import CellName


def windows_of(series: Tensor, window: int, horizon: int) -> dict[str, Tensor]:
    pieces = series.unfold(0, window + horizon, 1)
    return {
        "history": pieces[:, :window],
        "known": torch.zeros(len(pieces), window + horizon, 0),
        "target": pieces[:, window:],
        "valid_mask": torch.ones(len(pieces), horizon, dtype=torch.bool),
        "scale": torch.ones(len(pieces)),
    }


def wave(length: int = 200, noise: float = 0.05) -> Tensor:
    time = torch.arange(length, dtype=torch.float32)
    return torch.sin(time * 2 * math.pi / 9) + noise * torch.randn(length, generator=torch.Generator().manual_seed(0))


def perturbed(config: ForecasterConfig) -> Forecaster:
    torch.manual_seed(0)
    model = Forecaster(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 6),
    st.integers(1, 9),
    st.sampled_from(["rnn", "lstm", "gru", "mingru"]),
    st.integers(1, 2),
    st.integers(0, 3),
)
def test_quantiles_are_in_order_for_every_cell(lags: int, steps: int, cell: CellName, layers: int, features: int):
    config = ForecasterConfig(
        cell=cell, hidden_size=4, layers=layers, members=2, lags=lags, steps=steps, features=features
    )
    torch.manual_seed(0)
    q = perturbed(config)(10 * torch.randn(5, 8), torch.randn(5, 8 + steps, features))
    assert q.shape == (5, steps, len(LEVELS))
    assert (q.diff(dim=-1) > 0).all()


@settings(deadline=None, max_examples=30)
@given(st.floats(-100, 100), st.floats(0.01, 100))
def test_a_forecast_moves_and_grows_with_its_series(shift: float, factor: float):
    model, history, known = (
        perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=2)),
        wave(12)[None],
        torch.ones(1, 16, 2),
    )
    with torch.no_grad():
        q, moved = model(history, known), model(shift + factor * history, known)
    assert torch.allclose(moved, shift + factor * q, rtol=1e-3, atol=1e-3 * (abs(shift) + factor))


def test_the_future_that_is_known_reaches_its_step_and_those_after_but_none_before():
    model, history, known = (
        perturbed(ForecasterConfig(hidden_size=4, lags=2, steps=6, features=1)),
        wave(10)[None],
        torch.zeros(1, 16, 1),
    )
    other = known.clone()
    other[:, 10 + 3] = 1.0
    changed = (model(history, known) - model(history, other)).abs().amax(-1)[0] > 1e-7
    assert changed.tolist() == [False, False, False, True, True, True]


def test_a_series_that_never_moves_goes_on_as_it_was():
    model = Forecaster(ForecasterConfig(hidden_size=4, lags=2, steps=3, features=0)).eval()
    with torch.no_grad():
        q = model(torch.full((1, 8), 1e6), torch.zeros(1, 11, 0))
    assert torch.isfinite(q).all()
    assert (q[..., MEDIAN] - 1e6).abs().max() < 10


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 8))
def test_the_linear_part_is_the_recursion_run_step_by_step(lags: int, horizon: int):
    torch.manual_seed(lags * 10 + horizon)
    part = Autoregression(lags, horizon)
    part.set(torch.randn(lags + 1))
    z = torch.randn(3, 7)
    expected = z
    for _ in range(horizon):
        ahead = part.bias + expected[:, -lags:].flip(1) @ part.weight
        expected = torch.cat([expected, ahead.unsqueeze(1)], 1)
    assert torch.allclose(part(z), expected[:, 7:], atol=1e-4, rtol=1e-4)


def test_least_squares_are_those_of_numpy_and_find_the_recursion_that_made_the_series():
    torch.manual_seed(0)
    values = [0.3, -0.2, 0.5]
    for noise in (0.1 * torch.randn(3000)).tolist():
        values.append(0.9 * values[-1] - 0.5 * values[-2] + noise)
    batch = windows_of(torch.tensor(values), 40, 1)
    found = least_squares(batch, [2])
    c, s = level_and_spread(batch["history"])
    z, y = ((batch["history"] - c) / s).double(), ((batch["target"] - c) / s).double()
    weight = (s / batch["scale"].unsqueeze(1)).double()  # least squares in the units of the series
    design = torch.stack([z[:, -1], z[:, -2], torch.ones(len(z))], 1) * weight
    expected = np.linalg.lstsq(design.numpy(), (y * weight).squeeze(1).numpy(), rcond=None)[0]
    assert found.tolist() == pytest.approx(expected.tolist(), abs=2e-3)
    assert found[:2].tolist() == pytest.approx([0.9, -0.5], abs=0.05)
    assert choose_lags(batch) >= 2


def test_a_window_whose_next_value_is_missing_counts_for_nothing():
    batch = windows_of(wave(), 20, 3)
    spoiled = {**batch, "target": batch["target"].clone(), "valid_mask": batch["valid_mask"].clone()}
    spoiled["target"][::2, 0], spoiled["valid_mask"][::2, 0] = 1e4, False
    kept = {name: values[1::2] for name, values in batch.items()}
    assert torch.allclose(least_squares(spoiled, [4]), least_squares(kept, [4]), atol=1e-5)


def test_a_fitted_net_begins_as_the_linear_forecast_with_the_quantiles_of_its_errors():
    batch = windows_of(wave(noise=0.3), 18, 5)
    config = ForecasterConfig(hidden_size=4, lags=6, steps=5, features=0)
    model = Forecaster(config).fit(batch).eval()
    with torch.no_grad():
        q = model(batch["history"], batch["known"])
    c, s = level_and_spread(batch["history"])
    linear = c + s * model.autoregression((batch["history"] - c) / s)
    assert torch.allclose(q[..., MEDIAN], linear, atol=1e-4)
    width = ((batch["target"] - linear) / s).quantile(torch.tensor([0.1, 0.9]), dim=0).diff(dim=0)[0]
    ours = ((q[..., MEDIAN + 2] - q[..., MEDIAN - 2]) / s)[0]
    assert torch.allclose(ours, width, rtol=1e-3)


def test_pinball_is_that_of_scikit_learn():
    torch.manual_seed(0)
    y, q = torch.randn(50), torch.randn(50, len(LEVELS))
    ours = pinball(y, q).mean(0)
    theirs = [mean_pinball_loss(y.numpy(), q[:, index].numpy(), alpha=level) for index, level in enumerate(LEVELS)]
    assert ours.tolist() == pytest.approx(theirs, abs=1e-6)


def test_the_loss_is_the_mean_over_what_is_there_in_units_of_each_series():
    batch = windows_of(wave(40), 12, 4)
    batch["scale"] = torch.linspace(0.5, 2, len(batch["scale"]))
    batch["valid_mask"] = torch.rand(batch["valid_mask"].shape, generator=torch.Generator().manual_seed(0)) < 0.7
    model = perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=1))
    learner = QuantileRegression(model)
    q = model(batch["history"], batch["known"])
    each = pinball(batch["target"], q).mean(-1) / rearrange(batch["scale"], "batch -> batch 1")
    assert learner.loss(batch).item() == pytest.approx(each[batch["valid_mask"]].mean().item(), rel=1e-5)
    spoiled = {**batch, "target": torch.where(batch["valid_mask"], batch["target"], 1e5)}
    assert torch.equal(learner.loss(spoiled), learner.loss(batch))
    one = learner.metrics(batch)["loss"][0].item()
    assert one == pytest.approx(each[0][batch["valid_mask"][0]].mean().item(), rel=1e-5)


def test_mase_is_the_error_of_the_median_in_units_of_each_series():
    model = perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=1))
    batch = windows_of(wave(40), 12, 4)
    batch["scale"] = torch.linspace(0.5, 2, len(batch["scale"]))
    batch["valid_mask"][0, 1:] = False
    median = model(batch["history"], batch["known"])[..., MEDIAN]
    errors = (batch["target"] - median).abs() / batch["scale"].unsqueeze(1)
    mase = QuantileRegression(model).metrics(batch)["mase"]
    torch.testing.assert_close(mase[1:], errors[1:].mean(1))
    torch.testing.assert_close(mase[0], errors[0, 0])


def test_nets_are_trained_by_their_own_loss_and_measured_by_their_mean():
    batch, model = (
        windows_of(wave(40), 12, 4),
        perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=3)),
    )
    learner, alone = QuantileRegression(model), model(batch["history"], batch["known"], average=False)
    assert torch.allclose(model(batch["history"], batch["known"]), alone.mean(0))
    assert (alone[0] - alone[1]).abs().max() > 1e-3
    losses = [pinball(batch["target"], each).mean().item() for each in alone]
    assert learner.loss(batch).item() == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert learner.metrics(batch)["loss"].mean().item() < learner.loss(batch).item()


def test_it_learns_what_the_linear_part_cannot():
    """The logistic map, x' = 3.8 x (1 − x), is chaotic: no straight line follows it."""
    values = [0.3]
    for _ in range(150):
        values.append(3.8 * values[-1] * (1 - values[-1]))
    batch = windows_of(torch.tensor(values), 5, 1)
    torch.manual_seed(0)
    model = Forecaster(ForecasterConfig(hidden_size=16, lags=4, steps=1, features=0, dropout=0.0, members=1)).fit(batch)
    learner = QuantileRegression(model)
    before = learner.loss(batch).item()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(60):
        optimizer.zero_grad()
        learner.loss(batch).backward()
        optimizer.step()
    assert learner.loss(batch).item() < 0.5 * before


def test_inputs_that_do_not_fit_are_refused():
    model = Forecaster(ForecasterConfig(hidden_size=4, lags=5, steps=3, features=2))
    with pytest.raises(InputError) as error:
        model(torch.zeros(1, 4), torch.zeros(1, 7, 2))
    assert str(error.value) == "this forecaster needs at least 5 values of history, but got 4."
    with pytest.raises(InputError) as error:
        model(torch.zeros(2, 6), torch.zeros(2, 9, 1))
    assert str(error.value) == (
        "what is known of the history and of the 3 steps after it must have the shape [2, 9, 2], but got [2, 9, 1]."
    )
