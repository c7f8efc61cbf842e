import numpy as np
import pytest
import torch
from statsmodels.tsa.ar_model import AutoReg, ar_select_order

from neuropil.data.series.dataset import Series, SeriesTable, SeriesUnits
from neuropil.data.series.embedded import load_sunspots
from neuropil.data.series.files import SeriesDataConfig, prepare_series
from neuropil.data.series.steps import TimeStep
from neuropil.data.series.windows import Panel, SeriesWindows
from neuropil.tasks.forecasting.baselines import Autoregressions, persistence, seasonal_naive


def windows_of(*series: np.ndarray, horizon: int = 5) -> SeriesWindows:
    each = tuple(Series(str(index), 0, values, np.zeros((len(values), 0))) for index, values in enumerate(series))
    panel = Panel.of(SeriesTable(each, TimeStep(), None, "y"), 4, horizon, 2, [SeriesUnits()] * len(series))
    return panel.last_windows()


def test_persistence_repeats_the_last_value_and_seasonal_naive_the_last_season():
    windows = windows_of(np.arange(10.0))
    assert persistence(windows).tolist() == [[9, 9, 9, 9, 9]]
    assert seasonal_naive(windows, 3).tolist() == [[7, 8, 9, 7, 8]]
    assert seasonal_naive(windows, 10).tolist() == [[0, 1, 2, 3, 4]]


def test_the_autoregression_is_that_of_statsmodels():
    splits = prepare_series(SeriesDataConfig())
    fitted = Autoregressions.fit(splits.panel, splits.season, splits.train_end)
    values = load_sunspots().series[0].values
    chosen = ar_select_order(values[: splits.train_end], 33, ic="aic", trend="c")
    assert fitted.lags == [len(chosen.ar_lags or [])] == [12]
    assert fitted.order == "(12)"
    result = chosen.model.fit()
    ours = splits.test.restored(fitted.forecast(splits.test))
    for index in (0, 17, len(splits.test) - 1):
        origin = int(splits.test.origins[index])
        # The same coefficients, applied by statsmodels to the longer series.
        longer = AutoReg(values[:origin], 12, trend="c")
        theirs = longer.predict(result.params, start=origin, end=origin + 10)
        assert ours[index].tolist() == pytest.approx(theirs.tolist(), rel=1e-4)


def test_each_series_has_an_autoregression_of_its_own_and_a_constant_stays_constant():
    rng = np.random.default_rng(0)
    first = np.zeros(200)
    for t in range(1, 200):
        first[t] = -0.8 * first[t - 1] + rng.normal()
    windows = windows_of(first, np.full(200, 7.0))
    fitted = Autoregressions.fit(windows.panel, 1, 200)
    assert fitted.coefficients[0][1].item() == pytest.approx(-0.8, abs=0.15)
    assert fitted.lags[1] == 0
    assert fitted.order == ""
    assert fitted.forecast(windows)[1].tolist() == [7] * 5


def test_nothing_after_the_end_is_fitted():
    series = np.random.default_rng(0).normal(size=120).cumsum()
    changed = series.copy()
    changed[80:] = 50
    fits = [Autoregressions.fit(windows_of(values).panel, 4, 80).coefficients[0] for values in (series, changed)]
    assert torch.equal(*fits)
