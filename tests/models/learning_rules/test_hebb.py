"""A Hopfield network with label units, beside the Hopfield network."""

import torch

from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.models.learning_rules.hebb import HebbianLearning, LabelledHopfield
from real_data import few_digits


def taught() -> tuple[LabelledHopfield, torch.Tensor, torch.Tensor]:
    """After one pass, by the learning rule."""
    inputs, targets = few_digits(200)
    model = LabelledHopfield((1, 8, 8), 10).fit(inputs)
    learner = HebbianLearning(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1 / 10)
    for x, t in zip(inputs.split(20), targets.split(20), strict=True):
        optimizer.zero_grad()
        learner.loss({"input": x, "target": t}).backward()
        optimizer.step()
    return model, inputs, targets


def test_a_pass_over_the_examples_leaves_the_weights_of_the_hopfield_network():
    model, inputs, targets = taught()
    reference = HopfieldNetwork(HopfieldNetworkConfig(units=74)).fit(model.patterns(inputs, targets))
    torch.testing.assert_close(model.weight.detach(), reference.weight)


def test_answers_are_the_energies_of_the_completed_patterns():
    model, inputs, targets = taught()
    reference = HopfieldNetwork(HopfieldNetworkConfig(units=74)).fit(model.patterns(inputs, targets))
    completed = [model.patterns(inputs, torch.full((200,), number)) for number in range(10)]
    energies = torch.stack([reference.energy(v) for v in completed], 1)
    answers = model(inputs).detach()
    torch.testing.assert_close(answers - answers[:, :1], -(energies - energies[:, :1]), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(model.energy(completed[3]).detach(), energies[:, 3], rtol=1e-4, atol=1e-3)


def test_the_scale_of_the_weights_changes_no_answer():
    model, inputs, _ = taught()
    before = model(inputs).argmax(-1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(32.0)  # a power of two: products and sums have the same digits
    assert torch.equal(model(inputs).argmax(-1), before)


def test_it_knows_its_classes_far_better_than_chance():
    model, inputs, targets = taught()
    assert (model(inputs).argmax(-1) == targets).float().mean() > 0.5
