"""Made data of two classes in the plane; a line tells apart the `blobs`, but none of the others.

circles   one ring in another          moons   two half-moons that reach into each other
xor       opposite quadrants alike     spirals two arms that wind around each other
"""

import math
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

PlanarName = Literal["circles", "xor", "moons", "spirals", "blobs"]
PLANAR_NAMES: tuple[PlanarName, ...] = get_args(PlanarName)
TURNS = 1.5
"""Of each arm of the spirals."""

LabelledPoints: TypeAlias = tuple[Float[Tensor, "example 2"], Int64[Tensor, " example"]]


def planar_points(name: PlanarName, count: int, *, noise: float = 0.1, seed: int = 0) -> LabelledPoints:
    """Within about −1 to 1 on both axes, as many of either class (give or take one); `noise` is the standard deviation
    of what is added to both coordinates."""
    rng = np.random.default_rng(seed)
    points, labels = _MAKERS[name](count, rng)
    points = points + noise * rng.standard_normal(points.shape)
    order = rng.permutation(count)
    return torch.from_numpy(points[order]).float(), torch.from_numpy(labels[order]).long()


def _circles(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_circles

    points, labels = make_circles(count, factor=0.45, shuffle=False)
    return 0.95 * np.asarray(points), np.asarray(labels)


def _moons(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_moons

    points, labels = make_moons(count, shuffle=False)
    return (np.asarray(points) - (0.5, 0.25)) / 1.5, np.asarray(labels)


def _blobs(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_blobs

    points, labels, *_ = make_blobs(count, centers=[(-0.5, -0.5), (0.5, 0.5)], cluster_std=0.15, random_state=0)
    return np.asarray(points), np.asarray(labels)


def _xor(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count) % 2
    sides = rng.choice([-1.0, 1.0], count)
    points = rng.uniform(0.1, 0.95, (count, 2)) * np.stack([sides, sides * (2 * labels - 1)], 1)
    return points, labels


def _spirals(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count) % 2
    along = (np.arange(count) // 2 + 1) / math.ceil(count / 2)
    angle = 2 * math.pi * TURNS * along + math.pi * labels
    return 0.95 * along[:, None] * np.stack([np.sin(angle), np.cos(angle)], 1), labels


_MAKERS = {"circles": _circles, "moons": _moons, "xor": _xor, "spirals": _spirals, "blobs": _blobs}
