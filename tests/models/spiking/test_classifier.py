"""The spiking classifier: neurons that are the simulators' own, gradients that are the plain loop's, and no state that
is left behind."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.classifier import (
    CodingName,
    LatencyCoding,
    PoissonCoding,
    ReadoutName,
    SpikingClassifier,
    SpikingClassifierConfig,
)
from neuropil.models.spiking.network import CurrentInput, NeuronGroup, Projection, SpikeSource, SpikingNetwork, simulate
from real_data import digits

CODINGS: tuple[CodingName, ...] = ("current", "poisson", "latency")
READOUTS: tuple[ReadoutName, ...] = ("membrane", "spikes")


def classifier(**options: Any) -> SpikingClassifier:
    """In double precision, so that no rounding decides about a spike."""
    torch.manual_seed(0)
    model = SpikingClassifier(
        SpikingClassifierConfig(**{"hidden_sizes": (20, 15), "steps": 30, "dropout": 0.0} | options)
    )
    model.encode.fit(pictures(50))
    return model.double()


def pictures(count: int) -> Tensor:
    images, _ = digits()
    return torch.from_numpy(images[:count])[:, None]


def as_spikes(times: Tensor, neurons: Tensor, num_neurons: int, num_steps: int, dt: float) -> Tensor:
    """[step, neuron] of 0 and 1: the spike of step k has the time (k + 1) dt."""
    steps = (times / dt).round().long() - 1
    return torch.zeros(num_steps, num_neurons).index_put((steps, neurons), torch.tensor(1.0))


# --- the neurons are those of the simulators --------------------------------------------------------------------------


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("tau_ref", [0.0, 4.0])
def test_the_whole_network_spikes_as_in_the_event_driven_simulator(coding: CodingName, tau_ref: float):
    """Layer by layer and spike by spike, from the weights of the model alone."""
    model = classifier(coding=coding, readout="spikes", neuron=LIFConfig(tau_ref=tau_ref))
    linears = [*model.hidden, model.output]
    with torch.no_grad():
        for linear in linears:
            linear.get_parameter("weight").mul_(1.5)
            linear.get_parameter("bias").normal_(std=0.05)
    config = model.config
    sizes = [*config.hidden_sizes, config.classes]
    weights = [linear.get_parameter("weight").detach().T for linear in linears]
    biases = [linear.get_parameter("bias").detach()[None] for linear in linears]
    groups = [NeuronGroup(f"layer {number}", size, config.neuron) for number, size in enumerate(sizes)]
    every_step = torch.arange(1, config.steps + 1) * config.dt
    always_on = SpikeSource("always on", 1, spikes=(every_step, torch.zeros(config.steps, dtype=torch.long)))
    wires = [
        wire
        for i in range(1, len(sizes))
        for wire in (
            Projection(f"layer {i - 1}", f"layer {i}", weights[i]),
            Projection("always on", f"layer {i}", biases[i]),
        )
    ]
    for picture in pictures(3).split(1):
        activity = model.eval().activity(picture)
        if coding == "current":
            inputs = [CurrentInput("layer 0", model.hidden[0](activity.entering)[0].detach())]
            network = SpikingNetwork([always_on, *groups], wires, inputs=inputs)
        else:
            steps, cells = activity.entering[:, 0].nonzero(as_tuple=True)
            eye = SpikeSource("input", 64, spikes=((steps + 1) * config.dt, cells))
            first = [Projection("input", "layer 0", weights[0]), Projection("always on", "layer 0", biases[0])]
            network = SpikingNetwork([always_on, eye, *groups], [*first, *wires])
        recorded = simulate(network, duration=config.steps * config.dt, dt=config.dt)
        for number, layer in enumerate([*activity.hidden, activity.output]):
            expected = as_spikes(*recorded.spikes[f"layer {number}"], sizes[number], config.steps, config.dt)
            assert expected.any()
            torch.testing.assert_close(layer.spikes[:, 0].float(), expected, atol=0, rtol=0)


# --- all steps in one go are the steps one by one ---------------------------------------------------------------------


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("readout", READOUTS)
def test_the_gradients_of_a_whole_network_are_those_of_autograd_through_the_loop(
    coding: CodingName, readout: ReadoutName, monkeypatch: pytest.MonkeyPatch
):
    model, target = classifier(coding=coding, readout=readout).eval(), torch.arange(6) % 3
    image = pictures(6).double().requires_grad_()
    named = {"image": image} | dict(model.named_parameters())

    def gradients() -> dict[str, Tensor]:
        loss = F.cross_entropy(model(image), target)
        return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))

    found = gradients()
    monkeypatch.setattr("neuropil.models.spiking.layer.compiles", lambda drive: False)
    for name, expected in gradients().items():
        assert expected.any(), name
        torch.testing.assert_close(found[name], expected, rtol=1e-10, atol=1e-14)


# --- traps of the field -----------------------------------------------------------------------------------------------


def test_gradients_can_be_asked_for_twice():
    model, image = classifier(), pictures(4)
    loss = model(image).square().sum()
    first, second = (torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_batches_follow_each_other_without_a_word_about_a_second_backward_pass():
    model = classifier(dropout=0.2).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for image in pictures(9).split(3):
        optimizer.zero_grad()
        model(image).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("coding", CODINGS)
def test_no_batch_leaves_anything_to_the_next(coding: CodingName):
    model = classifier(coding=coding).eval()
    image, others = pictures(10).split(5)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    answer = model(image)
    model(others).sum().backward()
    model.train()(others)
    assert torch.equal(model.eval()(image), answer)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not [name for name, value in vars(model).items() if isinstance(value, Tensor)]


# --- codings and readouts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("readout", READOUTS)
def test_looking_inside_shows_what_the_forward_pass_computed(coding: CodingName, readout: ReadoutName):
    model, image = classifier(coding=coding, readout=readout, dropout=0.5), pictures(5)
    answer = model.eval()(image)
    activity = model.train().activity(image)
    assert model.training
    torch.testing.assert_close(activity.logits[-1], answer, rtol=1e-12, atol=1e-12)
    assert activity.logits.shape == (30, 5, 10)
    assert [tuple(layer.spikes.shape) for layer in activity.hidden] == [(30, 5, 20), (30, 5, 15)]
    for layer in activity.hidden:
        assert torch.equal(layer.spikes > 0, layer.voltages > 1)


def test_the_readout_is_the_mean_of_neurons_that_leak():
    model = classifier()
    spikes = torch.randint(0, 2, (30, 2, 15)).double()
    u, total = torch.zeros(2, 10, dtype=torch.double), torch.zeros(2, 10, dtype=torch.double)
    for s in spikes:
        u = math.exp(-0.1) * u + s @ model.output.weight.T
        total += u
    average = torch.einsum("t,tbu->bu", model.shares(), spikes)
    torch.testing.assert_close(model.output(average), model.output.bias + total / 30)


def test_random_spikes_come_at_the_rate_of_the_intensity_and_are_the_same_in_every_evaluation():
    coding = PoissonCoding((3,), 4000).fit(torch.tensor([[0.0, 0.0, 0.0], [4.0, 4.0, 4.0]]))
    x = torch.tensor([[0.0, 1.0, 4.0]])
    for spikes in (coding.train()(x), coding.eval()(x)):
        assert set(spikes.unique().tolist()) == {0.0, 1.0}
        torch.testing.assert_close(spikes.mean((0, 1)), torch.tensor([0.0, 0.25, 1.0]), atol=0.03, rtol=0)
    assert torch.equal(coding(x), coding(x))
    assert not torch.equal(coding.train()(x), coding(x))


def test_a_large_constant_has_no_intensity():
    x = torch.full((3, 1), 1e9)
    assert torch.equal(PoissonCoding((1,), 4).fit(x).intensities(x), torch.zeros(3, 1))


def test_of_latencies_the_brightest_comes_first_and_the_darkest_never():
    coding = LatencyCoding((5,), 10).fit(torch.tensor([[0.0] * 5, [1.0] * 5]))
    spikes = coding(torch.tensor([[1.0, 0.95, 0.55, 0.01, 0.0]]))[:, 0]
    assert spikes.argmax(0).tolist()[:4] == [0, 0, 4, 9]
    assert spikes.sum(0).tolist() == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_small_step_against_the_gradient_misleads_it(coding: CodingName):
    """What an attack needs: a gradient by the input that points to where the loss grows."""
    model = learned(classifier(coding=coding, hidden_sizes=(64,), steps=15), updates=60)
    images, labels = digits()
    image = torch.from_numpy(images[:200])[:, None].double().requires_grad_()
    target = torch.from_numpy(labels[:200]).long()
    loss = F.cross_entropy(model(image), target)
    (gradient,) = torch.autograd.grad(loss, image)
    with torch.no_grad():
        attacked = F.cross_entropy(model((image + 30 * gradient.sign()).clamp(0, 255)), target)
        random = F.cross_entropy(model((image + 30 * torch.randn_like(image).sign()).clamp(0, 255)), target)
    assert attacked > 1.3 * random


def learned(model: SpikingClassifier, updates: int) -> SpikingClassifier:
    images, labels = digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(updates):
        index = torch.randint(0, 1200, (64,), generator=generator).numpy()
        optimizer.zero_grad()
        F.cross_entropy(
            model.train()(torch.from_numpy(images[index])[:, None]), torch.from_numpy(labels[index]).long()
        ).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("readout", READOUTS)
def test_every_coding_and_readout_learns_digits(coding: CodingName, readout: ReadoutName):
    images, labels = digits()
    model = learned(classifier(coding=coding, readout=readout, hidden_sizes=(64,), steps=15).float(), updates=100)
    with torch.no_grad():
        answers = model(torch.from_numpy(images[1200:])[:, None]).argmax(-1)
    assert (answers == torch.from_numpy(labels[1200:])).float().mean() > (0.6 if coding == "latency" else 0.85)


def test_neurons_with_units_learn_as_those_without():
    """Weights count in units of the way from reset to threshold, so that millivolts change nothing."""
    plain = classifier()
    cortical = classifier(neuron=LIFConfig(rest=-65.0, threshold=-50.0, reset=-65.0))
    cortical.load_state_dict(plain.state_dict())
    image = pictures(8)
    torch.testing.assert_close(cortical(image), plain(image))


@pytest.mark.usefixtures("bfloat16")
def test_it_runs_under_autocast():
    model = classifier().float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(pictures(4)).float().square().sum()
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_step_that_is_too_long_is_refused_with_the_longest_that_works():
    with pytest.raises(InputError) as error:
        SpikingClassifierConfig(dt=3.0)
    assert str(error.value) == (
        "dt must be a time above 0 ms and no longer than the time constants allow, but got 3: the largest that works "
        "for tau_m=20 and tau_ref=2 is 2."
    )


def test_a_network_without_hidden_neurons_is_refused():
    with pytest.raises(InputError) as error:
        SpikingClassifierConfig(hidden_sizes=())
    assert (
        str(error.value)
        == "a spiking classifier must have a hidden layer, for it is there that neurons spike, but got none."
    )


@pytest.mark.parametrize("coding", CODINGS)
def test_inputs_of_another_shape_are_refused(coding: CodingName):
    with pytest.raises(InputError) as error:
        classifier(coding=coding)(torch.zeros(2, 1, 8, 9))
    assert (
        str(error.value)
        == "inputs must have the shape [batch, 1, 8, 8] that the model was made for, but got [2, 1, 8, 9]."
    )
