"""The linear forecast that a forecaster begins with: the mean of several, weighed by their errors from rolling origins.

    Φ(B) Δ(B) y_t = b + ε_t        Δ(B) = (1 − B)^d (1 − B^m)^D,   d, D ∈ {0, 1},   B y_t = y_{t−1},   m: season

    Φ(B) = 1 − φ_1 B − … − φ_p B^p            autoregression of differences: φ by least squares, p by AICc
    Φ(B) = 1 / ((1 − θ B)(1 − Θ B^m))         exponential smoothing: θ, Θ by the least error one step ahead; with drift,
                                              b is that of a straight line through the series, as Theta's is

Multiplied out, each is a recursion ŷ_t = b + Σ_k a_k ŷ_{t−k}, and run on over the horizon it is a matrix A_i that the
history is multiplied by. Differences forecast a series that wanders or grows, smoothing one that is short and noisy.

    A = Σ_i w_i A_i,   w_i ∝ (e_i f_i)⁻⁵     e_i: MASE of recursions of this kind, each fitted to what came before, from
                                             rolling origins in the training and the validation part
                                             f_i: MASE of A_i on the training part, to which it is fitted

Rolling origins tell an order of lags that is too high; where a series is short, they are few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from scipy.linalg import solve_triangular
from scipy.signal import lfilter
from torch import Tensor

from neuropil.data.series.windows import Panel, SeriesWindows

MOST_VALUES = 20_000
"""Of each series, the latest, that a recursion is fitted to."""
MOST_ORIGINS = 500
"""Between one fit and the next, evenly spaced."""
FITTED_BEFORE = (0.4, 0.55, 0.7, 0.85)
"""Shares of the training part, before which recursions are fitted to forecast what follows."""
POWER = 5
SMOOTHING = np.arange(0, 1, 0.1)
"""θ and Θ that are tried."""
FEWEST_VALUES = 8
"""That must be left after differences are taken."""
WORSE = 1.5
"""A recursion that is fitted anew to more values is not believed if it forecasts them so much worse than before."""


@dataclass(frozen=True)
class Part:
    """The beginning of one series, gaps filled by straight lines."""

    values: Float64[np.ndarray, " time"]
    valid: Bool[np.ndarray, " time"]


@dataclass(frozen=True)
class Structure:
    """One kind of recursion: which differences, and which Φ."""

    smoothing: bool
    first: bool
    season: int | None
    drift: bool = False

    def __str__(self) -> str:
        season = "" if self.season is None else f"seasonal ({self.season:,})"
        if self.smoothing:
            name = f"exponential smoothing{', ' if season else ''}{season}{'' if self.first else ' only'}"
            return f"{name}, with drift" if self.drift else name
        differences = " and ".join([*["first"] * self.first, *[season] * bool(season)])
        return f"AR of {differences} differences" if differences else "AR"

    @property
    def differences(self) -> Float64[np.ndarray, " power"]:
        """Δ(B)"""
        return np.convolve([1.0, -1.0] if self.first else [1.0], in_seasons(1.0, -1.0, season=self.season))

    def fit(self, parts: Sequence[Part], longest: int) -> Float64[np.ndarray, " coefficient"] | None:
        """b, a_1, a_2 … of at most `longest` lags; None where the series are too short."""
        delta = self.differences
        left, lags = differenced(parts, delta), longest - len(delta) + 1
        if not left or lags < 1:
            return None
        constant, phi = self._smoothed(left, lags) if self.smoothing else autoregression(left, lags)
        if self.drift:
            constant = phi.sum() * slope(parts) * (self.season or 1)
        return np.concatenate([[constant], -np.convolve(phi, delta)[1:]])

    def _smoothed(self, left: Sequence[Part], lags: int) -> tuple[float, Float64[np.ndarray, " power"]]:
        pairs = product(SMOOTHING, SMOOTHING if self.season else [0.0])
        tried = [np.convolve([1.0, -theta], in_seasons(1.0, -late, season=self.season)) for theta, late in pairs]
        skipped = self.season or 1
        return 0.0, inverse(min(tried, key=lambda each: error_ahead(left, each, skipped)), lags)


def structures(seasons: Sequence[int]) -> list[Structure]:
    cycles = [None, *(season for season in seasons if season > 1)]
    every = [Structure(*chosen) for chosen in product((False, True), (False, True), cycles)]
    every = [each for each in every if not each.smoothing or len(each.differences) > 1]
    drifting = [Structure(smoothing=True, first=season is None, season=season, drift=True) for season in cycles]
    return [*every, *drifting]


def differenced(parts: Sequence[Part], delta: Float64[np.ndarray, " power"]) -> list[Part]:
    """Δ(B) y of those that are long enough."""
    lost = len(delta) - 1
    long = [part for part in parts if len(part.values) > lost + FEWEST_VALUES]
    return [Part(np.convolve(part.values, delta, "valid"), part.valid[lost:]) for part in long]


def in_seasons(*weights: float, season: int | None) -> Float64[np.ndarray, " power"]:
    """Of B^0, B^m, …; without a season, 1."""
    powers = np.zeros((len(weights) - 1) * season + 1 if season else 1)
    powers[:: season or 1] = weights[: len(weights) if season else 1]
    return powers


def error_ahead(parts: Sequence[Part], denominator: Float64[np.ndarray, " power"], skipped: int) -> float:
    """The sum of squares of ε_t where Φ(B) is 1 / denominator, the first left out, which rest on no history."""
    errors = [lfilter([1.0], denominator, part.values)[part.valid] for part in parts]
    total = sum(float(np.square(each[min(skipped, len(each) // 2) :]).sum()) for each in errors)
    return total if np.isfinite(total) else np.inf


def inverse(denominator: Float64[np.ndarray, " power"], lags: int) -> Float64[np.ndarray, " _"]:
    """1 / denominator as a polynomial in B, cut off after `lags`."""
    return np.asarray(lfilter([1.0], denominator, np.eye(1, lags + 1)[0]))


def mean(parts: Sequence[Part]) -> Float64[np.ndarray, " coefficient"] | None:
    values = np.concatenate([part.values[part.valid] for part in parts])
    return np.array([values.mean(), 0.0]) if len(values) > FEWEST_VALUES else None


def slope(parts: Sequence[Part]) -> float:
    """Of the straight line of least squares, the mean over the series."""
    times = [np.arange(len(part.values))[part.valid] for part in parts]
    pairs = [(time, part.values[part.valid]) for time, part in zip(times, parts, strict=True) if len(time) > 1]
    return float(np.mean([np.polyfit(time, values, 1)[0] for time, values in pairs]))


def autoregression(parts: Sequence[Part], longest: int) -> tuple[float, Float64[np.ndarray, " power"]]:
    """b and Φ(B) by least squares, with the number of lags of the smallest AICc."""
    longest = min(longest, max(len(part.values) for part in parts) // 3)
    gram, moments, total, rows = normal_equations(parts, longest)
    # One factor of XᵀX = L Lᵀ has the errors of all numbers of lags: yᵀy − Σ_{i≤p} z_i²,  L z = Xᵀy
    z = solve_triangular(np.linalg.cholesky(with_ridge(gram)), moments, lower=True)
    error = np.maximum(total - np.cumsum(z**2), np.finfo(float).tiny * rows)
    p = np.arange(longest + 1)
    free = np.maximum(rows - p - 3, 0)
    with np.errstate(divide="ignore"):
        scores = rows * np.log(error / rows) + 2 * (p + 2) * (1 + (p + 3) / free)
    gram, moments, _, _ = normal_equations(parts, int(np.argmin(scores)))  # with all rows that these lags leave
    constant, *phi = solve(gram, moments)
    return float(constant), np.array([1.0, *(-each for each in phi)])


def normal_equations(
    parts: Sequence[Part], lags: int
) -> tuple[Float64[np.ndarray, "p p"], Float64[np.ndarray, " p"], float, int]:
    """XᵀX, Xᵀy, yᵀy and the number of rows of one step ahead, of 1 and lags 1, 2 …; a missing value is no target."""
    gram, moments, total, rows = np.zeros((lags + 1, lags + 1)), np.zeros(lags + 1), 0.0, 0
    for part in parts:
        if len(part.values) <= lags:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(part.values, lags + 1)[part.valid[lags:]]
        x, y = np.concatenate([np.ones((len(windows), 1)), windows[:, -2::-1]], axis=1), windows[:, -1]
        gram, moments, total, rows = gram + x.T @ x, moments + x.T @ y, total + float(y @ y), rows + len(y)
    return gram, moments, total, rows


def solve(gram: Float64[np.ndarray, "p p"], moments: Float64[np.ndarray, " p"]) -> Float64[np.ndarray, " p"]:
    return np.linalg.solve(with_ridge(gram), moments)


def with_ridge(gram: Float64[np.ndarray, "p p"]) -> Float64[np.ndarray, "p p"]:
    """As much as rounding needs."""
    return gram + (1e-9 * np.trace(gram) / len(gram) + np.finfo(float).tiny) * np.eye(len(gram))


def run_on(coefficients: Float64[np.ndarray, " coefficient"], lags: int, horizon: int) -> Float64[Tensor, "horizon _"]:
    """The recursion over the horizon as one matrix: for each step, the weights of the last `lags` values, the latest
    last, and then the constant."""
    constant, weights = coefficients[0], coefficients[1:]
    rows = np.concatenate([np.eye(lags + 1)[:lags], np.zeros((horizon, lags + 1))])
    for step in range(lags, lags + horizon):
        rows[step] = weights[::-1] @ rows[step - len(weights) : step]
        rows[step, lags] += constant
    return torch.from_numpy(rows[lags:])


def apply(
    matrix: Float[Tensor, "horizon coefficient"], history: Float[Tensor, "batch time"]
) -> Float[Tensor, "batch horizon"]:
    lags = matrix.shape[1] - 1
    return torch.nn.functional.linear(history[:, -lags:].to(matrix), matrix[:, :lags], matrix[:, lags])


@dataclass(frozen=True)
class Fold:
    """Windows, and what each recursion forecasts of them."""

    batch: dict[str, Tensor]
    forecasts: dict[str, Float64[Tensor, "window horizon"]]

    @classmethod
    def of(cls, windows: SeriesWindows, matrices: Mapping[str, Float64[Tensor, "horizon coefficient"]]) -> "Fold":
        batch = windows.thinned(MOST_ORIGINS).batch()
        return cls(batch, {name: apply(matrix, batch["history"]) for name, matrix in matrices.items()})

    def __len__(self) -> int:
        return len(self.batch["target"])

    def errors(self, name: str) -> Float64[Tensor, " known"]:
        return (self.batch["target"] - self.forecasts[name]).abs()[self.batch["valid_mask"]]


@dataclass(frozen=True)
class LinearStart:
    learned: Float[Tensor, "horizon coefficient"]
    """Fitted to the training part: what the networks learn to correct."""
    later: Float[Tensor, "horizon coefficient"]
    """The same mean of the same recursions, fitted to the validation part too."""
    shares: dict[str, float]
    """The weight of each recursion."""
    rolled: dict[str, Tensor]
    """Windows of the training part, as a batch, each with the `forecast` by recursions that were fitted before it."""

    @classmethod
    def fit(cls, panel: Panel, seasons: Sequence[int], train_end: int, test_begin: int) -> "LinearStart":
        learned, later = (recursions(panel, seasons, end) for end in (train_end, test_begin))
        borders = pairwise([*fitting_times(panel, train_end), train_end])
        inside = [
            # of the origins before `end`, those too whose horizon reaches past it
            Fold.of(panel.windows(begin, min(end + panel.horizon - 1, train_end)), recursions(panel, seasons, begin))
            for begin, end in borders
        ]
        inside = [fold for fold in inside if len(fold)]
        validation, seen = (
            Fold.of(panel.windows(*part), learned) for part in ((train_end, test_begin), (0, train_end))
        )
        unseen = [*inside, *[validation] * bool(len(validation))] or [seen]
        names = [name for name in learned if name in later and all(name in fold.forecasts for fold in unseen)]
        errors = {
            name: float(torch.cat([fold.errors(name) for fold in unseen]).mean() * seen.errors(name).mean())
            for name in names
        }
        errors = {name: error for name, error in errors.items() if np.isfinite(error)}
        weights = torch.tensor(list(errors.values()), dtype=torch.double).clamp(min=1e-9) ** -POWER
        shares = dict(zip(errors, (weights / weights.sum()).tolist(), strict=True))

        again = Fold.of(panel.windows(0, test_begin), later)
        before = Fold.of(panel.windows(0, test_begin), learned)
        later = {
            name: later[name] if again.errors(name).mean() <= WORSE * before.errors(name).mean() else learned[name]
            for name in shares
        }
        rolled = [{**fold.batch, "forecast": weighed(fold.forecasts, shares).float()} for fold in (inside or [seen])]
        return cls(
            weighed(learned, shares).float(),
            weighed(later, shares).float(),
            dict(sorted(shares.items(), key=lambda each: -each[1])),
            {name: torch.cat([each[name] for each in rolled]) for name in rolled[0]},
        )


def weighed(each: Mapping[str, Float64[Tensor, "*shape"]], shares: Mapping[str, float]) -> Float64[Tensor, "*shape"]:
    return torch.stack([share * each[name] for name, share in shares.items()]).sum(0)


def recursions(panel: Panel, seasons: Sequence[int], end: int) -> dict[str, Float64[Tensor, "horizon coefficient"]]:
    """By name, those that the values before a step of time are enough for, run on over the horizon."""
    parts = parts_before(panel, end)
    fitted = {str(each): each.fit(parts, panel.window) for each in structures(seasons)}
    fitted |= {"mean": mean(parts), "persistence": np.array([0.0, 1.0])}
    known = {name: each for name, each in fitted.items() if each is not None}
    return {name: run_on(coefficients, panel.window, panel.horizon) for name, coefficients in known.items()}


def fitting_times(panel: Panel, train_end: int) -> list[int]:
    """Steps of the training part, before each of which there is more than a window and a horizon."""
    first = min(series.start for series in panel.table.series)
    times = [first + round(share * (train_end - first)) for share in FITTED_BEFORE]
    return [time for time in times if time - first > panel.window + panel.horizon]


def parts_before(panel: Panel, end: int) -> list[Part]:
    parts = []
    for series, begin in zip(panel.table.series, panel.begins, strict=True):
        length = max(0, min(end, series.end) - series.start)
        place = slice(begin + max(0, length - MOST_VALUES), begin + length)
        parts.append(Part(panel.between[place].double().numpy(), panel.valid_mask[place].numpy()))
    return parts
