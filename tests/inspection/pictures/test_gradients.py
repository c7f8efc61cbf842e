import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.gradients import GradientProfile, LayerGradient, TimeProfile
from neuropil.inspection.pictures.gradients import alignment_over_updates, gradient_flow, gradient_through_time


def profile(*norms: float) -> GradientProfile:
    return GradientProfile(1.0, [LayerGradient(f"layer {index}", 1.0, norm, norm) for index, norm in enumerate(norms)])


def test_networks_of_different_depth_meet_at_the_output_beside_the_bound():
    figure = gradient_flow({"deep": profile(1e-3, 0.1, 10.0), "shallow": profile(2.0, 4.0)}, bound=0.25)
    deep, shallow, bound = (np.asarray(line.get_xydata()) for line in figure.axes[0].lines)
    np.testing.assert_allclose(deep, [(1, 1e-4), (2, 0.01), (3, 1)])
    np.testing.assert_allclose(shallow, [(2, 0.5), (3, 1)])
    np.testing.assert_allclose(bound, [(1, 0.0625), (2, 0.25), (3, 1)])


def test_layers_are_named_where_all_networks_have_the_same():
    (axes,) = gradient_flow({"a": profile(1.0, 2.0), "b": profile(3.0, 4.0)}).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["layer 0", "layer 1"]


@pytest.mark.parametrize("words", ["layer", "decoder.recurrence.forwards"])
def test_labels_of_the_axes_lie_within_the_picture(words: str):
    layers = [LayerGradient(f"{words}.{index}", 1.0, 1.0, 1.0) for index in range(12)]
    flow = gradient_flow({"a": GradientProfile(1.0, layers)})
    for figure in (flow, gradient_through_time({"a": TimeProfile([1.0, 0.5, 0.25])})):
        figure.draw_without_rendering()
        label, (width, height) = figure.axes[0].yaxis.label.get_window_extent(), figure.bbox.size
        assert 0 <= label.x0 < label.x1 <= width
        assert 0 <= label.y0 < label.y1 <= height


def test_a_layer_without_gradient_leaves_a_gap():
    (axes,) = gradient_flow({"a": profile(1.0, 0.0, 2.0)}).axes
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_ydata()), [0.5, np.nan, 1])


def test_a_network_of_one_layer_is_refused():
    with pytest.raises(InputError) as error:
        gradient_flow({"a": profile(1.0)})
    assert str(error.value) == "a picture of gradient flow needs a network of at least two layers, but got 1."


def test_time_runs_to_the_right_and_gradients_are_relative_to_the_last_step():
    (axes,) = gradient_through_time({"w = 0.1": TimeProfile([2.0, 0.2, 0.02])}).axes
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_xydata()), [(0, 1), (1, 0.1), (2, 0.01)])
    assert axes.get_xlim()[0] > axes.get_xlim()[1]
    assert axes.get_yscale() == "log"


def test_alignment_has_a_panel_for_each_layer_and_each_rule_its_own_line_in_all():
    straight, risen = np.array([[32, 1.0], [640, 1.0]]), np.array([[32, 0.0], [640, 0.4]])
    figure = alignment_over_updates({"a": {"first": straight, "last": straight}, "b": {}, "c": {"last": risen}})
    first, last = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["first", "last"]
    lines = {line.get_label(): line for line in last.lines}
    np.testing.assert_allclose(np.asarray(lines["c"].get_xydata()), risen)
    assert [line.get_label() for line in first.lines if not str(line.get_label()).startswith("_")] == ["a"]
    assert lines["a"].get_color() == first.lines[1].get_color() != lines["c"].get_color()
    with pytest.raises(InputError):
        alignment_over_updates({"b": {}})
