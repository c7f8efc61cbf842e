"""Updates of single units, beside loops that compute every field anew."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts.binary_units.energy_gaps import UNITS_FOR_THREADS, UnitUpdates, fields, pairwise_energy

OFF = pytest.mark.parametrize("off", [-1.0, 0.0])


def machine(units: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(units, units, generator=generator, dtype=torch.double)
    weight = (weight + weight.mT) / 2
    return weight.fill_diagonal_(0), torch.randn(units, generator=generator, dtype=torch.double)


def states(units: int, off: float) -> Tensor:
    return torch.tensor(list(itertools.product((off, 1.0), repeat=units)), dtype=torch.double)


@OFF
def test_the_field_of_a_unit_is_its_energy_gap(off: float):
    weight, bias = machine(5)
    for unit in range(5):
        on, out = states(5, off), states(5, off)
        on[:, unit], out[:, unit] = 1, off
        gap = pairwise_energy(on, weight, bias) - pairwise_energy(out, weight, bias)
        torch.testing.assert_close(gap, -(1 - off) * fields(on, weight, bias)[:, unit])


@OFF
@given(units=st.integers(1, 12), seed=st.integers(0, 10_000))
def test_a_sweep_is_the_loop_over_units_and_never_raises_the_energy(off: float, units: int, seed: int):
    weight, bias = machine(units, seed)
    generator = torch.Generator().manual_seed(seed)
    begin = torch.where(torch.rand(4, units, generator=generator) < 0.5, 1.0, off).double()
    updates, expected = UnitUpdates(begin, weight, bias, off=off), begin.clone()
    for _ in range(3):
        order = torch.randperm(units, generator=generator)
        before = pairwise_energy(expected, weight, bias)
        for unit in order:
            expected[:, unit] = torch.where(expected @ weight[:, unit] + bias[unit] >= 0, 1.0, off)
        updates.sweep(order)
        assert torch.equal(updates.states, expected)
        assert (pairwise_energy(updates.states, weight, bias) <= before + 1e-12).all()


def test_threads_share_the_states_and_change_no_sweep(monkeypatch: pytest.MonkeyPatch):
    weight, bias = machine(40)
    begin = 1 - 2 * torch.randint(0, 2, (UNITS_FOR_THREADS // 40 + 1, 40), generator=torch.Generator()).double()
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        updates, sweeps = UnitUpdates(begin, weight, bias, off=-1.0), 0
        assert len(updates._team.members) == threads
        while sweeps < 100 and not updates.settled.all():
            updates.sweep(torch.arange(40))
            sweeps += 1
        found.append(updates.states)
        assert 2 < sweeps < 100
    assert torch.equal(*found)
    assert (fields(found[0], weight, bias) * found[0] >= 0).all()


@pytest.mark.parametrize("num_patterns", [3, 6, 10, 31])
def test_ties_go_to_one_as_in_exact_arithmetic(num_patterns: int):
    """Hebb's weights are k / M with whole k. In single precision the k / M that cancel leave a rest of either sign."""
    units, generator = 61, torch.Generator().manual_seed(num_patterns)
    patterns = 2 * torch.randint(0, 2, (num_patterns, units), generator=generator) - 1
    counts = (patterns.T @ patterns).fill_diagonal_(0)
    exact = 2 * torch.randint(0, 2, (200, units), generator=generator) - 1
    updates = UnitUpdates(exact.float(), counts / num_patterns, torch.zeros(units), off=-1.0)
    ties = 0
    for _ in range(3):
        order = torch.randperm(units, generator=generator)
        for unit in order:
            field = exact @ counts[:, unit]
            ties += int((field == 0).sum())
            exact[:, unit] = torch.where(field >= 0, 1, -1)
        updates.sweep(order)
        assert torch.equal(updates.states, exact.float())
    assert ties > 0


def test_a_state_is_settled_when_a_whole_sweep_changes_nothing():
    weight, bias = machine(8)
    updates = UnitUpdates(states(8, -1.0), weight, bias, off=-1.0)
    while not updates.settled.all():
        before, settled = updates.states.clone(), updates.settled.clone()
        updates.sweep(torch.arange(8))
        unchanged = (updates.states == before).all(1)
        assert torch.equal(updates.settled, unchanged)
        assert (settled <= unchanged).all()
    minima = fields(updates.states, weight, bias) * updates.states
    assert (minima >= 0).all()


def test_clamped_units_and_the_given_state_stay_as_they_are():
    weight, bias = machine(8)
    begin, clamped = states(8, -1.0), torch.rand(256, 8, generator=torch.Generator().manual_seed(0)) < 0.5
    updates, given_before = UnitUpdates(begin, weight, bias, off=-1.0, clamped=clamped), begin.clone()
    updates.sweep(torch.arange(8))
    updates.stochastic_sweep(torch.arange(8), 5.0, torch.Generator().manual_seed(0))
    assert torch.equal(updates.states[clamped], begin[clamped])
    assert not torch.equal(updates.states, begin)
    assert torch.equal(begin, given_before)


