import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.models.universal_approximation import (
    SQUASHING,
    RidgeApproximator,
    RidgeApproximatorConfig,
    Squashing,
    UniversalApproximator,
    UniversalApproximatorConfig,
    approximate,
    korovkin_coefficients,
    modulus_of_continuity,
    ridge_amplitudes,
    ridge_directions,
    unit_grid,
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


# --- any squashing function -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SQUASHING, "x/(1+abs(x))", "1/(1+exp(-x))"])
def test_a_squashing_function_rises_from_zero_to_one(name: str):
    squashing = Squashing(name)
    values = squashing(torch.tensor([-1e9, -1.0, 1.0, 1e9], dtype=torch.double)).tolist()
    assert values == sorted(values)
    assert (values[0], values[-1]) == pytest.approx((0, 1), abs=1e-8)
    assert squashing.tail(squashing.steepness_for(1e-4) / 2) <= 1e-4


def test_the_tails_are_those_of_the_formulas():
    assert Squashing("logistic").tail(5) == pytest.approx(1 / (1 + math.exp(5)))
    assert Squashing("arctan").tail(5) == pytest.approx(0.5 - math.atan(5) / math.pi)
    assert Squashing("tanh").tail(5) == pytest.approx((1 - math.tanh(5)) / 2)
    assert Squashing("threshold").tail(5) == 0
    assert Squashing("max(x, 0)/(1 + max(x, 0))").tail(5) == pytest.approx(1 / 6)  # the longer of two tails


@settings(deadline=None, max_examples=20)
@given(
    name=st.sampled_from([*SQUASHING, "x/(1+abs(x))"]),
    text=st.sampled_from(FUNCTIONS),
    units=st.integers(3, 60),
    steepness=st.floats(0.5, 5000),
)
def test_the_bound_holds_for_every_squashing_function(name: str, text: str, units: int, steepness: float):
    f = Expression(text)
    config = UniversalApproximatorConfig(hidden_size=units, steepness=steepness, squashing=name, low=-1, high=1)
    approximator = UniversalApproximator(config).fit(f)
    assert approximator.error(f) <= approximator.bound(f) + 1e-9


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("max(x, 0)", "'max(x, 0)', which goes from 0 to 1e+15"),
        ("-tanh(x)", "'-tanh(x)', which goes from 1 to -1"),
        ("tanh(x) + sin(x)*exp(-x^2)*9", "'tanh(x) + sin(x)*exp(-x^2)*9', which does not everywhere"),
        ("exp(x)/(1+exp(x))", "'exp(x)/(1+exp(x))', which goes from 0 to nan"),
    ],
)
def test_what_does_not_squash_is_refused(name: str, got: str):
    with pytest.raises(InputError) as error:
        Squashing(name)
    assert str(error.value) == (
        f"a squashing function must rise between two finite limits and never fall, but got {got}: take logistic, "
        "arctan, tanh, threshold, or a formula such as x/(1+abs(x))."
    )


# --- several variables ------------------------------------------------------------------------------------------------

SEVERAL = {
    1: ["sin(3*x)", "abs(x - 0.4)"],
    2: ["sin(3*x)*y", "abs(x - y)", "max(x, y)^2", "2"],
    3: ["x*y*z", "sin(x + 2*y)*z", "abs(x - 0.3) + max(y, z)"],
}


def ridges(dimensions: int, degree: int, pieces: int = 12, **options: float | str) -> RidgeApproximator:
    config = RidgeApproximatorConfig(dimensions=dimensions, degree=degree, pieces=pieces)
    return RidgeApproximator(config.override(**options))


def of(text: str, dimensions: int) -> Expression:
    return Expression(text, ("x", "y", "z")[:dimensions])


