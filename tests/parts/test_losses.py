import math

import torch

from neuropil.parts.losses import (
    bernoulli_cross_entropy,
    categorical_cross_entropy,
    frobenius_penalty,
    l1_penalty,
    squared_error,
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
    assert torch.equal(bernoulli_cross_entropy(logits.bfloat16(), logits * 0), bernoulli_cross_entropy(logits, logits * 0))


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
