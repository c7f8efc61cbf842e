"""Two pieces of work, taking turns, so that a change in the machine's mood hits both."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def alternate(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each piece of work in each round; the order is reversed in every other round, and one round is thrown
    away."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name in list(work)[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            work[name]()
            seconds[name].append(time.perf_counter() - start)
    return {name: values[1:] for name, values in seconds.items()}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The median over rounds of ours / theirs, with the extremes."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} rounds)"
