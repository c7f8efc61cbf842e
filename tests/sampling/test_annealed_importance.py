"""Estimates of partition functions, beside exact ones."""

from typing import Any

import pytest
import torch

from neuropil.errors import InputError
from neuropil.models.rbm import RBM, RBMConfig
from neuropil.sampling.annealed_importance import estimate_log_partition


def machine(num_visible: int, num_hidden: int, spread: float, **options: Any) -> RBM:
    generator = torch.Generator().manual_seed(num_visible + num_hidden)
    model = RBM(RBMConfig(hidden_size=num_hidden, shape=(num_visible,), **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
    return model


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("size", [(64, 10, 0.3), (30, 16, 1.0), (64, 14, 0.6), (200, 12, 0.2)])
def test_an_estimate_is_within_a_tenth_of_a_nat_of_the_exact_value(size: tuple[int, int, float], visible: str):
    model = machine(*size, visible=visible, sigma=2.0 if visible == "gaussian" else 1.0)
    exact = model.log_partition().item()
    found = estimate_log_partition(model, walks=100, steps=1000, generator=generator())
    assert found.log_partition == pytest.approx(exact, abs=0.1)
    assert abs(found.log_partition - exact) < 4 * found.standard_error
    assert found.standard_error < 0.1


@pytest.mark.slow
def test_twenty_hidden_units_are_within_a_tenth_of_a_nat_too():
    model = machine(64, 20, 0.7)
    found = estimate_log_partition(model, walks=200, steps=3000, generator=generator())
    assert found.log_partition == pytest.approx(model.log_partition().item(), abs=0.1)


def test_the_error_bar_covers_the_exact_value_as_often_as_it_should():
    model = machine(20, 8, 0.8)
    exact = model.log_partition().item()
    found = [estimate_log_partition(model, walks=50, steps=100, generator=generator(seed)) for seed in range(40)]
    errors = torch.tensor([(each.log_partition - exact) / each.standard_error for each in found])
    assert 0.5 < (errors.abs() < 1).double().mean() < 0.85  # 0.68 of a normal distribution
    assert (errors.abs() < 3).double().mean() > 0.9


def test_independent_units_are_known_without_a_walk():
    model = machine(12, 5, 1.0)
    with torch.no_grad():
        model.weight.zero_()
        model.hidden_bias.zero_()
    found = estimate_log_partition(model, walks=2, steps=1)
    assert found.log_partition == pytest.approx(model.log_partition().item(), abs=1e-5)
    assert found.standard_error == pytest.approx(0, abs=1e-6)


def test_any_first_machine_leads_to_the_same_value():
    model = machine(30, 10, 0.5)
    exact = model.log_partition().item()
    for bias in (torch.zeros(30), 2 * torch.ones(30)):
        found = estimate_log_partition(model, walks=100, steps=500, base_bias=bias, generator=generator())
        assert found.log_partition == pytest.approx(exact, abs=0.1)


def test_log_likelihoods_by_both_agree():
    model = machine(30, 12, 0.5)
    v = torch.randint(0, 2, (5, 30), generator=generator()).float()
    estimate = estimate_log_partition(model, generator=generator())
    exact, estimated = (model.log_likelihood(v, z).detach() for z in (model.log_partition(), estimate.log_partition))
    torch.testing.assert_close(exact, estimated, atol=0.1, rtol=0, check_dtype=False)


def test_a_walk_of_no_step_is_refused():
    with pytest.raises(InputError) as error:
        estimate_log_partition(machine(3, 2, 1.0), walks=1, steps=0)
    assert str(error.value) == (
        "annealed importance sampling needs at least 2 walks of at least 1 step, but got walks=1 and steps=0."
    )
