"""What is true of a value that a population carries, and of its decoders."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from neuropil.errors import InputError
from neuropil.models.lif import LIF, LIFConfig
from neuropil.models.population import (
    Method,
    Population,
    ball,
    condition_number,
    decoding_error,
    gram_eigenvalues,
    solve_decoders,
    values_of,
)

METHODS: list[Method] = ["cholesky", "conjugate gradients"]
GRID = np.linspace(-1, 1, 501)


def tuned(neurons: int, points: int, width: float = 0.3) -> np.ndarray:
    """Tuning curves that are no LIF's: bumps."""
    x, centre = np.linspace(-1, 1, points)[:, None], np.linspace(-1, 1, neurons)
    return 80 * np.exp(-((x - centre) ** 2) / (2 * width**2))


# --- encoding ---------------------------------------------------------------------------------------------------------


def test_a_neuron_begins_at_its_intercept_and_ends_at_its_highest_rate():
    intercepts, max_rates = np.array([-0.5, 0.0, 0.7]), np.array([50.0, 150.0, 390.0])
    population = Population(3, intercepts=intercepts, max_rates=max_rates, encoders=np.array([[1.0], [1.0], [-1.0]]))
    along = np.array([1.0, 1.0, -1.0])
    for neuron in range(3):
        x = along[neuron] * np.array([intercepts[neuron] - 1e-6, intercepts[neuron] + 1e-3, 1.0])
        silent, awake, highest = population.rates(x)[:, neuron]
        assert silent == 0
        assert awake > 0
        assert highest == pytest.approx(max_rates[neuron])


def test_tuning_curves_are_what_the_neurons_do():
    population, x = Population(12, seed=3), np.array([-0.8, 0.1, 0.6])
    for value, rates in zip(x, population.rates(x), strict=True):
        counted = LIF(LIFConfig()).simulate(
            torch.from_numpy(population.currents(np.array([value]))[0]), duration=4000.0, dt=0.1
        )
        np.testing.assert_allclose(counted.rates().numpy(), rates, rtol=5e-3, atol=0.5)


@settings(deadline=None, max_examples=20)
@given(neurons=st.integers(1, 40), dimensions=st.integers(1, 6), radius=st.floats(0.1, 50), seed=st.integers(0, 1000))
def test_encoders_have_length_one_and_points_lie_within_the_radius(
    neurons: int, dimensions: int, radius: float, seed: int
):
    population = Population(neurons, dimensions, radius=radius, seed=seed)
    np.testing.assert_allclose(np.linalg.norm(population.encoders, axis=1), 1)
    assert np.linalg.norm(population.points, axis=1).max() <= radius * (1 + 1e-9)
    assert population.rates(population.points).shape == (len(population.points), neurons)


