"""Logistic regression: the linear classifier that a network must beat.

    p_c ∝ exp z_c,   z = W (x − μ) / σ + b
    minimised:  (Σ_i α_i (−ln p of the class of i) + ‖W‖² / 2) / Σ_i α_i        α_i is the weight of example i, or 1

It stops where scikit-learn's does with tol=1e-3 and max_iter=300, and takes the same steps of L-BFGS on the way. That
library brings pandas and all of SciPy along, whose import takes as long as that of PyTorch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor
from torch.nn import functional as F

from neuropil.parts.standardize import Standardize

Double = Float[Tensor, "..."]
STEPS, GRADIENT = 300, 1e-3


@dataclass(frozen=True)
class LogisticRegression:
    """Of two classes there is one column of log-odds, those of the second."""

    classes: Int64[Tensor, " class"]
    """Those that the training examples have."""
    scaling: Standardize
    weight: Float[Tensor, "feature column"]
    bias: Float[Tensor, " column"]

    @classmethod
    def fit(
        cls,
        x: Num[Tensor, "example feature"],
        targets: Int64[Tensor, " example"],
        weights: Float[np.ndarray, " example"] | None = None,
    ) -> "LogisticRegression":
        classes, places = targets.unique(return_inverse=True)
        scaling = Standardize((x.shape[1],)).double().fit(x)
        alpha = torch.ones(len(x)) if weights is None else torch.from_numpy(weights)
        loss = _two_classes if len(classes) == 2 else _several_classes
        columns = 1 if len(classes) == 2 else len(classes)
        weight, bias = _minimised(scaling(x), places, alpha.double(), columns, loss)
        return cls(classes, scaling, weight, bias)

    def probabilities(self, x: Num[Tensor, "example feature"]) -> Float[Tensor, "example class"]:
        z = self.scaling(x) @ self.weight + self.bias
        if len(self.classes) != 2:
            return z.softmax(-1)
        return torch.cat([(-z).sigmoid(), z.sigmoid()], -1)

    def predict(self, x: Num[Tensor, "example feature"]) -> Int64[Tensor, " example"]:
        return self.classes[self.probabilities(x).argmax(-1)]


def _two_classes(z: Double, places: Tensor) -> tuple[Double, Double]:
    """−ln p of each example, and its derivative with respect to z."""
    y = places[:, None].double()
    return (F.softplus(z) - y * z)[:, 0], z.sigmoid() - y


def _several_classes(z: Double, places: Tensor) -> tuple[Double, Double]:
    log_p = z.log_softmax(-1)
    return F.nll_loss(log_p, places, reduction="none"), log_p.exp() - F.one_hot(places, z.shape[1])


def _minimised(
    x: Double, places: Tensor, alpha: Double, columns: int, loss: Callable[[Double, Tensor], tuple[Double, Double]]
) -> tuple[Double, Double]:
    from scipy.optimize import minimize

    total = alpha.sum()

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        found = torch.from_numpy(flat).view(-1, columns)
        weight, bias = found[:-1], found[-1]
        losses, slopes = loss(x @ weight + bias, places)
        value = (alpha @ losses + weight.square().sum() / 2) / total
        slopes = alpha[:, None] * slopes
        return value.item(), (torch.cat([x.mT @ slopes + weight, slopes.sum(0, keepdim=True)]) / total).numpy().ravel()

    start = np.zeros((x.shape[1] + 1) * columns)
    stop = {"maxiter": STEPS, "maxls": 50, "gtol": GRADIENT, "ftol": 64 * np.finfo(float).eps}
    found = torch.from_numpy(minimize(objective, start, method="L-BFGS-B", jac=True, options=stop).x).view(-1, columns)
    return found[:-1], found[-1]
