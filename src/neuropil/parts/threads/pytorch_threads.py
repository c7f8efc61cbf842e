"""How many threads PyTorch computes with."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """PyTorch computes on the caller's thread alone. Several gain nothing where tensors are small, and lose ten times
    over where another program or team of threads wants their cores: after each piece of work they spin for
    milliseconds."""
    return torch_threads(1)
