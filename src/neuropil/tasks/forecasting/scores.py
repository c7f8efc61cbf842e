"""How good forecasts are: MASE, pinball loss and the share of the truth inside the bands; and bands that hold what they
promise.

    MASE = mean |y − ŷ| / mean |y_t − y_{t−m}|           the second mean over the training part, a season m apart

A net learns the shape of its bands from the training part, and the world moves on. So the bands are calibrated (split
conformal prediction, sliding): around the median each is stretched by the one factor with which it would have held its
share of the latest forecasts whose outcome is already known. At each origin only outcomes from before it are used.

    r = (y − m) / (q_high − m) above the median, (m − y) / (m − q_low) below
    factor = the ⌈(n + 1) share⌉-th smallest of n such r
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.data.series.windows import SeriesWindows
from neuropil.models.forecaster import BANDS, LEVELS, MEDIAN, pinball

FEWEST_ORIGINS = 10
"""With outcomes of fewer forecasts a band is not calibrated by them."""
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


def factors_from(
    needed: Float[Tensor, "window horizon band"],
    known: Bool[Tensor, "window horizon"],
    otherwise: Sequence[float] = UNSTRETCHED,
) -> Float[Tensor, " band"]:
    """With which each band would have held its share of the known outcomes; `otherwise` where there are too few to
    tell."""
    if int(known.any(1).sum()) < FEWEST_ORIGINS:
        return torch.tensor(otherwise)
    return torch.stack([conformal_quantile(needed[known][:, band], share) for band, share in enumerate(BANDS)])


def conformal_quantile(values: Float[Tensor, " value"], share: float) -> Float[Tensor, ""]:
    """The ⌈(n + 1) share⌉-th smallest, which the next value exceeds with a probability of at most 1 − share if all are
    alike."""
    rank = min(len(values), math.ceil((len(values) + 1) * share))
    return values.kthvalue(rank).values


def sliding_factors(
    rolled: Rolled, origins: Int64[Tensor, " asked"], length: int, otherwise: Sequence[float] = UNSTRETCHED
) -> Float[Tensor, "asked band"]:
    """For each origin asked for, the factors from the outcomes that were known by then, of forecasts not much older
    than `length` steps."""
    needed, found = ratios(rolled), {}
    for origin in origins.unique().tolist():
        rows, known = outcomes_by(rolled, origin, length)
        found[origin] = factors_from(needed[rows], known, otherwise)
    return torch.stack([found[origin] for origin in origins.tolist()]) if len(origins) else torch.ones(0, len(BANDS))


def error_quantiles(
    rolled: Rolled, origins: Int64[Tensor, " asked"], length: int
) -> Float[Tensor, "asked horizon level"]:
    """Bands around a forecast that has none, such as a baseline's: the quantiles of its own errors at each step, of the
    same outcomes as above, moved so that the median is 0."""
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
