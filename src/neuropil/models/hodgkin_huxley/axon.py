"""What a physiologist does to an axon: pulses of current that find its threshold, its refractory period and the phases
of its action potential."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.models.hodgkin_huxley.currents import pulse
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig, Method
from neuropil.models.hodgkin_huxley.recording import HodgkinHuxleyRecording

Trace: TypeAlias = Float[Tensor, " step"]
Phase: TypeAlias = tuple[str, float, float]
"""Name, begin and end (ms)."""
PHASES = ("rest", "depolarisation", "rising: sodium enters", "falling: potassium leaves", "undershoot", "recovery")
PULSE, PULSE_AT, ANSWER = 1.0, 2.0, 25.0
"""ms: how long a pulse lasts, when it comes, and how long the answer to it is watched."""
LIFT = 0.9
"""Of the way from rest to a spike: how far a pulse alone may charge the capacitance, or the membrane does not
answer."""
MOST_RATIO = 8.0
"""How many times the threshold a second pulse may have."""


class Axon:
    """A membrane, and what is done to it, in time steps of `dt` ms."""

    def __init__(self, config: HodgkinHuxleyConfig, *, dt: float = 0.01, method: Method = "staggered"):
        self.model, self.dt, self.method = HodgkinHuxley(config), dt, method

    def run(self, current: Tensor, duration: float, *, watch: bool = False, **steps: Any) -> HodgkinHuxleyRecording:
        """With its own time step and method, or others."""
        watched = torch.arange(current.shape[-1]) if watch else None
        steps = {"dt": self.dt, "method": self.method} | steps
        return self.model.simulate(current, duration=duration, watch=watched, **steps)

    def times(self, recording: HodgkinHuxleyRecording) -> Float[Tensor, " step"]:
        """Ends of the steps (ms)."""
        return self.dt * torch.arange(1, len(recording.voltages) + 1, dtype=torch.double)

    def pulse(
        self, strength: Tensor, duration: float, *, start: float | Tensor = PULSE_AT, width: float | Tensor = PULSE
    ) -> Tensor:
        return pulse(strength, start=start, stop=start + width, duration=duration, dt=self.dt)

    def fires(self, current: Float[Tensor, "step neuron"], duration: float, times: int = 1) -> Bool[Tensor, " neuron"]:
        """Whether each neuron fires at least so many times."""
        return torch.bincount(self.run(current, duration).neurons, minlength=current.shape[1]) >= times

    def threshold(self) -> float | None:
        """The least strength (µA/cm²) of a pulse that sets off an action potential at rest; None if there is none."""
        found = self.least_strength(torch.tensor([PULSE], dtype=torch.double)).item()
        return None if math.isnan(found) else found

    def strongest(self, width: float | Tensor) -> Float[Tensor, "*width"]:
        """µA/cm² that a pulse may have. A long one may have what one of an ordinary width has."""
        neuron = self.model.config
        charge = LIFT * max(neuron.fires_at - self.model.rest, 0.0) * neuron.capacitance
        return charge / torch.as_tensor(width).clamp(max=PULSE)

    def least_strength(self, widths: Float[Tensor, " width"]) -> Float[Tensor, " width"]:
        duration = PULSE_AT + float(widths.max()) + ANSWER

        def fires(strength: Tensor) -> Tensor:
            return self.fires(self.pulse(strength, duration, width=widths), duration)

        return least(fires, self.strongest(widths))

    def least_second_strength(self, delays: Float[Tensor, " delay"], strength: float) -> Float[Tensor, " delay"]:
        """Of a second pulse, so that both are answered; NaN where nothing is enough."""
        duration = PULSE_AT + float(delays.max()) + ANSWER
        first = self.pulse(torch.full_like(delays, 1.5 * strength), duration)
        most = torch.full_like(delays, min(MOST_RATIO * strength, self.strongest(PULSE).item()))

        def both_fire(second: Tensor) -> Tensor:
            return self.fires(first + self.pulse(second, duration, start=PULSE_AT + delays), duration, times=2)

        return least(both_fire, most)


def least(enough: Callable[[Tensor], Bool[Tensor, " case"]], most: Float[Tensor, " case"]) -> Float[Tensor, " case"]:
    """The smallest strength up to `most` that is enough, for each case, by bisection; NaN where `most` is not."""
    low, high = torch.zeros_like(most), most.clone()
    missing = ~enough(most)
    for _ in range(16):
        middle = (low + high) / 2
        fired = enough(middle)
        low, high = torch.where(fired, low, middle), torch.where(fired, middle, high)
    return torch.where(missing, math.nan, high)


def phases_of(times: Trace, voltage: Trace, outward: Trace, rest: float, stimulus: float) -> list[Phase]:
    """The phases of an action potential that a pulse at `stimulus` ms sets off: name, begin and end (ms). It takes off
    where more flows in through the membrane than out, and is below rest until it comes back from below."""
    peak = int(voltage.argmax())
    outwards = ((outward > 0) & (times < times[peak]) & (times > stimulus)).nonzero()
    takes_off = int(outwards[-1]) + 1 if len(outwards) else int((times > stimulus).nonzero()[0])
    back = peak + int((voltage[peak:] < rest).int().argmax())
    again = back + int((voltage[back:] > rest).int().argmax())
    borders = [0.0, stimulus, *(times[step].item() for step in (takes_off, peak, back, again, -1))]
    named = zip(PHASES, borders[:-1], borders[1:], strict=True)
    return [(name, begin, end) for name, begin, end in named if end > begin]
