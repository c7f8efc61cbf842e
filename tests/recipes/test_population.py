"""A value in a population, and how well it is decoded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.report.page import Table
from neuropil.randomness import mix
from neuropil.recipes.population import SIZES, PopulationOptions, build
from neuropil.tasks.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("population")
    study = build(PopulationOptions(duration=400.0, repeats=1), seed=0)
    study.train(folder, show_progress=False)
    return study, folder


def rows(study: Study, title: str) -> list[list[str]]:
    (section,) = [section for section in study.findings.sections if section.title == title]
    return [list(map(str, row)) for block in section.blocks if isinstance(block, Table) for row in block.rows]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_fifty_neurons_that_expect_noise_are_exact_enough_and_bear_it_better_than_those_that_do_not(
    study: tuple[Study, Path],
):
    own, careless, formula = study[0].evaluate()
    assert own.metrics["rmse_of_exact_rates"] <= 0.014
    assert own.metrics["rmse_of_noisy_rates"] < 0.6 * careless.metrics["rmse_of_noisy_rates"]
    assert own.metrics["rmse_of_exact_rates"] > careless.metrics["rmse_of_exact_rates"]
    assert own.metrics["rmse_of_noisy_rates"] == pytest.approx(formula.metrics["rmse_of_noisy_rates"], rel=0.03)


def test_errors_fall_as_theory_says(study: tuple[Study, Path]):
    *noisy, exact = rows(study[0], "Neurons and noise")
    assert [number(row[-2]) for row in noisy] == pytest.approx([-0.5] * len(noisy), abs=0.08)
    assert number(exact[-2]) < -0.95
    assert len(noisy[0]) == len(SIZES[::2]) + 3


def test_a_slow_synapse_is_smooth_and_late(study: tuple[Study, Path]):
    table = [[float(cell) for cell in row] for row in rows(study[0], "Decoding spikes")]
    late, rough = [row[1] for row in table], [row[2] for row in table]
    assert rough == sorted(rough, reverse=True)
    assert late[-1] > 3 * min(late)


def test_the_folder_holds_what_was_simulated(study: tuple[Study, Path]):
    spikes, traces = (np.load(study[1] / name, allow_pickle=False) for name in ("spikes.npz", "traces.npz"))
    assert set(spikes) == {"times", "neurons"}
    assert spikes["neurons"].max() < 50
    assert traces["value"].shape == traces["times"].shape == (400,)
    np.testing.assert_allclose(traces["wanted"], traces["truth"] ** 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"function": "sqrt(x)"}, "a function must be finite wherever the population may be, but got [nan] at (-1)."),
        (
            {"highest": 600.0},
            "max_rates must be above 0 and below 500 Hz, which the refractory period allows, but got 100 to 600 Hz.",
        ),
        ({"lowest": 300.0}, "lowest must not be above highest, but got 300 and 200 Hz."),
        (
            {"dt": 5.0},
            "dt must be a time above 0 ms, no longer than any time constant or refractory period, but got 5: the "
            "largest that works here is 2.",
        ),
    ],
)
def test_options_that_do_not_fit_get_their_sentence(options: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        build(PopulationOptions(**options), seed=0)
    assert str(error.value) == message


def test_condition_numbers_are_those_of_the_populations_and_noise_bounds_them(study: tuple[Study, Path]):
    def value(cell: str) -> float:
        digits, _, power = cell.replace(",", "").partition("·10")
        return float(digits) * 10.0 ** int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")) or 0)

    none, *noisy = [[value(cell) for cell in row[1:]] for row in rows(study[0], "Condition number")]
    options = PopulationOptions(duration=400.0, repeats=1)
    population = options.population(40, mix(0, 40, 0))
    rates = population.rates(population.points)
    assert none[1] == pytest.approx(np.linalg.cond(rates) ** 2, rel=0.05)
    penalty = len(rates) * (0.1 * rates.max()) ** 2
    assert noisy[1][1] == pytest.approx(np.linalg.cond(rates.T @ rates + penalty * np.eye(40)), rel=0.05)
    assert none == sorted(none)
    assert all(more < less for less, more in zip(noisy[0], noisy[-1], strict=True))
    assert max(noisy[0]) < 1e6 < none[-1]
