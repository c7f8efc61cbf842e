import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_pinball_loss
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.forecaster import (
    LEVELS,
    MEDIAN,
    Forecaster,
    ForecasterConfig,
    QuantileRegression,
    gaps_between_quantiles,
    level_and_spread,
    offsets,
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
    }


def persistence(lags: int, steps: int) -> Tensor:
    """The linear forecast "as the last value"."""
    return torch.eye(lags + 1)[lags - 1].repeat(steps, 1)


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
    q = perturbed(config)(10 * torch.randn(5, 12), torch.randn(5, 12 + steps, features))
    assert q.shape == (5, steps, len(LEVELS))
    assert (q.diff(dim=-1) > 0).all()


@settings(deadline=None, max_examples=30)
@given(st.floats(-100, 100), st.floats(0.01, 100))
def test_what_is_learned_moves_and_grows_with_the_series(shift: float, factor: float):
    """As far as the linear forecast does, which that of the last value does entirely."""
    model, history, known = (
        perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=2)),
        wave(12)[None],
        torch.ones(1, 16, 2),
    )
    model.linear.copy_(persistence(3, 4))
    with torch.no_grad():
        q, moved = model(history, known), model(shift + factor * history, known)
    assert torch.allclose(moved, shift + factor * q, rtol=1e-3, atol=1e-3 * (abs(shift) + factor))


def test_the_future_that_is_known_reaches_its_step_and_those_after_but_none_before():
    model, history, known = (
        perturbed(ForecasterConfig(hidden_size=4, lags=2, context=10, steps=6, features=1)),
        wave(10)[None],
        torch.zeros(1, 16, 1),
    )
    other = known.clone()
    other[:, 10 + 3] = 1.0
    changed = (model(history, known) - model(history, other)).abs().amax(-1)[0] > 1e-7
    assert changed.tolist() == [False, False, False, True, True, True]


def test_a_series_that_never_moves_goes_on_as_it_was():
    model = Forecaster(ForecasterConfig(hidden_size=4, lags=2, context=8, steps=3, features=0)).eval()
    model.linear.copy_(persistence(2, 3))
    with torch.no_grad():
        q = model(torch.full((1, 8), 1e6), torch.zeros(1, 11, 0))
    assert torch.isfinite(q).all()
    assert (q[..., MEDIAN] - 1e6).abs().max() < 10


def test_a_fitted_net_begins_as_the_linear_forecast_with_the_quantiles_of_its_errors():
    batch = windows_of(wave(noise=0.3), 18, 5)
    config = ForecasterConfig(hidden_size=4, lags=6, context=12, steps=5, features=0)
    matrix = 0.3 * torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    model = Forecaster(config).fit(batch, matrix).eval()
    with torch.no_grad():
        q = model(batch["history"], batch["known"])
    linear = batch["history"][:, -6:] @ matrix[:, :6].T + matrix[:, 6]
    assert torch.allclose(q[..., MEDIAN], linear, atol=1e-4)
    s = level_and_spread(batch["history"][:, -12:])[1] ** model.gamma
    ours = ((q[..., MEDIAN + 2] - q[..., MEDIAN - 2]) / s)[0]
    for step, width in enumerate(ours.tolist()):
        count = len(linear) / (step + 1)  # that so many errors, of overlapping steps, are worth
        outer = 0.4 * (count + 1) / count
        errors = ((batch["target"] - linear) / s)[:, step]
        assert width == pytest.approx((errors.quantile(0.5 + outer) - errors.quantile(0.5 - outer)).item(), rel=1e-3)


def test_the_nets_read_their_context_and_the_linear_forecast_its_lags():
    model = perturbed(ForecasterConfig(hidden_size=4, lags=8, context=5, steps=3, features=0))
    history, known = wave(10)[None], torch.zeros(1, 13, 0)

    def changes(place: int) -> bool:
        other = history.clone()
        other[0, place] += 1
        return not torch.equal(model(history, known), model(other, known))

    model.linear.normal_(generator=torch.Generator().manual_seed(0))
    assert [changes(place) for place in range(10)] == [False] * 2 + [True] * 8
    model.linear.zero_()
    assert [changes(place) for place in range(10)] == [False] * 5 + [True] * 5


