"""Scaling inside the model, with what it needs taken from the training data once.

    Standardize    z = (x − μ) / σ                        for nets that answer questions
    UnitRange      u = (x − low) / (high − low)           for nets that answer with pictures: probabilities of ink

Because it is part of the model, pictures stay bytes outside, the weights carry their own scaling, and a perturbation of
an input is measured in pixels. The inverse, x = μ + σ z, lets a net answer in the units of its targets while it learns
in units of one.
"""

from typing import Self

import torch
from einops import rearrange
from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.errors import InputError

EXAMPLES_AT_ONCE = 4096


class Scaling(nn.Module):
    """What both share: every model begins with one of them, so this is where inputs of another shape are refused."""

    shape: tuple[int, ...]
    any_size = False
    """Whether pictures may be larger or smaller than `shape` says."""

    def require_shape(self, x: Tensor) -> None:
        if self.any_size and x.ndim == 1 + len(self.shape) and x.shape[1] == self.shape[0]:
            return
        if x.shape[1:] != self.shape:
            expected = ", ".join(map(str, ("batch", *self.shape)))
            rule = f"inputs must have the shape [{expected}] that the model was made for"
            raise InputError(rule, got=f"{list(x.shape)}")


class Standardize(Scaling):
    """μ and σ per feature for tables (`shape` has one axis), per channel for pictures (`shape` begins with the
    channels).

    Until `fit` is called μ = 0 and σ = 1, and nothing is changed.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, shape: tuple[int, ...], *, any_size: bool = False):
        """With `any_size`, pictures may be larger or smaller than `shape` says."""
        super().__init__()
        self.shape, self.any_size = shape, any_size
        statistics = (shape[0], *(1 for _ in shape[1:]))
        self.register_buffer("mean", torch.zeros(statistics))
        self.register_buffer("std", torch.ones(statistics))

    @torch.no_grad()
    def fit(self, x: Num[Tensor, "example *shape"]) -> Self:
        """Take μ and σ from the examples; what is constant gets σ = 1, so that nothing is divided by zero."""
        self.require_shape(x)
        if len(x) == 0:
            raise InputError("Standardize.fit needs at least one example", got="none")
        # The data may be large bytes: a piece at a time becomes double precision.
        pattern = "example first ... -> first (example ...)"
        pieces = [rearrange(piece, pattern) for piece in x.cpu().split(EXAMPLES_AT_ONCE)]
        count = x.numel() / self.shape[0]
        # μ = (1/N) Σ x,   σ² = (1/N) Σ (x − μ)²
        zero = torch.zeros(self.shape[0], dtype=torch.double)
        mean = sum((piece.double().sum(1) for piece in pieces), start=zero) / count
        squares = (((piece.double() - mean[:, None]) ** 2).sum(1) for piece in pieces)
        std = (sum(squares, start=zero) / count).sqrt()
        rounding = torch.finfo(torch.float32).eps * mean.abs()
        self.mean.copy_(mean.reshape(self.mean.shape))
        self.std.copy_(torch.where(std > rounding, std, 1.0).reshape(self.std.shape))
        return self

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        self.require_shape(x)
        return (x.to(self.mean.dtype) - self.mean) / self.std

    def inverse(self, z: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        return self.mean + self.std * z


class UnitRange(Scaling):
    """Bytes are pictures, whose range is 0 to 255 whatever they show. Of other numbers, low and high are the smallest
    and the largest of each feature for tables (`shape` has one axis), and of all for pictures."""

    low: Tensor
    high: Tensor

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.shape = shape
        of_each = shape if len(shape) == 1 else (1,) * len(shape)
        self.register_buffer("low", torch.zeros(of_each))
        self.register_buffer("high", torch.full(of_each, 255.0))

    @torch.no_grad()
    def fit(self, x: Num[Tensor, "example *shape"]) -> Self:
        """What is constant gets a range of one, so that nothing is divided by zero."""
        self.require_shape(x)
        if len(x) == 0:
            raise InputError("UnitRange.fit needs at least one example", got="none")
        if x.dtype == torch.uint8:
            return self
        flat = x if len(self.shape) == 1 else x.reshape(-1, 1)
        low, high = (extreme.reshape(self.low.shape) for extreme in flat.aminmax(dim=0))
        self.low.copy_(low)
        self.high.copy_(range_end(self.low, high))
        return self

    def forward(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        """Values beyond what was seen in training stay beyond 0 and 1."""
        self.require_shape(x)
        return (x.to(self.low.dtype) - self.low) / (self.high - self.low)

    def inverse(self, u: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        return self.low + (self.high - self.low) * u


def range_end(low: Float[Tensor, "*each"], high: Num[Tensor, "*each"]) -> Float[Tensor, "*each"]:
    """`high` in the precision of `low`, or one more than `low` where that is no higher. From 2²⁴ on single precision
    may round one more to the same number: there it is the next."""
    high, next_number = high.to(low.dtype), low.nextafter(torch.full_like(low, torch.inf))
    return torch.where(high > low, high, next_number.maximum(low + 1))
