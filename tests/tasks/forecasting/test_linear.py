from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from jaxtyping import Float64
from statsmodels.tsa.ar_model import AutoReg
from statsmodels.tsa.holtwinters import SimpleExpSmoothing
from torch import Tensor

from neuropil.data.series.dataset import Series, SeriesTable
from neuropil.data.series.files import cuts
from neuropil.data.series.season import find_units
from neuropil.data.series.steps import TimeStep
from neuropil.data.series.windows import Panel
from neuropil.tasks.forecasting.baselines import Autoregressions
from neuropil.tasks.forecasting.linear import (
    LinearStart,
    Part,
    Structure,
    apply,
    autoregression,
    normal_equations,
    run_on,
    solve,
    structures,
)


def part_of(values: np.ndarray) -> Part:
    return Part(values, ~np.isnan(values))


def noise(length: int, share: float = 0.0, seed: int = 0) -> np.ndarray:
    """Of which this share is left a step later."""
    values = np.random.default_rng(seed).normal(size=length)
    for place in range(1, length):
        values[place] += share * values[place - 1]
    return values


def test_an_autoregression_is_that_of_statsmodels():
    values = 5 + noise(120, 0.7)
    gram, moments, total, rows = normal_equations([part_of(values)], 3)
    theirs = AutoReg(values, 3, trend="c").fit()
    ours = solve(gram, moments)
    assert ours.tolist() == pytest.approx(np.asarray(theirs.params).tolist(), abs=1e-5)
    assert total - ours @ moments == pytest.approx(float(np.square(theirs.resid).sum()), rel=1e-5)
    assert rows == 117
    ahead = apply(run_on(ours, 8, 5), torch.from_numpy(values[None]))
    assert ahead[0].tolist() == pytest.approx(np.asarray(theirs.forecast(5)).tolist(), rel=1e-5)


def test_the_number_of_lags_is_the_one_that_made_the_series():
    values = noise(600)
    for place in range(2, 600):
        values[place] += 1.2 * values[place - 1] - 0.6 * values[place - 2]
    constant, phi = autoregression([part_of(values)], 20)
    assert constant == pytest.approx(0, abs=0.1)
    assert phi[:3].tolist() == pytest.approx([1, -1.2, 0.6], abs=0.1)
    assert len(phi) <= 6


@pytest.mark.parametrize(("first", "season"), [(True, None), (False, 4), (True, 4)])
def test_differences_follow_a_line_and_a_season_without_an_error(first: bool, season: int | None):
    values = 3.0 + 2.0 * np.arange(60) + (10 * np.sin(np.arange(60) * np.pi / 2) if season else 0)
    fitted = Structure(smoothing=False, first=first, season=season).fit([part_of(values[:48])], 12)
    assert fitted is not None
    ahead = apply(run_on(fitted, 12, 12), torch.from_numpy(values[None, :48]))
    assert ahead[0].tolist() == pytest.approx(values[48:].tolist(), abs=1e-3)


def test_smoothing_is_that_of_statsmodels():
    values = 50 + noise(200).cumsum() * 0.3 + noise(200, seed=1)
    fitted = Structure(smoothing=True, first=True, season=None).fit([part_of(values)], 60)
    assert fitted is not None
    alpha = float(fitted[1])
    assert 0 < alpha < 0.7
    model = SimpleExpSmoothing(values, initialization_method="known", initial_level=values[0])
    theirs = model.fit(smoothing_level=alpha, optimized=False).forecast(3)
    ahead = apply(run_on(fitted, 60, 3), torch.from_numpy(values[None]))
    assert ahead[0].tolist() == pytest.approx(np.asarray(theirs).tolist(), rel=1e-3)


def test_a_value_that_is_missing_is_no_target():
    values = noise(100, 0.5)
    gram, moments, _, rows = normal_equations([part_of(values)], 2)
    valid = np.ones(100, bool)
    valid[50] = False
    spoiled = values.copy()
    row = np.array([1, values[49], values[48]])
    other = normal_equations([Part(spoiled, valid)], 2)
    assert np.allclose(other[0], gram - np.outer(row, row))
    assert np.allclose(other[1], moments - values[50] * row)
    assert other[3] == rows - 1


def test_recursions_of_each_season_are_tried():
    assert [str(each) for each in structures((24, 168))] == [
        "AR",
        "AR of seasonal (24) differences",
        "AR of seasonal (168) differences",
        "AR of first differences",
        "AR of first and seasonal (24) differences",
        "AR of first and seasonal (168) differences",
        "exponential smoothing, seasonal (24) only",
        "exponential smoothing, seasonal (168) only",
        "exponential smoothing",
        "exponential smoothing, seasonal (24)",
        "exponential smoothing, seasonal (168)",
        "exponential smoothing, with drift",
        "exponential smoothing, seasonal (24) only, with drift",
        "exponential smoothing, seasonal (168) only, with drift",
    ]
    assert [str(each) for each in structures((1,))] == [
        "AR",
        "AR of first differences",
        "exponential smoothing",
        "exponential smoothing, with drift",
    ]


