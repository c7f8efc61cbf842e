"""Losses beside torch's, value and gradient, in double precision; and beside scikit-learn's."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss, mean_squared_error
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.parts.losses import bernoulli_cross_entropy, categorical_cross_entropy, squared_error
from neuropil.parts.objectives import MultiLabel

sizes = st.integers(1, 6)


def assert_same_value_and_gradient(
    ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor], z: Tensor
) -> None:
    results = []
    for loss in (ours, theirs):
        point = z.clone().requires_grad_()
        value = loss(point)
        value.sum().backward()
        results.append((value.detach(), point.grad))
    torch.testing.assert_close(results[0], results[1])


@settings(deadline=None, max_examples=25)
@given(sizes, sizes)
def test_squared_error_is_half_of_torchs_summed_one(batch: int, outputs: int):
    y, target = torch.randn(2, batch, outputs, dtype=torch.double)
    assert_same_value_and_gradient(
        lambda y: squared_error(y, target), lambda y: F.mse_loss(y, target, reduction="none").sum(-1) / 2, y
    )
    np.testing.assert_allclose(2 * squared_error(y, target).mean() / outputs, mean_squared_error(target, y))


@settings(deadline=None, max_examples=25)
@given(sizes, sizes, st.sampled_from([1.0, 100.0]))
def test_bernoulli_cross_entropy_equals_torch(batch: int, outputs: int, scale: float):
    logits, target = (
        scale * torch.randn(batch, outputs, dtype=torch.double),
        torch.rand(batch, outputs, dtype=torch.double),
    )
    assert_same_value_and_gradient(
        lambda z: bernoulli_cross_entropy(z, target),
        lambda z: F.binary_cross_entropy_with_logits(z, target, reduction="none").sum(-1),
        logits,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_objective_of_several_labels_is_torchs_cross_entropy_with_logits(smoothing: float):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(5, 3), 100 * torch.randn(20, 5)
    target, weights = torch.randint(0, 2, (20, 3)).float(), torch.rand(20)
    smooth = (1 - smoothing) * target + smoothing / 2
    theirs = F.binary_cross_entropy_with_logits(model(x), smooth, reduction="none").sum(-1)
    learner, batch = MultiLabel(model, smoothing), {"input": x, "target": target}
    torch.testing.assert_close(learner.loss(batch), theirs.mean())
    mean = (weights * theirs).sum() / weights.sum()
    torch.testing.assert_close(learner.loss({**batch, "weight": weights}), mean)
    # Its mean over labels too is torch's own
    torch.testing.assert_close(MultiLabel(model).loss(batch) / 3, nn.BCEWithLogitsLoss()(model(x), target))


@settings(deadline=None, max_examples=25)
@given(sizes, st.integers(2, 6), st.sampled_from([0.0, 0.1, 0.9]), st.sampled_from([1.0, 1000.0]))
def test_categorical_cross_entropy_equals_torch_with_and_without_smoothing(
    batch: int, classes: int, smoothing: float, scale: float
):
    logits, target = scale * torch.randn(batch, classes, dtype=torch.double), torch.randint(0, classes, (batch,))
    assert_same_value_and_gradient(
        lambda z: categorical_cross_entropy(z, target, smoothing),
        lambda z: F.cross_entropy(z, target, reduction="none", label_smoothing=smoothing),
        logits,
    )


def test_categorical_cross_entropy_equals_scikit_learns_log_loss():
    logits, target = torch.randn(20, 4, dtype=torch.double), torch.randint(0, 4, (20,))
    theirs = log_loss(target, torch.softmax(logits, -1), labels=[0, 1, 2, 3])
    assert categorical_cross_entropy(logits, target).mean().item() == pytest.approx(theirs, rel=1e-9)
