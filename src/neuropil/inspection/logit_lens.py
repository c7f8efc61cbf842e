"""The logit lens (nostalgebraist 2020): what GPT-2 would say next if it stopped after each of its blocks.

    p_l(token | text) = softmax(E N(x_l))          x_l: the residual stream after l blocks; N: final norm; E: output

Every block adds to one stream, so that its state on the way can be read by what reads its end. Early layers were never
trained to be read so: what they seem to say is a hint. The last row is the model's own answer.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2

LOGITS_AT_ONCE = 2**22
"""Held at one time: 16 MB in single precision, however long the text and large the vocabulary."""


@dataclass(frozen=True)
class Lens:
    """The likeliest tokens after each place, the likeliest first: before any block, then after each."""

    tokens: Int64[Tensor, "layer time best"]
    shares: Float[Tensor, "layer time best"]
    """Their probabilities."""

    def settled(self) -> Int64[Tensor, " time"]:
        """For each place the layer from which on the likeliest token is the final one; 0 is before any block."""
        other = self.tokens[:, :, 0] != self.tokens[-1, :, 0]
        layers = torch.arange(1, len(other) + 1, device=other.device)
        return (other * layers[:, None]).amax(0)


@torch.no_grad()
def logit_lens(model: GPT2, tokens: Int64[Tensor, " time"], best: int = 5) -> Lens:
    """While it reads a text once, as it always does; what it computes is not touched."""
    if len(tokens) == 0:
        raise InputError("a text to look into must have one token or more", got="none")
    streams: list[Tensor] = []
    hooks = [model.blocks[0].register_forward_pre_hook(lambda _, given: streams.append(given[0][0]))]
    hooks += [block.register_forward_hook(lambda _module, _given, x: streams.append(x[0])) for block in model.blocks]
    was_training = model.training
    model.eval()
    try:
        model.hidden(tokens[None])
    finally:
        for hook in hooks:
            hook.remove()
        model.train(was_training)
    best, rows = min(best, model.config.vocabulary_size), max(1, LOGITS_AT_ONCE // model.config.vocabulary_size)
    # softmax(E N(x_l))
    found = [
        F.linear(model.norm(x), model.output_weight).float().softmax(-1).topk(best)
        for stream in streams
        for x in stream.split(rows)
    ]
    shares, tokens = (torch.cat(part).view(len(streams), -1, best) for part in zip(*found, strict=True))
    return Lens(tokens, shares)