@OFF
@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_stochastic_updates_visit_states_in_proportion_to_their_boltzmann_factors(off: float, temperature: float):
    units, count = 4, 20_000
    weight, bias = machine(units)
    generator = torch.Generator().manual_seed(0)
    updates = UnitUpdates(torch.full((count, units), off), weight, bias, off=off)
    for _ in range(60):
        updates.stochastic_sweep(torch.randperm(units, generator=generator), temperature, generator)
    places = ((updates.states == 1).long() * 2 ** torch.arange(units).flip(0)).sum(1)
    seen = torch.bincount(places, minlength=2**units) / count
    expected = (-pairwise_energy(states(units, off), weight, bias) / temperature).softmax(0)
    # The total variation of independent samples is on average at most ½ Σ √(p / n).
    bound = 0.5 * (expected / count).sqrt().sum()
    assert 0.5 * (seen - expected).abs().sum() < 1.5 * bound


def test_a_cold_unit_does_what_a_deterministic_one_does():
    weight, bias = machine(6)
    cold, sure = (UnitUpdates(states(6, 0.0), weight, bias, off=0.0) for _ in range(2))
    cold.stochastic_sweep(torch.arange(6), 1e-6, torch.Generator().manual_seed(0))
    sure.sweep(torch.arange(6))
    assert torch.equal(cold.states, sure.states)
    assert np.isfinite(cold._fields).all()


@pytest.mark.parametrize("shape", [(8,), (1, 8)])
def test_a_mask_for_one_state_holds_for_all(shape: tuple[int, ...]):
    weight, bias = machine(8)
    held = torch.rand(8, generator=torch.Generator().manual_seed(0)) < 0.5
    begin = states(8, -1.0)
    one, each = (
        UnitUpdates(begin, weight, bias, off=-1.0, clamped=mask)
        for mask in (held.view(shape), held.expand(len(begin), 8))
    )
    for updates in (one, each):
        updates.sweep(torch.arange(8))
        updates.stochastic_sweep(torch.arange(8), 5.0, torch.Generator().manual_seed(0))
    assert torch.equal(one.states, each.states)
    assert torch.equal(one.states[:, held], begin[:, held])


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(
    ("clamped", "got"),
    [
        (torch.ones(2, 4, dtype=torch.bool), "[2, 4] of bool"),
        (torch.ones(3, 1, dtype=torch.bool), "[3, 1] of bool"),
        (torch.ones(3, dtype=torch.bool), "[3] of bool"),
        (torch.ones(3, 4), "[3, 4] of float32"),
    ],
)
def test_a_mask_that_fits_no_states_is_refused(clamped: Tensor, got: str):
    weight, bias = machine(4)
    assert refused(lambda: UnitUpdates(states(4, 0.0)[:3], weight, bias, off=0.0, clamped=clamped)) == (
        f"clamped units of states [3, 4] must be a mask of truth values [4] or [3, 4], but got {got}."
    )


def test_an_order_of_other_units_is_refused():
    weight, bias = machine(4)
    updates = UnitUpdates(states(4, 0.0), weight, bias, off=0.0)
    for sweep in (updates.sweep, lambda order: updates.stochastic_sweep(order, 1.0)):
        rule = "an order of updates must have units from 0 to 3, but got"
        assert refused(lambda sweep=sweep: sweep(torch.tensor([0, 4]))) == f"{rule} 0 to 4."
        assert refused(lambda sweep=sweep: sweep(torch.tensor([-1, 2]))) == f"{rule} -1 to 2."
        rule = "an order of updates must be a row of whole numbers, but got"
        assert refused(lambda sweep=sweep: sweep(torch.ones(4))) == f"{rule} [4] of float32."
        assert refused(lambda sweep=sweep: sweep(torch.arange(4)[None])) == f"{rule} [1, 4] of int64."


def test_machines_of_other_shapes_and_of_few_digits_are_refused():
    weight, bias = machine(4)
    x = states(4, 0.0)
    rule = "binary units need states [batch, unit], weights [unit, unit] and biases [unit], but got"
    assert refused(lambda: UnitUpdates(x[0], weight, bias, off=0.0)) == f"{rule} [4], [4, 4] and [4]."
    assert refused(lambda: UnitUpdates(x[:, :3], weight, bias, off=0.0)) == f"{rule} [16, 3], [4, 4] and [4]."
    assert refused(lambda: UnitUpdates(x, weight[:3], bias, off=0.0)) == f"{rule} [16, 4], [3, 4] and [4]."
    assert refused(lambda: UnitUpdates(x, weight, bias[:1], off=0.0)) == f"{rule} [16, 4], [4, 4] and [1]."
    for dtype in (torch.bfloat16, torch.float16):
        assert refused(lambda dtype=dtype: UnitUpdates(x, weight.to(dtype), bias, off=0.0)) == (
            "weights of binary units must be in single or double precision, "
            f"but got [4, 4] of {str(dtype).removeprefix('torch.')}."
        )
