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

    |f − G| ≤ ω(3δ/2) + 4 M τ(k) + 2 M τ(k/2)                   → ω(δ/2) for steep steps: like 1/N for a bounded slope

with τ(z) = logistic(−z). The proof needs of the logistic function only that it rises from 0 to 1. So any squashing
function φ will do (nondecreasing, with two different limits), scaled to s = (φ − φ(−∞)) / (φ(∞) − φ(−∞)), and with
τ(z) = max(s(−z), 1 − s(z)).

On [0, 1]ⁿ one hidden layer is enough too (Cybenko 1989; Hornik, Stinchcombe and White 1989). `RidgeApproximator` is a
proof of that by construction, in two moves. A positive kernel turns f into a sum of cosines; each product of cosines is
a sum of cosines of one direction, which steps along that direction approximate as above:

    cosines    F(x) = Σ_k ρ_k c_k Πᵢ cos(π kᵢ xᵢ)                k ∈ {0 … m}ⁿ,  c_k from values of f on a grid
    ridges     Πᵢ cos(π kᵢ xᵢ) = 2¹⁻ⁿ Σ_± cos(π (k₁x₁ ± k₂x₂ ± …))
    steps      cos(π u) ≈ cos(π a₀) + Σⱼ (cos(π aⱼ) − cos(π aⱼ₋₁)) H(u; bⱼ)

ρ_k = Πᵢ ρ_kᵢ are those of the kernel of Fejér and Korovkin. It is positive and of mean distance at most
sin(π / (2 (m + 2))), and a change of f over a distance d is at most (1 + d/r) ω(r), so that with ωᵢ along axis i

    |f − G| ≤ 2 Σᵢ ωᵢ(sin(π / (2 (m + 2)))) + C (3πδ/2 + 4 τ(k))     C: the sum of the sizes of all ridges
