import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from neuropil.parts import losses
from neuropil.parts.losses import (
    bernoulli_cross_entropy,
    categorical_cross_entropy,
    frobenius_penalty,
    l1_penalty,
    projected_cross_entropy,
    squared_error,
    with_gradients,
)


def test_squared_error_has_the_half_that_makes_its_gradient_the_difference():
    y, target = torch.randn(5, 3, requires_grad=True), torch.randn(5, 3)
    (gradient,) = torch.autograd.grad(squared_error(y, target).sum(), y)
    torch.testing.assert_close(gradient, y.detach() - target)


def test_cross_entropy_gradients_are_output_minus_target():
    logits = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    bits = torch.randint(0, 2, (5, 4)).double()
    (gradient,) = torch.autograd.grad(bernoulli_cross_entropy(logits, bits).sum(), logits)
    torch.testing.assert_close(gradient, (torch.sigmoid(logits) - bits).detach())
    classes = torch.randint(0, 4, (5,))
    (gradient,) = torch.autograd.grad(categorical_cross_entropy(logits, classes).sum(), logits)
    torch.testing.assert_close(gradient, (torch.softmax(logits, -1) - torch.eye(4)[classes]).detach())


def test_cross_entropies_stay_exact_where_probabilities_round_to_zero():
    logits = torch.tensor([[-200.0, 200.0]])
    assert bernoulli_cross_entropy(logits, torch.tensor([[1.0, 0.0]])).item() == 400
    assert categorical_cross_entropy(logits, torch.tensor([0])).item() == 400
    small = categorical_cross_entropy(torch.tensor([[0.0, -30.0]], dtype=torch.double), torch.tensor([0])).item()
    assert math.isclose(small, math.log1p(math.exp(-30)), rel_tol=0, abs_tol=1e-15)
    huge = (logits * 1e30).requires_grad_()
    categorical_cross_entropy(huge, torch.tensor([0]), label_smoothing=0.1).sum().backward()
    assert huge.grad is not None
    assert torch.isfinite(huge.grad).all()


def test_a_uniform_guess_costs_the_logarithm_of_the_number_of_classes():
    cost = categorical_cross_entropy(torch.zeros(1, 10), torch.tensor([3]), label_smoothing=0.2)
    torch.testing.assert_close(cost, torch.tensor([math.log(10)]))


def test_losses_keep_every_leading_axis():
    logits = torch.randn(2, 5, 4)
    assert squared_error(logits, logits).shape == (2, 5)
    assert bernoulli_cross_entropy(logits, torch.ones(2, 5, 4)).shape == (2, 5)
    assert categorical_cross_entropy(logits, torch.zeros(2, 5, dtype=torch.uint8)).shape == (2, 5)


def test_a_loss_of_half_precision_outputs_is_computed_in_single():
    logits = torch.tensor([[0.0, 8.0]])
    single, half = (categorical_cross_entropy(z, torch.tensor([1])) for z in (logits, logits.bfloat16()))
    assert torch.equal(single, half)
    assert squared_error(logits.bfloat16(), logits).dtype == torch.float32
    assert torch.equal(
        bernoulli_cross_entropy(logits.bfloat16(), logits * 0), bernoulli_cross_entropy(logits, logits * 0)
    )


def test_penalties_sum_over_all_weights():
    weights = [torch.tensor([[1.0, -2.0]]), torch.tensor([3.0])]
    assert l1_penalty(weights).item() == 6
    assert frobenius_penalty(weights).item() == 7


def test_the_frobenius_penalty_is_weight_decay_in_plain_gradient_descent():
    plain, decayed = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2, 2))
    decay, penalised = torch.optim.SGD([decayed], lr=0.1, weight_decay=0.3), torch.optim.SGD([plain], lr=0.1)
    (0.3 * frobenius_penalty([plain])).backward()
    decayed.grad = torch.zeros(2, 2)
    decay.step()
    penalised.step()
    torch.testing.assert_close(plain, decayed)


