"""Ways through a latent space whose points are drawn from N(0, I), as rows to decode.

    linear       z(t) = (1 − t) a + t b
    spherical    z(t) = [sin((1 − t) Ω) a + sin(t Ω) b] / sin Ω         Ω: the angle between a and b

In many dimensions nearly all points of N(0, I) lie at the distance √d from the origin. The straight line between two of
them leaves that shell for points that the decoder was never shown; the arc stays in it (White 2016).
"""

from collections.abc import Sequence
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from neuropil.errors import InputError

PathName = Literal["linear", "spherical"]
LEAST_SINE = 1e-4
"""Of the angle between two points: below, the arc between them is a line, or not one arc but any."""


def interpolate(
    a: Float[Tensor, " latent"], b: Float[Tensor, " latent"], steps: int, path: PathName = "spherical"
) -> Float[Tensor, "step latent"]:
    """From a to b in equal steps, both ends included."""
    if steps < 2:
        raise InputError("an interpolation has at least 2 steps, its two ends", got=f"{steps}")
    t = torch.linspace(0, 1, steps, dtype=a.dtype, device=a.device).unsqueeze(1)
    # Ω = 2 atan2(‖ |b| a − |a| b ‖, ‖ |b| a + |a| b ‖), which keeps its digits where arccos of a product loses them
    long_a, long_b = b.norm() * a, a.norm() * b
    omega = 2 * torch.atan2((long_a - long_b).norm(), (long_a + long_b).norm())
    if path == "linear" or omega.sin() < LEAST_SINE:
        return (1 - t) * a + t * b
    return (((1 - t) * omega).sin() * a + (t * omega).sin() * b) / omega.sin()


def traverse(
    z: Float[Tensor, " latent"], dimension: int, values: Sequence[float] | Float[Tensor, " value"]
) -> Float[Tensor, "value latent"]:
    """The same point with one coordinate at each of `values`."""
    if not 0 <= dimension < len(z):
        raise InputError(f"a latent dimension is a number from 0 to {len(z) - 1}", got=f"{dimension}")
    points = z.repeat(len(values), 1)
    points[:, dimension] = torch.as_tensor(values, dtype=z.dtype, device=z.device)
    return points


def plane(
    z: Float[Tensor, " latent"],
    axes: tuple[int, int],
    across: Float[Tensor, " column"],
    along: Float[Tensor, " row"],
) -> Float[Tensor, "point latent"]:
    """Row by row, the same point with two coordinates at each pair of values: `across` of the first axis in every row,
    `along` of the second from row to row."""
    if not all(0 <= axis < len(z) for axis in axes) or axes[0] == axes[1]:
        rule = f"the axes of a plane must be two different dimensions from 0 to {len(z) - 1}"
        raise InputError(rule, got=f"{axes[0]} and {axes[1]}")
    points = z.repeat(len(across) * len(along), 1)
    points[:, axes[0]], points[:, axes[1]] = across.repeat(len(along)), along.repeat_interleave(len(across))
    return points


def latent_grid(side: int) -> Float[Tensor, "point 2"]:
    """Row by row from the top, the points of a plane at which N(0, I) has equally much on all sides: quantiles of the
    normal distribution along both axes."""
    quantiles = torch.special.ndtri((torch.arange(side) + 0.5) / side)
    y, x = torch.meshgrid(quantiles.flip(0), quantiles, indexing="ij")
    return rearrange([x, y], "coordinate row column -> (row column) coordinate")
