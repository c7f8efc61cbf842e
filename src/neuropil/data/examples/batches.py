"""Examples in memory, a batch at a time: no copies but the batch itself, no worker processes."""

from collections.abc import Iterator

import torch

from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples
from neuropil.protocols import Batch, Batches
from neuropil.randomness import seeded


class ExampleBatches:
    """Passes over examples as ``{"input": …, "target": …}``. A pass is the same whenever it is made, and from whatever batch on."""

    def __init__(
        self,
        examples: Examples,
        size: int,
        seed: int,
        *,
        shuffle: bool,
        augment: Augment | None = None,
        device: torch.device | str = "cpu",
    ):
        self.examples, self.size, self.seed = examples, size, seed
        self.shuffle, self.augment, self.device = shuffle, augment, torch.device(device)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.examples), self.size)
        # A batch of one has no spread, and batch normalisation needs one: a single leftover joins the batch before it.
        return whole if rest == 0 or (rest == 1 < self.size and whole) else whole + 1

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = torch.randperm(len(self.examples), generator=seeded(self.seed, number)) if self.shuffle else None
        for index in range(start, len(self)):
            batch = {name: values.to(self.device) for name, values in self._gather(index, order).items()}
            if self.augment is not None:
                batch["input"] = self.augment(batch["input"], seeded(self.seed, number, index))
            yield batch

    def _gather(self, index: int, order: torch.Tensor | None) -> dict[str, torch.Tensor]:
        begin, end = index * self.size, (index + 1) * self.size if index < len(self) - 1 else len(self.examples)
        if order is None:
            return {"input": self.examples.inputs[begin:end], "target": self.examples.targets[begin:end]}
        chosen = order[begin:end]
        return {
            "input": self.examples.inputs.index_select(0, chosen),
            "target": self.examples.targets.index_select(0, chosen),
        }


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
