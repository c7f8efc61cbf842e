import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking.networks import (
    RegimeActivity,
    firing_statistics,
    learned_weights,
    regimes,
)
from neuropil.inspection.report.svg import figure_svg


def heights(axes: Axes) -> list[np.ndarray]:
    return [np.asarray(patch.get_data()[0]) for patch in axes.patches if isinstance(patch, StepPatch)]


def activity(start: float) -> RegimeActivity:
    return RegimeActivity(
        torch.tensor([start + 0.5, start + 1.5, start + 9.0]),
        torch.tensor([0, 3, 1]),
        torch.tensor([10.0, 0.0, 5.0, 2.0]),
        start,
        1.0,
    )


def test_each_regime_has_its_spikes_over_its_rate_at_the_same_times():
    figure = regimes({"one": activity(0.0), "two": activity(100.0), "three": activity(7.0)})
    assert len(figure.axes) == 6
    ticks, rate = figure.axes[2:4]
    assert ticks.get_title(loc="left") == "two"
    x, y = (np.asarray(data) for data in ticks.lines[0].get_data())
    np.testing.assert_allclose(x, [100.5] * 3 + [101.5] * 3)  # the third comes after what is shown
    np.testing.assert_allclose(y, [-0.4, 0.4, np.nan, 2.6, 3.4, np.nan])
    assert rate.get_xlim() == (100.0, 104.0)
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "", "", "", "time (ms)"]


def test_histograms_leave_out_what_is_no_number_and_mark_chance():
    spread = {
        "rate (Hz)": {"a": torch.tensor([1.0, 2.0, float("nan")]), "b": np.zeros(4)},
        "CV": {"a": torch.tensor([]), "b": np.ones(4)},
    }
    figure = firing_statistics(spread, {"CV": 1.0})
    rate, cv = figure.axes
    assert [height.sum() for height in heights(rate)] == pytest.approx([100.0, 100.0])
    assert not rate.lines
    assert np.asarray(cv.lines[0].get_xdata()).tolist() == [1.0, 1.0]
    assert "CV" in figure_svg(figure)


def test_weights_are_shown_before_and_after():
    figure = learned_weights({"a → b": (np.full(10, 0.5), np.linspace(0, 1, 10))})
    before, after = heights(figure.axes[0])
    assert (before.max(), after.sum()) == (pytest.approx(100.0), pytest.approx(100.0))


def test_nothing_to_draw_is_said():
    for draw, sentence in (
        (lambda: regimes({}), "a picture of regimes needs at least one, but got none."),
        (lambda: firing_statistics({}, {}), "a picture of firing needs at least one statistic, but got none."),
        (lambda: learned_weights({}), "a picture of learned weights needs a plastic connection, but got none."),
    ):
        with pytest.raises(InputError) as error:
            draw()
        assert str(error.value) == sentence
