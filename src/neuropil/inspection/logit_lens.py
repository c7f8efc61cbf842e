"""The logit lens (nostalgebraist 2020): what GPT-2 would say next if it stopped after each of its blocks.

    p_l(token | text) = softmax(E N(x_l))          x_l is the stream after l blocks; N and E are the model's own last norm and output

Every block adds to one stream, so that its state on the way can be read by what reads its end. Early layers were never trained to be read
so: what they seem to say is a hint. The last row is the model's own answer.
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
    """The probability of each."""

    def settled(self) -> Int64[Tensor, " time"]:
        """For each place the layer from which on the likeliest token is the one that the model ends with; 0 is before any block."""
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
    read = [_read(model, stream, min(best, model.config.vocabulary_size)) for stream in streams]
    return Lens(torch.stack([numbers for numbers, _ in read]), torch.stack([shares for _, shares in read]))


def _read(
    model: GPT2, stream: Float[Tensor, "time width"], best: int
) -> tuple[Int64[Tensor, "time best"], Float[Tensor, "time best"]]:
    found = []
    for rows in stream.split(max(1, LOGITS_AT_ONCE // model.config.vocabulary_size)):
        # softmax(E N(x_l))
        shares = F.linear(model.norm(rows), model.output_weight).float().softmax(-1)
        found.append(shares.topk(best))
    return torch.cat([top.indices for top in found]), torch.cat([top.values for top in found])
