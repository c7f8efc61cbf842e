import numpy as np
import pytest
from statsmodels.tsa.stattools import acf

from neuropil.data.series.dataset import Series, SeriesTable, SeriesUnits
from neuropil.data.series.embedded import load_sunspots
from neuropil.data.series.season import autocorrelation, find_season, find_units
from neuropil.data.series.steps import TimeStep
from neuropil.errors import InputError


def table_of(values: np.ndarray, step: TimeStep | None = None) -> SeriesTable:
    return SeriesTable((Series("", 0, values, np.zeros((len(values), 0))),), step or TimeStep(), None, "y")


def noisy(period: int, length: int = 300, seed: int = 0) -> np.ndarray:
    time = np.arange(length)
    return np.sin(2 * np.pi * time / period) + 0.02 * time + 0.3 * np.random.default_rng(seed).normal(size=length)


@pytest.mark.parametrize("period", [4, 7, 12, 24, 50])
def test_a_cycle_is_found_under_trend_and_noise(period: int):
    assert find_season(table_of(noisy(period)), 300) == period


def test_the_sun_has_a_cycle_of_eleven_years():
    assert find_season(load_sunspots(), 210) == 11


def test_only_what_comes_before_the_end_is_looked_at():
    values = noisy(7)
    changed = values.copy()
    changed[200:] = noisy(13)[200:]
    assert find_season(table_of(changed), 200) == find_season(table_of(values), 200) == 7


def test_a_walk_without_a_cycle_has_the_season_one():
    rng = np.random.default_rng(1)
    assert find_season(table_of(rng.normal(size=300).cumsum()), 300) == 1
    assert find_season(table_of(rng.normal(size=300)), 300) == 1
    assert find_season(table_of(np.ones(50)), 50) == 1


def test_the_calendar_decides_where_it_is_long_enough():
    assert find_season(table_of(noisy(7), TimeStep(unit="month")), 300) == 12
    assert find_season(table_of(noisy(7), TimeStep(unit="month")), 30) == 7


def test_autocorrelation_is_that_of_statsmodels_without_the_trend():
    values = noisy(9)
    time = np.arange(len(values))
    rest = values - np.polynomial.Polynomial.fit(time, values, 1)(time)
    assert autocorrelation(values, 20) == pytest.approx(acf(rest, nlags=20, fft=False), abs=1e-9)


def test_the_level_is_the_median_and_the_scale_the_mean_change_over_a_season_in_the_training_part():
    table = table_of(np.array([1.0, 2.0, np.nan, 5.0, 3.0, 100.0]))
    # |3 − 2| … a season of 2 before step 5: 2 → nan, 2 → 5 is 3, nan → 3
    assert find_units(table, season=2, end=5) == [SeriesUnits(level=2.5, scale=3.0)]
    assert find_units(table_of(np.ones(9)), season=2, end=9) == [SeriesUnits(level=1.0, scale=1.0)]


def test_values_that_differ_by_rounding_alone_are_refused():
    table = table_of(1e17 + 16.0 * (np.arange(40) % 3))
    with pytest.raises(InputError) as error:
        find_units(table, season=1, end=40)
    assert str(error.value) == (
        "the values of the series must differ by more than the rounding of double precision, but got a mean change of "
        "21.3333 around 1.0000000000000002e+17: subtract a constant from all values in your table."
    )
