"""Attention to a memory that is read again and again: what depends on it alone is computed once, before the first
look."""

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.parts.attention import (
    Additive,
    Concat,
    Dot,
    General,
    ProjectedAdditive,
    Query,
    Score,
    Tap,
    attend,
)


@dataclass(frozen=True)
class AttentionMemory:
    """What is looked at, and its keys as `score` takes them."""

    values: Float[Tensor, "batch key width"]
    mask: Bool[Tensor, "batch 1 key"] | None
    keys: Float[Tensor, "batch key ready"]
    score: Score

    def reorder(self, index: Int64[Tensor, " row"]) -> "AttentionMemory":
        """These rows of the batch: some may be dropped, others repeated."""
        mask = None if self.mask is None else self.mask.index_select(0, index)
        values, keys = (part.index_select(0, index) for part in (self.values, self.keys))
        return replace(self, values=values, keys=keys, mask=mask)


class SoftSelect(nn.Module):
    """Attention to a memory, such as what an encoder said or the places of a picture. Recorders set `tap`.

    k_s  = W₂ m_s                              for every s, once                        (additive, concat)
    k_s  = W m_s                                                                       (general)
    e_ts = vᵀ tanh(W₁ q_t + k_s)   or   q_t·k_s
    c_t  = Σ_s a_ts m_s,   a_t = softmax(e_t)
    """

    def __init__(self, score: Score):
        super().__init__()
        self.score = score
        self.tap: Tap | None = None

    def prepare_memory(
        self, values: Float[Tensor, "batch key width"], mask: Bool[Tensor, "batch key"] | None = None
    ) -> AttentionMemory:
        """`mask` is true where there is something to look at."""
        score, keys = ready(self.score, values)
        return AttentionMemory(values, None if mask is None else mask.unsqueeze(1), keys, score)

    def forward(self, query: Query, memory: AttentionMemory) -> Float[Tensor, "batch query width"]:
        self.notify(query, memory)
        return self.select(query, memory)

    def select(self, query: Query, memory: AttentionMemory) -> Float[Tensor, "batch query width"]:
        """For one query of many in a loop, which then notifies of all of them together: a recorder keeps the last."""
        return attend(query, memory.keys, memory.values, score=memory.score, mask=memory.mask)

    def notify(self, query: Query, memory: AttentionMemory) -> None:
        if self.tap is not None:
            self.tap(query, memory.values, memory.mask, None, False)


def ready(score: Score, key: Float[Tensor, "batch key width"]) -> tuple[Score, Float[Tensor, "batch key ready"]]:
    """The same scores from other keys, for less: what the score does to a key by itself is done to all of them here."""
    if isinstance(score, General):
        return Dot(), key @ score.weight.mT
    if isinstance(score, Additive):
        return ProjectedAdditive(score.query.weight, score.weight), score.key(key)
    if isinstance(score, Concat):
        of_query, of_key = score.projection.weight.tensor_split((-key.shape[-1],), dim=1)
        return ProjectedAdditive(of_query, score.weight), F.linear(key, of_key)
    return score, key
