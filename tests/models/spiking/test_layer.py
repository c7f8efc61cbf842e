"""A layer of spiking neurons: the simulator's own, with the gradients of the plain loop."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.lif import LIF, LIFConfig, constants
from neuropil.models.spiking.layer import SpikingLayerConfig, fire, fire_sum, in_steps
from neuropil.parts.threads.pytorch_threads import torch_threads


def firing_of(neuron: LIFConfig, dt: float = 2.0, steps: int = 25, slope: float = 2.0) -> SpikingLayerConfig:
    return SpikingLayerConfig(constants(neuron, dt), steps, slope)


neurons = st.builds(
    lambda tau_m, tau_ref, rest, gap, below: LIFConfig(
        tau_m=tau_m, tau_ref=tau_ref, rest=rest, threshold=rest + gap, reset=rest - below
    ),
    st.sampled_from([5.0, 20.0]),
    st.sampled_from([0.0, 2.0, 5.0]),
    st.sampled_from([0.0, -65.0]),
    st.sampled_from([1.0, 15.0]),
    st.sampled_from([0.0, 3.0]),
)


# --- neurons ----------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(neurons, st.integers(0, 1000))
def test_a_constant_current_makes_the_spikes_of_the_lif_simulator(neuron: LIFConfig, seed: int):
    generator = torch.Generator().manual_seed(seed)
    current = 1.5 * torch.randn(1, 40, dtype=torch.double, generator=generator)
    firing = firing_of(neuron, dt=1.0, steps=60)
    recorded = LIF(neuron, "grid").simulate(firing.size * current[0], duration=60.0, dt=1.0)
    expected = torch.zeros(60, 40, dtype=torch.double)
    expected[recorded.times.round().long() - 1, recorded.neurons] = 1  # the spike of step k has the time (k + 1) dt
    assert expected.any()
    assert torch.equal(fire(current, firing)[:, 0], expected)


def test_a_neuron_that_has_fired_begins_again_at_its_reset():
    """Steps between spikes: ⌈τ ln((I − reset)/(I − θ)) / dt⌉, and the refractory ones."""
    for refractory in (0, 1, 3):
        neuron = LIFConfig(tau_ref=2.0 * refractory, reset=-0.5)
        current = torch.tensor([[2.0]], dtype=torch.double)
        steps = fire(current / 1.5, firing_of(neuron, steps=60))[:, 0, 0].nonzero().flatten()
        between = math.ceil(20.0 * math.log((2.0 + 0.5) / (2.0 - 1.0)) / 2.0) + refractory
        assert set(steps.diff().tolist()) == {between}


def test_refractory_neurons_do_not_listen():
    kicks = torch.zeros(10, 1, 1, dtype=torch.double)
    kicks[0] = 1.2
    kicks[1:4] = 1.2  # the spike is at step 1, and two refractory steps follow it
    spikes = fire(kicks, firing_of(LIFConfig(tau_ref=4.0), steps=10))
    assert spikes[:, 0, 0].nonzero().flatten().tolist() == [1]


# --- gradients --------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    neurons,
    st.booleans(),
    st.integers(2, 12),
    st.tuples(st.integers(1, 3), st.sampled_from([1, 5, 1500])),
    st.sampled_from([0.5, 2.0, 25.0]),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 1000),
)
def test_compiled_loops_and_single_steps_agree_in_spikes_and_gradients(
    neuron: LIFConfig, kicked: bool, steps: int, size: tuple[int, int], slope: float, dtype: torch.dtype, seed: int
):
    generator = torch.Generator().manual_seed(seed)
    firing = firing_of(neuron, steps=steps, slope=slope)
    drive = torch.randn(*([steps] if kicked else []), *size, dtype=dtype, generator=generator).mul_(2).requires_grad_()
    weight = torch.randn(steps, *size, dtype=dtype, generator=generator)
    fused, single = fire(drive, firing), in_steps(drive, firing).spikes
    assert torch.equal(fused, single)
    with torch.no_grad():
        assert torch.equal(fire(drive, firing), single)
    close: Any = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    found, expected = (torch.autograd.grad((spikes * weight).sum(), drive)[0] for spikes in (fused, single))
    torch.testing.assert_close(found, expected, **close)

    shares, by_unit = weight[:, 0, 0], weight[0]
    total, expected_total = (
        fire_sum(drive, firing, shares),
        torch.einsum("t,tbu->bu", shares, in_steps(drive, firing)[0]),
    )
    torch.testing.assert_close(total, expected_total, **close)
    found, expected = (torch.autograd.grad((each * by_unit).sum(), drive)[0] for each in (total, expected_total))
    torch.testing.assert_close(found, expected, **close)


def test_spikes_and_gradients_do_not_depend_on_the_number_of_threads():
    torch.manual_seed(0)
    drive, weight = torch.randn(25, 7, 1000, requires_grad=True), torch.randn(25, 7, 1000)

    def results(threads: int) -> list[torch.Tensor]:
        with torch_threads(threads):
            spikes, total = (
                fire(drive, firing_of(LIFConfig())),
                fire_sum(drive, firing_of(LIFConfig()), weight[:, 0, 0]),
            )
            gradients = torch.autograd.grad(((spikes * weight).sum(), (total * weight[0]).sum()), drive)
            return [spikes, total, *gradients]

    for alone, together in zip(results(1), results(3), strict=True):
        assert alone.any()
        assert torch.equal(alone, together)


def test_below_the_threshold_the_gradient_is_the_formulas():
    """∂v_k/∂I = 1 − λ^k, times the slope of the smooth step at v_k."""
    firing = firing_of(LIFConfig(), steps=8, slope=3.0)
    current = torch.tensor([[0.9]], dtype=torch.double, requires_grad=True)
    weight = torch.randn(8, dtype=torch.double)
    spikes = fire(current, firing)
    assert not spikes.any()
    (spikes[:, 0, 0] * weight).sum().backward()
    k = torch.arange(1, 9, dtype=torch.double)
    v = 0.9 * (1 - torch.exp(-0.1 * k))
    slope = 1.5 / (1 + (math.pi * 1.5 * (v - 1)) ** 2)
    assert current.grad is not None
    torch.testing.assert_close(current.grad[0, 0], (weight * slope * (1 - torch.exp(-0.1 * k))).sum())


def test_nothing_is_handed_back_through_a_reset():
    kicks = torch.zeros(12, 1, 1, dtype=torch.double)
    kicks[1], kicks[6] = 1.5, 0.4
    kicks.requires_grad_()
    spikes = fire(kicks, firing_of(LIFConfig(tau_ref=4.0), steps=12))
    assert spikes[:, 0, 0].nonzero().flatten().tolist() == [2]
    (gradient,) = torch.autograd.grad(spikes[5:].sum(), kicks)
    assert gradient[:5].abs().max() == 0  # before the spike, and while the neuron was refractory
    assert (gradient[5:11] > 0).all()
    assert gradient[11] == 0  # the last arrives when all is over


# --- traps of the field -----------------------------------------------------------------------------------------------


def test_a_gradient_of_a_gradient_is_refused():
    drive = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    with pytest.raises(InputError) as error:
        torch.autograd.grad(fire(drive, firing_of(LIFConfig())).sum(), drive, create_graph=True)
    assert str(error.value) == ("a surrogate gradient has no gradient itself, but got create_graph=True: leave it out.")


def test_nothing_is_written_over_what_was_given():
    for shape in ((3, 4), (25, 3, 4)):
        drive = torch.randn(shape, dtype=torch.double, requires_grad=True)
        before, version = drive.detach().clone(), drive._version
        spikes = fire(drive, firing_of(LIFConfig()))
        gradient = torch.randn_like(spikes)
        kept = gradient.clone()
        spikes.backward(gradient)
        assert torch.equal(drive, before)
        assert drive._version == version
        assert torch.equal(gradient, kept)


def test_spikes_that_are_changed_in_place_leave_the_gradient_as_it_is():
    drive, weight = torch.randn(2, 3, dtype=torch.double, requires_grad=True), torch.randn(25, 2, 3, dtype=torch.double)
    spikes, changed = fire(drive, firing_of(LIFConfig())), fire(drive, firing_of(LIFConfig()))
    with torch.no_grad():
        changed.mul_(2)
    expected, found = (torch.autograd.grad(each, drive, weight)[0] for each in (spikes, changed))
    assert expected.any()
    assert torch.equal(found, expected)


def test_drive_that_does_not_lie_in_order_gives_the_same_spikes():
    drive = torch.randn(4, 25, 3, dtype=torch.double).permute(1, 2, 0)
    firing = firing_of(LIFConfig())
    assert torch.equal(fire(drive, firing), fire(drive.contiguous(), firing))
