"""Examples, a batch at a time."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.batches import SpreadBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.prefetch import prefetched
from neuropil.protocols import Batch, Batches


class ExampleBatches(SpreadBatches):
    """Passes over examples as ``{"input": …, "target": …}``, and their ``weight`` where they have one."""

    examples: Examples

    def gathered(self, order: Int64[Tensor, " example"], places: Sequence[tuple[int, int]]) -> Iterator[Batch]:
        """Pictures that are in files are read ahead."""
        if isinstance(self.examples.inputs, Tensor):
            return super().gathered(order, places)
        return prefetched(partial(self.gather, order, *place) for place in places)

    def gather(self, order: Int64[Tensor, " example"], begin: int, end: int) -> Batch:
        if self.shuffle:
            return super().gather(order, begin, end)
        return {name: values[begin:end] for name, values in self.examples.named.items()}


class RepeatedBatches:
    """Each batch several times in a row, for a learner that updates at every step of settling; `visit` counts them."""

    def __init__(self, batches: Batches, visits: int):
        self.batches, self.visits = batches, visits

    def __len__(self) -> int:
        return len(self.batches) * self.visits

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        first, visit = divmod(start, self.visits)
        for batch in self.batches.epoch(number, first):
            for count in range(visit, self.visits):
                yield {**batch, "visit": torch.full_like(batch["target"], count, dtype=torch.int64)}
            visit = 0
