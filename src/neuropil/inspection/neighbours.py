"""Nearest tokens of a learned embedding: those whose vectors point the same way.

cos(a, b) = E_a · E_b / (‖E_a‖ ‖E_b‖)
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError


class Neighbour(NamedTuple):
    token: int
    cosine: float


@torch.no_grad()
def neighbours(embedding: Float[Tensor, "token width"], token: int, count: int = 10) -> list[Neighbour]:
    """The `count` other tokens that are nearest to this one, the nearest first."""
    if not 0 <= token < len(embedding):
        raise InputError(f"a token's number must be from 0 to {len(embedding) - 1}", got=f"{token}")
    # cos(a, b) = E_a · E_b / (‖E_a‖ ‖E_b‖)
    cosines = F.cosine_similarity(embedding.float(), embedding[token].float(), dim=-1)
    cosines[token] = -torch.inf
    best = cosines.topk(min(count, len(embedding) - 1))
    return [Neighbour(*pair) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
