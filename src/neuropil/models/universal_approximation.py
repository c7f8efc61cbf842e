"""Universal approximation: one hidden layer of sigmoids comes as near to a continuous function as you like. The proof,
as code.

    step      H(x; b) = logistic(k (x − b) / δ)                   a sigmoid so steep that it is nearly 0 or 1
    piece     P(x; b, δ) = H(x; b) − H(x; b + δ)                  about 1 between b and b + δ, about 0 elsewhere
    sum       G(x) = Σⱼ f(aⱼ) P(x; aⱼ − δ/2, δ)                   f held constant around each aⱼ

The pieces stand side by side, so a piece ends with the step that begins the next: N pieces need N + 1 hidden units, and
the weight that leaves a step is the difference of two neighbouring heights, f(aⱼ) − f(aⱼ₋₁).

Let ω(r) be the largest change of f over a distance r, and M its largest size. A point is at most δ/2 from its own aⱼ
and 3δ/2 from those of the pieces beside it; steps further off are closed up to logistic(−k), and those beyond the ends
of the interval up to logistic(−k/2):

    |f − G| ≤ ω(3δ/2) + 4 M logistic(−k) + 2 M logistic(−k/2)   → ω(δ/2) for steep steps: like 1/N for a bounded slope
"""

import math
from collections.abc import Callable
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.parameters import Model

Function = Callable[[Tensor], Tensor]

MOST_UNITS = 2048
GRID_POINTS_PER_PIECE = 7  # odd: the error peaks beside a border and not on it, where G is the mean of two heights
POINTS_AT_ONCE = 1024


