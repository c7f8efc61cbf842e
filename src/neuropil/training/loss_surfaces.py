"""Losses of two weights, on which optimisers can be watched: a real regression, Rosenbrock's valley, and two wells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

Points: TypeAlias = Float[Tensor, "point 2"]
GRID = 121
"""Places along each axis of a drawing."""


@dataclass(frozen=True)
class Surface:
    """A loss of two weights; `loss(w, chosen)` takes the mean over the chosen examples, or over all for None."""

    loss: Callable[[Points, Int[Tensor, " chosen"] | None], Float[Tensor, " point"]]
    start: tuple[float, float]
    minimum: tuple[float, float]
    num_examples: int
    window: tuple[tuple[float, float], tuple[float, float]]
    """What to draw: the ends of each axis."""
    words: str

    def excess(self, w: Points) -> Float[Tensor, " point"]:
        """The loss above the minimum."""
        return self.loss(w, None) - self.loss(point(self.minimum), None)

    def hessian(self, at: Sequence[float]) -> Float[Tensor, "2 2"]:
        return torch.func.hessian(lambda w: self.loss(w[None], None)[0])(point(at)[0])

    def curvatures(self) -> tuple[float, float]:
        """The least and the largest eigenvalue of the Hessian at the minimum."""
        low, high = torch.linalg.eigvalsh(self.hessian(self.minimum)).tolist()
        return low, high

    def contours(self, places: int = GRID) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both axes of the window, and the loss above the minimum on their grid."""
        x, y = (np.linspace(*ends, places) for ends in self.window)
        points = torch.from_numpy(np.stack(np.meshgrid(x, y), axis=-1))  # row column weight
        return x, y, self.excess(points.flatten(0, 1)).reshape(places, places).numpy()


def point(weights: Sequence[float]) -> Points:
    return torch.tensor([list(weights)], dtype=torch.float64)


def diabetes_surface() -> Surface:
    from sklearn.datasets import load_diabetes

    table, target = load_diabetes(scaled=False, return_X_y=True)
    body_mass_index, blood_fats = 2, 8
    features = torch.from_numpy(np.asarray(table)[:, [body_mass_index, blood_fats]])
    targets = torch.from_numpy(np.asarray(target))
    # Centred features and targets need no bias: two weights are the whole model.
    x = features - features.mean(0)
    t = (targets - targets.mean()) / targets.std()

    def loss(w: Tensor, chosen: Tensor | None) -> Tensor:
        inputs, target = (x, t) if chosen is None else (x[chosen], t[chosen])
        # E = (1/N) Σ ½ (w · x − t)²
        return 0.5 * (w @ inputs.T - target).square().mean(-1)

    # (xᵀx) w = xᵀt, by plain sums: a library's least squares may end on another last bit when it is called again
    gram, pull = (x[:, :, None] * x[:, None]).sum(0), (x * t[:, None]).sum(0)
    first, second = torch.linalg.solve(gram, pull).tolist()
    spread = x.std(0)
    words = (
        f"The surface is real: {len(x)} patients (scikit-learn's diabetes data), the progress of the disease within a "
        f"year, and a linear model of two weights, one for body-mass index (spread {spread[0]:.2g}) and one for the "
        f"logarithm of blood fats (spread {spread[1]:.2g})."
    )
    return Surface(loss, (-0.3, -0.4), (first, second), len(x), ((-0.38, 0.56), (-0.65, 1.15)), words)


def rosenbrock_surface() -> Surface:
    def loss(w: Tensor, chosen: Tensor | None) -> Tensor:
        a, b = w.unbind(-1)
        # f = (1 − a)² + 100 (b − a²)²
        return (1 - a) ** 2 + 100 * (b - a**2) ** 2

    words = "The surface is Rosenbrock's function, (1 − w₁)² + 100 (w₂ − w₁²)². It has no examples and so no SGD."
    return Surface(loss, (-1.2, 1.0), (1.0, 1.0), 0, ((-1.7, 1.7), (-0.8, 2.4)), words)


def two_wells_surface() -> Surface:
    """A local minimum near w₁ = 1, the global one near −1, and a ridge between them; the start is on the side of the
    first."""

    def loss(w: Tensor, chosen: Tensor | None) -> Tensor:
        a, b = w.unbind(-1)
        # f = (a² − 1)² + 0.6 a + ½ b²
        return (a**2 - 1) ** 2 + 0.6 * a + 0.5 * b**2

    # 4 a³ − 4 a + 0.6 = 0 has three roots: two minima, and the ridge between them.
    lowest = float(min(np.roots([4, 0, -4, 0.6]).real))
    words = "The surface is (w₁² − 1)² + 0.6 w₁ + ½ w₂², with a local and a global minimum."
    return Surface(loss, (1.6, 1.2), (lowest, 0.0), 0, ((-2.1, 2.1), (-1.5, 1.5)), words)
