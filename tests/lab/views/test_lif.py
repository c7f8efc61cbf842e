import pytest
import torch

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.models.lif import LIFConfig, rate


def test_the_rate_without_noise_is_that_of_the_formula():
    answer = ask(find_view("lif"), "simulate", None, {"current": 1.7, "tau_m": 15.0})
    assert answer["expected"] == pytest.approx(float(rate(torch.tensor(1.7), LIFConfig(tau_m=15.0))))
    assert answer["rate"] == pytest.approx(answer["expected"], rel=1e-3)


def test_what_is_out_of_bounds_is_refused():
    with pytest.raises(InputError) as refused:
        ask(find_view("lif"), "simulate", None, {"tau_m": 1e9})
    assert str(refused.value) == "tau_m must be at most 100, but got 1000000000.0."
