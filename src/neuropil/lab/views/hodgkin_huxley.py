"""One Hodgkin–Huxley neuron under pulses of current: its voltage, gates and ionic currents."""

import math
from typing import Any, Literal

import torch

from neuropil.config import Config, option
from neuropil.models.hodgkin_huxley.currents import pulse
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig, largest_dt, steady_state

DURATION, SHOWN_STEP, COARSEST = 60.0, 0.05, 0.025
"""ms: of a simulation, between two values that are shown, and the longest step."""
LOWEST, HIGHEST = -100.0, 60.0
"""mV of the steady state that is drawn."""


class PulseRequest(Config):
    amplitude: float = option(10.0, "current of a pulse (µA/cm²)", low=-50, high=200)
    start: float = option(5.0, "when the first pulse begins (ms)", low=0, high=DURATION)
    length: float = option(50.0, "how long a pulse lasts (ms)", low=0, high=DURATION)
    again: float = option(0.0, "when a second pulse begins, after the first (ms); 0 for none", low=0, high=DURATION)
    temperature: float = option(6.3, "temperature T (°C)", low=0, high=30)
    sodium: float = option(120.0, "maximal sodium conductance ḡ_Na (mS/cm²)", low=0, high=300)
    potassium: float = option(36.0, "maximal potassium conductance ḡ_K (mS/cm²)", low=0, high=100)
    leak: float = option(0.3, "leak conductance ḡ_L (mS/cm²)", low=0.01, high=3)
    rest: Literal["-65", "-70"] = option("-65", "resting potential of the parameter set (mV)")


def open_view() -> dict[str, Any]:
    """Without a picture: the first simulation after an installation is compiled, which takes longer than a page may."""
    return {"duration": DURATION, **PulseRequest().to_dict()}


def simulate(request: PulseRequest) -> dict[str, Any]:
    config = HodgkinHuxleyConfig(
        temperature=request.temperature,
        sodium=request.sodium,
        potassium=request.potassium,
        leak=request.leak,
        resting_potential=float(request.rest),
    )
    model = HodgkinHuxley(config)
    every = math.ceil(SHOWN_STEP / min(COARSEST, largest_dt(config, "staggered")))
    dt, watched = SHOWN_STEP / every, torch.tensor([0])
    current = currents(request, dt)
    found = model.simulate(current, duration=DURATION, dt=dt, watch=watched)
    shown = slice(every - 1, None, every)
    traces = {"voltage": found.voltages, "n": found.n, "m": found.m, "h": found.h, "current": current}
    traces |= model.ionic_currents(found)
    axis = torch.linspace(LOWEST, HIGHEST, 81, dtype=torch.double)
    return {
        "step": SHOWN_STEP,
        **{name: trace[shown, 0].numpy().round(4).tolist() for name, trace in traces.items()},
        "spikes": [round(time, 3) for time in found.times.tolist()],
        "rate": float(found.rates()[0]),
        "peak": float(found.voltages.max()),
        "resting_voltage": model.rest,
        "steady": {"x": axis.tolist(), "y": steady_state(axis, config.speed, config.shift).n.tolist()},
    }


def currents(request: PulseRequest, dt: float) -> torch.Tensor:
    """The pulse, and the second where one is wanted; where they overlap, their sum."""
    amplitude, starts = torch.tensor([request.amplitude], dtype=torch.double), [request.start]
    if request.again > 0:
        starts.append(request.start + request.again)
    each = [pulse(amplitude, start=at, stop=at + request.length, duration=DURATION, dt=dt) for at in starts]
    return torch.stack(each).sum(0)


ACTIONS = {"open": open_view, "simulate": simulate}
