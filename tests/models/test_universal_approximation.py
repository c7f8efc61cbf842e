import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.universal_approximation import (
    UniversalApproximator,
    UniversalApproximatorConfig,
    approximate,
    modulus_of_continuity,
)
from neuropil.parts.expression import Expression

FUNCTIONS = [
    "sin(3*x) + x^2",
    "abs(x - 0.3)",
    "sqrt(abs(x))",
    "exp(-x^2)",
    "3",
    "max(x, 0) - 2*min(x, 0.5)",
    "tanh(20*x)",
]


def net(units: int, steepness: float = 50, low: float = 0, high: float = 1) -> UniversalApproximator:
    return UniversalApproximator(
        UniversalApproximatorConfig(hidden_size=units, steepness=steepness, low=low, high=high)
    )


def test_a_piece_is_one_inside_and_zero_outside():
    approximator = net(units=9, steepness=200.0)
    centers = approximator.centers()
    torch.testing.assert_close(approximator.pieces(centers), torch.eye(8, dtype=torch.double))


def test_the_net_is_the_sum_of_heights_times_pieces():
    approximator, f, x = (
        net(units=12, steepness=3.0, low=-2, high=2),
        torch.sin,
        torch.linspace(-3, 3, 50, dtype=torch.double),
    )
    approximator.fit(f)
    torch.testing.assert_close(approximator(x), approximator.pieces(x) @ f(approximator.centers()))


def test_it_is_an_ordinary_net_with_one_hidden_layer():
    approximator = net(units=12).fit(torch.sin)
    ordinary = torch.nn.Sequential(approximator.hidden, torch.nn.Sigmoid(), approximator.output)
    x = torch.rand(20, dtype=torch.double)
    torch.testing.assert_close(ordinary(x[:, None])[:, 0], approximator(x))


@settings(deadline=None, max_examples=60)
@given(
    text=st.sampled_from(FUNCTIONS),
    units=st.integers(3, 200),
    steepness=st.floats(0.5, 500),
    low=st.floats(-3, 0),
    length=st.floats(0.1, 6),
)
def test_the_error_is_never_above_what_the_proof_promises(
    text: str, units: int, steepness: float, low: float, length: float
):
    f = Expression(text)
    approximator = net(units=units, steepness=steepness, low=low, high=low + length).fit(f)
    assert approximator.error(f) <= approximator.bound(f) + 1e-9


def test_steep_steps_come_down_to_the_change_over_half_a_piece():
    f = Expression("sin(5*x)")
    approximator = net(units=50, steepness=300.0).fit(f)
    half_a_piece = 5 * approximator.config.delta / 2  # the slope is at most 5
    assert approximator.error(f) <= half_a_piece + 1e-9


def test_the_error_falls_as_one_over_the_units_where_the_slope_is_bounded():
    f = Expression("sin(3*x) + x^2")
    config = UniversalApproximatorConfig(low=-2, high=2)
    errors = [UniversalApproximator(replace(config, hidden_size=units)).fit(f).error(f) for units in (34, 66, 130, 258)]
    for coarse, fine in pairwise(errors):
        assert math.isclose(coarse / fine, 2, rel_tol=0.1)


@pytest.mark.parametrize("epsilon", [0.5, 0.05])
@pytest.mark.parametrize("text", FUNCTIONS)
def test_every_continuous_function_is_met_within_epsilon(text: str, epsilon: float):
    f = Expression(text)
    approximator = approximate(f, epsilon, low=-1, high=1)
    between = torch.rand(500, dtype=torch.double) * 2 - 1
    assert approximator.error(f, between) <= epsilon


def test_a_jump_is_met_by_no_number_of_units():
    with pytest.raises(InputError) as error:
        approximate(Expression("sign(x - 0.123)"), 0.1)
    assert str(error.value) == (
        "2,048 units must promise an error of at most 0.1, but got 2: "
        "allow a larger error, or see whether the function is continuous on the interval."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "1/x",
            "1/x must be finite on the whole interval, but got inf at x = 0: "
            "move the ends of the interval or change the function.",
        ),
        (
            "log(x)",
            "log(x) must be finite on the whole interval, but got nan at x = -1: "
            "move the ends of the interval or change the function.",
        ),
    ],
)
def test_a_function_without_a_value_is_refused_by_the_place(text: str, sentence: str):
    for units in (8, 9):
        with pytest.raises(InputError) as error:
            net(units=units, low=-1, high=1).fit(Expression(text))
        assert str(error.value) == sentence


def test_an_interval_must_have_a_length():
    with pytest.raises(InputError) as error:
        UniversalApproximatorConfig(low=1, high=1)
    assert str(error.value) == "the interval must be finite, with low < high, but got low=1 and high=1."


def test_the_modulus_of_continuity_of_a_line_is_its_slope_times_the_distance():
    assert math.isclose(modulus_of_continuity(torch.linspace(0, 10, 101, dtype=torch.double), window=7), 0.7)


def test_it_can_be_trained_further():
    f, x = torch.sin, torch.linspace(0, 1, 200, dtype=torch.double)
    approximator = net(units=6).fit(f)
    before = (approximator(x) - f(x)).square().mean().item()
    optimizer = torch.optim.Adam(approximator.output.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        (approximator(x) - f(x)).square().mean().backward()
        optimizer.step()
    assert (approximator(x) - f(x)).square().mean().item() < before