@pytest.mark.parametrize("dimensions", [2, 3, 5])
def test_drawn_encoders_and_points_favour_no_direction(dimensions: int):
    encoders, points = Population(4000, dimensions).encoders, ball(4000, dimensions, 1.0, 0)
    np.testing.assert_allclose(encoders.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(encoders.T @ encoders / 4000, np.eye(dimensions) / dimensions, atol=0.02)
    np.testing.assert_allclose(points.mean(0), 0, atol=0.02)
    # of a ball, the share within half the radius
    assert np.mean(np.linalg.norm(points, axis=1) < 0.5) == pytest.approx(0.5**dimensions, abs=0.01)


def test_the_same_seed_draws_the_same_population_and_another_seed_another():
    first, second, other = (Population(30, seed=seed).rates(GRID) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 10


# --- decoding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=15)
@given(
    neurons=st.integers(1, 25),
    points=st.integers(2, 60),
    outputs=st.integers(1, 3),
    noise=st.floats(0.01, 1),
    seed=st.integers(0, 999),
)
def test_decoders_are_ridge_regression(
    method: Method, neurons: int, points: int, outputs: int, noise: float, seed: int
):
    rng = np.random.default_rng(seed)
    activities, values = 300 * rng.random((points, neurons)), rng.normal(size=(points, outputs))
    ridge = Ridge(alpha=points * (noise * activities.max()) ** 2, fit_intercept=False, solver="svd").fit(
        activities, values
    )
    ours = solve_decoders(activities, values, noise, method)
    np.testing.assert_allclose(ours, ridge.coef_.reshape(outputs, neurons).T, rtol=1e-6, atol=1e-9)


def test_any_tuning_curves_can_be_decoded():
    activities, wanted = tuned(40, 300), np.sin(3 * np.linspace(-1, 1, 300))[:, None]
    decoders = solve_decoders(activities, wanted, 0.01)
    assert decoding_error(activities, decoders, wanted, 0.01).distortion < 0.01


def test_fifty_neurons_that_expect_noise_of_a_fifth_decode_exact_rates_to_fourteen_thousandths():
    """σ = 0.2 of the highest rate when the decoders are solved; the error is that of the rates themselves, without
    noise."""
    distortions = [
        Population(50, max_rates=(100.0, 200.0), noise=0.2, seed=seed).error().distortion for seed in range(10)
    ]
    assert max(distortions) <= 0.014


def test_the_formula_for_the_error_of_noisy_rates_is_what_noise_does():
    population, x = Population(50, noise=0.2), np.linspace(-1, 1, 1000)[:, None]
    rates, decoders = population.rates(x), population.decoders()
    noise = 0.2 * rates.max() * np.random.default_rng(0).normal(size=(40, *rates.shape))
    measured = np.sqrt(np.square((rates + noise) @ decoders - x).mean())
    assert measured == pytest.approx(population.error().total, rel=0.02)


def test_decoders_that_expect_the_noise_bear_it_better_than_others():
    population, x = Population(60), np.linspace(-1, 1, 400)[:, None]
    rates = population.rates(x)
    total = {
        solved: decoding_error(rates, population.decoders(noise=solved), x, 0.1).total
        for solved in (0.001, 0.03, 0.1, 0.3, 1.0)
    }
    assert min(total, key=lambda solved: total[solved]) == 0.1


def test_the_error_of_noisy_rates_falls_with_the_root_of_the_neurons():
    sizes = (25, 50, 100, 200, 400)
    errors = [np.mean([Population(size, noise=0.1, seed=seed).error().total for seed in range(4)]) for size in sizes]
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.04)


def test_the_error_of_exact_rates_falls_at_least_as_the_number_of_neurons_grows():
    sizes = (20, 40, 80, 160)
    errors = [
        np.mean([Population(size, noise=1e-4, seed=seed).error().distortion for seed in range(4)]) for size in sizes
    ]
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] < -0.95


@pytest.mark.parametrize("function", [lambda x: x**2, lambda x: np.sin(3 * x), lambda x: np.abs(x)])
def test_functions_of_the_value_are_decoded(function):
    assert Population(200, noise=0.02).error(function).distortion < 0.01


def test_vectors_and_functions_of_them_are_decoded():
    population = Population(800, 3, noise=0.02)
    assert population.error().distortion < 0.03
    assert population.error(lambda x: [x[0] * x[1], x[2] ** 2]).distortion < 0.03


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neurons": 0}, "a population must have at least one neuron and one dimension, but got 0 and 1."),
        ({"radius": 0.0}, "the radius must be a number above 0, but got 0."),
        ({"noise": -0.1}, "noise must be a share of the highest rate, 0 or more, but got -0.1."),
        (
            {"max_rates": (200.0, 500.0)},
            "max_rates must be above 0 and below 500 Hz, which the refractory period allows, but got 200 to 500 Hz.",
        ),
        (
            {"max_rates": (300.0, 200.0)},
            "max_rates must be a pair of the lowest and the highest, but got (300.0, 200.0).",
        ),
        ({"intercepts": (0.0, 1.0)}, "intercepts must be below 1, where the highest rate is reached, but got 1."),
        ({"gains": np.ones(4)}, "gains and biases must be given together, but got gains: give both or none."),
        ({"encoders": np.zeros((4, 1))}, "encoders must point somewhere, but got a vector of zeros for neuron 0."),
        ({"encoders": np.ones((3, 1))}, "encoders must have the shape [4, 1], but got [3, 1]."),
        ({"intercepts": np.array([0.1, np.nan, 0.2, 0.3])}, "intercepts must be finite, but got infinity or nan."),
        ({"points": np.ones((5, 2))}, "values must have the shape [points, 1], but got [5, 2]."),
        (
            {"neuron": LIFConfig(rest=-65.0, threshold=-50.0, reset=-65.0)},
            "neurons of a population must rest at 0, fire at 1 and be reset to 0, but got rest=-65, threshold=-50, "
            "reset=-65: change tau_m and tau_ref only.",
        ),
        (
            {"neuron": LIFConfig(tau_ref=0.0)},
            "neurons that spike must have a refractory period, but got tau_ref=0: give a tau_ref above 0 ms or "
            "mode='rate'.",
        ),
        (
            {"lag": 5.0},
            "lag must be a time of 0 ms or more, of neurons in rate mode, but got lag=5 and mode='spiking': give "
            "mode='rate'.",
        ),
    ],
)
def test_a_population_that_makes_no_sense_is_refused(options: dict[str, Any], message: str):
    given: dict[str, Any] = {"neurons": 4} | options
    with pytest.raises(InputError) as error:
        Population(**given)
    assert str(error.value) == message


