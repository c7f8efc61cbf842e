from typing import Any

import numpy as np
import pytest
from statsmodels.datasets import co2, sunspots

from neuropil.data.series.embedded import EMBEDDED, load_co2, load_sunspots


def frame(module: Any) -> Any:
    return module.load_pandas().data


def test_sunspots_are_those_of_statsmodels_by_year():
    table, theirs = load_sunspots(), frame(sunspots)
    assert table.series[0].values.tolist() == theirs["SUNACTIVITY"].tolist()
    assert (table.label(0), table.label(table.end - 1), str(table.step)) == ("1700", "2008", "year")
    assert EMBEDDED["sunspots"].horizon == 11


def test_carbon_dioxide_is_the_mean_of_the_weeks_of_each_month_with_its_gaps():
    table = load_co2()
    expected = frame(co2)["co2"].resample("MS").mean().to_numpy()
    assert table.series[0].values == pytest.approx(expected, nan_ok=True)
    assert np.isnan(expected).sum() == 5
    assert (table.label(0), table.label(table.end - 1), str(table.step)) == ("1958-03", "2001-12", "month")
