"""What a masked language model expects at each place of a text: every token is hidden in turn, and the others are read.

p(x_t | x_1 … x_{t−1}, [MASK], x_{t+1} …)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.tasks.masked_language_modelling.predictor import TextFiller


@dataclass(frozen=True)
class Expectations:
    """Of each token of a text, without those that stand around it."""

    tokens: list[str]
    shares: Float[Tensor, " token"]
    """The probability of the token that stands there."""
    hidden: list[bool]
    """Where the text itself says [MASK]."""
    best: list[list[tuple[str, float]]]
    """The most probable tokens there, the most probable first."""


@torch.no_grad()
def expectations(filler: TextFiller, text: str, most: int = 5) -> Expectations:
    """In one batch with a row for each token."""
    mask, context = filler.tokenizer.mask, filler.model.config.context
    ids: Int64[Tensor, " time"] = torch.tensor(filler.tokenizer.encode([text], special=True)[0])
    count = len(ids) - 2
    if count < 1:
        raise InputError("a text must have at least one token", got=f"{text!r}", fix="give it a word or two")
    if len(ids) > context:
        raise InputError(f"a text to read has at most {context - 2} tokens", got=f"{count}", fix="shorten it")
    own, row = ids[1:-1], torch.arange(count)
    rows = ids.repeat(count, 1)
    rows[row, row + 1] = mask or 0
    states = filler.model.bert(rows.to(filler.model.bias.device))[row, row + 1]
    chances = filler.model.logits(states).softmax(-1).float().cpu()
    best = chances.topk(min(most, len(filler.tokenizer)))
    names = [filler.tokenizer.tokens(each) for each in best.indices.tolist()]
    return Expectations(
        filler.tokenizer.tokens(own.tolist()),
        chances[row, own],
        (own == mask).tolist(),
        [list(zip(each, shares, strict=True)) for each, shares in zip(names, best.values.tolist(), strict=True)],
    )
