"""A memory whose update is attention."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.hopfield.capacity import CRITICAL_LOAD, noisy, random_patterns
from neuropil.models.hopfield.modern import ModernHopfield, ModernHopfieldConfig, exponential_capacity
from neuropil.parts.attention import Hopfield
from neuropil.parts.attention_memory import SoftSelect


def stored(patterns: Tensor, **options: Any) -> ModernHopfield:
    return ModernHopfield(ModernHopfieldConfig(**options)).to(patterns.dtype).fit(patterns)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def formula(x: Tensor, patterns: Tensor, beta: float) -> Tensor:
    """softmax(β x Xᵀ) X, one state and one pattern at a time."""
    weights = torch.stack([torch.stack([(beta * (q * k).sum()).exp() for k in patterns]) for q in x])
    return (weights / weights.sum(1, keepdim=True)) @ patterns


@given(beta=st.floats(0.1, 5), count=st.integers(1, 6), width=st.integers(1, 5), seed=st.integers(0, 100))
def test_an_update_is_its_formula(beta: float, count: int, width: int, seed: int):
    patterns, x = normal(count, width, seed=seed), normal(4, width, seed=seed + 1)
    torch.testing.assert_close(stored(patterns, beta=beta)(x), formula(x, patterns, beta))
    twice = formula(formula(x, patterns, beta), patterns, beta)
    torch.testing.assert_close(stored(patterns, beta=beta, steps=2)(x), twice)


def test_as_a_layer_it_is_the_soft_select_of_the_house():
    x, memory = normal(3, 4, 8), normal(3, 6, 8, seed=1)
    select = SoftSelect(Hopfield(beta=2.0))
    layer = ModernHopfield(ModernHopfieldConfig(beta=2.0, width=8)).double()
    torch.testing.assert_close(layer(x, memory), select(x, select.prepare_memory(memory)))
    for example in range(3):
        torch.testing.assert_close(layer(x, memory)[example], formula(x[example], memory[example], 2.0))


def test_as_a_layer_it_learns_its_patterns():
    torch.manual_seed(0)
    layer, x = ModernHopfield(ModernHopfieldConfig(patterns=4, width=3, beta=4.0)), torch.randn(2, 16, 3)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    before = (layer(x) - x).square().mean().item()
    for _ in range(100):
        optimizer.zero_grad()
        (layer(x) - x).square().mean().backward()
        optimizer.step()
    assert (layer(x) - x).square().mean().item() < before / 2


@given(beta=st.floats(0.1, 5), count=st.integers(1, 8), width=st.integers(1, 6), seed=st.integers(0, 1000))
def test_no_update_raises_the_energy_which_is_never_negative(beta: float, count: int, width: int, seed: int):
    memory, x = stored(normal(count, width, seed=seed), beta=beta), normal(4, width, seed=seed + 1)
    energy = memory.energy(x)
    for _ in range(5):
        x = memory(x)
        assert (memory.energy(x) <= energy + 1e-9).all()
        energy = memory.energy(x)
    assert (energy >= -1e-9).all()


def test_the_update_is_a_step_of_length_one_down_the_gradient_of_the_energy():
    memory, x = stored(normal(5, 4), beta=1.5), normal(3, 4, seed=1).requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(x).sum(), x)
    torch.testing.assert_close(memory(x), x - slope)


def test_one_step_recalls_a_real_pattern_from_noise_and_a_small_beta_answers_with_the_mean():
    patterns = normal(20, 64)
    noise = patterns + 0.5 * normal(20, 64, seed=1)
    torch.testing.assert_close(stored(patterns, beta=2.0)(noise), patterns, atol=1e-6, rtol=0)
    torch.testing.assert_close(stored(patterns, beta=1e-6)(noise), patterns.mean(0).expand(20, -1), atol=1e-3, rtol=0)


def test_the_patterns_that_it_keeps_grow_exponentially_with_its_units():
    points = exponential_capacity((24, 40, 56))
    assert [point.patterns for point in points] == [2**6, 2**10, 2**14]
    assert [point.recalled for point in points] == sorted(point.recalled for point in points)
    assert points[-1].recalled > 0.95
    assert points[-1].patterns > 1000 * CRITICAL_LOAD * points[-1].units


def test_too_many_patterns_are_mixed_up():
    patterns = random_patterns(2**12, 12, torch.Generator().manual_seed(0))
    recalled = stored(patterns, beta=1.0)(noisy(patterns[:50], 0.1, torch.Generator().manual_seed(1))).sign()
    assert (recalled == patterns[:50]).all(1).double().mean() < 0.5


def test_patterns_of_another_shape_are_refused():
    with pytest.raises(InputError) as error:
        ModernHopfield(ModernHopfieldConfig()).fit(torch.zeros(3, 8, 8))
    assert str(error.value) == "ModernHopfield.fit needs patterns of the shape [pattern, width], but got [3, 8, 8]."
