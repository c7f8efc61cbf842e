from collections.abc import Callable
from typing import Any, cast

import pytest

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run
from neuropil.tasks.forecasting.origins import forecast_from

VIEW = find_view("forecast")


def test_the_forecast_is_that_of_the_library(trained_run: Callable[..., Run]):
    run = trained_run("forecaster", **SMALL["forecaster"])
    table = cast(Any, run.experiment()).splits.table
    answer = ask(VIEW, "read", run, {"origin": 280, "share": 0.9, "steps": [279], "values": [150]})
    found = forecast_from(run.predictor, table, 0, 280, changes={279: 150.0})
    assert answer["median"] == found.forecasts.median[0].tolist()
    assert answer["high"] == found.forecasts.band(0.9)[1][0].tolist()
    assert answer["mase"]["forecaster"] == found.mase(found.forecasts.median[0])
    assert answer["mase"]["seasonal naive"] == found.mase(found.baselines["seasonal naive"])
    assert answer["history"][-1] == 150
    assert answer["was"][-1] == table.series[0].values[279]
    assert answer["date"] == "1980"


def test_a_band_that_is_not_learned_is_refused(trained_run: Callable[..., Run]):
    run = trained_run("forecaster", **SMALL["forecaster"])
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", run, {"share": 0.95})
    assert str(refused.value) == "a band must hold one of the shares 0.5, 0.8, 0.9, but got 0.95."
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", run, {"steps": [1, 2], "values": [1]})
    assert str(refused.value) == "there must be a value for each changed step, but got 1 for 2."
