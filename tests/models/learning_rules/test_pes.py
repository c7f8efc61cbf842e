"""Decoders that learn by PES: the delta rule, and Nengo's in tests/parity."""

import torch
from torch.nn import functional as F

from neuropil.models.learning_rules.pes import RADIUS, PopulationClassifier, PrescribedErrorSensitivity
from neuropil.models.population import Population
from real_data import few_digits


def learner(neurons: int = 40) -> PrescribedErrorSensitivity:
    model = PopulationClassifier((1, 8, 8), 10, neurons, seed=2)
    model.standardize.fit(few_digits(100)[0])
    return PrescribedErrorSensitivity(model)


def test_a_change_is_the_gradient_of_the_squared_error_over_the_number_of_neurons():
    own = learner()
    torch.nn.init.normal_(own.model.decoders, std=1e-3)
    inputs, targets = few_digits(20)
    y = own.model(inputs)
    error = 0.5 * (y - F.one_hot(targets, 10)).square().sum(-1).mean()
    (expected,) = torch.autograd.grad(error, [own.model.decoders])
    loss = own.loss({"input": inputs, "target": targets})
    (found,) = torch.autograd.grad(loss, [own.model.decoders])
    torch.testing.assert_close(found, expected / 40)
    torch.testing.assert_close(loss, error.detach())


def test_the_neurons_are_those_of_a_population():
    model, (inputs, _) = learner().model, few_digits(20)
    population = Population(40, 64, radius=RADIUS, seed=2)
    expected = population.rates(model.standardize(inputs).flatten(1).double().numpy())
    torch.testing.assert_close(model.rates(inputs).double(), torch.from_numpy(expected), rtol=1e-4, atol=1e-2)
    assert 0.2 < (expected > 0).mean() < 0.9
