"""Two pieces of work, taking turns, so that a change in the machine's mood hits both."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def alternate(
    work: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each piece of work in each round; the order is reversed in every other round, and one round is thrown
    away. With the clock of the processor, what others do on it does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name in list(work)[:: 1 if number % 2 else -1]:
            start = clock()
            work[name]()
            seconds[name].append(clock() - start)
    return {name: values[1:] for name, values in seconds.items()}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The median over rounds of ours / theirs, with the extremes."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} rounds)"
