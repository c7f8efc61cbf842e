"""From the logits of the next token to the token.

    z_x ← z_x / ρ if z_x > 0 else ρ z_x       for every x that the text has already    (repetition penalty ρ)
    z_x ← −∞                                  for tokens that are never drawn
    p = softmax(z / τ)                        τ → 0 greedy, τ = 1 as the model believes, above it more diverse
    keep the k largest p                      (top-k; what ties with the last of them stays)
    keep the fewest whose sum exceeds P       (top-p, the nucleus)
    keep p_x ≥ m · max p                      (min-p)

in this order, each on what the one before it has left, as in Hugging Face's `generate`. Then one number from [0, 1)
chooses a token: the first at which the sum of the probabilities is larger. It is drawn on the processor, so that a seed
means the same on every device.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.threads.pytorch_threads import one_thread

Logits: TypeAlias = Float[Tensor, "row token"]
Seen: TypeAlias = Bool[Tensor, "row token"]


class SamplingConfig(Config):
    temperature: float = option(0.8, "temperature; 0 for greedy decoding", low=0)
    top_k: int = option(0, "top-k: sample from the k most probable tokens; 0 for all", low=0)
    top_p: float = option(1.0, "top-p (nucleus): sample from the fewest tokens with this probability", low=0, high=1)
    min_p: float = option(0.0, "min-p: smallest probability, relative to the most probable token's", low=0, high=1)
    repetition_penalty: float = option(1.0, "repetition penalty; 1 for none", low=0.01)

    @property
    def greedy(self) -> bool:
        """Nothing but the likeliest token is left this close to 0, and the quotients would be too large for numbers."""
        return self.temperature < 1e-5


def sample_tokens(
    logits: Logits,
    sampling: SamplingConfig,
    generators: Sequence[torch.Generator],
    *,
    seen: Seen | None = None,
    never: Sequence[int] = (),
) -> Int64[Tensor, " row"]:
    """A token for each row, from its own generator, on the processor; `seen` are the tokens of its text."""
    with one_thread():
        z = filter_logits(logits.detach().float().cpu(), sampling, seen=seen, never=never)
        require_choice(z)
        if sampling.greedy:
            return torch.from_numpy(z.numpy().argmax(-1))  # several times as fast as PyTorch's
        return draw(z, generators)


def filter_logits(
    z: Logits, sampling: SamplingConfig, *, seen: Seen | None = None, never: Sequence[int] = ()
) -> Logits:
    """The logits that a token is drawn from: those of tokens that are left out are −∞."""
    if seen is not None and sampling.repetition_penalty != 1:
        z = penalise(z, seen, sampling.repetition_penalty)
    if never:
        z = z.index_fill(-1, torch.tensor(never, device=z.device), -torch.inf)
    if sampling.greedy:
        return z
    if sampling.temperature != 1:
        z = z / sampling.temperature
    if sampling.top_k > 0:
        z = keep_top_k(z, sampling.top_k)
    if sampling.top_p < 1:
        z = keep_top_p(z, sampling.top_p)
    if sampling.min_p > 0:
        z = keep_min_p(z, sampling.min_p)
    return z


def probabilities(
    z: Logits, sampling: SamplingConfig, *, seen: Seen | None = None, never: Sequence[int] = ()
) -> Logits:
    """What a token is drawn with after the filters; all of it is the best token's where decoding is greedy."""
    z = filter_logits(z, sampling, seen=seen, never=never)
    if sampling.greedy:
        return torch.zeros_like(z).scatter_(-1, z.argmax(-1, keepdim=True), 1.0)
    return z.softmax(-1)


def penalise(z: Logits, seen: Seen, penalty: float) -> Logits:
    return torch.where(seen, torch.where(z < 0, z * penalty, z / penalty), z)


def keep_top_k(z: Logits, k: int) -> Logits:
    last = z.topk(min(k, z.shape[-1])).values[:, -1:]
    return z.masked_fill(z < last, -torch.inf)


def keep_top_p(z: Logits, share: float) -> Logits:
    """The likeliest token always stays. Of equally likely tokens at the border, those with larger numbers do."""
    # NumPy sorts fifty thousand numbers ten times as fast as PyTorch, as long as it need not say where they were.
    rising = torch.from_numpy(np.sort(z.numpy()))
    dropped = rising.softmax(-1).cumsum(-1) <= 1 - share
    dropped[:, -1] = False
    count = dropped.sum(-1, keepdim=True)
    border = rising.gather(-1, count)
    tied = z == border
    too_many = count - (rising < border).sum(-1, keepdim=True)
    return z.masked_fill((z < border) | (tied & (tied.cumsum(-1) <= too_many)), -torch.inf)


def keep_min_p(z: Logits, share: float) -> Logits:
    p = z.softmax(-1)
    return z.masked_fill(p < share * p.amax(-1, keepdim=True), -torch.inf)


def draw(z: Logits, generators: Sequence[torch.Generator]) -> Int64[Tensor, " row"]:
    sums = z.double().softmax(-1).cumsum(-1)
    sums /= sums[:, -1:].clone()
    chance = torch.cat([torch.rand(1, 1, generator=generator, dtype=torch.float64) for generator in generators])
    # The first sum that is larger: tokens without any probability add nothing to it, and are never the first.
    return torch.searchsorted(sums, chance, right=True)[:, 0]


def skip_draws(generator: torch.Generator, count: int) -> None:
    """As if so many tokens had been drawn from it."""
    for _ in range(count):
        torch.rand(1, 1, generator=generator, dtype=torch.float64)


def require_choice(z: Logits) -> None:
    if not z.amax(-1).isfinite().all():
        raise InputError("some token must be possible next", got="logits that are all masked, or NaN")