def test_pinball_is_that_of_scikit_learn():
    torch.manual_seed(0)
    y, q = torch.randn(50), torch.randn(50, len(LEVELS))
    ours = pinball(y, q).mean(0)
    theirs = [mean_pinball_loss(y.numpy(), q[:, index].numpy(), alpha=level) for index, level in enumerate(LEVELS)]
    assert ours.tolist() == pytest.approx(theirs, abs=1e-6)


def test_the_loss_is_the_mean_over_what_is_there():
    batch = windows_of(wave(40), 12, 4)
    batch["valid_mask"] = torch.rand(batch["valid_mask"].shape, generator=torch.Generator().manual_seed(0)) < 0.7
    model = perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=1, correction=1.0))
    learner = QuantileRegression(model)
    q = model(batch["history"], batch["known"])
    each = pinball(batch["target"], q).mean(-1)
    assert learner.loss(batch).item() == pytest.approx(each[batch["valid_mask"]].mean().item(), rel=1e-5)
    spoiled = {**batch, "target": torch.where(batch["valid_mask"], batch["target"], 1e5)}
    assert torch.equal(learner.loss(spoiled), learner.loss(batch))
    one = learner.metrics(batch)["loss"][0].item()
    assert one == pytest.approx(each[0][batch["valid_mask"][0]].mean().item(), rel=1e-5)


def test_mase_is_the_error_of_the_median():
    model = perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=1))
    batch = windows_of(wave(40), 12, 4)
    batch["valid_mask"][0, 1:] = False
    median = model(batch["history"], batch["known"])[..., MEDIAN]
    errors = (batch["target"] - median).abs()
    mase = QuantileRegression(model).metrics(batch)["mase"]
    torch.testing.assert_close(mase[1:], errors[1:].mean(1))
    torch.testing.assert_close(mase[0], errors[0, 0])


def test_nets_are_trained_by_their_own_loss_and_measured_by_their_mean():
    batch, model = (
        windows_of(wave(40), 12, 4),
        perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=3, correction=1.0)),
    )
    learner, alone = QuantileRegression(model), model(batch["history"], batch["known"], average=False)
    assert torch.allclose(model(batch["history"], batch["known"]), alone.mean(0))
    assert (alone[0] - alone[1]).abs().max() > 1e-3
    losses = [pinball(batch["target"], each).mean().item() for each in alone]
    assert learner.loss(batch).item() == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert learner.metrics(batch)["loss"].mean().item() < learner.loss(batch).item()


def test_the_median_lies_halfway_between_the_nets_and_the_linear_forecast():
    batch, model = (
        windows_of(wave(40), 12, 4),
        perturbed(ForecasterConfig(hidden_size=4, lags=3, steps=4, features=0, members=3)),
    )
    model.linear.copy_(persistence(3, 4))
    q, nets = model(batch["history"], batch["known"]), model(batch["history"], batch["known"], average=False).mean(0)
    torch.testing.assert_close(q[..., MEDIAN], (nets[..., MEDIAN] + batch["history"][:, -1:]) / 2)
    torch.testing.assert_close(q - q[..., MEDIAN, None], nets - nets[..., MEDIAN, None])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_bands_grow_with_the_swing_as_far_as_errors_did(gamma: float):
    """Windows of different swing, with errors as large as its power γ."""
    generator = torch.Generator().manual_seed(0)
    s = torch.logspace(-1, 1, 400).unsqueeze(1)
    history = s * torch.tensor([1.0, -1.0]).repeat(6)
    batch = {
        "history": history,
        "known": torch.zeros(400, 15, 0),
        "target": history[:, -1:] + s**gamma * torch.randn(400, 3, generator=generator),
        "valid_mask": torch.ones(400, 3, dtype=torch.bool),
    }
    config = ForecasterConfig(hidden_size=4, lags=2, context=12, steps=3, features=0)
    model = Forecaster(config).fit(batch, persistence(2, 3)).eval()
    assert model.gamma == gamma
    q = model(history, batch["known"])
    width = (q[..., MEDIAN + 2] - q[..., MEDIAN - 2]) / s**gamma
    assert torch.allclose(width, torch.tensor(2 * 1.2816), rtol=0.15)


