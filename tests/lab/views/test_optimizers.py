from dataclasses import replace

import pytest

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.recipes.optimizers import RATES, RULES, OptimizersOptions, race
from neuropil.training.loss_surfaces import diabetes_surface, two_wells_surface

VIEW = find_view("optimizers")
RATE = [0.01] * len(RULES)


def test_the_racers_are_those_of_the_recipe_from_the_start_that_was_chosen():
    surface = replace(diabetes_surface(), start=(0.2, 0.9))
    entries = [(rule, 0.01) for rule in RULES.values()]
    expected = race(entries, surface, OptimizersOptions(steps=20, momentum=0.5), seed=0)
    answer = ask(VIEW, "run", None, {"x": 0.2, "y": 0.9, "rates": RATE, "momentum": 0.5, "steps": 20})
    assert [racer["name"] for racer in answer["racers"]] == list(RULES)
    for racer, descent in zip(answer["racers"], expected, strict=True):
        assert racer["x"] == pytest.approx(descent.path[:, 0], rel=1e-5)
        assert racer["losses"] == pytest.approx(descent.losses, rel=1e-5)


def test_the_best_rates_end_lower_than_any_other_of_the_grid():
    rates = ask(VIEW, "tune", None, {"surface": "two_wells", "steps": 30})["rates"]
    for rule, best in zip(RULES.values(), rates, strict=True):
        tried = race([(rule, rate) for rate in RATES], two_wells_surface(), OptimizersOptions(steps=30), seed=0)
        assert min(tried, key=lambda descent: descent.final).rate == best


def test_what_diverges_ends_in_nothing():
    answer = ask(VIEW, "run", None, {"surface": "rosenbrock", "rates": [1.0] * len(RULES)})
    assert answer["racers"][0]["losses"][-1] is None


def test_the_map_is_the_loss_above_the_minimum():
    answer = ask(VIEW, "show", None, {"surface": "two_wells"})
    _, _, excess = two_wells_surface().contours(61)
    assert answer["excess"][10] == pytest.approx(excess[10], rel=1e-5)


def test_each_optimiser_needs_its_rate():
    with pytest.raises(InputError) as refused:
        ask(VIEW, "run", None, {"rates": [0.1, 0.2]})
    assert str(refused.value) == "rates must be 6, one for each optimiser, but got 2."