def test_the_kernel_is_positive_and_its_first_coefficient_is_that_of_korovkin():
    for degree in (1, 4, 9):
        rho = korovkin_coefficients(degree)
        t = torch.linspace(-math.pi, math.pi, 501, dtype=torch.double)
        kernel = 2 * torch.cos(torch.arange(degree + 1) * t[:, None]) @ rho - 1  # 1 + 2 Σ ρ_j cos(jt)
        assert kernel.min() > -1e-9
        assert rho[1].item() == pytest.approx(math.cos(math.pi / (degree + 2)))


def test_ridges_are_all_directions_and_none_twice():
    for dimensions, degree in ((1, 3), (2, 2), (3, 2)):
        found = {tuple(k) for k in ridge_directions(dimensions, degree).tolist()}
        assert len(found) == ((2 * degree + 1) ** dimensions - 1) // 2
        assert not found & {tuple(-each for each in k) for k in found}


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_ridges_add_up_to_the_smoothed_series_of_a_product_of_cosines(dimensions: int):
    """Of f = Π cos(π kᵢ xᵢ) the kernel leaves Π ρ_kᵢ f, and nothing else."""
    degree, k = 4, (2, 1, 3)[:dimensions]
    directions = ridge_directions(dimensions, degree)

    def f(*x: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.cos(math.pi * each * axis) for each, axis in zip(k, x, strict=True)]).prod(0)

    constant, amplitudes = ridge_amplitudes(f, dimensions, degree, directions)
    points = torch.rand(40, dimensions, dtype=torch.double)
    series = constant + torch.cos(math.pi * points @ directions.double().T) @ amplitudes
    rho = korovkin_coefficients(degree)
    torch.testing.assert_close(series, rho[list(k)].prod() * f(*points.unbind(1)))


@settings(deadline=None, max_examples=15)
@given(
    case=st.sampled_from([(n, text) for n, texts in SEVERAL.items() for text in texts]),
    degree=st.integers(1, 3),
    pieces=st.integers(2, 10),
    steepness=st.floats(1, 1000),
    squashing=st.sampled_from(["logistic", "arctan", "threshold"]),
)
def test_the_error_on_the_cube_is_never_above_the_bound(
    case: tuple[int, str], degree: int, pieces: int, steepness: float, squashing: str
):
    dimensions, text = case
    f = of(text, dimensions)
    net = ridges(dimensions, degree, pieces, steepness=steepness, squashing=squashing).fit(f)
    assert net.error(f, side=9) <= net.bound(f, side=9) + 1e-9


@pytest.mark.parametrize(("dimensions", "text", "degree"), [(2, "sin(3*x)*y + x*y^2", 8), (3, "x*y*z", 5)])
def test_the_error_of_the_cosines_falls_as_the_distance_of_the_kernel(dimensions: int, text: str, degree: int):
    """A reflected slope has a kink at the border, where a kernel of mean distance r is off by about a slope times r."""
    f = of(text, dimensions)
    coarse, fine = (ridges(dimensions, m, 24).fit(f).error(f, side=5) for m in (1, degree))
    assert fine / coarse == pytest.approx(math.sin(math.pi / (2 * degree + 4)) / math.sin(math.pi / 6), rel=0.3)


def test_it_is_an_ordinary_net_with_one_hidden_layer_on_the_cube():
    net = ridges(2, 2).fit(of("x*y", 2))
    x = unit_grid(2, 5)
    ordinary = torch.nn.Sequential(net.hidden, torch.nn.Sigmoid(), net.output)
    torch.testing.assert_close(ordinary(x)[:, 0], net(x))


def test_a_net_of_several_variables_refuses_what_it_cannot_be():
    with pytest.raises(InputError) as error:
        ridges(3, 12, 100)
    assert str(error.value).startswith("at most 262,144 units are constructed, but got ")
    with pytest.raises(InputError) as error:
        ridges(2, 1).fit(of("1/(x - 0.25)", 2))
    assert str(error.value) == (
        "1/(x - 0.25) must be finite on the whole cube, but got inf at (0.25, 0.25): change the function."
    )