@settings(deadline=None, max_examples=10)
@given(st.integers(4, 40), st.integers(1, 4))
def test_bands_from_few_errors_hold_their_share_of_the_next(count: int, horizon: int):
    """Errors h steps ahead are sums of the h steps from their origin on, as those of a series that wanders."""
    generator = torch.Generator().manual_seed(count)
    steps = torch.randn(300, count + 3 * horizon, generator=generator)
    errors = steps.unfold(1, horizon, 1).cumsum(-1)  # draw origin horizon
    seen, later = errors[:, :count], errors[:, count + horizon]
    valid = torch.ones(count, horizon, dtype=torch.bool)
    around = torch.stack([offsets(gaps_between_quantiles(each, valid)) for each in seen])
    around = around + seen.median(1).values.unsqueeze(-1)
    inside = (later > around[..., MEDIAN - 2]) & (later < around[..., MEDIAN + 2])
    worth = count / torch.arange(1, horizon + 1)
    possible = (worth - 1) / (worth + 1)  # between the least and the greatest of so many
    assert (inside.float().mean(0) > possible.clamp(max=0.8) - 0.1).all()


def test_bands_are_as_wide_as_the_errors_of_forecasts_that_had_not_seen_what_came():
    batch = windows_of(wave(noise=0.3), 18, 5)
    config = ForecasterConfig(hidden_size=4, lags=6, context=12, steps=5, features=0)
    noise = 3 * torch.randn(batch["target"].shape, generator=torch.Generator().manual_seed(0))
    seen, unseen = (
        Forecaster(config).fit(batch, persistence(6, 5), rolled).eval()(batch["history"], batch["known"])
        for rolled in (None, {**batch, "forecast": batch["target"] + noise})
    )
    torch.testing.assert_close(seen[..., MEDIAN], unseen[..., MEDIAN])
    coverage = ((noise > unseen[..., 1] - unseen[..., 3]) & (noise < unseen[..., 5] - unseen[..., 3])).float().mean()
    assert coverage == pytest.approx(0.8, abs=0.03)


def test_it_learns_what_the_linear_part_cannot():
    """The logistic map, x' = 3.8 x (1 − x), is chaotic: no straight line follows it."""
    values = [0.3]
    for _ in range(150):
        values.append(3.8 * values[-1] * (1 - values[-1]))
    batch = windows_of(torch.tensor(values), 5, 1)
    torch.manual_seed(0)
    config = ForecasterConfig(hidden_size=16, lags=4, context=5, steps=1, features=0, dropout=0.0, members=1)
    model = Forecaster(config).fit(batch, persistence(4, 1))
    learner = QuantileRegression(model)
    before = learner.loss(batch).item()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(60):
        optimizer.zero_grad()
        learner.loss(batch).backward()
        optimizer.step()
    assert learner.loss(batch).item() < 0.5 * before


def test_inputs_that_do_not_fit_are_refused():
    model = Forecaster(ForecasterConfig(hidden_size=4, lags=5, context=3, steps=3, features=2))
    with pytest.raises(InputError) as error:
        model(torch.zeros(1, 4), torch.zeros(1, 7, 2))
    assert str(error.value) == "this forecaster needs at least 5 values of history, but got 4."
    with pytest.raises(InputError) as error:
        model(torch.zeros(2, 6), torch.zeros(2, 9, 1))
    assert str(error.value) == (
        "what is known of the history and of the 3 steps after it must have the shape [2, 9, 2], but got [2, 9, 1]."
    )