def panel_of(values: np.ndarray, season: int, window: int, horizon: int) -> tuple[Panel, int, int]:
    table = SeriesTable((Series("", 0, values, np.zeros((len(values), 0))),), TimeStep(), None, "y")
    train_end, test_begin = cuts(len(values), horizon, 0.15, 0.2)
    return Panel.of(table, window, horizon, 6, find_units(table, season, train_end)), train_end, test_begin


def swing(length: int, period: float, size: float) -> np.ndarray:
    return size * np.sin(2 * np.pi * np.arange(length) / period)


@dataclass(frozen=True)
class Made:
    """Series of one kind; of short ones many, as luck decides about each."""

    draw: Callable[[int], np.ndarray]
    seasons: tuple[int, ...]
    window: int
    horizon: int
    draws: int

    def panel(self, seed: int) -> tuple[Panel, int, int]:
        return panel_of(self.draw(seed), self.seasons[0], self.window, self.horizon)


def hours_with_weekends(seed: int) -> np.ndarray:
    return swing(1800, 24, 5) * np.where(np.arange(1800) // 24 % 7 >= 5, 0.3, 1) + noise(1800, 0.8, seed)


def growing_days(seed: int) -> np.ndarray:
    return 100 + 0.3 * np.arange(400) + swing(400, 7, 10) + noise(400, 0.5, seed)


def clean_months(seed: int) -> np.ndarray:
    return 0.5 * np.arange(120) + swing(120, 12, 10) + 0.3 * noise(120, seed=seed)


MADE = {
    "hourly": Made(lambda seed: swing(1500, 24, 5) + noise(1500, 0.97, seed) / 2, (24,), 72, 24, 1),
    "hourly, with weekends": Made(hours_with_weekends, (24, 168), 216, 24, 1),
    "daily, growing": Made(growing_days, (7,), 21, 14, 3),
    "monthly, clean": Made(clean_months, (12,), 36, 12, 6),
    "monthly, five years": Made(lambda seed: swing(60, 12, 10) + noise(60, seed=seed), (12,), 24, 6, 8),
    "quarterly, wandering": Made(lambda seed: noise(150, 0.5, seed).cumsum(), (4,), 12, 8, 8),
    "yearly, wandering": Made(lambda seed: noise(100, seed=seed).cumsum(), (1,), 12, 6, 8),
    "yearly, around a mean": Made(lambda seed: 1000 + 100 * noise(100, 0.5, seed), (1,), 12, 6, 8),
}


@pytest.mark.parametrize("name", MADE)
def test_the_start_equals_or_beats_an_autoregression_of_the_same_values_on_the_test_part(name: str):
    made, errors = MADE[name], []
    for seed in range(made.draws):
        panel, train_end, test_begin = made.panel(seed)
        start = LinearStart.fit(panel, made.seasons, train_end, test_begin)
        test = panel.windows(test_begin, panel.table.end)
        for matrix, end in ((start.learned, train_end), (start.later, test_begin)):
            theirs = Autoregressions.fit(panel, made.seasons[0], end).forecast(test)
            target = test.batch()["target"]
            errors.append([mean_error(matrix.double(), test.batch()), float((theirs - target).abs().mean())])
    ours, theirs = np.reshape(errors, (made.draws, 2, 2)).mean(0).T
    assert (ours <= 1.02 * theirs).all(), (ours, theirs)


def test_the_weights_are_by_the_errors_and_sum_to_one():
    panel, train_end, test_begin = MADE["monthly, clean"].panel(0)
    shares = LinearStart.fit(panel, (12,), train_end, test_begin).shares
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert shares["persistence"] < 1e-3


def test_nothing_of_the_test_part_is_fitted():
    starts = []
    for last in (0.0, 1e3):
        panel, train_end, test_begin = panel_of(growing_days(0) + last * (np.arange(400) >= 320), 7, 21, 14)
        assert test_begin == 320
        starts.append(LinearStart.fit(panel, (7,), train_end, test_begin))
    assert torch.equal(starts[0].learned, starts[1].learned)
    assert torch.equal(starts[0].later, starts[1].later)


def test_a_series_that_is_too_short_for_anything_goes_on_as_it_was():
    panel, train_end, test_begin = panel_of(np.array([1.0, 2, 4, 3, 5, 4, 6, 5]), 1, 2, 1)
    start = LinearStart.fit(panel, (1,), train_end, test_begin)
    assert start.shares == {"persistence": 1}
    assert start.later.tolist() == [[0, 1, 0]]


def mean_error(matrix: Float64[Tensor, "horizon coefficient"], windows: dict[str, Tensor]) -> float:
    errors = (windows["target"] - apply(matrix, windows["history"])).abs()
    return float(errors[windows["valid_mask"]].mean())
