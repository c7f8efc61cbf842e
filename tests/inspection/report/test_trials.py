"""Sentences about a search are made from its trials."""

import dataclasses

from neuropil.inspection.report.page import Report, render
from neuropil.inspection.report.trials import SearchResult, trial_sections
from neuropil.metrics import find_metric
from neuropil.ranges import Choices, Range
from neuropil.training.search import Trial

FIRST = Trial(1, {"rate": 0.1, "size": 8}, "complete", 0.5, [(0.2, 0.8), (1.0, 0.5)], 2.0)
TRIALS = [
    FIRST,
    Trial(2, {"rate": 0.02, "size": 4}, "pruned", 0.9, [(0.2, 0.9)], 1.0),
    Trial(3, {"rate": 1.0, "size": 4}, "failed", None, [], 1.0, "the loss must stay finite, but got nan."),
    Trial(4, {"rate": 0.98, "size": 16}, "complete", 0.3, [(0.2, 0.6), (1.0, 0.3)], 2.0),
]
SPACE = {"rate": Range(0.01, 1.0, log=True), "size": Choices((4, 8, 16))}
FOUND = SearchResult(TRIALS, TRIALS[3], SPACE, find_metric("loss"), {"size": 0.25, "rate": 0.75})


def page(found: SearchResult) -> str:
    return render(Report("search", "what was found", trial_sections(found)))


def test_what_was_chosen_stands_beside_the_default():
    assert FOUND.sentence() == (
        "Of 4 trials (2 complete, 1 pruned, 1 failed) the best by validation loss is trial 4: 0.3; the default "
        "options: 0.5."
    )
    assert dataclasses.replace(FOUND, best=FIRST).sentence() == (
        "Of 4 trials (2 complete, 1 pruned, 1 failed) none had a better validation loss than the default options (0.5)."
    )
    lost = [dataclasses.replace(FIRST, state="failed", reason="too large."), *TRIALS[1:]]
    assert dataclasses.replace(FOUND, trials=lost).sentence().endswith("the default options: failed: too large.")


def test_a_best_value_at_the_end_of_its_range_is_said():
    shown = page(FOUND)
    assert "The best --rate, --size is near the end of their ranges: a wider one may be better." in shown
    inside = dataclasses.replace(TRIALS[3], options={"rate": 0.1, "size": 8})
    assert "a wider one may be better" not in page(
        dataclasses.replace(FOUND, trials=[*TRIALS[:3], inside], best=inside)
    )


def test_the_cost_is_counted_in_whole_runs():
    assert "1 of 4 trials were pruned; all together were as long as 2.2 whole runs." in page(FOUND)


def test_the_most_important_option_is_named_or_it_is_said_that_none_can_be():
    assert "--rate mattered most" in page(FOUND)
    assert "it explains 75 % of what the options explain" in page(FOUND)
    assert "There are too few trials to say which option mattered." in page(dataclasses.replace(FOUND, importance={}))


def test_every_trial_is_in_the_table_and_every_failure_has_its_reason():
    shown = page(FOUND)
    assert "4 (best)" in shown
    assert "Trial 3 failed: the loss must stay finite, but got nan." in shown
