"""Attention over a memory that is read again and again: what depends on the memory alone is computed once, before the first look.

    k_s  = W₂ m_s                              for every s, once                        (additive, concat)
    k_s  = W m_s                                                                       (general)
    e_ts = vᵀ tanh(W₁ q_t + k_s)   or   q_t·k_s
    c_t  = Σ_s a_ts m_s,   a_t = softmax(e_t)

A decoder that writes a token at a time looks at what its encoder said; one that describes a picture, at the places of that picture.

    memory = select.remember(encoded, mask=present)
    context = select(query, memory)
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.parts.attention import Additive, Concat, Dot, General, Score, Tap, attend


@dataclass(frozen=True)
class Memory:
    """What is looked at, and its keys as `score` takes them."""

    values: Float[Tensor, "batch key width"]
    mask: Bool[Tensor, "batch 1 key"] | None
    keys: Float[Tensor, "batch key ready"]
    score: Score

    def reorder(self, index: Int64[Tensor, " row"]) -> "Memory":
        """These rows of the batch: some may be dropped, others repeated."""
        mask = None if self.mask is None else self.mask.index_select(0, index)
        return replace(
            self, values=self.values.index_select(0, index), keys=self.keys.index_select(0, index), mask=mask
        )


class SoftSelect(nn.Module):
    """Recorders set `tap`."""

    def __init__(self, score: Score):
        super().__init__()
        self.score = score
        self.tap: Tap | None = None

    def remember(
        self, values: Float[Tensor, "batch key width"], mask: Bool[Tensor, "batch key"] | None = None
    ) -> Memory:
        """`mask` is true where there is something to look at."""
        score, keys = ready(self.score, values)
        return Memory(values, None if mask is None else mask.unsqueeze(1), keys, score)

    def forward(
        self, query: Float[Tensor, "batch query q_width"], memory: Memory
    ) -> Float[Tensor, "batch query width"]:
        self.tell(query, memory)
        return self.select(query, memory)

    def select(self, query: Float[Tensor, "batch query q_width"], memory: Memory) -> Float[Tensor, "batch query width"]:
        """For one query of many, in a loop; whoever loops tells of all of them together, since a recorder keeps what it was told last."""
        return attend(query, memory.keys, memory.values, score=memory.score, mask=memory.mask)

    def tell(self, query: Float[Tensor, "batch query q_width"], memory: Memory) -> None:
        if self.tap is not None:
            self.tap(query, memory.values, memory.mask, None, False)


def ready(score: Score, key: Float[Tensor, "batch key width"]) -> tuple[Score, Float[Tensor, "batch key ready"]]:
    """The same scores from other keys, for less: what the score does to a key by itself is done to all of them here."""
    if isinstance(score, General):
        return Dot(), key @ score.weight.mT
    if isinstance(score, Additive):
        return Summed(score.query.weight, score.weight), score.key(key)
    if isinstance(score, Concat):
        of_query, of_key = score.projection.weight.tensor_split((-key.shape[-1],), dim=1)
        return Summed(of_query, score.weight), F.linear(key, of_key)
    return score, key


@dataclass(frozen=True, eq=False)
class Summed(Score):
    """An additive score whose keys have been projected."""

    W: Float[Tensor, "hidden q_width"]
    v: Float[Tensor, " hidden"]

    @property
    def numbers_per_pair(self) -> int:
        return len(self.v)

    def __call__(
        self, query: Float[Tensor, "*batch query q_width"], key: Float[Tensor, "*batch key hidden"]
    ) -> Float[Tensor, "*batch query key"]:
        # e = vᵀ tanh(W q + k)
        return torch.tanh(F.linear(query, self.W).unsqueeze(-2) + key.unsqueeze(-3)) @ self.v
