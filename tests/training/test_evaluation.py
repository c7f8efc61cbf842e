from types import SimpleNamespace

import pytest
import torch

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
