"""Leaky integrate-and-fire: a membrane that charges, leaks, and forgets when it has fired.

    τ_m dv/dt = v_rest + v_in − v                                    below the threshold θ
    v > θ:     a spike; v = v_reset for the refractory period τ_ref

Between spikes the equation is solved, not approximated, for an input that is held constant during each step of `dt` ms:

    v(t + dt) = v_∞ + (v(t) − v_∞) e^{−dt/τ_m}                       v_∞ = v_rest + v_in
    t* = τ_m ln((v_∞ − v)/(v_∞ − θ))                                 from v to the next spike
    rate = 1 / (τ_ref + τ_m ln((v_∞ − v_reset)/(v_∞ − θ)))           0 where v_∞ ≤ θ

Times are in ms and rates in Hz. The neuron of the textbook has no units of voltage: it rests at 0, fires at 1 and is
reset to 0. Any other is meant in mV, with an input v_in = R J, for instance 1.5 nA through 10 MΩ. (v − v_rest)/(θ −
v_rest) of it is a textbook neuron.

Spike times are `exact`, within the step, with a refractory period that begins and ends there (as in Nengo); or on the
`grid`: the threshold is looked at when a step ends, the spike is dated there, and the next round(τ_ref/dt) steps are
refractory (as in Brian2)."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.compilation import compiled
from neuropil.parts.synapses import interval_rates

SpikeTimes = Literal["exact", "grid"]

MOST_SPIKES = 100_000_000


class LIFConfig(Config):
    tau_m: float = option(20.0, "membrane time constant τ_m (ms)", above=0)
    tau_ref: float = option(2.0, "refractory period τ_ref after a spike (ms)", low=0)
    rest: float = option(0.0, "resting voltage; with 0 and a threshold of 1 voltages have no unit, otherwise mV")
    threshold: float = option(1.0, "threshold voltage θ")
    reset: float = option(0.0, "reset voltage after a spike")

    def validate(self) -> None:
        for name in ("tau_m", "tau_ref", "rest"):
            if not math.isfinite(getattr(self, name)):
                raise InputError(f"{name} must be a finite number", got=f"{getattr(self, name):g}")
        if not -math.inf < self.reset < self.threshold < math.inf:
            got = f"reset={self.reset:g} and threshold={self.threshold:g}"
            raise InputError("a neuron must be reset to below its threshold", got=got)

    @property
    def unit(self) -> str:
        """Of its voltages: none for the neuron of the textbook."""
        return "" if (self.rest, self.threshold) == (0, 1) else "mV"

    @property
    def levels(self) -> dict[str, Any]:
        """What a picture of its voltage marks."""
        return {"threshold": self.threshold, "reset": self.reset, "unit": self.unit}

    @property
    def summary(self) -> str:
        times = f"τ_m {self.tau_m:g} ms, τ_ref {self.tau_ref:g} ms"
        return f"{times}, threshold {self.threshold:g}, reset {self.reset:g}"


# --- the equation, one neuron and one step at a time ------------------------------------------------------------------


class Constants(NamedTuple):
    """What a step needs to know of a neuron, for the compiled functions."""

    dt: float
    decay: float
    tau_m: float
    tau_ref: float
    refractory_steps: int
    rest: float
    threshold: float
    reset: float


def constants(config: LIFConfig, dt: float) -> Constants:
    times = float(dt), math.exp(-dt / config.tau_m), float(config.tau_m), float(config.tau_ref)
    voltages = float(config.rest), float(config.threshold), float(config.reset)
    return Constants(*times, round(config.tau_ref / dt), *voltages)


@compiled
def leak(v, target, decay):
    # v(t + dt) = v_∞ + (v(t) − v_∞) e^{−dt/τ}
    return target + (v - target) * decay


@compiled
def grid_step(v, held, v_in, neuron):
    """A step with spikes on the grid: `held` counts the refractory steps that are left. Gives (v, held, spiked)."""
    if held > 0:
        v, held = neuron.reset, held - 1
    else:
        v = leak(v, neuron.rest + v_in, neuron.decay)
    spiked = v > neuron.threshold
    if spiked:
        v, held = neuron.reset, neuron.refractory_steps
    return v, held, spiked


@compiled
def until_spike(v, wait, v_in, left, neuron):
    """Go on for the `left` ms of a step, or to the next spike if it comes first; `wait` is what is left of the
    refractory period (ms). Gives (v, wait, ms gone by, spiked)."""
    if wait >= left:
        return v, wait - left, left, False
    free, target = left - wait, neuron.rest + v_in
    after = leak(v, target, neuron.decay if free == neuron.dt else math.exp(-free / neuron.tau_m))
    if after <= neuron.threshold and v <= neuron.threshold:
        return after, 0.0, left, False
    crossing = 0.0  # a voltage that begins above the threshold
    if v < neuron.threshold:
        # t* = τ_m ln((v_∞ − v)/(v_∞ − θ))
        crossing = neuron.tau_m * math.log1p((neuron.threshold - v) / (target - neuron.threshold))
    return neuron.reset, neuron.tau_ref, wait + min(crossing, free), True


# --- many neurons over time -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LIFRecording:
    """`times` (ms) and `neurons` of all spikes, by time; `voltages` of the watched neurons at the end of every step."""

    times: Float[Tensor, " spike"]
    neurons: Int[Tensor, " spike"]
    voltages: Float[Tensor, "step watched"]
    num_neurons: int
    duration: float

    def counts(self) -> Int[Tensor, " neuron"]:
        return torch.bincount(self.neurons, minlength=self.num_neurons)

    def first_steps(self, num_steps: int) -> "LIFRecording":
        duration = self.duration * num_steps / max(len(self.voltages), 1)
        early, voltages = self.times <= duration, self.voltages[:num_steps]
        return LIFRecording(self.times[early], self.neurons[early], voltages, self.num_neurons, duration)

    def rates(self) -> Float[Tensor, " neuron"]:
        """Hz, from the intervals between the first spike of a neuron and its last; 0 for fewer than two."""
        return interval_rates(self.times, self.neurons, self.num_neurons)


class LIF:
    """Any number of neurons of one kind, each with its own input."""

    def __init__(self, config: LIFConfig, spike_times: SpikeTimes = "exact"):
        self.config, self.spike_times = config, spike_times

    def largest_dt(self) -> float:
        """ms. A longer step would not see the membrane charge; on the grid, nor the refractory period end."""
        config = self.config
        return min(config.tau_m, config.tau_ref) if self.spike_times == "grid" and config.tau_ref > 0 else config.tau_m

    def simulate(
        self,
        v_in: Float[Tensor, " neuron"] | Float[Tensor, "step neuron"],
        *,
        duration: float,
        dt: float = 0.1,
        first: Float[Tensor, " voltage"] | None = None,
        watch: Int[Tensor, " watched"] | None = None,
    ) -> LIFRecording:
        """Run for `duration` ms in steps of `dt` ms. The input of each neuron is constant, or given for every step.
        `first` are initial voltages (rest without them); `watch` are the neurons whose voltages are recorded."""
        num_steps = self.num_steps(duration, dt)
        inputs = torch.atleast_2d(v_in.detach().to("cpu", torch.double))
        self._require_inputs(inputs, v_in, num_steps, duration)
        self._require_neurons(watch, inputs.shape[1])
        if first is not None and (len(first) != inputs.shape[1] or not torch.isfinite(first).all()):
            rule = f"first must have a finite voltage for each of the {inputs.shape[1]:,} neurons"
            raise InputError(rule, got=f"{len(first):,}" if torch.isfinite(first).all() else "some that are not finite")
        watched = torch.empty(0, dtype=torch.long) if watch is None else watch.to("cpu", torch.long)
        start = torch.full_like(inputs[0], self.config.rest) if first is None else first.to("cpu", torch.double)
        row_of, traces = np.full(inputs.shape[1], -1), np.empty((len(watched), num_steps))
        row_of[watched.numpy()] = np.arange(len(watched))
        exact, neuron = self.spike_times == "exact", constants(self.config, dt)
        times, neurons = run_all(inputs.contiguous().numpy(), start.numpy(), num_steps, row_of, traces, exact, neuron)
        order = np.argsort(times, kind="stable")
        found = (torch.from_numpy(part).to(v_in.device) for part in (times[order], neurons[order], traces.T))
        return LIFRecording(*found, num_neurons=inputs.shape[1], duration=num_steps * dt)

    def num_steps(self, duration: float, dt: float) -> int:
        self.require_dt(dt)
        if not dt <= duration < math.inf:
            got = f"{duration:g} ms in steps of {dt:g} ms"
            raise InputError("duration must be a time of at least one step", got=got)
        return round(duration / dt)

    def require_dt(self, dt: float) -> None:
        largest, times = self.largest_dt(), f"tau_m={self.config.tau_m:g} and tau_ref={self.config.tau_ref:g}"
        if not 0 < dt <= largest:
            rule = "dt must be a time above 0 ms and no longer than the time constants allow"
            raise InputError(rule, got=f"{dt:g}", fix=f"the largest that works for {times} is {largest:g}")

    def _require_inputs(self, inputs: Tensor, given: Tensor, num_steps: int, duration: float) -> None:
        if given.ndim == 2 and len(given) != num_steps:
            got = f"{len(given):,}"
            raise InputError(f"an input that changes must have a value for each of the {num_steps:,} steps", got=got)
        if not torch.isfinite(inputs).all():
            raise InputError("inputs must be finite numbers", got="some that are not", fix="see where they come from")
        highest = rate(inputs.amax(0), self.config).sum().item() * duration / 1000 if inputs.numel() else 0.0
        if highest > MOST_SPIKES:
            rule = f"a simulation may have up to {MOST_SPIKES:,} spikes"
            raise InputError(rule, got=f"inputs for up to {highest:.3g}", fix="make the inputs smaller")

    def _require_neurons(self, watch: Tensor | None, num_neurons: int) -> None:
        if watch is None or not len(watch):
            return
        if not 0 <= int(watch.min()) <= int(watch.max()) < num_neurons:
            got = f"{int(watch.min())} to {int(watch.max())}"
            raise InputError(f"watch must name neurons from 0 to {num_neurons - 1}", got=got)
        if len(watch.unique()) < len(watch):
            raise InputError("watch must name each neuron once", got="one twice")


@compiled
def exact_train(inputs, v, num_steps, times, trace, neuron):
    """One neuron for all steps: its spikes into `times`, as many as fit, its voltages into `trace`, if it has room.
    Gives the number of spikes, whether or not they fitted."""
    count, wait = 0, 0.0
    for step in range(num_steps):
        v_in, left = inputs[step if len(inputs) > 1 else 0], neuron.dt
        while left > 0:
            v, wait, gone, spiked = until_spike(v, wait, v_in, left, neuron)
            left -= gone
            if spiked:
                if count < len(times):
                    times[count] = (step + 1) * neuron.dt - left
                count += 1
        if len(trace):
            trace[step] = v
    return count


@compiled
def grid_train(inputs, v, num_steps, times, trace, neuron):
    """The same with spikes on the grid."""
    count, held = 0, 0
    for step in range(num_steps):
        v, held, spiked = grid_step(v, held, inputs[step if len(inputs) > 1 else 0], neuron)
        if spiked:
            if count < len(times):
                times[count] = (step + 1) * neuron.dt
            count += 1
        if len(trace):
            trace[step] = v
    return count


@compiled
def train(inputs, v, num_steps, times, trace, exact, neuron):
    if exact:
        return exact_train(inputs, v, num_steps, times, trace, neuron)
    return grid_train(inputs, v, num_steps, times, trace, neuron)


@compiled
def run_all(inputs, first, num_steps, row_of, traces, exact, neuron):
    """Neuron by neuron, for they do not know of each other: times and neurons of all spikes, and voltages into the row
    of `traces` that `row_of` names, or none where it is -1."""
    times, neurons, count = np.empty(1024), np.empty(1024, np.int64), 0
    for index in range(inputs.shape[1]):
        trace = traces[row_of[index]] if row_of[index] >= 0 else np.empty(0)
        found = train(inputs[:, index], first[index], num_steps, times[count:], trace, exact, neuron)
        if count + found > len(times):
            room = count + found + len(times)
            times, neurons = enlarged(times, room), enlarged(neurons, room)
            found = train(inputs[:, index], first[index], num_steps, times[count:], trace, exact, neuron)
        neurons[count : count + found] = index
        count += found
    return times[:count], neurons[:count]


@compiled
def enlarged(array, length):
    larger = np.empty(length, array.dtype)
    larger[: len(array)] = array
    return larger


# --- how fast it fires ------------------------------------------------------------------------------------------------


def rate(v_in: Float[Tensor, "*shape"], config: LIFConfig) -> Float[Tensor, "*shape"]:
    """Spikes per second for a constant input, by the formula."""
    target = config.rest + v_in
    fires = target > config.threshold
    above = torch.where(fires, target - config.threshold, 1.0)  # 1 where it does not fire: gradients stay finite
    # 1 / (τ_ref + τ_m ln((v_∞ − v_reset)/(v_∞ − θ)))
    interval = config.tau_ref + config.tau_m * torch.log1p((config.threshold - config.reset) / above)
    return torch.where(fires, 1000 / interval, 0.0)


def tuning_curve(
    v_in: Float[Tensor, " neuron"],
    config: LIFConfig,
    *,
    duration: float = 1000.0,
    dt: float = 0.1,
    spike_times: SpikeTimes = "exact",
) -> Float[Tensor, " neuron"]:
    """Spikes per second for each constant input, counted in a simulation."""
    return LIF(config, spike_times).simulate(v_in, duration=duration, dt=dt).rates().to(v_in.dtype)


SIZES = {"dimensionless": LIFConfig(), "cortical": LIFConfig(rest=-65.0, threshold=-50.0, reset=-65.0)}
