import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking.neurons import (
    action_potential,
    all_or_none,
    firing_rates,
    gate_curves,
    ions_over_time,
    refractoriness,
    step_errors,
    voltages_and_currents,
)

T = np.linspace(0.1, 10, 100)


def test_an_action_potential_has_a_span_for_each_phase_in_all_panels_and_its_name():
    phases = [("rest", 0.0, 2.0), ("rising", 2.0, 4.0), ("falling", 4.0, 10.0)]
    gates, flows = {"n": T / 10, "m": 1 - T / 10}, {"sodium": -T, "potassium": T, "leak": 0 * T}
    figure = action_potential(T, np.sin(T), phases, gates, flows, {"rest": -0.5})
    above, middle, below = figure.axes
    assert [len(panel.patches) for panel in figure.axes] == [3, 3, 3]
    assert [text.get_text() for text in above.texts] == ["1", "1  rest", "2", "2  rising", "3", "3  falling", "rest"]
    assert (above.get_ylabel(), middle.get_ylabel()) == ("voltage (mV)", "open share")
    assert (below.get_ylabel(), below.get_xlabel()) == ("outward current (µA/cm²)", "time (ms)")
    assert [len(panel.lines) for panel in (middle, below)] == [2, 3]
    assert above.get_xlim() == (0, 10)


def test_an_action_potential_without_phases_is_refused():
    with pytest.raises(InputError) as error:
        action_potential(T, T, [], {}, {}, {})
    assert str(error.value) == "a picture of an action potential needs its phases, but got none."


def test_gates_are_drawn_with_where_they_go_and_how_long_they_take():
    v = np.linspace(-100, 50, 31)
    left, right = gate_curves(v, {"n": v / 200 + 0.5}, {"n": np.ones_like(v)}, rest=-65.0).axes
    assert (left.get_xlabel(), right.get_ylabel()) == ("voltage (mV)", "time constant (ms)")
    np.testing.assert_allclose(np.asarray(left.lines[1].get_ydata()), v / 200 + 0.5)
    assert left.lines[0].get_xdata() == [-65.0, -65.0]


@pytest.mark.parametrize(("chronaxie", "marks"), [(1.5, 1), (float("nan"), 0)])
def test_pulses_and_their_thresholds_share_a_picture(chronaxie: float, marks: int):
    widths = np.array([0.1, 1.0, 10.0])
    figure = all_or_none(T, np.stack([T, -T], 1), [5.0, 6.0], widths, 3 / widths, rheobase=0.3, chronaxie=chronaxie)
    left, right = figure.axes
    legend = left.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["5 µA/cm²", "6 µA/cm²"]
    assert right.get_xscale() == right.get_yscale() == "log"
    assert len(right.lines) == 2 + marks


def test_delays_that_no_strength_overcomes_are_shaded():
    delays, ratios = np.array([2.0, 4, 6, 8]), np.array([np.nan, np.nan, 3, 1])
    figure = refractoriness(T, np.stack([T, T], 1), [3.0, 6.0], delays, ratios, first_pulse=1.0)
    *traces, recovery = figure.axes
    assert [panel.get_title(loc="left") for panel in traces] == ["3 ms apart", "6 ms apart"]
    (shaded,) = recovery.patches
    assert shaded.get_extents().transformed(recovery.transData.inverted()).intervalx == pytest.approx([2, 4])
    assert "absolutely" in recovery.texts[0].get_text()


def test_nothing_is_shaded_where_every_delay_has_its_strength():
    recovery = refractoriness(T, T[:, None], [3.0], np.array([5.0, 9.0]), np.array([2.0, 1.0]), first_pulse=1.0).axes[
        -1
    ]
    assert len(recovery.patches) == 0


def test_a_leap_of_the_rate_is_no_part_of_the_curve():
    (axes,) = firing_rates(np.arange(5.0), np.array([0, 0, 50, 60, 0.0])).axes
    curve, *leaps = axes.lines
    assert np.isnan(np.asarray(curve.get_ydata())).sum() == 2
    assert [np.asarray(leap.get_xdata()).tolist() for leap in leaps] == [[1, 2], [3, 4]]
    assert axes.get_ylabel() == "rate (Hz)"


def test_currents_are_drawn_as_steps_behind_the_voltages():
    current = np.where(T < 5, 0.0, 7.0)
    figure = voltages_and_currents(T, np.stack([T, -T], 1), np.stack([current, 0 * T], 1), ["a", "b"])
    panels, behind = figure.axes[:2], figure.axes[2:]
    assert [panel.get_title(loc="left") for panel in panels] == ["a", "b"]
    values, edges, _ = behind[0].patches[0].get_data()  # type: ignore[attr-defined]  # a StepPatch
    assert values.tolist() == [0, 7]
    assert edges[[0, -1]].tolist() == pytest.approx([0, 10])
    assert panels[0].get_zorder() > behind[0].get_zorder()


def test_no_neuron_is_refused():
    with pytest.raises(InputError) as error:
        voltages_and_currents(T, np.empty((100, 0)), np.empty((100, 0)), [])
    assert str(error.value) == "a picture of voltages needs at least one neuron, but got none."


def test_an_error_of_nothing_leaves_a_gap_on_a_logarithmic_axis():
    (axes,) = step_errors([0.01, 0.02, 0.04], {"euler": [0.1, 0.2, 0.4], "rk4": [0.0, 1e-5, float("nan")]}).axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    np.testing.assert_array_equal(np.asarray(axes.lines[1].get_ydata()), [np.nan, 1e-5, np.nan])


def test_ions_have_a_panel_for_each_quantity_and_no_extreme_is_lost():
    seconds, spiky = np.linspace(0, 60, 10_000), np.zeros(10_000)
    spiky[5_001] = 40.0
    panels = {"sodium": {"pumped": seconds, "blocked": 2 * seconds}, "voltage": {"pumped": spiky}}
    figure = ions_over_time(seconds, panels, stimulus=5.0)
    above, below = figure.axes
    assert [axes.get_title(loc="left") for axes in (above, below)] == ["sodium", "voltage"]
    drawn = np.asarray(below.lines[0].get_ydata())
    assert drawn.max() == 40
    assert len(drawn) <= 600
    assert above.lines[0].get_color() == below.lines[0].get_color() != above.lines[1].get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["pumped", "blocked"]
    assert below.patches[0].get_window_extent().width > 0
    with pytest.raises(InputError):
        ions_over_time(seconds, {}, stimulus=5.0)
