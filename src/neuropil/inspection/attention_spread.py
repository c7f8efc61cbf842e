"""How widely a head looks, and how far.

H_q = −Σ_k a_qk log₂ a_qk         entropy of the weights of one query, in bits: 0 where all is on one key
d_q = Σ_k a_qk ‖x_q − x_k‖        distance from the query to what it looks at (Dosovitskiy 2021)
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def entropy(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query"]:
    # H = −Σ a log₂ a
    return -torch.xlogy(weights, weights).sum(-1) / math.log(2)


def distance(
    weights: Float[Tensor, "*batch place place"], places: Float[Tensor, "place axis"] | None = None
) -> Float[Tensor, "*batch place"]:
    """In places of a text, or between points, such as the row and column of patches."""
    places = torch.arange(weights.shape[-1], dtype=weights.dtype)[:, None] if places is None else places
    # d = Σ a ‖x_q − x_k‖
    return (weights * torch.cdist(places, places).to(weights)).sum(-1)
