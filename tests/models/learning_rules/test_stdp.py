"""STDP with a teacher: the changes of a simulation beside the sum over pairs of spikes, voltages beside a probe's."""

from dataclasses import replace

import pytest
import torch

from neuropil.models.learning_rules.stdp import INTERVAL, TAU, TEACHER, SpikingReadout, TaughtSTDP
from neuropil.models.spiking.network import STDP, Probe, simulate
from real_data import few_digits

RATE = 1e-3


def readout() -> tuple[SpikingReadout, torch.Tensor, torch.Tensor]:
    inputs, targets = few_digits(6)
    return SpikingReadout((1, 8, 8), 10).fit(inputs), inputs, targets


def test_every_number_has_an_on_cell_and_an_off_cell_that_fire_once():
    model, inputs, _ = readout()
    on, off = model.spike_times(inputs).chunk(2, 1)
    pixels = inputs.flatten(1).float()
    assert torch.equal(on.argmin(1), pixels.argmax(1))
    torch.testing.assert_close(on + off, torch.full_like(on, 2 * TEACHER), rtol=0, atol=1.0)
    assert float(on.min()) >= 1


def test_changes_are_the_sum_over_the_pairs_of_spikes():
    model, inputs, targets = readout()
    (found,) = torch.autograd.grad(
        TaughtSTDP(model, RATE).loss({"input": inputs, "target": targets}), list(model.parameters())
    )
    times = model.spike_times(inputs).double()
    before = (times + INTERVAL * torch.arange(6)[:, None]).flatten()
    expected = torch.zeros(128, 10, dtype=torch.double)
    cells = torch.arange(128).repeat(6)
    for example, target in enumerate(targets.tolist()):
        apart = TEACHER + INTERVAL * example - before
        pairs = torch.where(apart > 0, torch.exp(-apart / TAU), torch.where(apart < 0, -torch.exp(apart / TAU), 0.0))
        expected[:, target].index_add_(0, cells, RATE * pairs)
    torch.testing.assert_close(-found.double(), expected, rtol=0, atol=1e-7)


def test_weights_stay_between_nothing_and_one():
    model, inputs, targets = readout()
    learner = TaughtSTDP(model, 0.4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(3):
        optimizer.zero_grad()
        learner.loss({"input": inputs, "target": targets}).backward()
        optimizer.step()
    taught = model.weight.detach()[:, targets.unique()]
    assert taught.min().item() == pytest.approx(0, abs=1e-6)
    assert taught.max().item() == pytest.approx(1, abs=1e-6)
    assert (model.weight[:, 9] == 0.5).all() or 9 in targets


def test_answers_are_the_voltages_of_the_simulated_neurons():
    model, inputs, _ = readout()
    torch.nn.init.uniform_(model.weight)
    network = replace(model.network(inputs[:1], None, STDP()), probes=[Probe("classes", range(10))])
    voltages = simulate(network, INTERVAL, 1.0).voltages["classes"]
    # Spikes count from the step after they arrive, whose end is when the teacher would make the neuron fire.
    before = round(TEACHER) - 1
    expected = model(inputs[:1])[0].double()
    torch.testing.assert_close(voltages[before], expected.detach(), rtol=1e-5, atol=1e-5)
