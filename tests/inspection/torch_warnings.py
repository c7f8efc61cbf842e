"""What PyTorch warns of, and tests of its own modules must bear with."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_prototype_warnings() -> Iterator[None]:
    """PyTorch warns of its own nested tensors, and of layers for which it does not use them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage")
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        yield
