import numpy as np
import pandas as pd
import pytest

from neuropil.data.series.calendar import calendar
from neuropil.data.series.steps import TimeStep

WIDTHS = {
    TimeStep(): 0,
    TimeStep(unit="month", count=12): 0,
    TimeStep(unit="month"): 4,
    TimeStep(unit="second", count=604_800): 4,
    TimeStep(unit="second", count=86_400): 8,
    TimeStep(unit="business day"): 8,
    TimeStep(unit="second", count=3_600): 12,
}


@pytest.mark.parametrize(("step", "width"), WIDTHS.items(), ids=str)
def test_a_step_has_the_cycles_that_it_divides(step: TimeStep, width: int):
    dates = pd.date_range("2020-01-01", periods=5, freq="h").to_numpy().astype("M8[s]")
    assert calendar(step, dates).shape == (5, width)
    assert calendar(step, None).shape == (0, width)


def test_the_same_day_of_every_year_stands_at_the_same_place():
    dates = np.array(["2019-01-01", "2020-01-01", "2019-07-02 12:00"], "M8[s]")
    new_year, again, middle = calendar(TimeStep(unit="month"), dates)
    assert new_year.tolist() == again.tolist() == [0, 1, 0, 1]
    assert middle == pytest.approx([0, -1, 0, 1], abs=1e-12)


def test_days_of_the_week_and_hours_of_the_day_are_those_of_pandas():
    dates = pd.date_range("2020-02-25", periods=24 * 30, freq="h")
    features = calendar(TimeStep(unit="second", count=3_600), dates.to_numpy().astype("M8[s]"))
    week = (dates.day_of_week + dates.hour / 24).to_numpy() / 7
    assert features[:, 4] == pytest.approx(np.sin(2 * np.pi * week), abs=1e-9)
    assert features[:, 9] == pytest.approx(np.cos(2 * np.pi * dates.hour.to_numpy() / 24), abs=1e-9)
    year = (dates.day_of_year - 1 + dates.hour / 24).to_numpy() / 366
    assert features[:, 2] == pytest.approx(np.sin(4 * np.pi * year), abs=1e-9)
