"""The linear forecast that a forecaster begins with: the mean of several, weighed by their errors on the training and
the validation part.

    Φ(B) Δ(B) y_t = b + ε_t        Δ(B) = (1 − B)^d (1 − B^m)^D,   d, D ∈ {0, 1},   B y_t = y_{t−1},   m: season

    Φ(B) = 1 − φ_1 B − … − φ_p B^p            autoregression of differences: φ by least squares, p by AICc
    Φ(B) = 1 / ((1 − θ B)(1 − Θ B^m))         exponential smoothing: θ, Θ by the least error one step ahead

Multiplied out, each is a recursion ŷ_t = b + Σ_k a_k ŷ_{t−k}, and run on over the horizon it is a matrix A_i that the
history is multiplied by. Differences forecast a series that wanders or grows, smoothing one that is short and noisy.

    A = Σ_i w_i A_i,   w_i ∝ (e_i v_i)⁻⁵      e_i, v_i: MASE of A_i on the training part, to which it is fitted, and on
                                              the validation part

A validation part alone is too short to tell them apart where a series is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from scipy.signal import lfilter
from torch import Tensor

from neuropil.data.series.windows import Panel

MOST_VALUES = 20_000
"""Of each series, the latest, that a recursion is fitted to."""
MOST_ORIGINS = 500
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

    def __str__(self) -> str:
        season = "" if self.season is None else f"seasonal ({self.season:,})"
        if self.smoothing:
            return f"exponential smoothing{', ' if season else ''}{season}{'' if self.first else ' only'}"
        differences = " and ".join([*["first"] * self.first, *[season] * bool(season)])
        return f"AR of {differences} differences" if differences else "AR"

    @property
    def differences(self) -> Float64[np.ndarray, " power"]:
        """Δ(B)"""
        seasonal = [1.0] if self.season is None else [1.0, *[0.0] * (self.season - 1), -1.0]
        return np.convolve([1.0, -1.0] if self.first else [1.0], seasonal)

    def fit(self, parts: Sequence[Part], longest: int) -> Float64[np.ndarray, " coefficient"] | None:
        """b, a_1, a_2 … of at most `longest` lags; None where the series are too short."""
        delta = self.differences
        left = [
            Part(np.convolve(part.values, delta, "valid"), part.valid[len(delta) - 1 :])
            for part in parts
            if len(part.values) >= len(delta) + FEWEST_VALUES
        ]
        lags = longest - len(delta) + 1
        if not left or lags < 1:
            return None
        constant, phi = smoothed(left, self.season, lags) if self.smoothing else autoregression(left, lags)
        return np.concatenate([[constant], -np.convolve(phi, delta)[1:]])


def structures(seasons: Sequence[int]) -> list[Structure]:
    cycles = [None, *(season for season in seasons if season > 1)]
    every = [Structure(*chosen) for chosen in product((False, True), (False, True), cycles)]
    return [each for each in every if not each.smoothing or len(each.differences) > 1]


def autoregression(parts: Sequence[Part], longest: int) -> tuple[float, Float64[np.ndarray, " power"]]:
    """b and Φ(B) by least squares, with the number of lags of the smallest AICc."""
    longest = min(longest, max(len(part.values) for part in parts) // 3)
    gram, moments, total, rows = normal_equations(parts, longest)
    scores = []
    for p in range(longest + 1):
        solved = solve(gram[: p + 1, : p + 1], moments[: p + 1])
        error = max(total - solved @ moments[: p + 1], np.finfo(float).tiny * rows)
        free = rows - p - 3
        scores.append(rows * np.log(error / rows) + 2 * (p + 2) * (1 + (p + 3) / free) if free > 0 else np.inf)
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
    """Least squares, with as much ridge as rounding needs."""
    ridge = 1e-9 * np.trace(gram) / len(gram) + np.finfo(float).tiny
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), moments)


def smoothed(parts: Sequence[Part], season: int | None, lags: int) -> tuple[float, Float64[np.ndarray, " power"]]:
    """0 and Φ(B), cut off after `lags`."""
    cycle = season or 1

    def denominator(theta: float, seasonal: float) -> Float64[np.ndarray, " power"]:
        return np.convolve([1.0, -theta], [1.0, *[0.0] * (cycle - 1), -seasonal])

    def error(pair: tuple[float, float]) -> float:
        errors = [lfilter([1.0], denominator(*pair), part.values)[part.valid] for part in parts]
        return sum(float(np.square(each[min(cycle, len(each) // 2) :]).sum()) for each in errors)

    best = min(product(SMOOTHING, SMOOTHING if season else [0.0]), key=error)
    return 0.0, np.asarray(lfilter([1.0], denominator(*best), np.eye(1, lags + 1)[0]))


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
class LinearStart:
    learned: Float[Tensor, "horizon coefficient"]
    """Fitted to the training part: what the networks learn to correct."""
    later: Float[Tensor, "horizon coefficient"]
    """The same mean of the same recursions, fitted to the validation part too."""
    shares: dict[str, float]
    """The weight of each recursion."""

    @classmethod
    def fit(cls, panel: Panel, seasons: Sequence[int], train_end: int, test_begin: int) -> "LinearStart":
        parts = [panel.windows(0, train_end), panel.windows(train_end, test_begin)]
        weighed_by = [part.thinned(MOST_ORIGINS).batch() for part in parts if len(part)]
        early, late = (parts_before(panel, end) for end in (train_end, test_begin))
        errors: dict[str, float] = {}
        matrices: list[Float64[Tensor, "2 horizon coefficient"]] = []
        for structure in (None, *structures(seasons)):
            first, second = (_coefficients(structure, parts, panel.window) for parts in (early, late))
            if first is None or second is None:
                continue
            learned, later = (run_on(each, panel.window, panel.horizon) for each in (first, second))
            error, again = (np.prod([mean_error(each, part) for part in weighed_by]) for each in (learned, later))
            if np.isfinite(error):
                errors["persistence" if structure is None else str(structure)] = float(error)
                believed = again <= WORSE * error
                matrices.append(torch.stack([learned, later if believed else learned]))
        weights = torch.tensor(list(errors.values()), dtype=torch.double).clamp(min=1e-6) ** -POWER
        weights = weights / weights.sum()
        learned, later = torch.einsum("i,ijhk->jhk", weights, torch.stack(matrices)).float()
        shares = dict(zip(errors, weights.tolist(), strict=True))
        return cls(learned, later, dict(sorted(shares.items(), key=lambda each: -each[1])))


def _coefficients(
    structure: Structure | None, parts: Sequence[Part], longest: int
) -> Float64[np.ndarray, " coefficient"] | None:
    return np.array([0.0, 1.0]) if structure is None else structure.fit(parts, longest)


def parts_before(panel: Panel, end: int) -> list[Part]:
    parts = []
    for series, begin in zip(panel.table.series, panel.begins, strict=True):
        length = max(0, min(end, series.end) - series.start)
        place = slice(begin + max(0, length - MOST_VALUES), begin + length)
        parts.append(Part(panel.between[place].double().numpy(), panel.valid_mask[place].numpy()))
    return parts


def mean_error(matrix: Float64[Tensor, "horizon coefficient"], windows: dict[str, Tensor]) -> float:
    errors = (windows["target"] - apply(matrix, windows["history"])).abs()
    return float(errors[windows["valid_mask"]].mean())
