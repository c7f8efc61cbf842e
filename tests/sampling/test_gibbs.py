"""Machines that run freely, beside the probabilities of all of their states."""

import math
from typing import Any

import pytest
import torch
from scipy import stats
from scipy.linalg import hadamard
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.hopfield.capacity import random_patterns
from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.models.rbm import RBM, RBMConfig, binary_states
from neuropil.sampling.gibbs import (
    BoltzmannMachine,
    annealing,
    compare_updates,
    deterministic_updates,
    fantasy_particles,
    gibbs_chain,
    stochastic_updates,
)

CHAINS = 20_000


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def machine(num_visible: int = 4, num_hidden: int = 3, **options: Any) -> RBM:
    model = RBM(RBMConfig(hidden_size=num_hidden, shape=(num_visible,), **options)).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator(number), dtype=torch.double))
    return model


def joint_states() -> Tensor:
    """All states (v, h) of the small machine."""
    return binary_states(7, 0, 2**7)


def counts_of(x: Tensor) -> Tensor:
    """How often each of the states was visited."""
    return torch.bincount(x.long() @ 2 ** torch.arange(x.shape[1]), minlength=2 ** x.shape[1])


def assert_boltzmann(seen: Tensor, energies: Tensor, temperature: float = 1.0) -> None:
    """By a chi-square test, and by a total variation that independent samples would have: at most ½ Σ √(p / n) on
    average."""
    expected = (-energies / temperature).softmax(0)
    count = seen.sum()
    assert stats.chisquare(seen.numpy(), (expected * count).numpy()).pvalue > 1e-3
    assert 0.5 * (seen / count - expected).abs().sum() < 1.5 * 0.5 * (expected / count).sqrt().sum()


# --- block Gibbs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@torch.no_grad()
def test_free_running_visits_states_in_proportion_to_their_boltzmann_factors(temperature: float):
    model = machine()
    particles = fantasy_particles(model, CHAINS, [temperature] * 100, generator=generator())
    x = torch.cat([particles.visible, model.sample_hidden(particles.visible, temperature, generator(1))], 1)
    v, h = joint_states().split([4, 3], 1)
    assert_boltzmann(counts_of(x), model.energy(v, h), temperature)


@torch.no_grad()
def test_clamped_units_are_held_and_the_others_are_sampled_given_them():
    model, start = machine(), torch.zeros(CHAINS, 4).double()
    start[:, 0] = 1
    clamped = torch.tensor([True, False, False, True])
    *_, last = gibbs_chain(model, start, [1.0] * 60, clamped=clamped, generator=generator())
    assert torch.equal(last.visible[:, clamped], start[:, clamped])
    assert torch.equal(last.mean[:, clamped], start[:, clamped])
    v = binary_states(4, 0, 16)
    likely = (v[:, 0] == 1) & (v[:, 3] == 0)
    assert_boltzmann(counts_of(last.visible)[likely], model.free_energy(v[likely]))


@torch.no_grad()
def test_a_step_has_the_hidden_units_that_its_visible_units_came_from():
    model = machine()
    (step,) = gibbs_chain(model, torch.ones(5, 4).double(), [1.5], generator=generator())
    torch.testing.assert_close(step.mean, model.visible_mean(step.hidden, 1.5))
    assert set(step.visible.unique().tolist()) <= {0.0, 1.0}


@torch.no_grad()
def test_gaussian_units_run_to_the_mean_and_the_variance_of_their_mixture():
    model = machine(2, 3, visible="gaussian")
    v = fantasy_particles(model, CHAINS, [1.0] * 200, generator=generator()).visible
    h = binary_states(3, 0, 8)
    shares, means = model._log_visible_sums(h).softmax(0), model.visible_mean(h)
    mean = shares @ means
    covariance = (shares[:, None] * (means - mean)).mT @ (means - mean) + torch.eye(2).double()
    torch.testing.assert_close(v.mean(0), mean, atol=0.03, rtol=0)
    torch.testing.assert_close(v.mT.cov(), covariance, atol=0.06, rtol=0)


def test_the_same_generator_gives_the_same_particles_whatever_else_is_drawn():
    model = machine()
    first = fantasy_particles(model, 20, generator=generator(3))
    torch.rand(7)
    second, other = (fantasy_particles(model, 20, generator=generator(seed)) for seed in (3, 4))
    assert torch.equal(first.visible, second.visible)
    assert not torch.equal(first.visible, other.visible)
    assert not first.mean.requires_grad


# --- single units -----------------------------------------------------------------------------------------------------


def test_an_rbm_is_a_boltzmann_machine_of_both_layers():
    model, x = machine(), joint_states()
    torch.testing.assert_close(BoltzmannMachine.of_rbm(model).energy(x), model.energy(*x.split([4, 3], 1)))


