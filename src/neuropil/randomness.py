"""Random numbers that depend on a key only, so that a resumed run draws what the unbroken run drew."""

import hashlib

import torch


def mix(*key: int | str) -> int:
    """A seed for this key, for instance (seed, epoch, batch). The hash keeps neighbouring keys unrelated."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:7], "little")


def seeded(*key: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(mix(*key))
