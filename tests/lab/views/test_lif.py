import pytest
import torch

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.models.lif import LIF, LIFConfig, rate


def test_the_rate_without_noise_is_that_of_the_formula():
    answer = ask(find_view("lif"), "simulate", None, {"current": 1.7, "tau_m": 15.0})
    assert answer["expected"] == pytest.approx(float(rate(torch.tensor(1.7), LIFConfig(tau_m=15.0))))
    assert answer["rate"] == pytest.approx(answer["expected"], rel=1e-3)


def test_what_is_out_of_bounds_is_refused():
    with pytest.raises(InputError) as refused:
        ask(find_view("lif"), "simulate", None, {"tau_m": 1e9})
    assert str(refused.value) == "tau_m must be at most 100, but got 1000000000.0."


def test_a_drawn_current_is_that_of_the_library():
    """A ramp; none of the row differs."""
    answer = ask(find_view("lif"), "simulate", None, {"drawn": [0.0, 3.0], "spread": 0.0})
    ramp = torch.linspace(0, 3, 3000, dtype=torch.double)[:, None]
    expected = LIF(LIFConfig()).simulate(ramp, duration=300.0, dt=0.1)
    assert answer["spikes"] == pytest.approx(expected.times.tolist(), abs=0.01)
    assert answer["expected"] is None
    assert answer["times"] == [time for time in answer["spikes"] for _ in range(20)]


def test_a_drawing_has_as_many_points_as_a_page_has():
    with pytest.raises(InputError) as refused:
        ask(find_view("lif"), "simulate", None, {"drawn": [1.0] * 121})
    assert str(refused.value) == "drawn must have at most 120 entries, but got 121."
