import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import spikes as pictures
from neuropil.inspection.report.svg import figure_svg


def ticks_of(axes: Axes, line: int = 0) -> np.ndarray:
    """(time, lowest, highest) of every tick that is drawn."""
    x, y = (np.asarray(data, dtype=float).reshape(-1, 3) for data in axes.lines[line].get_data())
    return np.stack([x[:, 0], y[:, 0], y[:, 1]], axis=1)


def test_a_raster_has_a_tick_for_every_spike_and_groups_stand_on_each_other():
    spikes = {
        "excitatory": (torch.tensor([1.0, 4.0]), torch.tensor([0, 7])),
        "inhibitory": (np.array([2.5]), np.array([1])),
    }
    figure = pictures.raster(spikes, {"excitatory": 8, "inhibitory": 2}, duration=10)
    ticks, rates = figure.axes
    np.testing.assert_allclose(ticks_of(ticks)[:, 1:].mean(1), [0, 7])
    np.testing.assert_allclose(ticks_of(ticks, 1)[:, 0], [2.5])
    np.testing.assert_allclose(ticks_of(ticks, 1)[:, 1:].mean(1), [9])
    assert (rates.get_xlabel(), rates.get_ylabel(), ticks.get_ylabel()) == ("time (ms)", "mean rate (Hz)", "neuron")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["excitatory (8)", "inhibitory (2)"]


def test_the_mean_rate_counts_spikes_per_neuron_and_second():
    times = np.arange(0.5, 100, 1.0)  # one spike in each ms, by ten neurons: 100 Hz each
    figure = pictures.raster({"all": (times, np.zeros(100, int))}, {"all": 10}, duration=100)
    heights = figure.axes[1].patches[0].get_data().values  # type: ignore[attr-defined]  # what stairs() draws
    np.testing.assert_allclose(heights, 100)


def test_a_raster_begins_where_it_is_told_and_turns_to_pixels_when_it_is_full(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pictures, "MOST_LINES", 100)
    times = np.linspace(0, 100, 110)
    figure = pictures.raster({"all": (times, np.zeros(len(times), int))}, {"all": 1}, duration=100)
    assert figure.axes[0].lines[0].get_rasterized()
    assert "<image" in figure_svg(figure)
    later = pictures.raster({"all": (times, np.zeros(len(times), int))}, {"all": 1}, duration=100, start=90).axes[0]
    assert not later.lines[0].get_rasterized()
    assert later.get_xlim() == (90, 100)
    assert ticks_of(later)[:, 0].min() >= 90


def test_membranes_have_their_spikes_their_threshold_and_their_unit():
    t = torch.arange(1, 11, dtype=torch.double)
    voltages = torch.stack([t - 70, t - 75], dim=1)
    figure = pictures.membranes(
        t,
        voltages,
        [torch.tensor([3.5, 9.0]), torch.tensor([])],
        ["v_in = 20 mV", "weak"],
        threshold=-50,
        reset=-70,
        unit="mV",
    )
    first, second = figure.axes
    np.testing.assert_allclose(np.asarray(first.lines[1].get_ydata()), voltages[:, 0])
    assert [segment[0][0] for segment in first.collections[0].get_segments()] == [3.5, 9.0]  # type: ignore[attr-defined]
    assert first.lines[0].get_ydata()[0] == -50  # type: ignore[index]
    assert (first.get_title(loc="left"), second.get_xlabel()) == ("v_in = 20 mV", "time (ms)")
    assert figure.get_supylabel() == "v (mV)"
    low, high = first.get_ylim()
    assert low < -75
    assert high > -50


def test_a_tuning_curve_shows_what_was_counted_and_how_far_it_is_from_the_formula():
    v_in, expected = torch.tensor([0.5, 2.0, 4.0]), torch.tensor([0.0, 50.0, 100.0])
    figure = pictures.tuning_curve(
        v_in, {"grid": torch.tensor([0.0, 49.0, 102.0])}, expected, (torch.arange(5), 25 * torch.arange(5))
    )
    above, below = figure.axes
    np.testing.assert_allclose(np.asarray(above.lines[0].get_ydata()), [0, 25, 50, 75, 100])
    np.testing.assert_allclose(np.asarray(above.lines[1].get_ydata()), [0, 49, 102])
    np.testing.assert_allclose(np.asarray(below.lines[0].get_ydata()), [2, 2], rtol=1e-5)
    assert below.get_yscale() == "log"
    assert below.get_xlabel() == "constant input v_in (threshold = 1)"


def test_rate_curves_have_a_ceiling_where_there_is_one():
    curves = {"τ_ref = 0 ms": torch.tensor([0.0, 900.0]), "τ_ref = 2 ms": torch.tensor([0.0, 400.0])}
    axes = pictures.rate_curves(torch.tensor([0.0, 5.0]), curves, [None, 500.0], unit="mV").axes[0]
    assert len(axes.lines) == 3
    assert axes.lines[2].get_ydata()[0] == 500  # type: ignore[index]
    assert axes.get_xlabel() == "constant input v_in (mV)"


def test_filters_and_what_they_make_of_spikes_have_their_units():
    t, filters = torch.linspace(0, 5, 6), {"n = 0": torch.ones(6), "n = 1": torch.zeros(6)}
    figure = pictures.synaptic_filters(t, filters, t, filters, torch.tensor([1.0, 2.0]))
    above, below = figure.axes
    assert (above.get_ylabel(), below.get_ylabel(), below.get_xlabel()) == ("h(t) (1/ms)", "s(t) (1/ms)", "time (ms)")
    assert [segment[0][0] for segment in below.collections[0].get_segments()] == [1.0, 2.0]  # type: ignore[attr-defined]


def test_a_driven_neuron_shows_input_voltage_and_rates():
    t = torch.linspace(0.1, 5, 50)
    figure = pictures.driven(t, t, t / 5, torch.tensor([2.0]), {"formula": t, "spikes": t}, threshold=1, reset=0)
    above, middle, below = figure.axes
    assert (above.get_ylabel(), middle.get_ylabel(), below.get_ylabel()) == ("v_in", "v", "rate (Hz)")
    assert len(below.lines) == 2


def test_pictures_of_nothing_are_refused():
    with pytest.raises(InputError) as error:
        pictures.raster({}, {}, duration=1)
    assert str(error.value) == "a raster needs at least one group of neurons, but got none."
    with pytest.raises(InputError) as error:
        pictures.membranes(torch.ones(1), torch.ones(1, 0), [], [], threshold=1, reset=0)
    assert str(error.value) == "a picture of membranes needs at least one neuron, but got none."
