"""Where in the day, the week and the year a date stands, as points on circles: near in the calendar is near in numbers.

sin 2πkφ, cos 2πkφ        φ ∈ [0, 1) the share of the cycle that has passed,  k = 1, 2
"""

import numpy as np
from jaxtyping import Float64

from neuropil.data.series.clocks import Dates
from neuropil.data.series.steps import DAY, WEEK, TimeStep

HARMONICS = (1, 2)


def calendar(step: TimeStep, dates: Dates | None) -> Float64[np.ndarray, "date feature"]:
    """One row per date, none for None; a cycle that the step does not divide has no columns."""
    dates = np.zeros(0, "M8[s]") if dates is None else dates
    angles = [2 * np.pi * k * phase for phase in _phases(step, dates) for k in HARMONICS]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(waves, axis=1) if waves else np.zeros((len(dates), 0))


def _phases(step: TimeStep, dates: Dates) -> list[Float64[np.ndarray, " date"]]:
    if step.unit == "row" or (step.unit == "month" and step.count % 12 == 0):
        return []
    seconds = dates.astype("M8[s]").astype(np.int64)
    year = dates.astype("M8[Y]")
    of_year = (dates - year.astype("M8[s]")) / ((year + 1).astype("M8[s]") - year.astype("M8[s]"))
    phases = [of_year]
    days = step.unit == "business day" or (step.unit == "second" and step.count <= DAY)
    if days:
        phases.append((seconds + 3 * DAY) % WEEK / WEEK)  # from Monday on: 1970-01-01 was a Thursday
    if step.unit == "second" and step.count < DAY:
        phases.append(seconds % DAY / DAY)
    return phases
