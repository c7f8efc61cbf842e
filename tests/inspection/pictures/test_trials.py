"""Pictures of a search hold the numbers of its trials."""

from typing import Any

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.pictures.trials import best_so_far, importance_bars, option_slices, trial_curves
from neuropil.metrics import find_metric
from neuropil.ranges import Choices, Range
from neuropil.training.search import Trial

LOSS, ACCURACY = find_metric("loss"), find_metric("accuracy")
TRIALS = [
    Trial(1, {"rate": 0.1, "size": (8,)}, "complete", 0.5, [(0.2, 0.8), (1.0, 0.5)]),
    Trial(2, {"rate": 0.01, "size": None}, "pruned", 0.9, [(0.2, 0.9)]),
    Trial(3, {"rate": 1.0, "size": None}, "failed", None, [], reason="nan"),
    Trial(4, {"rate": 0.5, "size": (8,)}, "complete", 0.3, [(0.2, 0.6), (1.0, 0.3)]),
    Trial(5, {"rate": 0.2, "size": None}, "complete", 0.4, [(0.2, 0.7), (1.0, 0.4)]),
]
SPACE = {"rate": Range(0.01, 1.0, log=True), "size": Choices((None, (8,)))}


def points(axes: Any) -> set[tuple[float, float]]:
    return {(each.get_xdata()[0], each.get_ydata()[0]) for each in axes.lines}


def line(axes: Any, label: str) -> list[list[float]]:
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return np.column_stack([found.get_xdata(), found.get_ydata()]).tolist()


def test_the_best_so_far_falls_with_each_better_complete_trial():
    (axes,) = best_so_far(TRIALS, LOSS).axes
    assert line(axes, "best so far") == [[1, 0.5], [4, 0.3], [5, 0.3]]
    assert line(axes, "complete") == [[1, 0.5], [4, 0.3], [5, 0.4]]
    assert line(axes, "pruned") == [[2, 0.9]]


def test_where_more_is_better_it_rises():
    assert line(best_so_far(TRIALS, ACCURACY).axes[0], "best so far") == [[1, 0.5], [5, 0.5]]


def test_the_curves_of_the_best_and_of_the_default_options_stand_out():
    (axes,) = trial_curves(TRIALS, TRIALS[3], LOSS, [1 / 9, 1 / 3]).axes
    assert line(axes, "best: trial 4") == [[20, 0.6], [100, 0.3]]
    assert line(axes, "default options") == [[20, 0.8], [100, 0.5]]


def test_slices_show_every_trial_at_the_first_rung_over_each_option():
    rate, size = option_slices(TRIALS, TRIALS[3], SPACE, LOSS).axes
    assert points(rate) == {(0.1, 0.8), (0.01, 0.9), (0.5, 0.6), (0.2, 0.7)}
    assert rate.get_xscale() == "log"
    assert points(size) == {(1.0, 0.8), (0.0, 0.9), (1.0, 0.6), (0.0, 0.7)}
    assert [label.get_text() for label in size.get_xticklabels()] == ["none", "8"]


def test_the_most_important_option_is_on_top():
    axes: Any = importance_bars({"rate": 0.7, "size": 0.3}).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["size", "rate"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([30, 70])


def test_a_search_without_a_value_has_no_picture():
    with pytest.raises(InputError, match="a picture of a search needs a trial with a value, but got none"):
        best_so_far([TRIALS[2]], LOSS)