def test_functions_that_do_not_fit_are_refused():
    population = Population(10)
    with pytest.raises(InputError) as error, np.errstate(divide="ignore"):
        population.decoders(lambda x: [np.float64(1.0) / (x[0] - population.points[3, 0])])
    assert str(error.value) == "a function must be finite wherever the population may be, but got [inf] at (-0.992)."
    with pytest.raises(InputError, match="a function must give a number, or as many for every value"):
        values_of(lambda x: [1.0] if x[0] < 0 else [1.0, 2.0], population.points)


@pytest.mark.parametrize(
    ("activities", "values", "noise", "message"),
    [
        (
            np.zeros((5, 3)),
            np.ones((5, 1)),
            0.1,
            "decoders need some neuron that is active at some point, but got activities of 0: lower the intercepts.",
        ),
        (
            np.ones((5, 3)),
            np.ones((4, 1)),
            0.1,
            "decoders need activities of shape [points, neurons] and values of shape [points, outputs], but got [5, "
            "3] and [4, 1].",
        ),
        (
            np.full((5, 3), np.nan),
            np.ones((5, 1)),
            0.1,
            "decoders need finite activities and values, but got infinity or nan.",
        ),
        (
            np.ones((5, 3)),
            np.ones((5, 1)),
            0.0,
            "activities that depend on each other need noise to be told apart, but got noise=0: give some, such as "
            "0.01.",
        ),
    ],
)
def test_decoders_that_cannot_be_solved_are_refused(
    activities: np.ndarray, values: np.ndarray, noise: float, message: str
):
    with pytest.raises(InputError) as error:
        solve_decoders(activities, values, noise)
    assert str(error.value) == message


def test_a_part_that_is_not_there_is_refused():
    population = Population(10, 3)
    assert population[1:].indices == [1, 2]
    assert population[-1].indices == [2]
    assert population[[0, 2]].indices == [0, 2]
    with pytest.raises(InputError) as error:
        population[3]
    assert str(error.value) == "a part must be among the dimensions 0 to 2, but got 3."


# --- the matrix that is inverted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("neurons", [2, 8, 40])
@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_the_condition_number_is_numpys_of_the_matrix_that_decoders_invert(neurons: int, noise: float):
    population = Population(neurons, seed=neurons)
    rates = population.rates(population.points)
    inverted = rates.T @ rates + len(rates) * (noise * rates.max()) ** 2 * np.eye(neurons)
    assert condition_number(rates, noise) == pytest.approx(np.linalg.cond(inverted), rel=1e-8)


def test_without_noise_it_is_the_square_of_numpys_of_the_rates():
    """The product itself has no digits left for it."""
    population = Population(40, seed=1)
    rates = population.rates(population.points)
    assert condition_number(rates, 0.0) == pytest.approx(np.linalg.cond(rates) ** 2, rel=1e-6)
    assert condition_number(rates, 0.0) > 1e3 * condition_number(rates, 0.1)
    np.testing.assert_allclose(gram_eigenvalues(rates)[:5], np.linalg.eigvalsh(rates.T @ rates)[::-1][:5])


def test_neurons_that_are_alike_have_no_condition_number_without_noise():
    rates = np.repeat(np.linspace(0, 1, 20)[:, None], 2, 1)
    assert condition_number(rates, 0.0) > 1e25
    assert condition_number(rates[:1], 0.0) > 1e25  # fewer points than neurons
    assert condition_number(rates, 0.1) == pytest.approx(1 + np.square(rates).sum() / (20 * 0.01))
