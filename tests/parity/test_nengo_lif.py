"""Our neuron with exact spike times and Nengo's, for equal parameters and equal inputs."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from neuropil.models.lif import LIF, LIFConfig, rate

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it looks for NumPy's clip where it used to be
    import nengo

DT = 1.0
"""ms"""


def nengos(drive: np.ndarray, tau_rc: float, tau_ref: float) -> tuple[np.ndarray, np.ndarray]:
    """Whether each neuron fired in each step, and its voltage at the end; Nengo counts in seconds."""
    lowest: Any = -np.inf  # its annotation says int, its documentation any number
    neurons = nengo.LIF(tau_rc=tau_rc / 1000, tau_ref=tau_ref / 1000, min_voltage=lowest)
    state = {
        "output": np.zeros(drive.shape[1]),
        "voltage": np.zeros(drive.shape[1]),
        "refractory_time": np.zeros(drive.shape[1]),
    }
    fired, voltages = [], []
    for current in drive:
        neurons.step(DT / 1000, current, **state)
        fired.append(state["output"] > 0)
        voltages.append(state["voltage"].copy())
    return np.array(fired), np.array(voltages)


@pytest.mark.parametrize(("tau_m", "tau_ref"), [(20.0, 2.0), (20.0, 1.0), (7.0, 3.3)])
def test_spikes_fall_into_the_same_steps_and_voltages_are_equal(tau_m: float, tau_ref: float):
    drive = 1.2 + 1.5 * np.random.default_rng(0).standard_normal((2000, 50))
    fired, voltages = nengos(drive, tau_m, tau_ref)
    config = LIFConfig(tau_m=tau_m, tau_ref=tau_ref)
    recording = LIF(config).simulate(torch.from_numpy(drive), duration=len(drive) * DT, dt=DT, watch=torch.arange(50))
    ours = np.zeros_like(fired)
    ours[np.ceil(recording.times.numpy() / DT - 1e-9).astype(int) - 1, recording.neurons.numpy()] = True
    assert fired.sum() > 1000
    np.testing.assert_array_equal(ours, fired)
    np.testing.assert_allclose(recording.voltages.numpy(), voltages, atol=1e-9)


def test_the_rate_formula_is_nengos():
    v_in = np.linspace(-1, 8, 100)
    theirs = nengo.LIFRate(tau_rc=0.02, tau_ref=0.002).rates(v_in, gain=np.ones(100), bias=np.zeros(100))
    np.testing.assert_allclose(rate(torch.from_numpy(v_in), LIFConfig()).numpy(), np.diagonal(theirs), rtol=1e-9)
