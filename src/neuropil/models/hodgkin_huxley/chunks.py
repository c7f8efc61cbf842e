"""A simulation in chunks of steps, since compiled code hears no signal: Ctrl-C ends each call with its chunk."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

NEURON_STEPS = 1_000_000
"""Of one call: about a tenth of a second."""
Spikes: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Their times (ms) and neurons."""
March: TypeAlias = Callable[[int, int, int, int], Spikes]
"""Takes the neurons from a first to before a last through the steps from a first to before a last, and leaves their
states for the next chunk."""


def march_in_chunks(march: March, num_neurons: int, num_steps: int, *, at_once: int, threads: int) -> Spikes:
    """All spikes, in the order of one call for each group of neurons that go `at_once`."""
    interrupted = threading.Event()

    def run(first: int) -> Spikes:
        last, found = min(first + at_once, num_neurons), list[Spikes]()
        count = max(1, NEURON_STEPS // (last - first))
        for begin in range(0, num_steps, count):
            if interrupted.is_set():
                break
            found.append(march(first, last, begin, min(begin + count, num_steps)))
        return _joined(found)

    with ThreadPoolExecutor(threads) as pool:
        try:
            return _joined(pool.map(run, range(0, num_neurons, at_once)))
        except BaseException:
            interrupted.set()
            raise


def _joined(found: Iterable[Spikes]) -> Spikes:
    times, neurons = map(np.concatenate, zip(*found, strict=True))
    return times, neurons
