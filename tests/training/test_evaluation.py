from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from neuropil.parts.objectives import Classification
from neuropil.protocols import Batch
from neuropil.training import evaluation
from neuropil.training.evaluation import evaluate, evaluation_seconds
from training.learners import DigitBatches, DigitLearner


def test_each_example_counts_once_whatever_the_batches():
    learner = DigitLearner(dropout=0.5)
    whole = evaluate(learner, DigitBatches(0, 103, size=103))
    pieces = evaluate(learner, DigitBatches(0, 103, size=10))
    assert whole.keys() == pieces.keys()
    for name in whole:
        assert abs(whole[name] - pieces[name]) < 1e-6


def test_the_loss_is_weighted_over_all_batches_and_the_rest_is_not():
    class Weighted(DigitBatches):
        def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
            for batch in super().epoch(number, start):
                yield {**batch, "weight": batch["target"] + 1.0}

    learner = Classification(DigitLearner(dropout=0).model)
    plain = evaluate(learner, DigitBatches(0, 103, size=10))
    found = evaluate(learner, Weighted(0, 103, size=10))
    images, labels = DigitBatches(0, 103).images, DigitBatches(0, 103).labels
    with torch.no_grad():
        losses = F.cross_entropy(learner.model(images), labels, reduction="none")
    assert found["loss"] == pytest.approx(float((losses * (labels + 1)).sum() / (labels + 1).sum()), rel=1e-6)
    assert found.keys() == plain.keys()
    assert found["accuracy"] == plain["accuracy"]


def test_evaluation_leaves_the_mode_and_makes_no_gradients():
    learner = DigitLearner()
    learner.model.train()
    evaluate(learner, DigitBatches(0, 20))
    assert learner.model.training
    assert all(parameter.grad is None for parameter in learner.model.parameters())


def test_dropout_is_off_in_evaluation():
    learner, batches = DigitLearner(dropout=0.9), DigitBatches(0, 50)
    torch.manual_seed(0)
    assert evaluate(learner, batches) == evaluate(learner, batches)


def test_how_long_evaluation_takes_is_told_by_one_batch(monkeypatch: pytest.MonkeyPatch):
    batches, clock = DigitBatches(0, 500), iter([10.0, 10.5])
    monkeypatch.setattr(evaluation, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert evaluation_seconds(DigitLearner(), batches) == 5.0
