"""What is true of a memory that falls downhill."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.hopfield.capacity import noisy, overlap, partial, random_patterns
from neuropil.models.hopfield.network import Dynamics, HopfieldNetwork, HopfieldNetworkConfig
from neuropil.models.hopfield.rules import RULES, RuleName, hebb

DYNAMICS: list[Dynamics] = ["asynchronous", "synchronous", "continuous"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network_of(patterns: Tensor, **options: Any) -> HopfieldNetwork:
    network = HopfieldNetwork(HopfieldNetworkConfig(units=patterns.shape[1], **options))
    return network.to(patterns.dtype).fit(patterns)


def arbitrary(units: int, seed: int) -> HopfieldNetwork:
    """Symmetric weights that no rule gave, and a bias."""
    network = HopfieldNetwork(HopfieldNetworkConfig(units=units)).double()
    weight = torch.randn(units, units, generator=generator(seed), dtype=torch.double)
    network.weight.copy_((weight + weight.mT).fill_diagonal_(0))
    network.bias.copy_(torch.randn(units, generator=generator(seed + 1), dtype=torch.double))
    return network


PATTERNS = random_patterns(5, 100, generator())
NETWORK = network_of(PATTERNS)


# --- energy -----------------------------------------------------------------------------------------------------------


def test_the_energy_is_the_sum_over_pairs_of_units():
    network = arbitrary(6, seed=3)
    for x in random_patterns(4, 6, generator()).double():
        pairs = sum(float(x[i] * network.weight[i, j] * x[j]) for i, j in itertools.combinations(range(6), 2))
        assert network.energy(x).item() == pytest.approx(-pairs - float(network.bias @ x))


@given(units=st.integers(1, 15), seed=st.integers(0, 100_000))
def test_asynchronous_recall_never_raises_the_energy_and_settles(units: int, seed: int):
    network, x = arbitrary(units, seed), random_patterns(3, units, generator(seed))
    energy = network.energy(x.double())
    for after in itertools.islice(network.trajectory(x, generator=generator(seed)), 4):
        assert (network.energy(after) <= energy + 1e-9).all()
        energy = network.energy(after)
    recall = network.recall(x, generator=generator(seed))
    assert recall.period.eq(1).all()
    assert torch.equal(network.recall(recall.states).states, recall.states)


@given(units=st.integers(1, 15), seed=st.integers(0, 100_000))
def test_continuous_recall_never_raises_the_energy(units: int, seed: int):
    network, x = arbitrary(units, seed), random_patterns(3, units, generator(seed))
    energy = network.energy(x.double())
    for after in itertools.islice(network.trajectory(x, "continuous"), 20):
        assert after.abs().max() <= 1
        assert (network.energy(after) <= energy + 1e-9).all()
        energy = network.energy(after)


def test_the_continuous_step_is_the_equation_within_the_cube():
    x = torch.where(torch.rand(4, 100, generator=generator()) < 0.5, 0.0, noisy(PATTERNS[:4], 0.2, generator()))
    inside = x == 0
    after = next(NETWORK.trajectory(x, "continuous"))
    # τ dx/dt = x W + b, where it does not lead out of the cube: all of these units move by the same dt
    dt = (after / (x @ NETWORK.weight + NETWORK.bias))[inside & (x @ NETWORK.weight != 0)]
    torch.testing.assert_close(dt, dt.mean().expand_as(dt))
    assert 0 < dt.mean() <= 1 / torch.linalg.matrix_norm(NETWORK.weight, 2)


# --- recall -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_a_pattern_is_recalled_from_noise_and_from_a_part(dynamics: Dynamics, rule: RuleName):
    network = network_of(PATTERNS, rule=rule)
    for start in (noisy(PATTERNS, 0.15, generator()), partial(PATTERNS, torch.arange(100) < 30)):
        recall = network.recall(start, dynamics, generator=generator())
        assert torch.equal(recall.states, PATTERNS)
        assert recall.period.eq(1).all()
    assert torch.equal(network(PATTERNS), PATTERNS)


def test_recall_is_the_loop_over_units_in_the_same_order():
    start, order = noisy(PATTERNS, 0.4, generator()), generator(7)
    x = start.clone()
    for _ in range(20):
        before = x.clone()
        for i in torch.randperm(100, generator=order):
            x[:, i] = torch.where(x @ NETWORK.weight[:, i] + NETWORK.bias[i] >= -1e-5, 1.0, -1.0)
        if torch.equal(x, before):
            break
    assert torch.equal(NETWORK.recall(start, generator=generator(7)).states, x)


@given(units=st.integers(2, 30), seed=st.integers(0, 10_000))
def test_no_flip_raises_the_energy_and_the_last_is_where_recall_settles(units: int, seed: int):
    network = arbitrary(units, seed)
    x = random_patterns(1, units, generator(seed + 2)).double()
    path = [x[0], *network.flips(x[0], generator=generator(seed))]
    energies = torch.stack([network.energy(state) for state in path])
    assert (energies.diff() < 1e-9).all()
    assert all(int((a != b).sum()) == 1 for a, b in itertools.pairwise(path))
    assert torch.equal(path[-1], network.recall(x, generator=generator(seed)).states[0])


def test_flips_leave_clamped_units_as_they_are():
    clamped = torch.arange(100) < 40
    start = noisy(PATTERNS[:1], 0.3, generator(1))[0]
    *_, last = NETWORK.flips(start, clamped=clamped, generator=generator())
    assert torch.equal(last[:40], start[:40])


def test_a_field_of_zero_switches_a_unit_on():
    network = HopfieldNetwork(HopfieldNetworkConfig(units=3))
    for dynamics in ("asynchronous", "synchronous"):
        assert torch.equal(network.recall(-torch.ones(1, 3), dynamics).states, torch.ones(1, 3))


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_clamped_units_are_held(dynamics: Dynamics):
    start, clamped = noisy(PATTERNS, 0.3, generator()), torch.zeros(5, 100, dtype=torch.bool)
    clamped[:, :20] = True
    recall = NETWORK.recall(start, dynamics, clamped=clamped, generator=generator())
    assert torch.equal(recall.states[:, :20], start[:, :20])
    assert overlap(recall.states[:, 20:], PATTERNS[:, 20:]).mean() > 0.95


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_a_mask_of_units_holds_those_of_every_state_and_others_are_refused(dynamics: Dynamics):
    start, clamped = noisy(PATTERNS, 0.3, generator()), torch.arange(100) < 20
    expected = NETWORK.recall(start, dynamics, clamped=clamped.expand(5, 100), generator=generator()).states
    for mask in (clamped, clamped[None]):
        assert torch.equal(NETWORK.recall(start, dynamics, clamped=mask, generator=generator()).states, expected)
    with pytest.raises(InputError) as error:
        NETWORK.recall(start[:1], dynamics, clamped=clamped.expand(5, 100))
    assert str(error.value) == (
        "clamped units of states [1, 100] must be a mask of truth values [100] or [1, 100], but got [5, 100] of bool."
    )


def test_a_bias_is_the_mean_of_the_patterns_and_tells_a_pattern_from_its_negative():
    patterns = torch.where(torch.rand(3, 80, generator=generator()) < 0.7, 1.0, -1.0)
    network = network_of(patterns, bias=True)
    torch.testing.assert_close(network.bias, patterns.mean(0))
    torch.testing.assert_close(network.weight, hebb(patterns))
    assert (network.energy(patterns) < network.energy(-patterns)).all()
    assert torch.equal(NETWORK.energy(PATTERNS), NETWORK.energy(-PATTERNS))


def test_the_same_generator_gives_the_same_order():
    start = random_patterns(50, 100, generator(5))
    first, second, other = (NETWORK.recall(start, generator=generator(seed)).states for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


# --- synchronous updates ----------------------------------------------------------------------------------------------


def test_two_units_that_copy_each_other_at_once_go_to_and_fro():
    network = HopfieldNetwork(HopfieldNetworkConfig(units=2)).fit(torch.ones(1, 2))
    x = torch.tensor([[1.0, -1.0], [1.0, 1.0]])
    recall = network.recall(x, "synchronous")
    assert recall.period.tolist() == [2, 1]
    assert recall.cycles.tolist() == [True, False]
    assert network.recall(x).period.tolist() == [1, 1]


@given(units=st.integers(1, 12), seed=st.integers(0, 100_000))
def test_synchronous_updates_end_in_a_fixed_point_or_in_a_cycle_of_two(units: int, seed: int):
    """Goles and Olivos 1981, for symmetric weights."""
    network, x = arbitrary(units, seed), random_patterns(4, units, generator(seed))
    recall = network.recall(x, "synchronous")
    once, twice = itertools.islice(network.trajectory(recall.states, "synchronous"), 2)
    assert recall.period.ge(1).all()
    assert torch.equal((once == recall.states).all(1), recall.period == 1)
    assert torch.equal(twice, recall.states)


def test_what_has_not_settled_says_so():
    start = random_patterns(20, 100, generator())
    recall = NETWORK.recall(start, "synchronous", most_steps=1)
    assert recall.steps == 1
    assert recall.period.eq(0).any()


# --- what is refused --------------------------------------------------------------------------------------------------


def message(call: Any, *arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        call(*arguments)
    return str(error.value)


def test_fit_refuses_pixels_and_says_how_to_map_them():
    assert message(NETWORK.fit, torch.rand(3, 100).mul(2).sub(1).clamp(-0.5, 0.5)).startswith("HopfieldNetwork.fit ")
    assert message(NETWORK.fit, torch.tensor([[0, 1] * 50])) == (
        "HopfieldNetwork.fit stores patterns of -1 and +1, but got values from 0 to 1: map your pixels first, for "
        "instance patterns = 2 * (images > 0.5) - 1."
    )


def test_recall_refuses_what_is_no_sign():
    assert message(NETWORK.recall, torch.full((1, 100), 255)) == (
        "HopfieldNetwork.recall takes states of -1 and +1, with 0 for what is not known, but got values from 255 to "
        "255: map your pixels first, for instance patterns = 2 * (images > 0.5) - 1."
    )


def test_another_number_of_units_is_refused():
    expected = "a network of 100 units needs states [batch, 100], but got [3, 64]."
    assert message(NETWORK.recall, torch.ones(3, 64)) == message(NETWORK.fit, torch.ones(3, 64)) == expected
    assert message(NETWORK.fit, torch.ones(0, 100)) == "HopfieldNetwork.fit needs at least one pattern, but got none."


def test_whole_numbers_are_signs_too():
    assert torch.equal(network_of(PATTERNS).fit(PATTERNS.long()).recall(PATTERNS.long()).states, PATTERNS)
