"""The threat model: what an attacker may do to an input.

    ‖(x' − x) / s‖ ≤ ε                L∞: every feature by at most ε;  L2: the Euclidean length of the change
    low ≤ x' ≤ high                   what an input can be at all, such as a pixel from 0 to 255

ε is in units of the input, since the models here have their normalisation inside; s is the unit of each feature, where
they differ (tables), and 0 for a feature that may not change.

Both hold in floating point as well, to the last bit: `(x' - x).abs().max() <= eps` and `(x' - x).norm() <= eps`.
x + ε rounds to the nearest number, which may be farther from x than ε; then the next one towards x is taken.
"""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

import torch
from jaxtyping import Bool, Float, Int64, Num, Shaped
from torch import Tensor

from neuropil.errors import DataWarning, InputError

Norm: TypeAlias = Literal["linf", "l2"]
Inputs: TypeAlias = Float[Tensor, "batch *shape"]
Labels: TypeAlias = Int64[Tensor, " batch"]
PerExample: TypeAlias = Float[Tensor, " batch"]

UNFILLED = 0.1
"""Inputs that fill less of the input range are probably in other units."""


@dataclass(frozen=True, eq=False)
class ThreatModel:
    norm: Norm
    eps: float
    """In units of the input, times `scale`."""
    low: float | Tensor = 0.0
    """Of the input range; tensors broadcast against one example, such as the columns of a table."""
    high: float | Tensor = 1.0
    target: int | None = None
    """The class to reach; None: any class but the right one."""
    scale: Tensor | None = None
    """Unit of each feature, such as its standard deviation; 0 where a feature may not change. With as many axes as a
    batch of inputs has, the units of each example."""

    def __post_init__(self) -> None:
        if self.norm not in ("linf", "l2"):
            raise InputError("the norm of a threat model must be linf or l2", got=f"{self.norm!r}")
        if not (math.isfinite(self.eps) and self.eps >= 0):
            raise InputError("eps must be at least 0 and finite", got=f"{self.eps}")
        low, high = (torch.as_tensor(end, dtype=torch.float64) for end in (self.low, self.high))
        if not (low <= high).all() or not (low.isfinite().all() and high.isfinite().all()):
            got = f"{describe_range(low, high)}"
            raise InputError("the input range must be finite, with low at most high", got=got)
        if self.scale is not None and not (self.scale.isfinite() & (self.scale >= 0)).all():
            raise InputError("scale must be at least 0 and finite", got=f"{self.scale.min():g}")
        width = (high - low).max().item()
        if self.scale is None and self.norm == "linf" and self.eps > width:
            rule = f"eps of the L∞ norm must be at most the width of the input range, {width:g}"
            raise InputError(
                rule, got=f"{self.eps:g}", fix=f"give eps in units of the input: {describe_range(low, high)}"
            )

    def ball(self, original: Num[Tensor, "batch *shape"]) -> "Ball":
        """All that this threat model allows in place of each original, which must be in the input range."""
        return Ball.around(self, original)

    def project(self, x: Inputs, original: Num[Tensor, "batch *shape"]) -> Inputs:
        """The nearest that is allowed; for L2 the nearest of the ball, clipped to the range."""
        ball = self.ball(original)
        return ball.project_(x.detach().to(ball.original.dtype, copy=True))

    def distance(self, x: Inputs, original: Inputs) -> PerExample:
        """‖(x' − x) / s‖ of each example: infinite where a feature changed that may not."""
        return length(self.norm, in_units(x - original, self.scale))

    def goal(self, y: Labels) -> Labels:
        """The class that each example is pushed to, or away from."""
        return y if self.target is None else torch.full_like(y, self.target)

    def fooled(self, logits: Float[Tensor, "batch class"], y: Labels) -> Bool[Tensor, " batch"]:
        """Whether the attacker has reached the target, or any wrong class. An example of the target's own class is
        never counted."""
        predicted = logits.argmax(1)
        return predicted != y if self.target is None else (predicted == self.target) & (y != self.target)

    def range_of(self, x: Inputs) -> tuple[Tensor, Tensor]:
        """low and high in the precision of x."""
        low, high = (torch.as_tensor(end, dtype=x.dtype, device=x.device) for end in (self.low, self.high))
        return low, high

    def including(self, x: Num[Tensor, "batch *shape"]) -> "ThreatModel":
        """With a range of each feature, as it was found in other data, that includes these inputs too. A range that is
        one number is that of their unit, and stays."""
        if not isinstance(self.low, Tensor) or not isinstance(self.high, Tensor) or not len(x):
            return self
        low, high = self.low.to(x.device), self.high.to(x.device)
        return replace(self, low=torch.minimum(low, x.amin(0)), high=torch.maximum(high, x.amax(0)))

    def require_units(self, x: Num[Tensor, "batch *shape"]) -> None:
        """Refuse inputs beyond the range, and warn of inputs that fill little of it: either way, ε means another size
        than it seems to, for instance because pixels were normalised outside of the model."""
        low, high = self.range_of(x if x.is_floating_point() else x.float())
        require_range(x, low, high)
        if self.scale is not None:  # each feature has a unit of its own, and ranges differ
            return
        width = (high - low).max()
        if len(x) and width > 0 and (x - low).max() < UNFILLED * width:
            range_, found = describe_range(low, high), describe_range(x, x)
            warnings.warn(
                DataWarning(
                    f"the inputs have values {found} and fill little of the input range, {range_}: "
                    "if that is not the range of their unit, give low and high as it is"
                ),
                stacklevel=3,
            )


