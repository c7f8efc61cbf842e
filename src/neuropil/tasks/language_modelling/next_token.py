"""The next token of a text under a language model: what it believes, what the filters of sampling leave of that, and
the token that a seed draws.

    draw(model, prompt, written, sampling, seed)

is the next token of `model.generate(prompt, seed=seed)` when it has written as many tokens, so that a text can be
written one token at a time, with nothing kept in between.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.randomness import seeded
from neuropil.sampling.text.filters import SamplingConfig, probabilities, require_choice, sample_tokens, skip_draws
from neuropil.sampling.text.generation import require_room
from neuropil.tasks.language_modelling.predictor import LanguageModel


class CandidateToken(NamedTuple):
    token: int
    label: str
    before: float
    """Its probability as the model believes."""
    after: float
    """After temperature and filters; 0 where they leave it out."""


@dataclass(frozen=True)
class NextTokens:
    """The distribution of the token after a text, before and after the filters."""

    model: LanguageModel[Any]
    before: Float[Tensor, " token"]
    after: Float[Tensor, " token"]

    @property
    def kept(self) -> int:
        """Tokens that may still be drawn."""
        return int((self.after > 0).sum())

    @property
    def entropies(self) -> tuple[float, float]:
        """In bits, before and after."""
        before, after = (float(torch.special.entr(p.double()).sum()) / math.log(2) for p in (self.before, self.after))
        return before, after

    def best(self, count: int) -> list[CandidateToken]:
        """The most probable before or after, the most probable first."""
        chosen = (self.before + self.after).topk(min(count, len(self.before))).indices
        labels = self.model.tokenizer.tokens(chosen.tolist())
        parts = chosen.tolist(), labels, self.before[chosen].tolist(), self.after[chosen].tolist()
        return [CandidateToken(*each) for each in zip(*parts, strict=True)]


def next_tokens(
    model: LanguageModel[Any], logits: Float[Tensor, " token"], text: Int64[Tensor, " time"], sampling: SamplingConfig
) -> NextTokens:
    """Of the logits after a text."""
    z = logits.detach().float().cpu()[None]
    require_choice(z)
    left = probabilities(z, sampling, seen=seen_in(text, z.shape[1]), never=model.never)
    return NextTokens(model, z.softmax(-1)[0], left[0])


def draw(
    model: LanguageModel[Any], prompt: Sequence[int], written: Sequence[int], sampling: SamplingConfig, seed: int
) -> int:
    require_room([[*prompt, *written]], model.context)
    text = torch.tensor([*prompt, *written], device=model.device)
    z = model.score_tokens(text)[1][None]
    generator = seeded(seed, 0, *prompt)
    if not sampling.greedy:
        skip_draws(generator, len(written))
    return int(sample_tokens(z, sampling, [generator], seen=seen_in(text, z.shape[1]), never=model.never))


def seen_in(text: Int64[Tensor, " time"], vocabulary: int) -> Tensor:
    return torch.zeros(1, vocabulary, dtype=torch.bool).index_fill_(1, text.cpu(), True)


def require_tokens(model: LanguageModel[Any], tokens: Sequence[int]) -> None:
    for token in tokens:
        if not 0 <= token < len(model.tokenizer):
            raise InputError(f"a token's number must be from 0 to {len(model.tokenizer) - 1:,}", got=f"{token}")
