"""Activations beside torch's modules and the formulas, in double precision: equal to 1e-12."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.parts.activations import ACTIVATIONS, ActivationName, argmax, softmax

FORMULAS = {
    "logistic": (nn.Sigmoid(), lambda z: 1 / (1 + torch.exp(-z))),
    "arctan": (torch.atan, lambda z: torch.asin(z / torch.sqrt(1 + z**2))),
    "tanh": (nn.Tanh(), lambda z: (torch.exp(z) - torch.exp(-z)) / (torch.exp(z) + torch.exp(-z))),
    "threshold": (lambda z: torch.heaviside(z, torch.ones_like(z)), lambda z: (torch.sign(z) + 1) / 2),
    "relu": (nn.ReLU(), lambda z: torch.maximum(z, torch.zeros_like(z))),
    "softplus": (nn.Softplus(), lambda z: torch.log(1 + torch.exp(z))),
    "gelu": (nn.GELU(), lambda z: z * torch.distributions.Normal(0, 1).cdf(z)),
    "identity": (nn.Identity(), lambda z: z),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@settings(deadline=None, max_examples=20)
@given(values=st.lists(st.floats(-15, 15).filter(lambda z: z != 0), min_size=1, max_size=10))
def test_activations_equal_torch_and_their_formula(name: ActivationName, values: list[float]):
    z = torch.tensor(values, dtype=torch.double)
    for reference in FORMULAS[name]:
        torch.testing.assert_close(ACTIVATIONS[name](z), reference(z), rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(1, 9))
def test_softmax_and_argmax_equal_torch_and_their_formula(batch: int, units: int):
    z: Tensor = torch.randn(batch, units, dtype=torch.double)
    torch.testing.assert_close(softmax(z), nn.Softmax(dim=-1)(z))
    torch.testing.assert_close(softmax(z), z.exp() / z.exp().sum(-1, keepdim=True))
    torch.testing.assert_close(argmax(z), nn.functional.one_hot(z.argmax(-1), units).double())
