"""Weights in the loss: how much each example counts, E = Σ αᵢ L(yᵢ, tᵢ) / Σ αᵢ.

    of an example    a column of a table, or the third of (X, y, weights)
    of a class       as given, or balanced: n / (k n_c), with which all k classes count the same
    of a step        of a sequence: by its tag, or by how far ahead it is

They are multiplied, and a batch has the product as its `weight`. Training and validation count by them. Scores of the
test part count each example once, so that they compare across weights.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.errors import InputError, listed, nearest
from neuropil.protocols import WEIGHT, Batch, Batches

BALANCED = "balanced"
SMALLEST, LARGEST = 1e-30, 1e30
"""Of weights, whose sums single precision can hold."""


class ClassWeightsConfig(Config):
    class_weights: tuple[str, ...] = option(
        (), "weights of the classes in the loss: balanced, or such as spam=5 ham=1; a class that is not named has 1"
    )


def require_weights(weights: Float64[np.ndarray, " example"], where: Callable[[int], str], name: str) -> None:
    """Numbers from 0 on, of which some are above it; `where` says where the weight of an example stands."""
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        first = int(bad.argmax())
        rule = "a weight must be a finite number, 0 or more"
        raise InputError(rule, got=f"{weights[first]:g} ({where(first)})")
    if not (weights > 0).any():
        raise InputError(f"some weight of {name} must be above 0", got="0 for every example")
    extreme = (weights > 0) & ((weights < SMALLEST) | (weights > LARGEST))
    if extreme.any():
        first = int(extreme.argmax())
        rule, fix = f"a weight must be 0, or from {SMALLEST:g} to {LARGEST:g}", "divide all of them by their mean"
        raise InputError(rule, got=f"{weights[first]:g} ({where(first)})", fix=fix)


def relative(weights: Float[Tensor, " example"] | None) -> Float64[np.ndarray, " example"] | None:
    """α / mean α, for methods whose penalty would be stronger or weaker where all weights are smaller or larger."""
    return None if weights is None else (weights.double() / weights.double().mean()).cpu().numpy()


def zero_weights_note(count: int, total: int, things: str, first: str) -> str:
    have, are = ("has", "is") if count == 1 else ("have", "are")
    return f"{count:,} of {total:,} {things} {have} a weight of 0 and {are} left out (first: {first})."


def class_weights(
    words: Sequence[str], classes: Sequence[str], counts: Float[Tensor, " class"] | Int64[Tensor, " class"]
) -> Float[Tensor, " class"] | None:
    """From what was typed: `balanced`, or a name and a number each. `counts` are the examples of each class, or the
    sums of their weights. None, where nothing was typed."""
    if not words:
        return None
    if BALANCED in words and BALANCED not in classes:
        if len(words) > 1:
            others = listed([word for word in words if word != BALANCED])
            raise InputError("class weights are balanced or given", got=f"balanced and {others}", fix="leave one out")
        # n / (k n_c); a class without examples has no loss to weigh
        occurring = counts > 0
        share = counts.double().sum() / (int(occurring.sum()) * counts.double())
        return torch.where(occurring, share, 1.0).float()
    weights = torch.ones(len(classes))
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            rule, fix = "a class weight must be a class and a number", f"write {classes[0]}=2, or balanced"
            raise InputError(rule, got=f"{word!r}", fix=fix)
        if name not in classes:
            raise InputError("class weights must be of classes", got=f"{name!r}", fix=nearest(name, classes))
        weights[list(classes).index(name)] = _number(number, word)
    if not (weights * counts > 0).any():
        raise InputError("some class weight must be above 0", got=listed(words))
    return weights


def _number(text: str, word: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError("a class weight must be a finite number, 0 or more", got=f"{word!r}")
    return number


def class_weights_note(weights: Float[Tensor, " class"], classes: Sequence[str], words: Sequence[str]) -> str:
    named = [f"{name!r} {weight:.3g}" for name, weight in zip(classes, weights.tolist(), strict=True)]
    how = ", balanced: n / (k n_c)" if words == (BALANCED,) else ""
    return f"Weights of the classes in the loss{how}: {listed(named, most=12)}."


def weights_note(weights: Float[Tensor, " example"]) -> str:
    """Of the training part. The effective number is that of Kish: as many examples of equal weights average as well."""
    # (Σ α)² / Σ α²
    effective = float(weights.sum() ** 2 / weights.square().sum())
    span = f"from {float(weights.min()):.3g} to {float(weights.max()):.3g}, mean {float(weights.mean()):.3g}"
    return (
        f"Weights of the training examples in the loss: {span}; "
        f"{len(weights):,} examples count as {effective:,.0f} of equal weights would."
    )


def step_weights(given: Sequence[float], steps: int) -> Float[Tensor, " step"] | None:
    """One for each step of a forecast, as they were given; None, where none were."""
    if not given:
        return None
    if len(given) != steps:
        rule = f"horizon weights must be one for each of the {steps} steps of a forecast"
        raise InputError(rule, got=f"{len(given)}")
    if not all(0 <= weight < math.inf for weight in given) or not any(given):
        rule = "horizon weights must be finite numbers, 0 or more, and some above 0"
        raise InputError(rule, got=" ".join(f"{weight:g}" for weight in given))
    return torch.tensor(given, dtype=torch.float32)


class WeightedBatches:
    """Batches whose steps are weighted, each by what `weigh` says of its batch, times the weight that it has."""

    def __init__(self, batches: Batches, weigh: Callable[[Batch], Float[Tensor, "batch step"]]):
        self.batches, self.weigh = batches, weigh

    def __len__(self) -> int:
        return len(self.batches)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for batch in self.batches.epoch(number, start):
            weights = self.weigh(batch)
            if WEIGHT in batch:
                weights = weights * batch[WEIGHT].reshape(-1, *[1] * (weights.ndim - batch[WEIGHT].ndim))
            yield {**batch, WEIGHT: weights}