def test_a_hopfield_network_is_a_boltzmann_machine_of_signs():
    network = HopfieldNetwork(HopfieldNetworkConfig(units=20)).fit(random_patterns(2, 20, generator()))
    x = BoltzmannMachine.of_hopfield(network).random_states(10, generator())
    assert set(x.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(BoltzmannMachine.of_hopfield(network).energy(x), network.energy(x))
    *_, stopped = deterministic_updates(BoltzmannMachine.of_hopfield(network), x, generator=generator(1))
    assert torch.equal(stopped, network.recall(x, generator=generator(1)).states)


def test_single_units_visit_the_same_states_as_blocks():
    model = machine()
    start = torch.zeros(CHAINS, 7).double()
    *_, x = stochastic_updates(BoltzmannMachine.of_rbm(model), start, [1.0] * 100, generator=generator())
    assert_boltzmann(counts_of(x), BoltzmannMachine.of_rbm(model).energy(joint_states()).detach())


def test_deterministic_updates_stop_where_no_unit_can_lower_the_energy():
    boltzmann = BoltzmannMachine.of_rbm(machine(6, 6))
    *_, x = deterministic_updates(boltzmann, boltzmann.random_states(50, generator()), generator=generator())
    for unit in range(12):
        changed = x.clone()
        changed[:, unit] = 1 - changed[:, unit]
        assert (boltzmann.energy(changed) >= boltzmann.energy(x)).all()


def test_deterministic_updates_get_stuck_in_mixtures_of_patterns_where_annealed_ones_do_not():
    """Orthogonal patterns are equally deep, so that a network is stuck wherever it ends at none of them."""
    patterns = torch.from_numpy(hadamard(64)[1:6]).float()
    network = HopfieldNetwork(HopfieldNetworkConfig(units=64)).fit(patterns)
    boltzmann = BoltzmannMachine.of_hopfield(network)
    starts = boltzmann.random_states(300, generator())
    found = compare_updates(boltzmann, starts, annealing(15.0, 1.0, 200), generator=generator(1))
    torch.testing.assert_close(found.deterministic[0], network.energy(starts))
    assert (found.deterministic.diff(dim=0) <= 1e-4).all()
    assert (found.stochastic.diff(dim=0) > 1).any()
    assert found.lowest == pytest.approx(network.energy(patterns).min().item())
    assert found.stuck(found.deterministic) > 0.2
    assert found.stuck(found.stochastic) < 0.01


@pytest.mark.slow
def test_annealed_updates_find_the_lowest_of_all_states_more_often():
    weight = torch.randn(16, 16, generator=generator(), dtype=torch.double)
    boltzmann = BoltzmannMachine((weight + weight.mT).fill_diagonal_(0), torch.zeros(16).double(), off=-1.0)
    starts = boltzmann.random_states(300, generator(1))
    found = compare_updates(boltzmann, starts, annealing(8.0, 0.1, 300), generator=generator(2))
    assert found.lowest == pytest.approx(boltzmann.energy(2 * binary_states(16, 0, 2**16) - 1).min().item())
    assert found.stuck(found.deterministic) > 2 * found.stuck(found.stochastic)


# --- temperatures -----------------------------------------------------------------------------------------------------


def test_annealing_falls_by_the_same_factor_in_every_step():
    temperatures = annealing(10.0, 0.1, 5)
    assert temperatures == pytest.approx([10, math.sqrt(10), 1, 1 / math.sqrt(10), 0.1])


@pytest.mark.parametrize("steps", [1, 2, 3, 1000])
def test_annealing_ends_at_the_last_temperature(steps: int):
    temperatures = annealing(7.0, 0.3, steps)
    assert len(temperatures) == steps
    assert temperatures[-1] == 0.3


def message(call: Any, *arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        call(*arguments)
    return str(error.value)


def test_a_temperature_of_zero_is_refused():
    expected = (
        "the temperature of stochastic units must be above 0, but got 0: lower it to 0.01 for units that hardly err."
    )
    assert message(fantasy_particles, machine(), 3, [1.0, 0.0]) == expected
    assert message(annealing, 1.0, 0.0) == expected


def test_no_chain_and_no_step_are_refused():
    assert message(fantasy_particles, machine(), 0) == (
        "fantasy particles need at least one chain of one step, but got 0 chains of 1000 steps."
    )
    assert message(fantasy_particles, machine(), 3, []) == (
        "fantasy particles need at least one chain of one step, but got 3 chains of 0 steps."
    )


def test_weights_without_an_energy_are_no_boltzmann_machine():
    rule = "the weights of a Boltzmann machine must be symmetric with a zero diagonal"
    assert message(BoltzmannMachine, torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), torch.zeros(2)) == (
        f"{rule}, but got differences of up to 2: take (weight + weight.mT) / 2."
    )
    assert message(BoltzmannMachine, torch.tensor([[0.0, 1.0], [1.0, -3.0]]), torch.zeros(2)) == (
        f"{rule}, but got 3 on the diagonal: take weight.fill_diagonal_(0)."
    )


def test_a_mask_of_other_chains_is_refused():
    chain = gibbs_chain(machine(), torch.zeros(1, 4).double(), [1.0], clamped=torch.ones(3, 4, dtype=torch.bool))
    assert message(next, chain) == (
        "clamped units of states [1, 4] must be a mask of truth values [4] or [1, 4], but got [3, 4] of bool."
    )


def test_gaussian_units_are_no_boltzmann_machine():
    assert message(BoltzmannMachine.of_rbm, machine(2, 2, visible="gaussian")) == (
        "a Boltzmann machine has binary units, but got an RBM of Gaussian visible units."
    )
