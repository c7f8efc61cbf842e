"""How well patterns come back: the share of damaged ones that become whole to the last sign, and the mean overlap.

overlap   m = x · ξ / N        1 for the pattern ξ itself, 0 for a random state
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor


def recall_scores(states: Float[Tensor, "pattern unit"], patterns: Float[Tensor, "pattern unit"]) -> dict[str, float]:
    return {
        "recalled": float((states == patterns).all(1).double().mean()),
        "overlap": float((states * patterns).mean(1).double().mean()),
    }


def nearest_pattern(
    states: Float[Tensor, "state unit"], patterns: Float[Tensor, "pattern unit"]
) -> Float[Tensor, "state unit"]:
    """The stored pattern that agrees with most of the known units: what no memory can do better."""
    return patterns[(states @ patterns.mT).argmax(1)]


def settled_at(
    states: Float[Tensor, "state unit"], patterns: Float[Tensor, "pattern unit"], names: Sequence[str]
) -> list[str]:
    """In words, of each state: the stored pattern that it is, or the one that it is most like."""
    overlaps = states.double() @ patterns.double().mT / patterns.shape[1]
    nearest: list[int] = overlaps.abs().argmax(1).tolist()
    return [_in_words(float(row[index]), names[index]) for row, index in zip(overlaps, nearest, strict=True)]


def _in_words(overlap: float, name: str) -> str:
    if abs(overlap) == 1:
        return name if overlap > 0 else f"the negative of {name}"
    return f"a spurious state, whose overlap with {name} is {overlap:.2f}"
