"""How good generated examples are, beside real ones that nobody has learned from, in the features of a judge.

    Fréchet distance   ‖m − m'‖² + tr(C + C' − 2 (C C')^½)     between Gaussians with the means and covariances of both
    precision          share of generated examples that lie within the manifold of the real ones
    recall             share of real examples that lie within the manifold of the generated ones
    class coverage     1 − ½ Σ_c |p_c − q_c|                   shares of the classes among both, as the judge sees them
    memorised          share of generated examples that are nearer to a training example than 99 % of the real ones are

A manifold is the union of balls around its examples that reach to their k-th neighbours (Kynkäänniemi et al. 2019).
Real examples that are held out get the same scores: no model is expected to be better.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

NEIGHBOURS = 3
NEAR = 0.01
"""Quantile of the distances of real examples to training examples: what is nearer counts as memorised."""
AT_ONCE = 2**25
"""Distances that stand in memory at a time."""


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
    return x.mean(0), x.mT.cov()


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
    x: Float[Tensor, "example *shape"], train: Float[Tensor, "other *shape"]
) -> tuple[Float[Tensor, " example"], Int64[Tensor, " example"]]:
    """Distance to the nearest training example, and which it is."""
    flat = train.flatten(1)
    pieces = x.flatten(1).split(max(1, AT_ONCE // max(len(train), 1)))
    found = [torch.cdist(piece, flat).min(1) for piece in pieces]
    return torch.cat([each.values for each in found]), torch.cat([each.indices for each in found])


def memorised_share(generated: Float[Tensor, " example"], real: Float[Tensor, " other"]) -> float:
    """From the distances of generated and of real examples to their nearest training examples."""
    return float((generated < real.quantile(NEAR)).double().mean())


def gaussian_examples(
    train: Float[Tensor, "example *shape"], count: int, generator: torch.Generator
) -> Float[Tensor, "count *shape"]:
    """What is random but for the mean and covariance of the training examples."""
    flat = train.flatten(1).double()
    values, vectors = torch.linalg.eigh(flat.mT.cov())
    noise = torch.randn(count, flat.shape[1], generator=generator, dtype=torch.double)
    drawn = flat.mean(0) + (noise * values.clamp(min=0).sqrt()) @ vectors.mT
    return drawn.float().reshape(count, *train.shape[1:])


def spread_labels(targets: Int64[Tensor, " example"], classes: int, count: int) -> Int64[Tensor, " count"]:
    """So many labels, in the proportions in which they are among the examples."""
    quota = (targets.bincount(minlength=classes).double().cumsum(0) / len(targets) * count).round().long()
    return torch.repeat_interleave(torch.arange(classes), quota.diff(prepend=quota.new_zeros(1)))


def names_of_missing(generated: Int64[Tensor, " example"], classes: Sequence[str]) -> list[str]:
    """Classes of which no example was generated."""
    counts = generated.bincount(minlength=len(classes))
    return [name for name, count in zip(classes, counts.tolist(), strict=True) if not count]
