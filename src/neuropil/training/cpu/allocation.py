"""Memory of a training on a processor, which every update gives back and asks for again.

glibc returns the free end of its heap to the system. Every page of the next tensor is then asked for and filled with
zeros anew, at a quarter of the speed of writing to memory that was there, and an update of a large model does so with
gigabytes.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST_THRESHOLD = 32 * 2**20
"""Larger blocks are mapped for themselves. glibc raises its threshold up to this by itself, as such blocks are freed,
and then keeps twice as much at the end of its heap."""
OWN_CHOICE = ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_")


@contextmanager
def reused_memory() -> Iterator[None]:
    """What is freed stays in the process, and goes back to the system at the end; blocks of more than 32 MB still go at
    once. Nothing changes under another allocator than glibc's, or where the environment says how it should work."""
    libc = None if sys.platform != "linux" or any(name in os.environ for name in OWN_CHOICE) else ctypes.CDLL(None)
    if libc is None or not hasattr(libc, "malloc_trim"):  # musl has none
        yield
        return
    libc.mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
    libc.mallopt(M_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        libc.mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_THRESHOLD)
        libc.malloc_trim(0)
