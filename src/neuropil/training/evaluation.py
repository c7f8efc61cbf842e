"""The mean of a learner's metrics over a data set, each example counted once; in the loss, by its weight.

loss = Σ α L / Σ α          over all examples, whatever batch they are in
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from neuropil.protocols import WEIGHT, Batch, Batches, Learner, StreamLearner

LOSS = "loss"


def evaluate(learner: Learner, batches: Batches) -> dict[str, float]:
    was_training = learner.model.training
    learner.model.eval()
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    carried = None
    with torch.no_grad():
        for batch in batches.epoch(0):
            if isinstance(learner, StreamLearner):
                values, carried = learner.stream_metrics(batch, carried)
            else:
                values = learner.metrics(batch)
            for name, per_example in values.items():
                if name == WEIGHT:
                    continue
                weight = values.get(WEIGHT) if name == LOSS else None
                weight = torch.ones_like(per_example) if weight is None else weight
                sums[name] = sums.get(name, 0.0) + (weight.double() * per_example.double()).sum().item()
                counts[name] = counts.get(name, 0.0) + weight.double().sum().item()
    learner.model.train(was_training)
    return {name: total / (counts[name] or 1.0) for name, total in sums.items()}


def evaluation_seconds(learner: Learner, batches: Batches) -> float:
    """About how long `evaluate` will take, by one batch."""
    began = time.monotonic()
    evaluate(learner, FirstBatch(batches))
    return len(batches) * (time.monotonic() - began)


@dataclass(frozen=True)
class FirstBatch:
    """Or so many examples of it."""

    batches: Batches
    examples: int | None = None

    def __len__(self) -> int:
        return 1

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        yield {name: values[: self.examples] for name, values in next(iter(self.batches.epoch(number))).items()}
