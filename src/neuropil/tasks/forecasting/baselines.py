"""What a forecaster must beat: the last value, the value of a season ago, and an autoregression by statsmodels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.series.windows import Panel, SeriesWindows
from neuropil.progress import tracked

SEASONS_OF_LAGS = 3
MOST_VALUES = 20_000
"""Of each series, the latest, that an autoregression is fitted to."""


def persistence(windows: SeriesWindows) -> Float[Tensor, "window horizon"]:
    """ŷ_{T+h} = y_T"""
    return windows.history(1).expand(-1, windows.panel.horizon)


def seasonal_naive(windows: SeriesWindows, season: int) -> Float[Tensor, "window horizon"]:
    """ŷ_{T+h} = y_{T+h−m}, or whole seasons before that where a horizon is longer than one."""
    return windows.history(season)[:, torch.arange(windows.panel.horizon) % season]


@dataclass(frozen=True)
class Autoregressions:
    """ŷ_{T+h} = c + Σ_k φ_k ŷ_{T+h−k}, one for each series, by least squares on its values before a step of time."""

    coefficients: Sequence[Float[Tensor, " _"]]
    """c, then φ_1, φ_2 …"""

    @classmethod
    def fit(cls, panel: Panel, season: int, end: int) -> "Autoregressions":
        """The number of lags by AIC; gaps are filled by straight lines."""
        values = []
        for series, begin in zip(panel.table.series, panel.begins, strict=True):
            length = min(end, series.end) - series.start
            values.append(panel.between[begin : begin + length][-MOST_VALUES:].double().numpy())
        return cls([_fit_one(part, season) for part in tracked(values, "Fitting autoregressions")])

    @property
    def lags(self) -> list[int]:
        return [len(each) - 1 for each in self.coefficients]

    @property
    def order(self) -> str:
        """(9) where there is one series, and nothing where each has its own."""
        return f"({self.lags[0]})" if len(self.lags) == 1 else ""

    def forecast(self, windows: SeriesWindows) -> Float[Tensor, "window horizon"]:
        most = max(max(self.lags), 1)
        known = windows.history(most).double().flip(1)  # the last value first
        weights = torch.stack(
            [torch.nn.functional.pad(each[1:], (0, most - len(each) + 1)) for each in self.coefficients]
        )[windows.series]
        constants = torch.stack([each[0] for each in self.coefficients])[windows.series]
        ahead = []
        for _ in range(windows.panel.horizon):
            ahead.append(constants + (weights * known).sum(1))
            known = torch.cat([ahead[-1].unsqueeze(1), known[:, :-1]], 1)
        return torch.stack(ahead, 1).float()


def _fit_one(values: np.ndarray, season: int) -> Float[Tensor, " coefficient"]:
    from statsmodels.tsa.ar_model import ar_select_order

    if np.ptp(values) == 0:
        return torch.tensor([float(values[0])], dtype=torch.double)
    most = min(max(math.ceil(10 * math.log10(len(values))), SEASONS_OF_LAGS * season), len(values) // 4)
    chosen: Any = ar_select_order(values, most, ic="aic", trend="c")
    return torch.from_numpy(np.asarray(chosen.model.fit().params, np.float64).copy())
