"""How good generated examples are, beside real ones that nobody has learned from, in the features of a classifier.

    Fréchet distance   ‖m − m'‖² + tr(C + C' − 2 (C C')^½)     between Gaussians with the means and covariances of both
    precision          share of generated examples that lie within the manifold of the real ones
    recall             share of real examples that lie within the manifold of the generated ones
    class coverage     1 − ½ Σ_c |p_c − q_c|                   shares of the classes: of generated ones as they are seen
    memorised          share of generated examples that are nearer to a training example than 99 % of the real ones are

A manifold is the union of balls around its examples that reach to their k-th neighbours (Kynkäänniemi et al. 2019).
Real examples that are held out get the same scores, as a model that makes examples like the data would.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64, Int64, Shaped
from torch import Tensor

NEIGHBOURS = 3
NEAR = 0.01
"""Quantile of the distances of real examples to training examples: what is nearer counts as memorised."""
AT_ONCE, MOST_NUMBERS = 2**25, 2**28
"""Numbers of examples, or distances, that stand in memory at a time; numbers that a covariance is made of."""


def frechet_distance(x: Float[Tensor, "example feature"], y: Float[Tensor, "other feature"]) -> float:
    """Of the Gaussians fitted to both."""
    return gaussian_frechet(*_moments(x), *_moments(y))


def gaussian_frechet(
    mean: Float[Tensor, " feature"],
    covariance: Float[Tensor, "feature feature"],
    other_mean: Float[Tensor, " feature"],
    other_covariance: Float[Tensor, "feature feature"],
) -> float:
    # tr (C C')^½ = tr (C^½ C' C^½)^½, which is symmetric and has no negative eigenvalues but by rounding
    values, vectors = torch.linalg.eigh(covariance)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.mT
    crossed = torch.linalg.eigvalsh(root @ other_covariance @ root).clamp(min=0).sqrt().sum()
    # ‖m − m'‖² + tr(C + C') − 2 tr (C C')^½
    apart = (mean - other_mean).square().sum()
    return max(0.0, float(apart + covariance.trace() + other_covariance.trace() - 2 * crossed))


def _moments(x: Float[Tensor, "example feature"]) -> tuple[Tensor, Tensor]:
    x = x.double()
    return x.mean(0), torch.atleast_2d(x.mT.cov())


def precision_and_recall(
    generated: Float[Tensor, "example feature"], real: Float[Tensor, "other feature"], neighbours: int = NEIGHBOURS
) -> tuple[float, float]:
    distances = torch.cdist(generated.double(), real.double())
    return (
        float((distances <= _radii(real, neighbours)).any(1).double().mean()),
        float((distances.mT <= _radii(generated, neighbours)).any(1).double().mean()),
    )


def _radii(x: Float[Tensor, "example feature"], neighbours: int) -> Float[Tensor, " example"]:
    """From each example to its k-th neighbour; the nearest of all is the example itself."""
    within = torch.cdist(x.double(), x.double())
    return within.kthvalue(min(neighbours + 1, len(x)), dim=1).values


def class_coverage(generated: Int64[Tensor, " example"], real: Int64[Tensor, " other"], classes: int) -> float:
    p, q = (each.bincount(minlength=classes).double() / len(each) for each in (generated, real))
    return float(1 - (p - q).abs().sum() / 2)


def nearest(
    x: Shaped[Tensor, "example *shape"], train: Shaped[Tensor, "other *shape"]
) -> tuple[Float64[Tensor, " example"], Int64[Tensor, " example"]]:
    """Distance to the nearest training example, and which it is, a few of both at a time. Without the mean, which may
    be far larger than any distance."""
    x, train = x.flatten(1), train.flatten(1)
    rows = max(1, AT_ONCE // max(1, x.shape[1]))
    centre = torch.stack([part.double().mean(0) * len(part) for part in train.split(rows)]).sum(0) / len(train)
    distances, places = x.new_full((len(x),), math.inf, dtype=torch.double), torch.zeros(len(x), dtype=torch.int64)
    for begin, known in zip(range(0, len(train), rows), train.split(rows), strict=True):
        known = known.double() - centre
        found = [
            torch.cdist(piece.double() - centre, known).min(1) for piece in x.split(min(rows, AT_ONCE // rows + 1))
        ]
        nearer, where = torch.cat([each.values for each in found]), torch.cat([each.indices for each in found]) + begin
        places = torch.where(nearer < distances, where, places)
        distances = torch.minimum(distances, nearer)
    return distances, places


def memorised_share(generated: Float[Tensor, " example"], real: Float[Tensor, " other"]) -> float:
    """From the distances of generated and of real examples to their nearest training examples."""
    return float((generated < real.quantile(NEAR)).double().mean())


def gaussian_examples(
    train: Shaped[Tensor, "example *shape"], count: int, generator: torch.Generator
) -> Float[Tensor, "count *shape"]:
    """What is random but for the mean and covariance of the training examples, of so many as fit into memory.

    x = m + Xᵀ z / √(n − 1),  z ~ N(0, I)            X: n examples without their mean m
    """
    flat = train.flatten(1)
    flat = flat[: max(2, MOST_NUMBERS // flat.shape[1])].float()
    mean = flat.mean(0)
    noise = torch.randn(count, len(flat), generator=generator)
    return (mean + noise @ (flat - mean) / math.sqrt(len(flat) - 1)).reshape(count, *train.shape[1:])


def spread_labels(targets: Int64[Tensor, " example"], classes: int, count: int) -> Int64[Tensor, " count"]:
    """So many labels, in the proportions in which they are among the examples."""
    quota = (targets.bincount(minlength=classes).double().cumsum(0) / len(targets) * count).round().long()
    return torch.repeat_interleave(torch.arange(classes), quota.diff(prepend=quota.new_zeros(1)))


def names_of_missing(generated: Int64[Tensor, " example"], classes: Sequence[str]) -> list[str]:
    """Classes of which no example was generated."""
    counts = generated.bincount(minlength=len(classes))
    return [name for name, count in zip(classes, counts.tolist(), strict=True) if not count]
