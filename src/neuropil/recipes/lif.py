"""Leaky integrate-and-fire neuron: membrane, tuning curve, refractory period and synapses, beside the formula.

Neurons with constant inputs charge, fire and are reset. A sweep of inputs gives the tuning curve, counted in the
simulation and computed by the formula, with exact spike times and with spikes on the grid of time steps. Then an input
that changes, yours if you give a file, and the synaptic filters that turn spikes back into something smooth.

Inputs are counted in units of the rheobase, the smallest that makes the neuron fire: 1 for the textbook's neuron.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.formats.traces import Traces, read_traces
from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import spikes as pictures
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.lif import LIF, LIFConfig, LIFRecording, SpikeTimes, rate
from neuropil.parts.synapses import Synapse, latencies
from neuropil.progress import Display
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, TRACES, Findings, Study, write_arrays

Times: TypeAlias = Float[Tensor, " step"]
Inputs: TypeAlias = Float[Tensor, " neuron"]
Rates: TypeAlias = Float[Tensor, " point"]
Counted: TypeAlias = Mapping[SpikeTimes, LIFRecording]

MOST_STEPS = 2_000_000
SHOWN = 500.0
"""ms: what pictures show of a longer simulation."""
CURVE_POINTS, CURVE_TOP = 60, 6.0
REFRACTORY_PERIODS = (0.0, 2.0, 5.0)
OTHER_MODE: dict[SpikeTimes, SpikeTimes] = {"exact": "grid", "grid": "exact"}
MODE_NAMES: dict[SpikeTimes, str] = {"exact": "exact spike times", "grid": "spikes on the grid"}


class LIFOptions(Config):
    neuron: LIFConfig = LIFConfig()
    inputs: tuple[float, ...] = option((0.95, 1.05, 1.3, 2.0, 4.0), "constant inputs in units of the rheobase")
    drive: Path | None = option(None, "CSV of inputs over time: a column for each neuron, optionally time (ms)")
    duration: float = option(200.0, "simulated time (ms)")
    dt: float = option(0.1, "time step (ms)")
    spike_times: SpikeTimes = option("exact", "spike times: exact, within the step, or on the grid of steps")
    tau_s: float = option(5.0, "synaptic time constant (ms)")
    orders: tuple[int, ...] = option((0, 1, 2, 3), "orders of the synaptic filters", low=0)
    delay: float = option(0.0, "synaptic delay (ms)", low=0)

    def validate(self) -> None:
        for name, values in (("inputs", self.inputs), ("orders", self.orders)):
            if not values:
                raise InputError(f"--{name} needs at least one number", got="none")
        if self.neuron.threshold <= self.neuron.rest:
            got = f"rest={self.neuron.rest:g} and threshold={self.neuron.threshold:g}"
            rule = "a neuron whose input is counted in units of its rheobase must rest below its threshold"
            raise InputError(rule, got=got)
        for order in self.orders:
            Synapse(self.tau_s, order, self.delay)
        num_steps = LIF(self.neuron, self.spike_times).num_steps(self.duration, self.dt)
        if num_steps > MOST_STEPS:
            fix = "make --duration shorter or --dt longer"
            raise InputError(f"a simulation may have up to {MOST_STEPS:,} steps", got=f"{num_steps:,}", fix=fix)
        if not self.dt <= self.tau_s:
            fix = f"the largest that works is {self.tau_s:g}"
            raise InputError("dt must be no longer than the synapses last", got=f"{self.dt:g}", fix=fix)

    @property
    def rheobase(self) -> float:
        """The input above which the neuron fires, in its own unit."""
        return self.neuron.threshold - self.neuron.rest

    @property
    def long(self) -> float:
        """ms: enough for many spikes of the slowest neuron of the curve."""
        return 100 * (self.neuron.tau_m + self.neuron.tau_ref)


def build(options: LIFOptions, seed: int) -> Study:
    drive = None if options.drive is None else read_traces(options.drive)
    facts = {} if options.drive is None else {"source": f"inputs of {options.drive.name}"}
    return Study("lif", partial(_compute, options, drive), facts)


def _compute(options: LIFOptions, drive: Traces | None, folder: Path, display: Display) -> Findings:
    simulator = LIF(options.neuron, options.spike_times)
    num_steps = simulator.num_steps(options.duration, options.dt)
    times = options.dt * torch.arange(1, num_steps + 1, dtype=torch.double)

    inputs = options.rheobase * torch.tensor(options.inputs, dtype=torch.double)
    constant = simulator.simulate(inputs, duration=options.duration, dt=options.dt, watch=torch.arange(len(inputs)))
    display.update(0.2, "constant inputs")
    curve = options.rheobase * CURVE_TOP * torch.arange(1, CURVE_POINTS + 1, dtype=torch.double) / CURVE_POINTS
    modes: list[SpikeTimes] = [options.spike_times, OTHER_MODE[options.spike_times]]
    step = min(max(options.dt, options.long / MOST_STEPS), *(LIF(options.neuron, mode).largest_dt() for mode in modes))
    long = options.long
    counted: Counted = {mode: LIF(options.neuron, mode).simulate(curve, duration=long, dt=step) for mode in modes}
    display.update(0.6, "tuning curve")
    names, changing = _changing(options, drive, times, num_steps)
    watch = torch.arange(changing.shape[1])
    driven = simulator.simulate(changing, duration=options.duration, dt=options.dt, watch=watch)
    display.update(0.8, "changing input")
    spikes = {"times": constant.times, "neurons": constant.neurons}
    write_arrays(folder / SPIKES, **spikes, driven_times=driven.times, driven_neurons=driven.neurons)
    traces = {"times": times, "inputs": inputs, "voltages": constant.voltages}
    write_arrays(folder / TRACES, **traces, driven_inputs=changing, driven_voltages=driven.voltages)
    asked = _neuron_results([f"v_in = {_written(value, options.neuron.unit)}" for value in inputs.tolist()], constant)
    asked += _neuron_results(names, driven) if drive else []
    shown = times[: max(round(SHOWN / options.dt), 1)]
    constant, driven = constant.first_steps(len(shown)), driven.first_steps(len(shown))
    sections = [
        _membrane_section(options, inputs, shown, constant),
        _tuning_section(options, inputs, curve, counted, step),
        _raster_section(options, curve),
        _refractory_section(options),
        _driven_section(options, names if drive else [""], changing[: len(shown)], shown, driven),
        _synapse_section(options, shown, constant),
    ]
    return Findings([*_results(rate(curve, options.neuron), counted), *asked], sections)


def _neuron_results(names: Sequence[str], recording: LIFRecording) -> list[Result]:
    """Of each input: how fast the neuron fires, and when first, if it does."""
    first = latencies(recording.times, recording.neurons, recording.num_neurons).tolist()
    results = []
    for name, rate_hz, latency in zip(names, recording.rates().tolist(), first, strict=True):
        results.append(Result(name, {"rate_hz": rate_hz} | ({} if math.isnan(latency) else {"latency_ms": latency})))
    return results


def _results(formula: Rates, counted: Counted) -> list[Result]:
    """The run's own mode, the formula, and the other mode."""

    def mean(rates: Rates) -> dict[str, float]:
        return {"mean_rate_hz": round(rates.mean().item(), 9)}  # beyond that, rounding decides which of two is larger

    errors = {mode: {"largest_rate_error": _largest_error(each.rates(), formula)} for mode, each in counted.items()}
    own, other = (Result(MODE_NAMES[mode], mean(each.rates()) | errors[mode]) for mode, each in counted.items())
    return [own, Result("the formula", mean(formula)), other]


