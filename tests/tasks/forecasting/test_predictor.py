"""What a forecaster says of values that it cannot continue."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neuropil.data.series.dataset import SeriesUnits
from neuropil.data.series.files import SeriesColumns
from neuropil.data.series.steps import TimeStep
from neuropil.errors import InputError, RunError
from neuropil.models.forecaster import Forecaster, ForecasterConfig
from neuropil.tasks.forecasting.predictor import SeriesForecaster
from neuropil.tasks.forecasting.scores import UNSTRETCHED

VALUES = np.sin(np.arange(60) * 0.5)
ROW = "values to continue must be a row of numbers that begins and ends with one"


def forecaster() -> SeriesForecaster:
    torch.manual_seed(0)
    config = ForecasterConfig(hidden_size=4, members=1, lags=8, context=8, features=0, steps=3)
    model = Forecaster(config).eval()
    model.linear.normal_()
    units = {"": SeriesUnits(0.0, 1e-3)}
    columns = SeriesColumns(target="value")
    return SeriesForecaster(model, columns, TimeStep(), 8, 3, 1, 2, units, 10, tuple(UNSTRETCHED))


def test_a_finished_run_must_hold_its_calibration(tmp_path: Path):
    path, schema = tmp_path / "calibration.json", {"columns": SeriesColumns(target="value").to_dict()}
    schema |= {"step": TimeStep().to_dict(), "window": 8, "horizon": 3, "season": 1, "longest_gap": 2}
    facts = {"series": schema | {"units": {"": [0.0, 1e-3]}, "calibration": 10}}

    def restored() -> SeriesForecaster:
        return SeriesForecaster.restore(forecaster().model, facts, tmp_path)

    assert restored().factors == tuple(UNSTRETCHED)  # it was stopped before
    result = {"kind": "result", "name": "forecaster", "step": 1, "mase": 1.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(result) + "\n")
    for content, got in ((None, "no such file"), ('{"factors": [1', "a damaged file"), ("{}", "a damaged file")):
        if content is not None:
            path.write_text(content)
        with pytest.raises(RunError) as error:
            restored()
        assert str(error.value) == (
            f"{path} must be the JSON that neuropil wrote, but got {got}: restore it or train again."
        )
    path.write_text('{"factors": [1.5, 2.0]}')
    assert restored().factors == (1.5, 2.0)


def changed(place: int, value: float) -> np.ndarray:
    values = VALUES.copy()
    values[place] = value
    return values


@pytest.mark.parametrize("inputs", [VALUES, VALUES.tolist(), torch.from_numpy(VALUES), changed(20, np.nan)])
def test_it_continues_a_row_of_numbers(inputs: Any):
    quantiles = forecaster().forecast(inputs).quantiles
    assert quantiles.shape == (1, 3, 7)
    assert quantiles.isfinite().all()


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (["a", "b"], f"{ROW}, but got a list of other things (could not convert string to float: 'a')."),
        (VALUES[:, None], f"{ROW}, but got an array of shape (60, 1)."),
        (changed(-1, np.nan), f"{ROW}, but got an array of shape (60,)."),
        (
            changed(50, np.inf),
            "values to continue must be finite numbers, but got inf at [50]: fill it in or remove its row.",
        ),
        (
            changed(50, 1e300),
            "values to continue must be numbers within ±3.4e38, but got 1e+300 at [50]: fill it in or remove its row.",
        ),
        (
            changed(59, 1e37),
            "values to continue must be of the size of those that were learned, or nearly, "
            "but got some of up to 1e+37.",
        ),
    ],
)
def test_other_values_are_refused_in_a_sentence(inputs: Any, sentence: str):
    with pytest.raises(InputError) as error:
        forecaster().forecast(inputs)
    assert str(error.value) == sentence
