import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, mean_pinball_loss

from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN
from neuropil.tasks.forecasting.scores import Rolled, adaptive_factors, error_quantiles, outcomes_by, stretched

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


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
def test_bands_hold_their_shares_in_the_long_run_however_wide_they_were(spread: float):
    rolled = rolled_of(1500, spread=spread)
    better = rolled.with_quantiles(stretched(rolled.quantiles, adaptive_factors(rolled, rolled.origins)))
    assert better.coverage() == pytest.approx(BANDS, abs=0.02)
    assert better.scores()["mase"] == rolled.scores()["mase"]


def test_bands_hold_their_shares_also_where_errors_grow_all_the_time():
    """Quantiles of past errors would fall short."""
    rolled = rolled_of(1000)
    growing = torch.logspace(0, 2, 1000).unsqueeze(1)
    rolled = Rolled(
        rolled.quantiles, rolled.median + growing * (rolled.target - rolled.median), rolled.valid_mask, rolled.origins
    )
    assert rolled.coverage()[1] < 0.4
    better = rolled.with_quantiles(stretched(rolled.quantiles, adaptive_factors(rolled, rolled.origins)))
    assert better.coverage() == pytest.approx(BANDS, abs=0.04)


def test_factors_follow_the_rule_of_adaptive_conformal_inference_by_hand():
    """One step ahead, η = 0.2: after a miss log f grows by 0.2 of the promised share, else it shrinks by the rest."""
    quantiles, origins = OFFSETS.expand(4, 1, -1), torch.tensor([3, 4, 6, 7])
    rolled = Rolled(quantiles, torch.tensor([[9.0], [0.1], [-9.0], [9.0]]), torch.ones(4, 1, dtype=torch.bool), origins)
    factors = adaptive_factors(rolled, torch.tensor([3, 4, 5, 6, 7, 9]), (1.0, 2.0, 1.0))
    shares = torch.tensor(BANDS)
    changes = [torch.zeros(3), 0.2 * shares, 0.2 * (shares - 1), torch.zeros(3), 0.2 * shares, 0.2 * shares]
    torch.testing.assert_close(factors.log(), torch.tensor([1.0, 2.0, 1.0]).log() + torch.stack(changes).cumsum(0))


def test_a_step_counts_once_however_many_forecasts_were_made_for_it():
    one = rolled_of(60, horizon=4)
    asked = torch.tensor([110, 130, 170])
    torch.testing.assert_close(adaptive_factors(one + one, asked), adaptive_factors(one, asked))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 5), min_size=len(BANDS), max_size=len(BANDS)), st.integers(0, 100))
def test_stretched_quantiles_never_cross_and_keep_their_median(factors: list[float], seed: int):
    quantiles = rolled_of(5, seed=seed).quantiles
    wider = stretched(quantiles, torch.tensor(factors).expand(5, -1))
    assert (wider.diff(dim=-1) >= -1e-6).all()
    assert torch.equal(wider[..., MEDIAN], quantiles[..., MEDIAN])
    assert torch.allclose(stretched(quantiles, torch.ones(5, len(BANDS))), quantiles, atol=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(101, 165), st.integers(1, 80), st.integers(0, 50))
def test_a_factor_knows_only_outcomes_from_before_its_origin(origin: int, length: int, seed: int):
    rolled = rolled_of(seed=seed)
    outcome = rolled.origins.unsqueeze(1) + torch.arange(4)
    later = torch.where(outcome >= origin, 1e3, rolled.target)
    changed = Rolled(rolled.quantiles, later, rolled.valid_mask, rolled.origins)
    asked = torch.tensor([origin])
    assert torch.equal(adaptive_factors(rolled, asked), adaptive_factors(changed, asked))
    assert torch.equal(error_quantiles(rolled, asked, length), error_quantiles(changed, asked, length))
    rows, known = outcomes_by(rolled, origin, length)
    assert (outcome[rows][known] < origin).all()
    assert (rolled.origins[rows] >= origin - 4 - length).all()


def test_without_outcomes_a_band_is_left_as_it_was():
    asked = torch.tensor([50, 100])
    assert adaptive_factors(rolled_of(), asked, (2.0, 3.0, 4.0)).flatten().tolist() == pytest.approx([2, 3, 4] * 2)
    assert adaptive_factors(rolled_of(0), asked).tolist() == [[1, 1, 1]] * 2


def test_a_point_forecast_gets_the_quantiles_of_its_own_errors():
    rolled = rolled_of(500, spread=3.0)
    points = rolled.with_quantiles(rolled.median.unsqueeze(-1).expand(-1, -1, len(LEVELS)))
    around = error_quantiles(points, torch.tensor([600]), 500)
    errors = (rolled.target - rolled.median)[rolled.valid_mask[:, 2], 2]
    expected = torch.quantile(errors, torch.tensor(LEVELS)) - errors.median()
    assert around[0, 2].tolist() == pytest.approx(expected.tolist(), abs=0.05)
    assert (around[..., MEDIAN] == 0).all()
    assert error_quantiles(points, torch.tensor([100]), 500).any() == torch.tensor(False)
