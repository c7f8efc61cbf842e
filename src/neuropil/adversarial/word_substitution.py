"""Attack a text classifier by words: a text is no point of a continuous space, so tokens are replaced by near ones.

    I_t = p(y | x) − p(y | x with x_t unknown)            importance of each token for the right class
    x_t ← argmin_{v ∈ N(x_t)} p(y | x with x_t = v)       the most important first, until the class changes

N(v) are the k tokens whose embeddings in the attacked model have the highest cosine with that of v, and at least
`similarity`. What is near there is near for the model, which need not be a synonym for people. It is a greedy search
(Jin 2020, TextFooler, without its language models): that it fails does not show that no substitution would do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.config import Config, option

Tokens: TypeAlias = Int64[Tensor, " time"]
Logits: TypeAlias = Callable[[Int64[Tensor, "text time"]], Float[Tensor, "text class"]]
TEXTS_AT_ONCE = 64


class SubstitutionConfig(Config):
    words: float = option(0.2, "share of a text's words that may be substituted", above=0, high=1)
    candidates: int = option(20, "nearest words in the embedding that may take a word's place", low=1)
    similarity: float = option(0.3, "least cosine between a word and its substitute", low=-1, high=1)


@dataclass(frozen=True)
class SubstitutedText:
    original: Tokens
    tokens: Tokens
    label: int
    before: int
    """Predicted class of the original."""
    after: int
    target: int | None

    @property
    def changed(self) -> list[int]:
        """Places of the words that were substituted."""
        return (self.tokens != self.original).nonzero().flatten().tolist()

    @property
    def success(self) -> bool:
        """A text of the target's own class is never counted."""
        return _fooled(self.after, self.label, self.target)


@dataclass(frozen=True)
class Neighbours:
    """The nearest tokens of each, the nearest first; found when they are asked for."""

    embedding: Float[Tensor, "token width"]
    allowed: Bool[Tensor, " token"]
    """Those that may stand in a text."""
    config: SubstitutionConfig

    def of(self, token: int) -> list[int]:
        cosine = F.cosine_similarity(self.embedding, self.embedding[token], dim=-1)
        cosine = cosine.masked_fill(~self.allowed, -torch.inf)
        cosine[token] = -torch.inf
        nearest = cosine.topk(min(self.config.candidates, len(cosine)))
        return nearest.indices[nearest.values >= self.config.similarity].tolist()


def substitute_words(
    logits: Logits,
    tokens: Tokens,
    label: int,
    neighbours: Neighbours,
    *,
    unknown: int,
    target: int | None = None,
    places: Bool[Tensor, " time"] | None = None,
) -> SubstitutedText:
    """`label` is the right class; `unknown` the token that stands for none; `places` those of the words that may be
    substituted, by default all that `neighbours` allow."""
    replaceable = neighbours.allowed[tokens] if places is None else places
    most = max(1, int(neighbours.config.words * int(replaceable.sum()))) if replaceable.any() else 0
    if target == label:
        most = 0

    def harm(texts: Int64[Tensor, "text time"]) -> tuple[Float[Tensor, " text"], Int64[Tensor, " text"]]:
        """How far each text is where the attacker wants it, and its class."""
        found = torch.cat([logits(part).softmax(-1) for part in texts.split(TEXTS_AT_ONCE)])
        return (1 - found[:, label] if target is None else found[:, target]), found.argmax(-1)

    with torch.no_grad():
        reached, (before,) = harm(tokens[None])
        current, after = tokens.clone(), int(before)
        for place in _by_importance(harm, tokens, replaceable, unknown)[:most]:
            if _fooled(after, label, target):
                break
            near = neighbours.of(int(current[place]))
            if not near:
                continue
            tried = current.repeat(len(near), 1)
            tried[:, place] = torch.tensor(near, device=tokens.device)
            harms, classes = harm(tried)
            best = int(harms.argmax())
            if harms[best] > reached:
                current, reached, after = tried[best], harms[best], int(classes[best])
    return SubstitutedText(tokens, current, label, int(before), after, target)


def _by_importance(
    harm: Callable[[Tensor], tuple[Tensor, Tensor]], tokens: Tokens, replaceable: Bool[Tensor, " time"], unknown: int
) -> Sequence[int]:
    places = replaceable.nonzero().flatten()
    if not len(places):
        return []
    hidden = tokens.repeat(len(places), 1)
    hidden[torch.arange(len(places)), places] = unknown
    return places[harm(hidden)[0].argsort(descending=True)].tolist()


def _fooled(predicted: int, label: int, target: int | None) -> bool:
    return predicted != label if target is None else predicted == target != label
