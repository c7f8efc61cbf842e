"""How good forecasts are: MASE, pinball loss and the share of the truth inside the bands; and bands that hold what they
promise.

    MASE = mean |y − ŷ| / mean |y_t − y_{t−m}|           the second mean over the training part, a season m apart

A net learns the shape of its bands from the training part, and the world moves on. So the bands are calibrated
(adaptive conformal inference, Gibbs and Candès 2021): each is stretched around the median by a factor that grows when
the truth has fallen outside more often than promised, and shrinks when less often. At each origin only outcomes from
before it are used.

    log f ← log f + η (share of the bands for this step that missed the truth − (1 − promised share)),   η = 1 / horizon

at each step of time. As long as log f stays bounded, the shares that miss and that were promised to miss agree in the
long run, whatever the series does. A forecast is known to have missed a horizon later at most, so in this time a factor
moves by no more than e.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.data.series.windows import SeriesWindows
from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN, pinball

FASTEST = 0.2
"""η of a short horizon."""
UNSTRETCHED = (1.0,) * len(BANDS)
SCORED_BAND = BANDS.index(0.8)


@dataclass(frozen=True)
class Rolled:
    """Forecasts from many origins, beside what happened, in units of each series' scale."""

    quantiles: Float[Tensor, "window horizon level"]
    target: Float[Tensor, "window horizon"]
    valid_mask: Bool[Tensor, "window horizon"]
    origins: Int64[Tensor, " window"]

    @classmethod
    def of(cls, windows: SeriesWindows, quantiles: Float[Tensor, "window horizon level"]) -> "Rolled":
        batch = windows.batch()
        return cls(quantiles, batch["target"], batch["valid_mask"], windows.origins)

    def __len__(self) -> int:
        return len(self.origins)

    def __add__(self, other: "Rolled") -> "Rolled":
        return Rolled(
            *(torch.cat([mine, theirs]) for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def with_quantiles(self, quantiles: Float[Tensor, "window horizon level"]) -> "Rolled":
        return Rolled(quantiles, self.target, self.valid_mask, self.origins)

    @property
    def median(self) -> Float[Tensor, "window horizon"]:
        return self.quantiles[..., MEDIAN]

    @property
    def errors(self) -> Float[Tensor, "window horizon"]:
        """Of the median; 0 where there is no value."""
        return torch.where(self.valid_mask, (self.target - self.median).abs(), 0.0)

    def inside(self, band: int) -> Bool[Tensor, "window horizon"]:
        low, high = band_of(self.quantiles, band)
        return (self.target >= low) & (self.target <= high)

    def scores(self) -> dict[str, float]:
        loss = pinball(self.target, self.quantiles).mean(-1)
        return {
            "mase": float(self.errors[self.valid_mask].mean()),
            "pinball_loss": float(loss[self.valid_mask].mean()),
            f"coverage_{100 * BANDS[SCORED_BAND]:g}": float(self.inside(SCORED_BAND)[self.valid_mask].float().mean()),
        }

    def mase_by_step(self) -> Float[Tensor, " horizon"]:
        return self.errors.sum(0) / self.valid_mask.sum(0).clamp(min=1)

    def coverage_by_step(self, band: int) -> Float[Tensor, " horizon"]:
        return (self.inside(band) & self.valid_mask).sum(0) / self.valid_mask.sum(0).clamp(min=1)

    def coverage(self) -> list[float]:
        """Of each of `BANDS`."""
        return [float(self.inside(band)[self.valid_mask].float().mean()) for band in range(len(BANDS))]


def band_of(quantiles: Float[Tensor, "*any level"], band: int) -> tuple[Float[Tensor, "*any"], Float[Tensor, "*any"]]:
    return quantiles[..., MEDIAN - 1 - band], quantiles[..., MEDIAN + 1 + band]


def stretched(
    quantiles: Float[Tensor, "window horizon level"], factors: Float[Tensor, "window band"]
) -> Float[Tensor, "window horizon level"]:
    """Each band made wider or narrower around the median by its factor; an outer band never lies inside an inner
    one."""
    median = quantiles[..., MEDIAN : MEDIAN + 1]
    below, above = (median - quantiles[..., :MEDIAN]).flip(-1), quantiles[..., MEDIAN + 1 :] - median
    below, above = ((half * factors.unsqueeze(1)).cummax(-1).values for half in (below, above))
    return torch.cat([median - below.flip(-1), median, median + above], -1)


def ratios(rolled: Rolled) -> Float[Tensor, "window horizon band"]:
    """How many times its own half-width each band would need to reach the truth."""
    found = []
    for band in range(len(BANDS)):
        low, high = band_of(rolled.quantiles, band)
        half = torch.where(rolled.target > rolled.median, high - rolled.median, rolled.median - low)
        found.append((rolled.target - rolled.median).abs() / half.clamp(min=torch.finfo(half.dtype).tiny))
    return torch.stack(found, -1)


def adaptive_factors(
    rolled: Rolled, origins: Int64[Tensor, " asked"], start: Sequence[float] = UNSTRETCHED
) -> Float[Tensor, "asked band"]:
    """For each origin asked for, f of each band by the outcomes that were known by then."""
    horizon, allowed = rolled.target.shape[1], 1 - torch.tensor(BANDS)
    rate = min(FASTEST, 1 / horizon)
    row = torch.arange(len(rolled)).unsqueeze(1).expand(-1, horizon)[rolled.valid_mask]
    time = (rolled.origins.unsqueeze(1) + torch.arange(horizon))[rolled.valid_mask]
    order = time.argsort(stable=True)
    row, time, needed = row[order], time[order], ratios(rolled)[rolled.valid_mask][order]
    _, step, count = time.unique(return_inverse=True, return_counts=True)
    forecasts = count[step].unsqueeze(1)  # of the same time, whose outcome becomes known to all at once
    log, used, found, known = torch.tensor(start).log(), torch.ones(len(rolled), len(BANDS)), {}, 0
    every = torch.cat([rolled.origins, origins]).unique()
    for origin, before in zip(every.tolist(), torch.searchsorted(time, every).tolist(), strict=True):
        missed = (needed[known:before] > used[row[known:before]]).float() - allowed
        log = log + rate * (missed / forecasts[known:before]).sum(0)
        used[rolled.origins == origin] = found[origin] = log.exp()
        known = before
    return torch.stack([found[origin] for origin in origins.tolist()]) if len(origins) else torch.ones(0, len(BANDS))


def error_quantiles(
    rolled: Rolled, origins: Int64[Tensor, " asked"], length: int
) -> Float[Tensor, "asked horizon level"]:
    """Bands around a forecast that has none, such as a baseline's: the quantiles of its own errors at each step, of
    outcomes that were known by then, moved so that the median is 0."""
    errors, found = rolled.target - rolled.median, {}
    for origin in origins.unique().tolist():
        rows, known = outcomes_by(rolled, origin, length)
        seen = errors[rows].masked_fill(~known, torch.nan)
        around = (
            torch.nanquantile(seen, torch.tensor(LEVELS), dim=0).mT
            if len(seen)
            else seen.new_zeros(seen.shape[1], len(LEVELS))
        )
        found[origin] = (around - around[:, MEDIAN : MEDIAN + 1]).nan_to_num(0.0)
    return torch.stack([found[origin] for origin in origins.tolist()])


def outcomes_by(
    rolled: Rolled, origin: int, length: int
) -> tuple[Bool[Tensor, " window"], Bool[Tensor, "chosen horizon"]]:
    """The forecasts of the last `length` steps before those whose horizon reaches `origin`, those too, and which of
    their outcomes lie before it."""
    horizon = rolled.target.shape[1]
    rows = (rolled.origins < origin) & (rolled.origins >= origin - horizon - length)
    outcome = rolled.origins[rows].unsqueeze(1) + torch.arange(horizon)
    return rows, (outcome < origin) & rolled.valid_mask[rows]