@dataclass(frozen=True, eq=False)
class Ball:
    """What a threat model allows around each example of a batch. Methods that end in _ change their first argument."""

    norm: Norm
    eps: float
    """Not above the threat model's, and a number of the inputs' precision."""
    original: Inputs
    lower: Inputs
    upper: Inputs
    """Per feature; for L∞ with ε, for L2 of the input range only."""
    scale: Tensor | None

    @classmethod
    def around(cls, threat: ThreatModel, original: Num[Tensor, "batch *shape"]) -> Self:
        precision = torch.float64 if original.dtype == torch.float64 else torch.float32
        original = original.detach().to(precision)
        low, high = threat.range_of(original)
        require_range(original, low, high)
        scale = None if threat.scale is None else threat.scale.to(original)
        eps = at_most(threat.eps, precision)
        lower, upper = low.expand_as(original), high.expand_as(original)
        if threat.norm == "linf":
            reach = original.new_tensor(eps) if scale is None else towards(scale * eps, scale.double() * eps)
            lower = torch.maximum(within(original - reach, original, reach), low)
            upper = torch.minimum(within(original + reach, original, reach), high)
        elif scale is not None:
            frozen = (scale == 0).expand_as(original)
            lower, upper = torch.where(frozen, original, lower), torch.where(frozen, original, upper)
        return cls(threat.norm, eps, original, lower, upper, scale)

    def __len__(self) -> int:
        return len(self.original)

    def select(self, chosen: Shaped[Tensor, " some"]) -> "Ball":
        """Those of some examples, by mask or number."""
        scale = self.scale
        if scale is not None and scale.ndim == self.original.ndim:
            scale = scale[chosen]
        return Ball(self.norm, self.eps, self.original[chosen], self.lower[chosen], self.upper[chosen], scale)

    def project_(self, x: Inputs) -> Inputs:
        if self.norm == "linf":
            return x.clamp_(self.lower, self.upper)
        # δ ← δ min(1, ε / ‖δ‖)
        x.clamp_(self.lower, self.upper)
        delta = x - self.original
        norm = length("l2", in_units(delta, self.scale), torch.float64) * (1 + summation_error(x))
        outside = norm > self.eps
        if outside.any():
            reach = delta[outside] * per_example(self.eps / norm[outside], x).to(x)
            x[outside] = within(self.original[outside] + reach, self.original[outside], reach.abs())
        return x.clamp_(self.lower, self.upper)

    def uniform(self, generator: torch.Generator | None = None) -> Inputs:
        """A random point of each ball, clipped to the range."""
        x = self.original
        if self.norm == "linf":
            # δ ~ U(−ε, ε)
            delta = torch.rand(x.shape, generator=generator, dtype=x.dtype).mul_(2).sub_(1).mul_(self.eps)
        else:
            # δ = ε u^{1/n} v / ‖v‖,   v ~ N(0, I),  u ~ U(0, 1)
            direction = torch.randn(x.shape, generator=generator, dtype=x.dtype)
            radius = torch.rand(len(x), generator=generator, dtype=x.dtype) ** (1 / max(1, x[:1].numel()))
            delta = direction * per_example(self.eps * radius / length("l2", direction), x)
        return self.project_(x + in_inputs(delta.to(x.device), self.scale))

    def steepest_(self, gradient: Inputs) -> Inputs:
        """The direction of norm 1, in units of `scale`, in which a loss with this gradient grows fastest."""
        if self.scale is not None:
            gradient.mul_(self.scale)
        if self.norm == "linf":
            gradient.sign_()
        else:
            norm = length("l2", gradient)
            gradient.mul_(per_example(torch.where(norm > 0, 1 / norm, 0), gradient))
        return in_inputs(gradient, self.scale)


