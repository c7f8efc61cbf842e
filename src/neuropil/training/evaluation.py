"""The mean of a learner's metrics over a data set, each example counted once."""

import torch

from neuropil.protocols import Batches, Learner, StreamLearner


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
