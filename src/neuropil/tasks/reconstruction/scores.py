"""How much of an example a code keeps: the squared error of its reconstruction, beside PCA with as many dimensions.

reconstruction error   mean (u − û)²                       over the pixels, in the unit range
probe accuracy         of a logistic regression on codes   what a classifier can learn from them
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.parts.standardize import UnitRange
from neuropil.randomness import seeded
from neuropil.tasks.logistic_regression import LogisticRegression

LARGEST = 20_000
"""Training examples from which principal components and a probe are learned."""


def squared_errors(
    scale: UnitRange, inputs: Tensor, reconstructed: Float[Tensor, "example *shape"]
) -> Float[Tensor, " example"]:
    """Of each example, from its reconstruction in the unit range."""
    return (scale(inputs.to(scale.low.device)).cpu() - reconstructed).flatten(1).square().mean(1)


@dataclass(frozen=True)
class PrincipalComponents:
    """û = m + (u − m) Vᵀ V, V the directions of the largest variance: the best that is linear."""

    mean: Float[Tensor, " pixel"]
    directions: Float[Tensor, "component pixel"]

    @classmethod
    def fit(cls, unit: Float[Tensor, "example *shape"], components: int) -> "PrincipalComponents":
        from sklearn.decomposition import PCA

        flat = unit.flatten(1).double().numpy()
        fitted = PCA(min(components, *flat.shape), svd_solver="full").fit(flat)
        return cls(torch.from_numpy(fitted.mean_).float(), torch.from_numpy(fitted.components_).float())

    def codes(self, unit: Float[Tensor, "example *shape"]) -> Float[Tensor, "example component"]:
        return (unit.flatten(1) - self.mean) @ self.directions.mT

    def reconstruct(self, unit: Float[Tensor, "example *shape"]) -> Float[Tensor, "example *shape"]:
        return (self.mean + self.codes(unit) @ self.directions).reshape(unit.shape)


def some(train: Examples, seed: int) -> Examples:
    return train.take(torch.randperm(len(train), generator=seeded(seed, "some"))[:LARGEST])


def probe_accuracy(
    train_codes: Float[Tensor, "example latent"],
    train: Examples,
    test_codes: Float[Tensor, "other latent"],
    test: Examples,
) -> dict[str, float]:
    """Of the test part; nothing where there are no classes."""
    if not train.schema.classes:
        return {}
    probe = LogisticRegression.fit(train_codes, train.targets)
    return {"probe_accuracy": (probe.predict(test_codes) == test.targets).double().mean().item()}