def length(norm: Norm, delta: Inputs, dtype: torch.dtype | None = None) -> PerExample:
    order = math.inf if norm == "linf" else 2
    flat = delta.flatten(1)
    return torch.linalg.vector_norm(flat, order, dim=1, dtype=dtype) if flat.shape[1] else flat.sum(1, dtype=dtype)


def dual_length(norm: Norm, gradient: Inputs) -> PerExample:
    """How fast a loss grows at most, per unit of the norm: ‖g‖₁ for L∞, ‖g‖₂ for L2."""
    return torch.linalg.vector_norm(gradient.flatten(1), 1 if norm == "linf" else 2, dim=1)


def per_example(values: Shaped[Tensor, " batch"], like: Tensor) -> Shaped[Tensor, "batch *ones"]:
    """One value for all features of an example, in as many axes as the inputs have."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def in_units(delta: Inputs, scale: Tensor | None) -> Inputs:
    return delta if scale is None else torch.where(delta == 0, 0, delta / scale.to(delta))


def in_inputs(delta: Inputs, scale: Tensor | None) -> Inputs:
    return delta if scale is None else delta * scale.to(delta)


# --- to the last bit --------------------------------------------------------------------------------------------------


def within(x: Inputs, original: Inputs, reach: Tensor) -> Inputs:
    """x, or where it is farther than `reach` from the original, the next number towards it. x must be an original plus
    or minus at most `reach`, rounded: then one number is enough."""
    return torch.where((x - original).abs() > reach, x.nextafter(original), x)


def towards(x: Float[Tensor, "*shape"], bound: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x, or the number below where x is above a bound of more digits."""
    return torch.where(x.double() > bound, x.nextafter(torch.full_like(x, -math.inf)), x)


def at_most(eps: float, precision: torch.dtype) -> float:
    """The largest number of this precision that is not above eps."""
    rounded = torch.tensor(eps, dtype=precision)
    if rounded.item() > eps:
        rounded = rounded.nextafter(torch.zeros_like(rounded))
    return rounded.item()


def summation_error(x: Inputs) -> float:
    """How far, relatively, an L2 norm in the inputs' precision may be above the one in double precision: with n
    features added in at least four parallel sums, half of n / 4 roundings (the root halves them); eight more are for
    other operations. Where the inputs are in double precision, either norm may be wrong by as much."""
    roundings = x[:1].numel() / 8 + 8
    return (roundings if x.dtype == torch.float32 else 2 * roundings) * torch.finfo(x.dtype).eps / 2


# --- the input range --------------------------------------------------------------------------------------------------


def require_range(x: Tensor, low: Tensor, high: Tensor) -> None:
    if not ((x >= low) & (x <= high)).all():
        raise InputError(
            f"inputs must lie in the input range of the threat model, {describe_range(low, high)}",
            got=f"values {describe_range(x, x)}",
            fix="if they were normalised, give them as they were before, to a model that normalises them itself, or "
            "give low and high as they are",
        )


def describe_range(low: Tensor, high: Tensor) -> str:
    return f"from {low.min().item():g} to {high.max().item():g}"
