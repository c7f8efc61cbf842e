"""Gradients that a learning rule gives by itself."""

import torch

from neuropil.parts.given_gradients import with_gradients


def test_the_loss_keeps_its_value_and_each_parameter_gets_its_own_gradient():
    parameters = [torch.nn.Parameter(torch.randn(2, 3)), torch.nn.Parameter(torch.randn(4))]
    gradients = [torch.randn(2, 3), torch.randn(4)]
    loss = with_gradients(torch.tensor(0.7), parameters, gradients)
    assert loss.item() == torch.tensor(0.7).item()
    (3 * loss).backward()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, 3 * gradient)
