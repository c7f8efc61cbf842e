import torch

from neuropil.inspection.units import unit_activations
from neuropil.models.mlp import MLP, MLPConfig


def test_the_units_are_those_of_the_equations_and_the_outputs_those_of_the_model():
    config = MLPConfig(hidden_sizes=(4, 4), activation="tanh", dropout=0.0, residual=True, shape=(2,), outputs=3)
    model, x = MLP(config).eval(), torch.randn(5, 2)
    (first, second), outputs = unit_activations(model, x)
    weights, biases = ([layer.get_parameter(name) for layer in model.hidden] for name in ("weight", "bias"))
    torch.testing.assert_close(first, torch.tanh(x @ weights[0].T + biases[0]))
    torch.testing.assert_close(second, first + torch.tanh(first @ weights[1].T + biases[1]))
    assert torch.equal(outputs, model(x))
    assert not model.output._forward_pre_hooks


def test_a_linear_model_has_no_hidden_units():
    model = MLP(MLPConfig(hidden_sizes=(), shape=(2,), outputs=2))
    assert unit_activations(model, torch.randn(5, 2))[0] == []
