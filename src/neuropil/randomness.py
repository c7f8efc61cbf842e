"""Random numbers that depend on a key only, so that a resumed run draws what the unbroken run drew."""

import hashlib
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from neuropil.memory import bounded

M = TypeVar("M", bound=nn.Module)


def mix(*key: int | str) -> int:
    """A seed for this key, for instance (seed, epoch, batch). The hash keeps neighbouring keys unrelated."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:7], "little")


def seeded(*key: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(mix(*key))


def initialised(build: Callable[[], M], seed: int) -> M:
    """Build with first weights that depend on `seed` alone, and leave the caller's random numbers as they were.
    What is too large to be trained is refused."""

    def begin() -> M:
        torch.default_generator.manual_seed(mix(seed, "first weights"))
        return build()

    with torch.random.fork_rng(devices=[]):
        return bounded(begin)
