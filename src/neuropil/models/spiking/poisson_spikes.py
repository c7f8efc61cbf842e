"""Random spikes, several numbers at a time: each comes of a hash of its place and of a key, so that no number waits for
the one before it, and threads need not share a generator."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.models.spiking.torch_team import claim, on_torch_threads, torch_team
from neuropil.parts.compilation import compiled


def poisson_spikes(p: Float[Tensor, "batch input"], steps: int) -> Float[Tensor, "steps batch input"]:
    """1 with the probability p, in each step anew; the key is drawn from PyTorch's generator."""
    if p.device.type != "cpu" or torch.compiler.is_exporting():
        return (p > torch.rand(steps, *p.shape, dtype=p.dtype, device=p.device)).to(p.dtype)
    key = int(torch.randint(2**63 - 1, ()))
    spikes = p.new_empty(steps, *p.shape)
    draw(torch_team(), p.detach().contiguous().numpy(), np.uint64(key), spikes.numpy())
    return spikes


@compiled
def mix(x):
    """Every bit of a result depends on every bit of the number: a bijection of 32 bits (Wellons, hash-prospector)."""
    x ^= x >> np.uint32(16)
    x = np.uint32(x * np.uint32(0x7FEB352D))
    x ^= x >> np.uint32(15)
    x = np.uint32(x * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled
def some_spikes(claimed, p, key, spikes):
    """A piece is an example at a step."""
    number = spikes.dtype.type
    step, one, zero = number(2.0**-24), number(1), number(0)
    low, high = np.uint32(key & np.uint64(0xFFFFFFFF)), np.uint32(key >> np.uint64(32))
    pieces = spikes.shape[0] * spikes.shape[1]
    piece = claim(claimed, pieces)
    while piece >= 0:
        k, b = divmod(piece, len(p))
        first = mix(np.uint32(low + np.uint32(piece)))
        second = mix(np.uint32(first ^ high))
        chances, row = p[b], spikes[k, b]
        for i in range(len(row)):
            bits = mix(np.uint32(mix(np.uint32(first + np.uint32(i))) ^ second))
            row[i] = one if chances[i] > number(np.int32(bits >> np.uint32(8))) * step else zero
        piece = claim(claimed, pieces)


start_spikes: Any = on_torch_threads(some_spikes)


@compiled
def draw(team, *arguments):
    start_spikes(team, arguments)
