"""Forecasts from any origin are those of the forecaster that has seen no more."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch

import neuropil
from neuropil.data.series.files import SeriesSplits
from neuropil.errors import InputError
from neuropil.tasks.forecasting.baselines import Autoregressions
from neuropil.tasks.forecasting.origins import forecast_from


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> neuropil.Run:
    options = {"updates": 20, "members": 1, "hidden_size": 8, "show_progress": False, "report": False}
    return neuropil.train("forecaster", out=tmp_path_factory.mktemp("forecaster") / "run", **options)


@pytest.fixture(scope="module")
def splits(run: neuropil.Run) -> SeriesSplits:
    return cast(Any, run.experiment()).splits


def test_nothing_after_the_origin_is_used(run: neuropil.Run, splits: SeriesSplits):
    forecaster, table = run.predictor, splits.table
    series, origin = table.series[0], splits.test_begin
    found = forecast_from(forecaster, table, 0, origin)
    known = replace(table, series=(replace(series, values=series.values[:origin]),))
    assert torch.equal(found.forecasts.quantiles, forecaster.forecast(known).quantiles)
    assert found.truth.tolist() == series.values[origin : origin + forecaster.horizon].tolist()
    assert found.baselines["persistence"].tolist() == pytest.approx([series.values[origin - 1]] * forecaster.horizon)
    season = forecaster.season
    assert found.baselines["seasonal naive"].tolist() == pytest.approx(
        series.values[origin - season : origin].tolist(), rel=1e-5
    )
    error = np.abs(series.values[origin - 1] - series.values[origin : origin + forecaster.horizon]).mean()
    assert found.mase(found.baselines["persistence"]) == pytest.approx(error / splits.panel.units[0].scale)


def test_a_changed_value_moves_the_forecast_and_nothing_else(run: neuropil.Run, splits: SeriesSplits):
    forecaster, table, origin = run.predictor, splits.table, splits.test_begin
    before = table.series[0].values.copy()
    plain = forecast_from(forecaster, table, 0, origin)
    changed = forecast_from(forecaster, table, 0, origin, changes={origin - 1: 300.0})
    assert np.array_equal(table.series[0].values, before)
    assert not torch.allclose(changed.forecasts.median, plain.forecasts.median)
    assert changed.baselines["persistence"].tolist() == pytest.approx([300.0] * forecaster.horizon)


def test_at_the_end_there_is_no_truth(run: neuropil.Run, splits: SeriesSplits):
    found = forecast_from(run.predictor, splits.table, 0, splits.table.end)
    assert found.truth.isnan().all()
    assert found.mase(found.forecasts.median[0]) is None
    assert found.inside(0.8) == (0, 0)


def test_the_autoregression_is_the_one_that_was_fitted(run: neuropil.Run, splits: SeriesSplits):
    fitted = Autoregressions.fit(splits.panel, splits.season, splits.test_begin)
    found = forecast_from(run.predictor, splits.table, 0, splits.test_begin, autoregressions=fitted)
    windows = splits.panel.windows(splits.test_begin, splits.table.end)
    expected = windows.restored(fitted.forecast(windows))[0]
    assert found.baselines[f"AR{fitted.order}"].tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_other_origins_and_steps_are_refused(run: neuropil.Run, splits: SeriesSplits):
    with pytest.raises(InputError) as refused:
        forecast_from(run.predictor, splits.table, 0, 3)
    assert str(refused.value) == "an origin of the series must be a step from 33 to 309, but got 3."
    with pytest.raises(InputError) as refused:
        forecast_from(run.predictor, splits.table, 0, 100, changes={100: 1.0})
    assert str(refused.value) == "values are changed at steps from 0 to 99, but got step 100."
