"""Every right number on the page of slips is computed once more here, by other means, and the page shows what comes
out."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, signal, special, stats

ROOT = Path(__file__).parents[2]


def load_slips() -> Any:
    """What `make claims` calls, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("slips", ROOT / "benchmarks" / "slips.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["slips"] = module
    spec.loader.exec_module(module)
    return module


slips = load_slips()


def rates_of_scipy() -> float:
    """Of dv/dt = (2 − v) / 20 from 0 until 1, and 2 ms of rest."""

    def reaches_one(_: float, v: np.ndarray) -> float:
        return v[0] - 1

    solved = integrate.solve_ivp(lambda _, v: (2 - v) / 20, (0, 50), [0.0], rtol=1e-10, events=reaches_one)
    return 1000 / (solved.t_events[0][0] + 2)


def ionic_currents(v: float) -> list[float]:
    """Of sodium, potassium and the leak, by the equations as Hodgkin and Huxley print them, from rest."""
    u = v + 65
    alpha_n, alpha_m = 0.01 * (10 - u) / np.expm1((10 - u) / 10), 0.1 * (25 - u) / np.expm1((25 - u) / 10)
    n, m = alpha_n / (alpha_n + 0.125 * np.exp(-u / 80)), alpha_m / (alpha_m + 4 * np.exp(-u / 18))
    alpha_h, beta_h = 0.07 * np.exp(-u / 20), 1 / (np.exp((30 - u) / 10) + 1)
    h = alpha_h / (alpha_h + beta_h)
    return [120 * m**3 * h * (v - 50), 36 * n**4 * (v + 77), 0.3 * (v + 54.387)]


def balanced(current: float) -> float:
    """The voltage at which this current and those of the ions cancel."""
    return optimize.root_scalar(lambda v: sum(ionic_currents(v)) - current, bracket=(-66, -56), xtol=1e-12).root


def currents_at_rest() -> list[float]:
    return ionic_currents(balanced(0.0))[:2]


def voltage_without_pump() -> float:
    """The leak holds the pump, whose current is half that of potassium: without it, so much flows in."""
    return balanced(currents_at_rest()[1] / 2) - balanced(0.0)


def posterior_by_bayes() -> float:
    """The factor of ε in the mean of q(x₂ | x₃, x₀), from the product of two normal densities."""
    bar_before, alpha = 0.9 * 0.8, 0.7
    precision = alpha / 0.3 + 1 / (1 - bar_before)
    x0, eps = 0.4, 1.3
    x3 = np.sqrt(bar_before * alpha) * x0 + np.sqrt(1 - bar_before * alpha) * eps
    mean = (np.sqrt(alpha) / 0.3 * x3 + np.sqrt(bar_before) / (1 - bar_before) * x0) / precision
    return (x3 - np.sqrt(alpha) * mean) / eps


def kl_by_quadrature() -> float:
    norm = stats.norm
    return integrate.quad(lambda z: norm.pdf(z, 1) * (norm.logpdf(z, 1) - norm.logpdf(z)), -10, 12)[0]


def slope_by_differences() -> float:
    """Of the energy by the first input unit, from the network of the slip."""
    config = slips.PredictiveCodingConfig(hidden_sizes=(3,), direction="down", nu_down=2.0, shape=(2,), outputs=2)
    model = slips.initialised(lambda: slips.PredictiveCoding(config), seed=0).double()

    def energy(value: float) -> float:
        x = [torch.ones(1, size, dtype=torch.double) for size in (2, 3, 2)]
        x[0][0, 0] = value
        with torch.no_grad():
            return model.energy(x).item()

    return (energy(1 + 1e-5) - energy(1 - 1e-5)) / 2e-5


RIGHT: dict[str, Any] = {
    "softmax_of_scores": lambda: special.softmax([1, 1, 1, 5]),
    "row_of_weights": lambda: [1],
    "shapes_of_attention": lambda: [3, 3],
    "width_of_positions": lambda: [2 * np.pi * 100],
    "kernel_weights": lambda: [1],
    "backward_calls": lambda: [16],
    "sign_of_descent": lambda: [0.9],
    "bernoulli_likelihood": lambda: [-stats.bernoulli.logpmf(1, 0.8)],
    "shrinking": lambda: [8 * special.expit(0) * (1 - special.expit(0))],
    "correlation": lambda: signal.correlate([0, 1, 0.5], [1, 2, 3], "same"),
    "unrolled": lambda: [signal.lfilter([1], [1, -0.5], [1.0, 1, 1], zi=[0.5])[0][-1]],
    "hopfield_gradient": lambda: [-0.5],
    "gaussian_likelihood": lambda: [-stats.norm.logpdf(1)],
    "kl_divergence": lambda: [kl_by_quadrature()],
    "noise_schedule": lambda: [0.9 * 0.8 * 0.7],
    "posterior_mean": lambda: [posterior_by_bayes()],
    "sign_method": lambda: [-optimize.linprog([-3, 1, -0.5], bounds=[(-0.1, 0.1)] * 3).fun],
    "trades_penalty": lambda: [np.log1p(np.e)],
    "firing_rate": lambda: [rates_of_scipy()],
    "channel_currents": currents_at_rest,
    "share_of_the_pump": lambda: [voltage_without_pump()],
    "sampled_noise": lambda: [1000 * 0.1**2],
    "predictive_gradient": lambda: [slope_by_differences()],
}
TOLERANCES = {"sampled_noise": 0.05, "share_of_the_pump": 1e-3}


def test_every_slip_is_checked_here():
    assert [find.__name__ for find in slips.SLIPS] == list(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_number_is_right_and_the_printed_one_is_not(name: str):
    slip = getattr(slips, name)()
    np.testing.assert_allclose(slip.right, RIGHT[name](), rtol=TOLERANCES.get(name, 1e-6))
    if slip.printed:
        assert not np.allclose(slip.printed, slip.right, rtol=0.01)


def test_the_recursion_of_the_notes_visits_every_path_and_finds_the_same_gradient():
    calls = [slips.calls_of_recursion(slips.diamonds(count)) for count in (1, 2, 10)]
    assert calls == [3, 7, 2**11 - 1]
    assert slips.backward_calls().printed == (2**17 - 1,)


def test_the_page_shows_the_numbers_as_they_come_out_today():
    page = (ROOT / "docs" / "claims" / "notes-slips.md").read_text(encoding="utf-8").splitlines()
    assert [f"| {' | '.join(row)} |" for row in slips.rows()] == [line for line in page if line.startswith("| ")][2:]
    assert '--8<-- "claims/notes-slips.md"' in (ROOT / "docs" / "notes-slips.md").read_text(encoding="utf-8")