def _largest_error(rates: Rates, formula: Rates) -> float:
    """As a share of the rate, where the neuron fires."""
    fires = formula > 0
    return (rates[fires] / formula[fires] - 1).abs().max().item()


def _membrane_section(options: LIFOptions, inputs: Inputs, times: Times, recording: LIFRecording) -> Section:
    neuron = options.neuron
    words = (
        "Each neuron has a constant input. Its voltage goes towards rest + v_in with the time constant τ_m = "
        f"{neuron.tau_m:g} ms. Where that lies above the threshold (dashed) it gets there: a spike, marked in orange, "
        f"then {neuron.tau_ref:g} ms at the reset voltage. An input below the threshold is never enough, however long "
        "it lasts. The shape of a spike is always the same, so the model has only its time."
    )
    names = [f"v_in = {_written(value, neuron.unit)}" for value in inputs.tolist()]
    trains = [recording.times[recording.neurons == index] for index in range(len(names))]
    figure = pictures.membranes(times, recording.voltages, trains, names, **neuron.levels)
    return Section.illustrated("Membrane voltage", words, figure, "voltages over time, with spikes")


def _tuning_section(options: LIFOptions, inputs: Inputs, curve: Rates, counted: Counted, step: float) -> Section:
    neuron, formula = options.neuron, rate(curve, options.neuron)
    errors = {mode: _largest_error(recording.rates(), formula) for mode, recording in counted.items()}
    words = (
        "For a constant input the equation can be solved for the time from one spike to the next, which gives the "
        f"rate: the line. The marks are counted in a simulation of {options.long / 1000:g} s in steps of {step:g} ms. "
        f"Where spikes happen within a step, they differ by up to {100 * errors['exact']:.2g} %; where each waits for "
        f"the end of its step, by up to {100 * errors['grid']:.2g} %."
    )
    own = LIF(neuron, options.spike_times).simulate(inputs, duration=options.long, dt=step)
    columns = inputs.tolist(), rate(inputs, neuron).tolist(), own.rates().tolist(), own.counts().tolist()
    rows = []
    for value, expected, found, count in zip(*columns, strict=True):
        rows.append([_written(value, neuron.unit), f"{expected:.3f}", f"{found:.3f}", str(count)])
    dense = curve[-1] * torch.linspace(0, 1, 601, dtype=torch.double)
    rates = {MODE_NAMES[mode]: recording.rates() for mode, recording in counted.items()}
    figure = pictures.tuning_curve(curve, rates, formula, (dense, rate(dense, neuron)), unit=neuron.unit)
    header = ["v_in", "rate by the formula (Hz)", "rate in the simulation (Hz)", f"spikes in {options.long / 1000:g} s"]
    table = Table(header, rows, "The rate in the simulation is one over the mean interval between spikes.")
    return Section.illustrated("Tuning curve", words, figure, "tuning curve, counted and by the formula", table)


