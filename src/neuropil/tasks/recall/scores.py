"""How well patterns come back: the share of damaged ones that become whole to the last sign, and the mean overlap.

overlap   m = x · ξ / N        1 for the pattern ξ itself, 0 for a random state
"""

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