# --- the cross-entropy of a projection --------------------------------------------------------------------------------


def projection(tokens: int, classes: int, width: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden, weight = torch.randn(tokens, width, dtype=torch.double), torch.randn(classes, width, dtype=torch.double)
    return hidden.requires_grad_(), weight.requires_grad_(), torch.randint(0, classes, (tokens,))


@settings(deadline=None, max_examples=40)
@given(
    tokens=st.integers(1, 12),
    classes=st.integers(1, 9),
    at_once=st.integers(1, 120),
    label_smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    scale=st.sampled_from([1.0, 3.0, -0.5]),
)
def test_the_loss_of_a_projection_and_its_gradients_are_torchs_in_any_number_of_pieces(
    tokens: int, classes: int, at_once: int, label_smoothing: float, scale: float
):
    hidden, weight, target = projection(tokens, classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "LOGITS_AT_ONCE", at_once)
        ours = projected_cross_entropy(hidden, weight, target, label_smoothing)
    theirs = F.cross_entropy(hidden @ weight.T, target, label_smoothing=label_smoothing)
    torch.testing.assert_close(ours, theirs)
    for gradient, expected in zip(
        *(torch.autograd.grad(scale * loss, (hidden, weight)) for loss in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_the_gradient_of_a_projections_loss_is_the_slope(label_smoothing: float):
    hidden, weight, target = projection(6, 4)
    assert torch.autograd.gradcheck(
        lambda h, w: projected_cross_entropy(h, w, target, label_smoothing), (hidden, weight)
    )


def test_gradients_are_taken_only_where_they_are_asked_for():
    hidden, weight, target = projection(6, 4)
    for needed, h, w in ((hidden, hidden, weight.detach()), (weight, hidden.detach(), weight)):
        (gradient,) = torch.autograd.grad(projected_cross_entropy(h, w, target), needed)
        (expected,) = torch.autograd.grad(F.cross_entropy(h @ w.T, target), needed)
        torch.testing.assert_close(gradient, expected)
    assert not projected_cross_entropy(hidden.detach(), weight.detach(), target).requires_grad


def test_a_second_pass_back_adds_the_same_gradients_again_and_a_second_derivative_is_refused():
    hidden, weight, target = projection(6, 4)
    loss = projected_cross_entropy(hidden, weight, target)
    loss.backward(retain_graph=True)
    assert weight.grad is not None
    once = weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(weight.grad, 2 * once)
    (gradient,) = torch.autograd.grad(
        projected_cross_entropy(hidden, weight, target).square(), weight, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_large_vocabulary_never_stands_in_memory_for_all_tokens():
    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            output = func(*args, **(kwargs or {}))
            self.numbers = max(self.numbers, *(x.numel() for x in tree_leaves(output) if isinstance(x, Tensor)), 0)
            return output

    tokens, classes, width = 3000, 5000, 4
    hidden, weight = torch.randn(tokens, width, requires_grad=True), torch.randn(classes, width, requires_grad=True)
    with Largest() as largest:
        projected_cross_entropy(hidden, weight, torch.randint(0, classes, (tokens,)), 0.1).backward()
    assert largest.numbers <= losses.LOGITS_AT_ONCE < tokens * classes


@pytest.mark.usefixtures("bfloat16")
def test_a_projection_in_half_precision_is_measured_in_single():
    hidden, weight, target = (x.detach() for x in projection(64, 9))
    expected = F.cross_entropy(hidden @ weight.T, target)
    single = weight.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        half = F.linear(hidden.float(), torch.eye(5)).requires_grad_()
        loss = projected_cross_entropy(half, single, target)
    loss.backward()
    assert half.dtype == torch.bfloat16
    assert half.grad is not None
    assert single.grad is not None
    assert (loss.dtype, half.grad.dtype, single.grad.dtype) == (torch.float32, torch.bfloat16, torch.float32)
    torch.testing.assert_close(loss.double(), expected, atol=0.02, rtol=0)
    reference = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    F.cross_entropy(reference[0] @ reference[1].T, target).backward()
    for ours, theirs in zip((half, single), reference, strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(
            ours.grad.double(), theirs.grad, atol=0.01 * theirs.grad.abs().max().item(), rtol=0.05
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            losses, "LOGITS_AT_ONCE", 9
        )  # a token at a time: a sum of many losses needs more than bfloat16's three digits
        whole = projected_cross_entropy(hidden.bfloat16(), weight.bfloat16(), target)
    assert whole.dtype == torch.float32
    torch.testing.assert_close(whole.double(), expected, atol=0.02, rtol=0)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("at_once", [1, 5, 20, 10_000])
def test_a_gradient_in_half_precision_is_the_same_in_any_pieces(at_once: int, monkeypatch: pytest.MonkeyPatch):
    def gradient() -> Tensor:
        hidden, weight, target = (x.detach() for x in projection(64, 9))
        single = weight.float().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            projected_cross_entropy(hidden.float(), single, target).backward()
        assert single.grad is not None
        return single.grad

    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", 9 * 16)  # the second piece of logits is added to the first
    whole = gradient()
    monkeypatch.setattr(losses, "PRODUCT_AT_ONCE", at_once)
    torch.testing.assert_close(gradient(), whole, atol=0.01 * whole.abs().max().item(), rtol=0.02)


@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_all_three_products_are_in_its_precision_and_the_sum_over_pieces_is_not():
    class Products(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.kinds: list[set[torch.dtype]] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
                self.kinds.append({x.dtype for x in args if isinstance(x, Tensor)})
            return func(*args, **(kwargs or {}))

    hidden, weight, target = (x.detach() for x in projection(64, 9))
    hidden, weight = hidden.float().requires_grad_(), weight.float().requires_grad_()
    with pytest.MonkeyPatch.context() as patch, Products() as products, torch.autocast("cpu", torch.bfloat16):
        patch.setattr(losses, "LOGITS_AT_ONCE", 9)  # a token at a time
        projected_cross_entropy(hidden, weight, target).backward()
    assert products.kinds == [{torch.bfloat16}] * 3 * 64
    (expected,) = torch.autograd.grad(F.cross_entropy(hidden @ weight.T, target), weight)
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, expected, atol=2**-7 * expected.abs().max().item(), rtol=0)


def test_logits_far_apart_have_the_loss_and_gradients_that_torch_finds():
    hidden, weight, target = projection(6, 4)
    hidden, weight = (300 * hidden.detach()).float().requires_grad_(), weight.detach().float().requires_grad_()
    ours, theirs = projected_cross_entropy(hidden, weight, target), F.cross_entropy(hidden @ weight.T, target)
    torch.testing.assert_close(ours, theirs)
    for found, expected in zip(*(torch.autograd.grad(loss, (hidden, weight)) for loss in (ours, theirs)), strict=True):
        torch.testing.assert_close(found, expected)


def test_class_numbers_of_any_width_are_taken():
    hidden, weight, target = projection(6, 4)
    for kind in (torch.uint8, torch.int32):
        assert torch.equal(
            projected_cross_entropy(hidden, weight, target.to(kind)), projected_cross_entropy(hidden, weight, target)
        )


def test_a_loss_with_given_gradients_keeps_its_value_and_gives_each_parameter_its_own():
    parameters = [torch.nn.Parameter(torch.randn(2, 3)), torch.nn.Parameter(torch.randn(4))]
    gradients = [torch.randn(2, 3), torch.randn(4)]
    loss = with_gradients(torch.tensor(0.7), parameters, gradients)
    assert loss.item() == torch.tensor(0.7).item()
    (3 * loss).backward()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, 3 * gradient)