"""

import itertools
import math
from collections.abc import Callable
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.activations import ACTIVATIONS, Activation
from neuropil.parts.expression import Expression
from neuropil.parts.parameters import Model

Function = Callable[[Tensor], Tensor]
FunctionOfSeveral = Callable[..., Tensor]
"""Of as many tensors as there are variables."""

SQUASHING = ("logistic", "arctan", "tanh", "threshold")
FAR = 1e15
"""Where a squashing function has reached its limits."""
MOST_UNITS = 2048
MOST_RIDGE_UNITS = 2**18
NUMBERS_AT_ONCE = 2**22
"""Units times points that are held at one time: 32 MB."""
GRID_POINTS_PER_PIECE = 7  # odd: the error peaks beside a border and not on it, where G is the mean of two heights
POINTS_AT_ONCE = 1024


class Squashing:
    """s = (φ − φ(−∞)) / (φ(∞) − φ(−∞)): nondecreasing, from 0 to 1. φ is one of ours, or a formula of x."""

    def __init__(self, name: str):
        self.name = name
        self.phi: Activation = ACTIVATIONS[name] if name in SQUASHING else Expression(name)
        self.low, self.high = _limits(self.phi, name)

    def __call__(self, z: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        return (self.phi(z) - self.low) / (self.high - self.low)

    def tail(self, z: float) -> float:
        """τ(z) = max(s(−z), 1 − s(z)): how far from 0 or 1 it still is at a distance z."""
        below, above = self(torch.tensor([-z, z], dtype=torch.double)).tolist()
        return max(below, 1 - above)

    def steepness_for(self, tail: float) -> float:
        """k, doubled until τ(k/2) is at most `tail`."""
        return next(k for k in (2.0**power for power in range(60)) if self.tail(k / 2) <= tail)


def _limits(phi: Activation, name: str) -> tuple[float, float]:
    rule = "a squashing function must rise between two finite limits and never fall"
    fix = f"take {', '.join(SQUASHING)}, or a formula such as x/(1+abs(x))"
    near, far = phi(torch.tensor([-FAR / 1e3, FAR / 1e3], dtype=torch.double)), phi(torch.tensor([-FAR, FAR]).double())
    low, high = far.tolist()
    if not torch.isfinite(far).all() or high <= low or (far - near).abs().max() > 1e-6 * (high - low):
        raise InputError(rule, got=f"{name!r}, which goes from {low:g} to {high:g}", fix=fix)
    curve = phi(torch.linspace(-10, 10, 20_001, dtype=torch.double).sinh())
    if not torch.isfinite(curve).all() or (curve.diff() < -1e-9 * (high - low)).any():
        raise InputError(rule, got=f"{name!r}, which does not everywhere", fix=fix)
    return low, high


class UniversalApproximatorConfig(Config):
    hidden_size: int = option(64, "hidden sigmoid units, one more than there are pieces", low=3, high=MOST_UNITS)
    steepness: float = option(50.0, "k: how sharp a step is, measured against the width of a piece", low=0.1)
    squashing: str = option("logistic", "logistic, arctan, tanh, threshold, or a formula such as x/(1+abs(x))")
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
        self.squashing = Squashing(config.squashing)
        self.hidden = nn.Linear(1, config.hidden_size, dtype=torch.double)
        self.output = nn.Linear(config.hidden_size, 1, bias=False, dtype=torch.double)
        self._place_steps()

    def forward(self, x: Float[Tensor, " point"]) -> Float[Tensor, " point"]:
        return self.output(self.steps(x)).squeeze(-1).to(x.dtype)

    def steps(self, x: Float[Tensor, " point"]) -> Float[Tensor, "point unit"]:
        """H(x; bⱼ), the hidden layer."""
        return self.squashing(self.hidden(x.to(self.hidden.weight.dtype).unsqueeze(-1)))

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
        size, k = float(values.abs().max()), self.config.steepness
        # |f − G| ≤ ω(3δ/2) + 4 M τ(k) + 2 M τ(k/2)
        closed = 4 * self.squashing.tail(k) + 2 * self.squashing.tail(k / 2)
        return modulus_of_continuity(values, window=3 * GRID_POINTS_PER_PIECE // 2) + size * closed

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


# --- several variables ------------------------------------------------------------------------------------------------


class RidgeApproximatorConfig(Config):
    dimensions: int = option(2, "n: variables, each from 0 to 1", low=1, high=3)
    degree: int = option(6, "m: the highest frequency of a cosine along each axis", low=1)
    pieces: int = option(24, "pieces of a step construction in one unit of length, half a period of a cosine", low=2)
    steepness: float = option(50.0, "k: how sharp a step is, measured against the width of a piece", low=0.1)
    squashing: str = option("logistic", "logistic, arctan, tanh, threshold, or a formula such as x/(1+abs(x))")


class RidgeApproximator(Model):
    """A network with one hidden layer on [0, 1]ⁿ, whose weights are computed; in double precision."""

    def __init__(self, config: RidgeApproximatorConfig):
        super().__init__()
        self.config = config
        self.squashing = Squashing(config.squashing)
        self.ridges = ridge_directions(config.dimensions, config.degree)
        lengths = self.ridges.abs().sum(1)
        # A ridge of length L is cut into pieces of width δ; between two of them is a step.
        self.steps = (lengths * config.pieces).tolist()
        units = sum(self.steps)
        if units > MOST_RIDGE_UNITS:
            got = f"{units:,} with degree {config.degree} and {config.pieces} pieces"
            raise InputError(f"at most {MOST_RIDGE_UNITS:,} units are constructed", got=got, fix="lower one of them")
        self.hidden = nn.Linear(config.dimensions, units, dtype=torch.double)
        self.output = nn.Linear(units, 1, dtype=torch.double)
        self.register_buffer("amplitudes", torch.zeros(len(self.ridges), dtype=torch.double))
        self._place_steps()

    @property
    def num_units(self) -> int:
        return self.hidden.out_features

    @property
    def delta(self) -> float:
        return 1 / self.config.pieces

    def forward(self, x: Float[Tensor, "point axis"]) -> Float[Tensor, " point"]:
        return self.output(self.squashing(self.hidden(x.to(self.hidden.weight.dtype)))).squeeze(-1).to(x.dtype)

    @torch.no_grad()
    def fit(self, f: FunctionOfSeveral) -> Self:
        """The output weights for f: the amplitude of each ridge, times the change of its cosine at each step."""
        constant, self.amplitudes = ridge_amplitudes(f, self.config.dimensions, self.config.degree, self.ridges)
        weights, bias = [], constant
        for amplitude, heights in zip(self.amplitudes, self._heights(), strict=True):
            weights.append(amplitude * heights.diff())
            bias = bias + amplitude * heights[0]
        self.output.weight.copy_(torch.cat(weights))
        self.output.bias.copy_(bias)
        return self

    @torch.no_grad()
    def error(self, f: FunctionOfSeveral, side: int = 24) -> float:
        """max |f − G| over a grid with so many points along each axis, its borders included."""
        points = unit_grid(self.config.dimensions, side)
        at_once = max(1, NUMBERS_AT_ONCE // self.num_units)
        approximation = torch.cat([self(some) for some in points.split(at_once)])
        return float((values_on(f, points) - approximation).abs().max())

    @torch.no_grad()
    def bound(self, f: FunctionOfSeveral, side: int = 24) -> float:
        """What the proof promises of the error, with the moduli of continuity on a grid of so many points a side."""
        values = values_on(f, unit_grid(self.config.dimensions, side)).unflatten(0, (side,) * self.config.dimensions)
        reach = math.sin(math.pi / (2 * (self.config.degree + 2)))
        window = math.ceil(reach * (side - 1))
        lines = [values.movedim(axis, -1).reshape(-1, side) for axis in range(self.config.dimensions)]
        # 2 Σᵢ ωᵢ(sin(π / (2 (m + 2)))) + C (3πδ/2 + 4 τ(k))
        cosines = 2 * sum(max(modulus_of_continuity(line, window) for line in axis) for axis in lines)
        steps = 1.5 * math.pi * self.delta + 4 * self.squashing.tail(self.config.steepness)
        return cosines + float(self.amplitudes.abs().sum()) * steps

    def _centers(self) -> list[Float[Tensor, " piece"]]:
        """Middles aⱼ of the pieces of each ridge, from the least to the largest u = k · x on the cube."""
        lowest = self.ridges.clamp(max=0).sum(1).tolist()
        places = [torch.arange(steps + 1, dtype=torch.double) * self.delta for steps in self.steps]
        return [low + each for low, each in zip(lowest, places, strict=True)]

    def _heights(self) -> list[Float[Tensor, " piece"]]:
        return [torch.cos(math.pi * centers) for centers in self._centers()]

    @torch.no_grad()
    def _place_steps(self) -> None:
        """k (u − b) / δ with u = ridge · x, and b half-way between two middles."""
        directions = self.ridges.double().repeat_interleave(torch.tensor(self.steps), dim=0)
        borders = torch.cat([(centers[1:] + centers[:-1]) / 2 for centers in self._centers()])
        slope = self.config.steepness / self.delta
        self.hidden.weight.copy_(slope * directions)
        self.hidden.bias.copy_(-slope * borders)
        self.output.weight.zero_()
        self.output.bias.zero_()


def ridge_directions(dimensions: int, degree: int) -> Int[Tensor, "ridge axis"]:
    """All k ≠ 0 with |kᵢ| ≤ m, one of k and −k: the one whose first component that is not zero is positive."""
    every = itertools.product(range(-degree, degree + 1), repeat=dimensions)
    chosen = [k for k in every if next((each for each in k if each), 0) > 0]
    return torch.tensor(chosen)


def ridge_amplitudes(
    f: FunctionOfSeveral, dimensions: int, degree: int, ridges: Int[Tensor, "ridge axis"]
) -> tuple[Float[Tensor, ""], Float[Tensor, " ridge"]]:
    """The constant, and the size of cos(π k · x) for each ridge k, of the smoothed cosine series of f."""
    points = degree + 1
    middles = (torch.arange(points, dtype=torch.double) + 0.5) / points
    grid = torch.stack(torch.meshgrid(*[middles] * dimensions, indexing="ij"), -1).flatten(0, -2)
    coefficients = values_on(f, grid).unflatten(0, (points,) * dimensions)
    # c_k = Πᵢ (2 − [kᵢ = 0]) / N  Σ_x f(x) Πᵢ cos(π kᵢ xᵢ), along one axis after the other
    frequencies = torch.arange(points, dtype=torch.double)
    basis = 2 / points * torch.cos(math.pi * frequencies[:, None] * middles)
    basis[0] /= 2
    smooth = korovkin_coefficients(degree)
    for axis in range(dimensions):
        coefficients = (coefficients.movedim(axis, -1) @ (smooth[:, None] * basis).T).movedim(-1, axis)
    sizes = ridges.abs()
    # A product of cosines with p frequencies that are not zero is the mean of cosines of 2^(p−1) ridges.
    shares = 0.5 ** ((sizes > 0).sum(1) - 1).double()
    return coefficients.flatten()[0], shares * coefficients[tuple(sizes.T)]


def korovkin_coefficients(degree: int) -> Float[Tensor, " frequency"]:
    """ρ_0 = 1 … ρ_m of 1 + 2 Σ ρ_j cos(jt) = |Σ a_l e^{ilt}|² ≥ 0, a_l = sin((l + 1) π / (m + 2)), scaled: of all such
    kernels the one with the largest ρ_1, cos(π / (m + 2))."""
    a = torch.sin(math.pi * (torch.arange(degree + 1, dtype=torch.double) + 1) / (degree + 2))
    products = torch.stack([(a[: len(a) - lag] * a[lag:]).sum() for lag in range(degree + 1)])
    return products / products[0]


def unit_grid(dimensions: int, side: int) -> Float[Tensor, "point axis"]:
    axis = torch.linspace(0, 1, side, dtype=torch.double)
    return torch.stack(torch.meshgrid(*[axis] * dimensions, indexing="ij"), -1).flatten(0, -2)


def values_on(f: FunctionOfSeveral, points: Float[Tensor, "point axis"]) -> Float[Tensor, " point"]:
    """f at these points, or a sentence that names the first where it has no finite value."""
    values = f(*points.unbind(-1))
    broken = ~torch.isfinite(values)
    if broken.any():
        place = ", ".join(f"{each:g}" for each in points[broken][0].tolist())
        rule = f"{getattr(f, 'text', 'the function')} must be finite on the whole cube"
        raise InputError(rule, got=f"{float(values[broken][0]):g} at ({place})", fix="change the function")
    return values


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