def _raster_section(options: LIFOptions, curve: Rates) -> Section:
    duration = min(options.duration, SHOWN)
    recording = LIF(options.neuron, options.spike_times).simulate(curve, duration=duration, dt=options.dt)
    words = (
        f"The same sweep as a raster: {CURVE_POINTS} neurons that start together, each with more input than the one "
    )
    words += f"below it, every spike a tick. The lowest {int((curve <= options.rheobase).sum())} never fire."
    spikes = {"all": (recording.times, recording.neurons)}
    figure = pictures.raster(spikes, {"all": CURVE_POINTS}, duration=duration, ylabel="neuron, by its input")
    return Section.illustrated("Raster", words, figure, "spikes of neurons with growing inputs over time")


def _refractory_section(options: LIFOptions) -> Section:
    neuron = options.neuron
    v_in = options.rheobase * torch.linspace(0, 20, 401, dtype=torch.double)
    periods = sorted({*REFRACTORY_PERIODS, float(neuron.tau_ref)})
    curves = {f"τ_ref = {period:g} ms": rate(v_in, neuron.override(tau_ref=period)) for period in periods}
    words = (
        "After a spike the neuron ignores its input for τ_ref. It never fires faster than 1/τ_ref (dotted), so the "
        "curve saturates; without a refractory period it would grow with the input for ever."
    )
    ceilings = [1000 / period if period else None for period in periods]
    figure = pictures.rate_curves(v_in, curves, ceilings, unit=neuron.unit)
    return Section.illustrated("Refractory period", words, figure, "rates for several refractory periods")