class UniversalApproximatorConfig(Config):
    hidden_size: int = option(64, "hidden sigmoid units, one more than there are pieces", low=3, high=MOST_UNITS)
    steepness: float = option(50.0, "k: how sharp a step is, measured against the width of a piece", low=0.1)
    low: float = option(0.0, "where the interval begins")
    high: float = option(1.0, "where the interval ends")

    def validate(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            rule = "the interval must be finite, with low < high"
            raise InputError(rule, got=f"low={self.low:g} and high={self.high:g}")

    @property
    def num_pieces(self) -> int:
        return self.hidden_size - 1

    @property
    def delta(self) -> float:
        """Width of a piece. The outer pieces stand half outside, so that no step falls on an end of the interval."""
        return (self.high - self.low) / (self.num_pieces - 1)


class UniversalApproximator(Model):
    """A network with one hidden layer whose weights are computed; in double precision, for its steps are steep."""

    def __init__(self, config: UniversalApproximatorConfig):
        super().__init__()
        self.config = config
        self.hidden = nn.Linear(1, config.hidden_size, dtype=torch.double)
        self.output = nn.Linear(config.hidden_size, 1, bias=False, dtype=torch.double)
        self._place_steps()

    def forward(self, x: Float[Tensor, " point"]) -> Float[Tensor, " point"]:
        return self.output(self.steps(x)).squeeze(-1).to(x.dtype)

    def steps(self, x: Float[Tensor, " point"]) -> Float[Tensor, "point unit"]:
        """H(x; bⱼ), the hidden layer."""
        return torch.sigmoid(self.hidden(x.to(self.hidden.weight.dtype).unsqueeze(-1)))

    def pieces(self, x: Float[Tensor, " point"]) -> Float[Tensor, "point piece"]:
        """P(x; bⱼ, δ) = H(x; bⱼ) − H(x; bⱼ₊₁)"""
        return -self.steps(x).diff(dim=-1)

    def centers(self) -> Float[Tensor, " piece"]:
        """aⱼ, from one end of the interval to the other."""
        return self._spread(self.config.num_pieces)

    def grid(self) -> Float[Tensor, " point"]:
        """Points over the whole interval, every aⱼ among them, at which errors are looked at."""
        return self._spread(GRID_POINTS_PER_PIECE * (self.config.num_pieces - 1) + 1)

    @torch.no_grad()
    def fit(self, f: Function) -> Self:
        """The output weights for f: each step leads from one piece's height to the next, from and to 0 at the ends."""
        centers_and_borders = self._spread(2 * self.config.num_pieces - 1)
        heights = finite_values(f, centers_and_borders)[::2]
        outside = heights.new_zeros(1)
        # G = Σⱼ f(aⱼ) (Hⱼ − Hⱼ₊₁) = Σⱼ (f(aⱼ) − f(aⱼ₋₁)) Hⱼ
        self.output.weight.copy_(heights.diff(prepend=outside, append=outside))
        return self

    @torch.no_grad()
    def error(self, f: Function, points: Float[Tensor, " point"] | None = None) -> float:
        """max |f(x) − G(x)| over the points, or over `grid()`."""
        points = self.grid() if points is None else points
        approximation = torch.cat([self(some) for some in points.split(POINTS_AT_ONCE)])
        return float((finite_values(f, points) - approximation).abs().max())

    @torch.no_grad()
    def bound(self, f: Function) -> float:
        """What the proof promises: an error on `grid()` that is never above this."""
        values = finite_values(f, self.grid())
        size, k = float(values.abs().max()), torch.tensor(self.config.steepness, dtype=torch.double)
        # |f − G| ≤ ω(3δ/2) + 4 M logistic(−k) + 2 M logistic(−k/2)
        closed = 4 * torch.sigmoid(-k) + 2 * torch.sigmoid(-k / 2)
        return modulus_of_continuity(values, window=3 * GRID_POINTS_PER_PIECE // 2) + size * float(closed)

    def _spread(self, count: int) -> Float[Tensor, " point"]:
        share = torch.arange(count, dtype=torch.double, device=self.hidden.weight.device) / (count - 1)
        return self.config.low + (self.config.high - self.config.low) * share

    @torch.no_grad()
    def _place_steps(self) -> None:
        """Steps at the pieces' borders, and no heights yet."""
        config = self.config
        borders = torch.linspace(
            config.low - config.delta / 2, config.high + config.delta / 2, config.hidden_size, dtype=torch.double
        )
        # k (x − b) / δ = (k / δ) x − (k / δ) b
        self.hidden.weight.fill_(config.steepness / config.delta)
        self.hidden.bias.copy_(-config.steepness / config.delta * borders)
        self.output.weight.zero_()


def approximate(f: Function, epsilon: float, low: float = 0.0, high: float = 1.0) -> UniversalApproximator:
    """The theorem: a network within ε of f. Its hidden size is doubled until the bound promises it."""
    units, bound = 4, math.inf
    while units <= MOST_UNITS:
        net = UniversalApproximator(UniversalApproximatorConfig(hidden_size=units, low=low, high=high)).fit(f)
        bound = net.bound(f)
        if bound <= epsilon:
            return net
        units *= 2
    rule = f"{MOST_UNITS:,} units must promise an error of at most {epsilon:g}"
    fix = "allow a larger error, or see whether the function is continuous on the interval"
    raise InputError(rule, got=f"{bound:.3g}", fix=fix)


def modulus_of_continuity(values: Float[Tensor, " point"], window: int) -> float:
    """ω(r): the largest change of a function, given on a grid, over `window` steps of the grid or fewer."""
    window = min(window, len(values) - 1)
    largest, smallest = (sign * F.max_pool1d((sign * values)[None], window + 1, stride=1) for sign in (1, -1))
    return float((largest - smallest).max())


def finite_values(f: Function, x: Float[Tensor, " point"]) -> Float[Tensor, " point"]:
    """f(x), or a sentence that names the first x where f has no finite value."""
    values = f(x)
    broken = ~torch.isfinite(values)
    if broken.any():
        name = getattr(f, "text", "the function")
        rule = f"{name} must be finite on the whole interval"
        fix = "move the ends of the interval or change the function"
        raise InputError(rule, got=f"{float(values[broken][0]):g} at x = {float(x[broken][0]):g}", fix=fix)
    return values


SIZES = {
    "coarse": UniversalApproximatorConfig(hidden_size=16),
    "base": UniversalApproximatorConfig(),
    "fine": UniversalApproximatorConfig(hidden_size=1024),
}
