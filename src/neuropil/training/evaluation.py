"""The mean of a learner's metrics over a data set, each example counted once."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from neuropil.protocols import Batch, Batches, Learner, StreamLearner


def evaluate(learner: Learner, batches: Batches) -> dict[str, float]:
    was_training = learner.model.training
    learner.model.eval()
    sums: dict[str, float] = {}
    count, carried = 0, None
    with torch.no_grad():
        for batch in batches.epoch(0):
            if isinstance(learner, StreamLearner):
                values, carried = learner.stream_metrics(batch, carried)
            else:
                values = learner.metrics(batch)
            count += len(next(iter(values.values())))
            for name, per_example in values.items():
                sums[name] = sums.get(name, 0.0) + per_example.double().sum().item()
    learner.model.train(was_training)
    return {name: total / count for name, total in sums.items()}


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
