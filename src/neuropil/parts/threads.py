"""How many threads share a piece of work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes on the caller's thread alone. Several gain nothing where tensors are small, and lose ten times over where another
    program, or another team of threads, wants their cores: for some milliseconds after each piece of work they go on looking for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
