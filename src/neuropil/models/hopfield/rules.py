"""How a Hopfield network learns its patterns X, M rows of N signs: every rule gives a symmetric W with a zero diagonal.

    Hebb              W = XᵀX / M − I
    pseudo-inverse    W = X⁺X, the projection onto the patterns, without its diagonal   (Personnaz, Guyon, Dreyfus 1985)
    Storkey           W_ij += (x_i x_j − x_i h_ji − h_ij x_j) / N for one pattern after the other,
                      h_ij = Σ_{k ≠ i, j} W_ik x_k                                       (Storkey 1997)

Hebb's rule is where descent of the mean energy E = −½ x W xᵀ − b xᵀ of the patterns arrives after the time τ,

    τ dW/dt = −∇_W E = XᵀX / M − I                           x_i² = 1 would feed the diagonal, hence − I
    τ db/dt = −∇_b E = Σ_s x⁽ˢ⁾ / M

It fits random patterns only, up to about 0.138 N of them. Storkey's rule is local and incremental as well, and fits
N / √(2 ln N); the pseudo-inverse is neither, and makes any linearly independent patterns fixed points.
"""

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Patterns: TypeAlias = Float[Tensor, "pattern unit"]
Weight: TypeAlias = Float[Tensor, "unit unit"]
RuleName = Literal["hebb", "pseudo_inverse", "storkey"]


def hebb(patterns: Patterns) -> Weight:
    return learning_direction(patterns)


def pseudo_inverse(patterns: Patterns) -> Weight:
    # W = X⁺X, made exactly symmetric
    weight = (torch.linalg.pinv(patterns.double()) @ patterns.double()).to(patterns.dtype)
    return _without_diagonal((weight + weight.mT) / 2)


def storkey(patterns: Patterns) -> Weight:
    units = patterns.shape[1]
    weight = patterns.new_zeros(units, units)
    for x in patterns:
        # With a = W x and W_ii = 0, h_ij = a_i − W_ij x_j. As x_i² = 1, the rule is
        # W += (x xᵀ − x aᵀ − a xᵀ + 2 W) / N
        crossed = torch.outer(x, weight @ x)
        weight = weight + (torch.outer(x, x) - (crossed + crossed.mT) + 2 * weight) / units
        weight.fill_diagonal_(0)
    return weight


RULES: dict[RuleName, Callable[[Patterns], Weight]] = {
    "hebb": hebb,
    "pseudo_inverse": pseudo_inverse,
    "storkey": storkey,
}


def learning_direction(patterns: Patterns) -> Weight:
    """τ dW/dt = XᵀX / M − I."""
    # Signs have whole numbers as products: XᵀX is exact, and so is the zero diagonal.
    return _without_diagonal(patterns.mT @ patterns / len(patterns))


def learning_descent(patterns: Patterns, steps: int) -> Iterator[Weight]:
    """The weights after each of so many equal steps of the time τ, from W = 0 to Hebb's."""
    direction = learning_direction(patterns)
    weight = torch.zeros_like(direction)
    for _ in range(steps):
        weight = weight + direction / steps
        yield weight


def _without_diagonal(weight: Weight) -> Weight:
    return weight.fill_diagonal_(0)
