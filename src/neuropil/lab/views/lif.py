"""A row of leaky integrate-and-fire neurons: membrane, spikes and rate under a current that is moved or drawn by
hand."""

from typing import Any

import numpy as np
import torch

from neuropil.config import Config, option
from neuropil.lab.bounds import require_length
from neuropil.models.lif import LIF, LIFConfig, rate

DURATION, DT, NEURONS = 300.0, 0.1, 20
EVERY = 4
"""Steps of the membrane's trace that are shown."""
MOST_POINTS = 120
"""Of a current that is drawn."""


class MembraneRequest(Config):
    current: float = option(1.2, "input, in units in which the threshold is 1", low=-1, high=5)
    spread: float = option(0.3, "how far the inputs of the row lie apart", low=0, high=2)
    noise: float = option(0.0, "standard deviation of white noise on the input, new in each step", low=0, high=5)
    tau_m: float = option(20.0, "membrane time constant τ_m (ms)", low=2, high=100)
    tau_ref: float = option(2.0, "refractory period τ_ref (ms)", low=0, high=20)
    drawn: tuple[float, ...] = option((), "currents at times evenly apart; none if it stays", low=-5, high=5)

    def validate(self) -> None:
        require_length("drawn", self.drawn, MOST_POINTS)


def open_view() -> dict[str, Any]:
    request = MembraneRequest()
    return {"duration": DURATION, "neurons": NEURONS, **request.to_dict(), "shown": simulate(request)}


def simulate(request: MembraneRequest) -> dict[str, Any]:
    """The first neuron has the current itself, the others of the row less and more. A current that is drawn goes
    straight from point to point, the first at the beginning and the last at the end."""
    config, num_steps = LIFConfig(tau_m=request.tau_m, tau_ref=request.tau_ref), round(DURATION / DT)
    offsets = torch.cat([torch.zeros(1), request.spread * torch.linspace(-1, 1, NEURONS)])
    inputs = request.current + offsets
    if request.drawn:
        times = np.linspace(0, num_steps - 1, len(request.drawn))
        inputs = torch.from_numpy(np.interp(np.arange(num_steps), times, request.drawn))[:, None] + offsets
    if request.noise:
        noise = torch.randn(num_steps, len(offsets), generator=torch.Generator().manual_seed(0))
        inputs = inputs + request.noise * noise
    found = LIF(config).simulate(inputs, duration=DURATION, dt=DT, watch=torch.tensor([0]))
    row = found.neurons > 0
    axis = torch.linspace(0, 3, 61)
    return {
        "voltage": [round(value, 4) for value in found.voltages[::EVERY, 0].tolist()],
        "step": DT * EVERY,
        "spikes": [round(time, 2) for time in found.times[found.neurons == 0].tolist()],
        "times": [round(time, 2) for time in found.times[row].tolist()],
        "rows": (found.neurons[row] - 1).tolist(),
        "rate": float(found.rates()[0]),
        "expected": None if request.drawn else float(rate(torch.tensor(request.current), config)),
        "curve": {"x": axis.tolist(), "y": rate(axis, config).tolist()},
    }


ACTIONS = {"open": open_view, "simulate": simulate}
