"""The search over options, beside Optuna itself and beside rules that can be counted."""

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import optuna
import pytest

from neuropil.randomness import mix
from neuropil.ranges import Choices, Range, Searched
from neuropil.training.search import RANDOM_TRIALS, Search, Trial, combinations, first_rung_value, whole_runs

SPACE: dict[str, Searched] = {
    "rate": Range(1e-5, 1.0, log=True),
    "size": Range(1, 64),
    "kind": Choices(((8,), None, "x")),
}
FIRST = {"rate": 1e-3, "size": 16, "kind": None}
SHARES = [count / 9 for count in range(1, 10)]


def bowl(options: Mapping[str, Any]) -> float:
    """Lowest, at 0, where the rate is 0.01 and the size 40."""
    return (math.log10(options["rate"]) + 2) ** 2 + ((options["size"] - 40) / 20) ** 2 + (options["kind"] != "x")


def curve_of(value: float) -> list[tuple[float, float]]:
    return [(share, value + 1 - share) for share in SHARES]


def new(seed: int = 0) -> Search:
    return Search(SPACE, ["size"], higher=False, seed=seed)


def play(search: Search, number: int, options: Mapping[str, Any] | None, value: Callable[..., float] = bowl) -> Trial:
    """One trial, pruned where the search says so, except for the first."""
    options = options or search.suggest(number)
    assert options is not None
    ongoing, curve = search.begin(options), []
    for share, each in curve_of(value(options)):
        curve.append((share, each))
        if ongoing.prunes(share, each) and number > 1:
            ongoing.end("pruned", each)
            return Trial(number, options, "pruned", each, curve)
    ongoing.end("complete", curve[-1][1])
    return Trial(number, options, "complete", curve[-1][1], curve)


def played(count: int, seed: int = 0) -> list[Trial]:
    search = new(seed)
    return [play(search, number, FIRST if number == 1 else None) for number in range(1, count + 1)]


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    return played(24)


def test_the_given_options_are_tried_first_and_all_others_are_in_the_space(trials: list[Trial]):
    assert trials[0].options == FIRST
    for trial in trials:
        assert all(trial.options[name] in searched for name, searched in SPACE.items())
        assert isinstance(trial.options["size"], int)


def test_what_it_suggests_is_better_than_chance():
    suggested = [bowl(trial.options) for seed in range(3) for trial in played(24, seed)[RANDOM_TRIALS:]]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    by_chance = [bowl(new()._decoded(study.ask(new().distributions).params)) for _ in suggested]
    assert statistics.median(suggested) < 0.7 * statistics.median(by_chance)


def test_the_same_seed_gives_the_same_trials_and_another_gives_others(trials: list[Trial]):
    assert played(8) == trials[:8]
    assert played(8, seed=1)[1:] != trials[1:8]


def test_a_search_that_was_killed_goes_on_as_if_it_had_not_been(trials: list[Trial]):
    for cut in (1, 7, 20):
        search = new()
        for trial in trials[:cut]:
            search.replay(trial, [value for _, value in trial.curve])
        assert [play(search, number, None) for number in range(cut + 1, 25)] == trials[cut:]


def test_the_first_suggestions_are_those_of_optuna_with_the_seed_of_the_trial(trials: list[Trial]):
    """By chance at first: what was tried before does not matter then."""
    for number in range(2, RANDOM_TRIALS + 1):
        sampler = optuna.samplers.RandomSampler(seed=mix(0, "trial", number, 0) % 2**32)
        asked = optuna.create_study(sampler=sampler).ask(new().distributions)
        assert trials[number - 1].options["rate"] == float(f"{asked.params['rate']:.3g}")


def test_successive_halving_lets_the_best_third_of_those_that_came_go_on():
    """At each rung, counted by hand: among n values so far, the best max(1, n // 3)."""
    values = [0.5, 0.9, 0.4, 0.45, 0.8, 0.3, 0.35, 0.2, 0.7, 0.25]
    search, seen = new(), list[float]()
    for number, value in enumerate(values, 1):
        ongoing = search.begin({**FIRST, "size": number})
        assert not ongoing.prunes(0.05, value)  # before the first rung nobody is stopped
        stops = ongoing.prunes(1 / 9, value)
        seen.append(value)
        assert stops == (value not in sorted(seen)[: max(1, len(seen) // 3)])
        ongoing.end("pruned" if stops else "complete", value)


def test_nothing_is_stopped_at_its_end():
    search = new()
    for number, value in enumerate((0.1, 0.2), 1):
        ongoing = search.begin({**FIRST, "size": number})
        assert not ongoing.prunes(1.0, value)
        ongoing.end("complete", value)


def test_combinations_are_tried_once_each_and_then_the_search_is_over():
    space: dict[str, Searched] = {"kind": Choices(("a", "b")), "size": Range(1, 2)}
    search, tried = Search(space, ["size"], higher=True, seed=0), list[dict[str, Any]]()
    assert combinations(space, ["size"]) == 4
    assert combinations(SPACE, ["size"]) == math.inf
    while (options := search.suggest(len(tried) + 1)) is not None:
        tried.append(options)
        search.begin(options).end("complete", 0.5)
    assert len(tried) == 4
    assert len({tuple(each.items()) for each in tried}) == 4


def test_the_option_that_makes_the_difference_is_the_important_one():
    search = new()
    trials = []
    for number in range(1, 25):
        trial = play(search, number, None, value=lambda options: (math.log10(options["rate"]) + 2) ** 2)
        trials.append(trial)
    importance = search.importance(trials)
    assert importance["rate"] > importance["size"] + importance["kind"]
    assert sum(importance.values()) == pytest.approx(1)
    assert search.importance(trials[:3]) == {}


def test_the_value_at_the_first_rung_is_that_of_the_first_validation_from_there_on():
    assert first_rung_value(Trial(1, {}, curve=[(0.1, 3.0), (0.2, 2.0), (0.4, 1.0)])) == 2.0
    assert first_rung_value(Trial(1, {}, curve=[(0.1, 3.0)])) is None
    assert first_rung_value(Trial(1, {}, curve=[(math.nextafter(1 / 9, 0), 3.0)])) == 3.0


def test_whole_runs_are_those_of_the_trials_that_go_on():
    """Of nine trials after the first, all do a ninth, three go on to a third, and one to the end."""
    assert whole_runs(10) == pytest.approx(1 + 9 / 9 + 3 * (1 / 3 - 1 / 9) + 1 * (1 - 1 / 3))
    assert whole_runs(1) == 1
