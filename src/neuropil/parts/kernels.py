"""Kernels: how alike two points are, from 1 for equal ones towards 0.

    Gaussian            k(x, z) = exp(−‖x − z‖² / 2ℓ²)
    Laplacian           k(x, z) = exp(−‖x − z‖ / ℓ)
    Matern              k(x, z) = (1 + √3 r) exp(−√3 r)                r = ‖x − z‖ / ℓ
    RationalQuadratic   k(x, z) = (1 + ‖x − z‖² / 2αℓ²)^−α
    Periodic            k(x, z) = exp(−2 sin²(π ‖x − z‖ / p) / ℓ²)
    Epanechnikov        k(x, z) = max(0, 1 − ‖x − z‖² / ℓ²)
    Boxcar              k(x, z) = 1 where ‖x − z‖ ≤ ℓ, else 0

Kernel smoothing mixes the values of the points that are near, and any of these will do. A Gaussian process asks for a
kernel that is positive definite: Epanechnikov's and the boxcar are not, and the periodic one is so on a line only.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.errors import InputError

KernelName = Literal["gaussian", "laplacian", "matern", "rational_quadratic", "periodic", "epanechnikov", "boxcar"]
Distance: TypeAlias = Float[Tensor, "*shape"]
Points: TypeAlias = Float[Tensor, "*batch query width"]
OtherPoints: TypeAlias = Float[Tensor, "*batch key width"]
Covariances: TypeAlias = Float[Tensor, "*batch query key"]
Length: TypeAlias = float | Float[Tensor, ""]
Square: TypeAlias = Float[Tensor, "point point"]

JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Jitter: shares of h added to the diagonal, one after the other, until the factorisation succeeds."""


@dataclass(frozen=True)
class Kernel(ABC):
    """`length` is the length scale ℓ, in units of the inputs; where it is learned, it is a tensor."""

    length: Length = 1.0
    positive_definite: ClassVar[bool] = True
    compact: ClassVar[bool] = False
    """Whether it is zero, and its logarithm −∞, beyond some distance."""

    @abstractmethod
    def of_distance(self, distance: Distance) -> Distance:
        """ln k: the logarithm keeps what is far apart from rounding to zero."""

    def log(self, x: Points, z: OtherPoints) -> Covariances:
        # Not by ‖x‖² − 2 x·z + ‖z‖², which would lose its digits where points are near and far from the origin.
        return self.of_distance(torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist"))

    def __call__(self, x: Points, z: OtherPoints) -> Covariances:
        return self.log(x, z).exp()

    def __post_init__(self) -> None:
        if not isinstance(self.length, Tensor) and not self.length > 0:
            raise InputError(f"{type(self).__name__} needs a length above zero", got=f"{self.length:g}")


class Gaussian(Kernel):
    def of_distance(self, distance: Distance) -> Distance:
        return -0.5 * (distance / self.length).square()


class Laplacian(Kernel):
    """Continuous and nowhere smooth: the covariance of a random walk that is pulled back to its mean."""

    def of_distance(self, distance: Distance) -> Distance:
        return -distance / self.length


class Matern(Kernel):
    """ν = 3/2: once differentiable, for functions that are less smooth than a Gaussian's."""

    def of_distance(self, distance: Distance) -> Distance:
        r = math.sqrt(3) * distance / self.length
        return torch.log1p(r) - r


@dataclass(frozen=True)
class RationalQuadratic(Kernel):
    """A mixture of Gaussians of many lengths; the smaller α, the more of them."""

    alpha: float = 1.0

    def of_distance(self, distance: Distance) -> Distance:
        return -self.alpha * torch.log1p((distance / self.length).square() / (2 * self.alpha))


@dataclass(frozen=True)
class Periodic(Kernel):
    """A Gaussian of the distance on a circle, onto which a line can be wound; there is no such circle for a plane."""

    period: float = 1.0

    def of_distance(self, distance: Distance) -> Distance:
        return -2 * (torch.sin(math.pi * distance / self.period) / self.length).square()


class Epanechnikov(Kernel):
    """Zero beyond ℓ: a point with nobody near has nothing to be smoothed from."""

    positive_definite = False
    compact = True

    def of_distance(self, distance: Distance) -> Distance:
        height = 1 - (distance / self.length).square()
        # Where there is no height its logarithm is not asked for: the gradient of ln 0 would be NaN, whatever is done
        # with it afterwards.
        return torch.where(height > 0, height, 1.0).log().masked_fill(height <= 0, -torch.inf)


class Boxcar(Kernel):
    positive_definite = False
    compact = True

    def of_distance(self, distance: Distance) -> Distance:
        return torch.where(distance <= self.length, 0.0, -torch.inf).to(distance.dtype)


KERNELS: Mapping[KernelName, Callable[[Length], Kernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "rational_quadratic": RationalQuadratic,
    "periodic": Periodic,
    "epanechnikov": Epanechnikov,
    "boxcar": Boxcar,
}


def build_kernel(name: KernelName, length: Length, *, period: float = 1.0) -> Kernel:
    """A kernel by its name; `period` matters to the periodic one alone."""
    return Periodic(length, period) if name == "periodic" else KERNELS[name](length)


def factorise(covariance: Square, height: Float[Tensor, ""]) -> tuple[Square, float]:
    """L with L Lᵀ = covariance + jitter I, and that jitter: the smallest that works."""
    if torch.compiler.is_exporting():  # a graph cannot try again: it refuses where a jitter would be needed
        return torch.linalg.cholesky(covariance), 0.0
    diagonal = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    for share in JITTERS:
        lower, failed = torch.linalg.cholesky_ex(covariance + share * height * diagonal)
        if covariance.is_meta or not failed:  # what has no values cannot fail
            return lower, share * height.item() if share else 0.0
    raise InputError("a covariance must be finite and positive definite", got="one that is not", fix="raise the noise")


def reach_of(x: Float[Tensor, "point width"], kernel: KernelName) -> float:
    """The points' reach, as the kernel measures it: the periodic one winds them onto a circle of width 2."""
    spread = (x.amax(0) - x.amin(0)).norm().item()
    return 2.0 if kernel == "periodic" and spread > 0 else spread
