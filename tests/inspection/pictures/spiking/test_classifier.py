from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking.classifier import (
    accuracy_by_time,
    rates_by_class,
    spikes_through_layers,
    voltage_traces,
)
from neuropil.inspection.report.svg import figure_svg


def random_spikes(time: int, units: int) -> np.ndarray:
    return (np.random.default_rng(0).random((time, units)) < 0.1).astype(float)


@pytest.mark.parametrize("units", [1, 40, 3000])
@pytest.mark.parametrize("with_image", [True, False])
def test_every_layer_has_a_panel_that_counts_its_spikes(units: int, with_image: bool):
    layers = {"layer 1": random_spikes(25, units), "layer 2": random_spikes(25, 20)}
    image = np.zeros((8, 8), dtype=np.uint8) if with_image else None
    figure = spikes_through_layers(layers, torch.randn(25, 10), tuple("0123456789"), 2.0, image)
    panels = {axes.get_ylabel(): axes for axes in figure.axes}
    silent = int((layers["layer 1"].sum(0) == 0).sum())
    note = f"{int(layers['layer 1'].sum()):,} spikes, {silent:,} of {units:,} silent"
    assert panels["layer 1\nneuron"].get_title(loc="right") == note
    assert panels["read so far"].get_xlim() == (0, 51)
    assert len(figure_svg(figure)) < 150_000


def test_neurons_are_sorted_by_their_first_spike_and_silent_ones_left_out():
    spikes = np.zeros((10, 5))
    spikes[[7, 2, 2, 5], [0, 1, 3, 3]] = 1
    figure = spikes_through_layers({"layer 1": spikes}, np.zeros((10, 2)), ("a", "b"), 1.0)
    (marks,) = [axes.lines[0] for axes in figure.axes if axes.get_ylabel() == "layer 1\nneuron"]
    x, y = (np.asarray(values).reshape(-1, 3)[:, :2].mean(1) for values in marks.get_data())
    assert sorted(zip(y.tolist(), x.tolist(), strict=True)) == [
        (1, 3),
        (1, 6),
        (2, 3),
        (3, 8),
    ]  # step k ends at (k + 1) ms


def test_a_layer_without_a_spike_can_be_drawn():
    figure = spikes_through_layers({"layer 1": np.zeros((5, 4))}, np.zeros((5, 2)), ("a", "b"), 1.0)
    assert "0 spikes, 4 of 4 silent" in figure_svg(figure)


def test_the_likeliest_classes_are_named_in_order():
    logits = np.tile(np.array([0.1, 3.0, -1.0, 2.0, 0.5]), (6, 1))
    figure = spikes_through_layers({"layer 1": random_spikes(6, 4)}, logits, ("a", "b", "c", "d", "$e"), 1.0)
    (legend,) = filter(None, (axes.get_legend() for axes in figure.axes))
    assert [text.get_text() for text in legend.get_texts()] == ["b", "d", "$e"]


def test_names_must_fit_the_classes():
    with pytest.raises(InputError) as error:
        spikes_through_layers({"layer 1": random_spikes(6, 4)}, np.zeros((6, 3)), ("a", "b"), 1.0)
    assert str(error.value) == "a picture of what is read needs a name for each class, but got 3 classes and 2 names."
    with pytest.raises(InputError) as error:
        rates_by_class({"layer 1": np.zeros((3, 7))}, ("a", "b"))
    assert str(error.value) == "rates by class need a name for each class, but got 3 classes and 2 names."


def test_a_dot_marks_every_crossing_of_the_threshold():
    voltages = {"layer 1": np.array([[0.2, 0.9], [1.2, 0.95], [0.0, 1.1], [1.3, 0.0]])}
    (axes,) = voltage_traces(voltages, ("one", "other"), threshold=1.0, dt=2.0).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [np.asarray(line.get_xdata()).tolist() for line in dots] == [[4.0, 8.0], [6.0]]


@pytest.mark.parametrize("num_classes", [2, 10, 26, 100])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_rates_have_a_bar_for_each_class_with_room_for_its_name(num_classes: int, num_layers: int):
    rates = {f"layer {number}": np.random.default_rng(number).random((num_classes, 30)) for number in range(num_layers)}
    figure = rates_by_class(rates, [f"class {index}" for index in range(num_classes)])
    figure.draw_without_rendering()
    bars = [patch.get_height() for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    np.testing.assert_allclose(bars, rates["layer 0"].mean(1)[:40])
    grid = next(axes for axes in figure.axes if axes.images)
    labels = [label.get_window_extent() for label in grid.get_xticklabels()]
    assert all(left.x1 <= right.x0 for left, right in pairwise(labels))


def test_neurons_are_sorted_by_the_class_that_they_fire_for():
    rates = np.array([[0.0, 5.0, 1.0, 9.0], [4.0, 0.0, 2.0, 0.0]])
    figure = rates_by_class({"layer 1": rates}, ("a", "b"))
    (drawn,) = [axes.images[0] for axes in figure.axes if axes.images]
    assert np.asarray(drawn.get_array()).tolist() == [[9, 0], [5, 0], [0, 4], [1, 2]]


def test_accuracy_is_drawn_over_the_time_that_was_read():
    (axes,) = accuracy_by_time(torch.tensor([0.1, 0.8, 0.925]), dt=2.0).axes
    (line,) = axes.lines
    assert np.asarray(line.get_xdata()).tolist() == [2.0, 4.0, 6.0]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), [10, 80, 92.5], rtol=1e-5)
    assert [text.get_text() for text in axes.texts] == ["92.5 %"]
