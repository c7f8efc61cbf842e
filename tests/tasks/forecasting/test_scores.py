import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, mean_pinball_loss

from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN
from neuropil.tasks.forecasting.scores import (
    FEWEST_ORIGINS,
    Rolled,
    conformal_quantile,
    error_quantiles,
    factors_from,
    outcomes_by,
    ratios,
    sliding_factors,
    stretched,
)

OFFSETS = torch.tensor([-1.64, -1.28, -0.67, 0.0, 0.67, 1.28, 1.64])
"""Of a normal distribution's quantiles at the levels."""


def rolled_of(origins: int = 60, horizon: int = 4, seed: int = 0, spread: float = 1.0) -> Rolled:
    generator = torch.Generator().manual_seed(seed)
    median = torch.randn(origins, horizon, generator=generator)
    target = median + spread * torch.randn(origins, horizon, generator=generator)
    valid_mask = torch.rand(origins, horizon, generator=generator) < 0.9
    return Rolled(median.unsqueeze(-1) + OFFSETS, target, valid_mask, torch.arange(100, 100 + origins))


def test_scores_are_those_of_scikit_learn():
    rolled = rolled_of()
    truth, q = rolled.target[rolled.valid_mask], rolled.quantiles[rolled.valid_mask]
    scores = rolled.scores()
    assert scores["mase"] == pytest.approx(mean_absolute_error(truth, q[:, MEDIAN]), rel=1e-5)
    losses = [mean_pinball_loss(truth, q[:, index], alpha=level) for index, level in enumerate(LEVELS)]
    assert scores["pinball_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    inside = [low <= y <= high for y, low, high in zip(truth.tolist(), q[:, 1].tolist(), q[:, 5].tolist(), strict=True)]
    assert scores["coverage_80"] == pytest.approx(sum(inside) / len(inside))


def test_mase_by_hand():
    quantiles = torch.tensor([[1.0, 2.0]]).unsqueeze(-1).expand(1, 2, len(LEVELS))
    rolled = Rolled(quantiles, torch.tensor([[1.5, 99.0]]), torch.tensor([[True, False]]), torch.tensor([0]))
    assert rolled.scores()["mase"] == 0.5
    assert rolled.mase_by_step().tolist() == [0.5, 0.0]


def test_a_band_that_is_stretched_by_its_factor_holds_its_share():
    rolled = rolled_of(400, spread=2.5)
    assert rolled.coverage()[1] < 0.5
    factors = factors_from(ratios(rolled), rolled.valid_mask)
    better = rolled.with_quantiles(stretched(rolled.quantiles, factors.expand(len(rolled), -1)))
    assert better.coverage() == pytest.approx(BANDS, abs=0.01)
    assert better.scores()["mase"] == rolled.scores()["mase"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 5), min_size=len(BANDS), max_size=len(BANDS)), st.integers(0, 100))
def test_stretched_quantiles_never_cross_and_keep_their_median(factors: list[float], seed: int):
    quantiles = rolled_of(5, seed=seed).quantiles
    wider = stretched(quantiles, torch.tensor(factors).expand(5, -1))
    assert (wider.diff(dim=-1) >= -1e-6).all()
    assert torch.equal(wider[..., MEDIAN], quantiles[..., MEDIAN])
    assert torch.allclose(stretched(quantiles, torch.ones(5, len(BANDS))), quantiles, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.floats(0.05, 0.95))
def test_the_conformal_quantile_is_the_one_of_the_books(count: int, share: float):
    values = torch.randn(count, generator=torch.Generator().manual_seed(count))
    found = conformal_quantile(values, share)
    at_most = int((values <= found).sum())
    assert at_most >= min(count, share * (count + 1))
    assert at_most - 1 < share * (count + 1)


@settings(deadline=None, max_examples=40)
@given(st.integers(101, 165), st.integers(1, 80), st.integers(0, 50))
def test_a_factor_knows_only_outcomes_from_before_its_origin(origin: int, length: int, seed: int):
    rolled = rolled_of(seed=seed)
    outcome = rolled.origins.unsqueeze(1) + torch.arange(4)
    later = torch.where(outcome >= origin, 1e3, rolled.target)
    changed = Rolled(rolled.quantiles, later, rolled.valid_mask, rolled.origins)
    asked = torch.tensor([origin])
    assert torch.equal(sliding_factors(rolled, asked, length), sliding_factors(changed, asked, length))
    assert torch.equal(error_quantiles(rolled, asked, length), error_quantiles(changed, asked, length))
    rows, known = outcomes_by(rolled, origin, length)
    assert (outcome[rows][known] < origin).all()
    assert (rolled.origins[rows] >= origin - 4 - length).all()


def test_few_outcomes_leave_a_band_as_it_was():
    few = rolled_of(FEWEST_ORIGINS - 1)
    assert factors_from(ratios(few), few.valid_mask).tolist() == [1, 1, 1]
    assert sliding_factors(rolled_of(), torch.tensor([100, 105]), 50, (2.0, 3.0, 4.0)).tolist() == [[2, 3, 4]] * 2


def test_a_point_forecast_gets_the_quantiles_of_its_own_errors():
    rolled = rolled_of(500, spread=3.0)
    points = rolled.with_quantiles(rolled.median.unsqueeze(-1).expand(-1, -1, len(LEVELS)))
    around = error_quantiles(points, torch.tensor([600]), 500)
    errors = (rolled.target - rolled.median)[rolled.valid_mask[:, 2], 2]
    expected = torch.quantile(errors, torch.tensor(LEVELS)) - errors.median()
    assert around[0, 2].tolist() == pytest.approx(expected.tolist(), abs=0.05)
    assert (around[..., MEDIAN] == 0).all()
    assert error_quantiles(points, torch.tensor([100]), 500).any() == torch.tensor(False)
