"""Each process's share of a batch, and what the loss of that share counts for.

    L = Σ_r (d_r / D) L_r          L_r: the loss of share r, a mean over d_r;   D = Σ d_r over all shares of an update

A batch is divided by its rows, always at the same places, so that what goes on from batch to batch (the rows of a
stream, examples that are visited again) stays in one process. A batch with fewer rows than there are processes is
learned from by all of them, and counts once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from neuropil.protocols import WEIGHT, Batch, Batches, Phase


class Share(NamedTuple):
    batch: Batch
    factor: float
    """Of its loss in the loss of the update, over all processes and batches of which they add up to 1."""
    divided: bool
    """Whether the other processes have the other rows; else all have the same."""


def shares(phase: Phase, group: Sequence[Batch], rank: int = 0, size: int = 1) -> list[Share]:
    """Of the batches of one update."""
    if size == 1 and len(group) == 1:
        return [Share(group[0], 1.0, divided=False)]
    total = sum(denominator(phase, batch) for batch in group) or 1.0
    return [_share(phase, batch, total, rank, size) for batch in group]


def _share(phase: Phase, batch: Batch, total: float, rank: int, size: int) -> Share:
    num_rows = num_examples(batch)
    if size == 1 or num_rows < size:
        return Share(batch, denominator(phase, batch) / total / size, divided=False)
    rows = rows_of(num_rows, rank, size)
    mine = {name: values[rows] for name, values in batch.items()}
    return Share(mine, denominator(phase, mine) / total, divided=True)


def rows_of(num_rows: int, rank: int, size: int) -> slice:
    """As many for each as can be."""
    return slice(num_rows * rank // size, num_rows * (rank + 1) // size)


@dataclass(frozen=True)
class FirstShares:
    """The shares of rank 0, of which each is made a batch of its own."""

    batches: Batches
    size: int

    def __len__(self) -> int:
        return len(self.batches)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for batch in self.batches.epoch(number, start):
            rows = slice(max(1, num_examples(batch) // self.size))
            yield {name: values[rows] for name, values in batch.items()} if self.size > 1 else batch


def denominator(phase: Phase, batch: Batch) -> float:
    return _total_weight(batch) if phase.denominator is None else float(phase.denominator(batch))


def num_examples(batch: Batch) -> int:
    return next(iter(batch.values())).shape[0]


def _total_weight(batch: Batch) -> float:
    """Σ α: the number of examples where they have no weights."""
    return float(batch[WEIGHT].sum()) if WEIGHT in batch else num_examples(batch)
