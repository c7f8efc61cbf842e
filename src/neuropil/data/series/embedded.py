"""Two series that statsmodels carries: sunspots by year, and carbon dioxide above Mauna Loa by month."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from neuropil.data.series.dataset import Series, SeriesTable, mean_of_each
from neuropil.data.series.steps import TimeStep
from neuropil.extras import require_extra

DatasetName = Literal["sunspots", "co2"]


@dataclass(frozen=True)
class Embedded:
    load: Callable[[], SeriesTable]
    horizon: int


def load_sunspots() -> SeriesTable:
    """Spots on the sun, the mean of each year from 1700 to 2008; they come and go in about eleven years."""
    require_extra("forecasting", "the series of the sunspots")
    from statsmodels.datasets import sunspots

    table: Any = sunspots.load_pandas().data
    values = table["SUNACTIVITY"].to_numpy(np.float64)
    first = np.datetime64(f"{int(table['YEAR'].iloc[0])}-01-01", "s")
    step = TimeStep(unit="month", count=12)
    source = f"the sunspots of {len(values)} years (statsmodels)"
    return SeriesTable((_alone(values),), step, first, "sunspots", source=source)


def load_co2() -> SeriesTable:
    """Carbon dioxide at Mauna Loa in parts per million, from 1958 to 2001: for each month the mean of its weeks."""
    require_extra("forecasting", "the series of carbon dioxide")
    from statsmodels.datasets import co2

    table: Any = co2.load_pandas().data
    weeks = table["co2"]
    dates = np.asarray(weeks.index, dtype="M8[M]")
    months = (dates - dates[0]).astype(np.int64)
    values = mean_of_each(months, weeks.to_numpy(np.float64), int(months.max()) + 1)
    source = f"carbon dioxide above Mauna Loa in {len(values)} months (statsmodels)"
    return SeriesTable((_alone(values),), TimeStep(unit="month"), dates[0].astype("M8[s]"), "co2", source=source)


def _alone(values: Float64[np.ndarray, " time"]) -> Series:
    return Series("", 0, values, np.zeros((len(values), 0)))


EMBEDDED: dict[DatasetName, Embedded] = {
    "sunspots": Embedded(load_sunspots, horizon=11),
    "co2": Embedded(load_co2, horizon=12),
}