def _changing(options: LIFOptions, drive: Traces | None, times: Times, num_steps: int) -> tuple[Sequence[str], Tensor]:
    """The user's inputs, or one that rises, swings and falls silent."""
    if drive is not None:
        return drive.names, options.rheobase * drive.at_steps(num_steps, options.dt)
    share = times / options.duration
    swinging = 2.2 + 1.4 * torch.sin(2 * math.pi * 2.5 * share)
    return ("input that changes",), options.rheobase * torch.where(share < 0.8, swinging, 0.0).unsqueeze(1)


def _driven_section(
    options: LIFOptions, names: Sequence[str], v_in: Tensor, times: Times, recording: LIFRecording
) -> Section:
    neuron, synapse = options.neuron, Synapse(2 * options.tau_s, 1)
    words = (
        "A changing input is held during each step, and the solution goes on from there. The formula's rate for the "
        "momentary input is what the neuron would do if it had time. Its spikes, filtered by a slow synapse (τ = "
        f"{synapse.tau:g} ms, n = {synapse.order}), stand beside it."
    )
    blocks: list[Text | Picture] = [Text(words)]
    for index, name in enumerate(names[:6]):
        train = recording.times[recording.neurons == index]
        rates = {
            "formula for the momentary input": rate(v_in[:, index], neuron),
            "filtered spikes": 1000 * synapse.filter_times(train, len(times), options.dt),
        }
        figure = pictures.driven(times, v_in[:, index], recording.voltages[:, index], train, rates, **neuron.levels)
        alt = "an input that changes, the voltage with spikes, and rates"
        blocks.append(Picture.of(figure, alt=alt, caption=name))
    return Section("Changing input", blocks)


def _synapse_section(options: LIFOptions, times: Times, recording: LIFRecording) -> Section:
    synapses = {f"n = {order}": Synapse(options.tau_s, order, options.delay) for order in options.orders}
    firing = recording.neurons.unique().tolist() or [0]
    # of middling rate: fast enough for filtered spikes to overlap, slow enough to tell them apart
    train = recording.times[recording.neurons == firing[len(firing) // 2]]
    t = torch.linspace(0, options.delay + options.tau_s * (max(options.orders) + 6), 400, dtype=torch.double)
    filtered = {name: synapse.filter_times(train, len(times), options.dt) for name, synapse in synapses.items()}
    rows = [
        [name, f"{_area(synapse):.6f}", f"{synapse.delay + synapse.order * synapse.tau:g}", f"{difference:.1g}"]
        for name, synapse in synapses.items()
        for difference in [(_summed(synapse, times, train) - filtered[name]).abs().max().item()]
    ]
    after = f" after {options.delay:g} ms" if options.delay else ""
    words = (
        "A spike lets transmitter into the cleft, and the neuron behind it receives a current that rises and fades: "
        f"h(t) = tⁿ e^(−t/τ) / (n! τⁿ⁺¹), here with τ = {options.tau_s:g} ms{after}. Whatever n, its area is one, so "
        "that a higher order comes later and lasts longer but weighs the same. A chain of n + 1 leaks computes it step "
        "by step, without remembering any spike; the last column says how far that is from adding up h for every spike."
    )
    table = Table(["order", "area", "peak after (ms)", "largest difference (1/ms)"], rows)
    responses = {name: synapse.response(t) for name, synapse in synapses.items()}
    figure = pictures.synaptic_filters(t, responses, times, filtered, train)
    return Section.illustrated("Synapses", words, figure, "synaptic filters, and a train of spikes through them", table)


def _area(synapse: Synapse) -> float:
    """∫ h dt by the trapezoidal rule."""
    t = torch.linspace(synapse.delay, synapse.delay + synapse.tau * (synapse.order + 40), 40_001, dtype=torch.double)
    return torch.trapezoid(synapse.response(t), t).item()


def _summed(synapse: Synapse, times: Times, train: Float[Tensor, " spike"]) -> Times:
    # s(t) = Σ_p h(t − t_p); a spike at the very end of a step, up to rounding, belongs to it
    return synapse.response(times.unsqueeze(1) + 1e-9 - train).sum(1)


def _written(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".strip()


RECIPE = Recipe(LIFOptions(), build, verb="simulate", about="models.lif")
