"""Hodgkin–Huxley axon: action potential and its phases, gates, threshold, refractory period, f–I curve, integration
error.

Every experiment is what a physiologist would do to an axon: short pulses of growing strength find the threshold and how
it depends on their width; two pulses one after the other show when it can fire again; constant currents give the f–I
curve. Then your own current, if you give a file, and the error of the time steps, measured against much shorter ones.

The membrane is yours to change: warm it, block its sodium channels (`--sodium 40`), shift its reversal potentials
(`--potassium-reversal`), or put rest at −70 mV (`--resting-potential -70`). With `--pump` its ion concentrations change
too, and the sodium–potassium pump restores them.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.formats.traces import Traces, read_traces
from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import neurons as pictures
from neuropil.inspection.report.page import Number, Numbers, Picture, Section, Table, Text
from neuropil.metrics import find_metric
from neuropil.models.hodgkin_huxley import neuron as equations
from neuropil.models.hodgkin_huxley.currents import pulse as current_pulse
from neuropil.models.hodgkin_huxley.neuron import (
    STEPS,
    HodgkinHuxley,
    HodgkinHuxleyConfig,
    Method,
)
from neuropil.models.hodgkin_huxley.pump import IonRecording, PumpConfig, PumpedAxon
from neuropil.models.hodgkin_huxley.recording import HodgkinHuxleyRecording
from neuropil.parts.synapses import latencies
from neuropil.progress import Display
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, TRACES, Findings, Study, write_arrays

Trace: TypeAlias = Float[Tensor, " step"]
Rates: TypeAlias = Float[Tensor, " point"]
Phase: TypeAlias = tuple[str, float, float]
"""Name, begin and end (ms)."""
PHASES = ("rest", "depolarisation", "rising: sodium enters", "falling: potassium leaves", "undershoot", "recovery")
PULSE, PULSE_AT, ANSWER = 1.0, 2.0, 25.0
"""ms: how long a pulse lasts, when it comes, and how long the answer to it is watched."""
LIFT = 0.9
"""Of the way from rest to a spike: how far a pulse alone may charge the capacitance, or the membrane does not
answer."""
WIDTHS = (0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 15.0)
DELAYS, SHOWN_DELAYS, MOST_RATIO = torch.arange(2.0, 30.01, 0.5, dtype=torch.double), (5.0, 9.0, 12.0, 20.0), 8.0
"""Delays (ms) between two pulses, and how many times the threshold the second may have."""
CURVE, CURVE_DURATION, CURVE_SETTLED = torch.linspace(0, 100, 201, dtype=torch.double), 500.0, 150.0
"""µA/cm² and ms."""
STEP_TEST, STEP_FACTORS, FINE = 100.0, (0.5, 1, 2, 4, 8), 10
"""ms of the comparison of time steps, multiples of the options' step, and how much finer the reference is."""
FIRING, RECOVERY, EVERY = 5_000.0, 40_000.0, 5.0
"""ms for which a current is given to an axon with a pump, for which it then recovers, and between two samples."""
MOST_KEPT = 20_000_000
METHOD_NAMES: dict[Method, str] = {"staggered": "staggered", "exponential_euler": "exponential Euler", "rk4": "rk4"}


class HodgkinHuxleyOptions(Config):
    neuron: HodgkinHuxleyConfig = HodgkinHuxleyConfig()
    ions: PumpConfig = PumpConfig()
    currents: tuple[float, ...] = option((3.0, 7.0, 10.0, 30.0), "constant currents (µA/cm²), a neuron for each")
    drive: Path | None = option(None, "CSV of currents (µA/cm²): a column for each neuron, optionally time (ms)")
    duration: float = option(100.0, "simulated time (ms)")
    dt: float = option(0.01, "time step (ms)")
    method: Method = option("staggered", "integration method")

    def validate(self) -> None:
        if not self.currents:
            raise InputError("--currents needs at least one number", got="none")
        if self.drive is not None and self.currents != type(self).currents:
            raise InputError("--currents has no effect beside --drive", fix="leave one of them out")
        for current in self.currents:
            if not math.isfinite(current):
                raise InputError("currents must be finite", got=f"{current:g}")
        model = HodgkinHuxley(self.neuron)
        model.num_steps(self.duration, self.dt, self.method, min(0.0, *self.currents))
        if self.ions.pump:
            PumpedAxon(model, self.ions)
            equations.require_dt(self.neuron, self.dt, "staggered")


def build(options: HodgkinHuxleyOptions, seed: int) -> Study:
    drive = None if options.drive is None else read_traces(options.drive)
    if drive is not None:
        equations.require_dt(options.neuron, options.dt, options.method, drive.values.min().item())
    kept = round(options.duration / options.dt) * len(options.currents if drive is None else drive.names)
    if kept > MOST_KEPT:
        fix = "make it shorter, or its steps longer"
        raise InputError(f"a run keeps up to {MOST_KEPT:,} voltages", got=f"{kept:,}", fix=fix)
    facts = {} if options.drive is None else {"source": f"currents of {options.drive.name}"}
    return Study("hodgkin-huxley", partial(_compute, Axon(options), drive), facts)


def _compute(axon: "Axon", drive: Traces | None, folder: Path, display: Display) -> Findings:
    options = axon.options
    threshold = axon.threshold()
    if threshold is None:
        sections = [_silent_section(axon), _gate_section(axon)]
    else:
        display.update(0.1, f"threshold for {PULSE:g} ms: {threshold:.2f} µA/cm²")
        sections = [_action_potential_section(axon, threshold), _gate_section(axon)]
        sections += [_threshold_section(axon, threshold), _refractory_section(axon, threshold)]
    display.update(0.4, "f–I curve")
    rates = axon.run(CURVE, CURVE_DURATION).rates(CURVE_SETTLED)
    sections.append(_rate_section(rates, options.neuron.fires_at))
    display.update(0.7, "given currents")
    names, currents = _given_currents(options, drive)
    recording = axon.run(currents, options.duration, watch=True)
    write_arrays(folder / SPIKES, times=recording.times, neurons=recording.neurons)
    times = axon.times(recording)
    traces = {"voltages": recording.voltages, "n": recording.n, "m": recording.m, "h": recording.h}
    write_arrays(folder / TRACES, times=times, currents=currents, **traces)
    sections.append(_given_section(axon, names, currents, recording))
    if options.ions.pump:
        display.update(0.75, "the sodium–potassium pump")
        sections.append(_pump_section(axon, rates))
    display.update(0.9, "steps of several lengths")
    results, section = _step_section(axon, rates)
    return Findings([*results, *_neuron_results(names, recording)], [*sections, section])


# --- experiments ------------------------------------------------------------------------------------------------------


class Axon:
    """The membrane of the options, and what is done to it."""

    def __init__(self, options: HodgkinHuxleyOptions):
        self.options, self.model = options, HodgkinHuxley(options.neuron)

    def run(self, current: Tensor, duration: float, *, watch: bool = False, **steps: Any) -> HodgkinHuxleyRecording:
        """With the options' time step and method, or others."""
        watched = torch.arange(current.shape[-1]) if watch else None
        steps = {"dt": self.options.dt, "method": self.options.method} | steps
        return self.model.simulate(current, duration=duration, watch=watched, **steps)

    def times(self, recording: HodgkinHuxleyRecording) -> Float[Tensor, " step"]:
        """Ends of the steps (ms)."""
        return self.options.dt * torch.arange(1, len(recording.voltages) + 1, dtype=torch.double)

    def pulse(
        self, strength: Tensor, duration: float, *, start: float | Tensor = PULSE_AT, width: float | Tensor = PULSE
    ) -> Tensor:
        return current_pulse(strength, start=start, stop=start + width, duration=duration, dt=self.options.dt)

    def fires(self, current: Float[Tensor, "step neuron"], duration: float, times: int = 1) -> Bool[Tensor, " neuron"]:
        """Whether each neuron fires at least so many times."""
        return torch.bincount(self.run(current, duration).neurons, minlength=current.shape[1]) >= times

    def threshold(self) -> float | None:
        """The least strength (µA/cm²) of a pulse that sets off an action potential at rest; None if there is none."""
        found = self.least_strength(torch.tensor([PULSE], dtype=torch.double)).item()
        return None if math.isnan(found) else found

    def strongest(self, width: float | Tensor) -> Float[Tensor, "*width"]:
        """µA/cm² that a pulse may have. A long one may have what one of an ordinary width has."""
        neuron = self.options.neuron
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


def _given_currents(options: HodgkinHuxleyOptions, drive: Traces | None) -> tuple[Sequence[str], Tensor]:
    num_steps = round(options.duration / options.dt)
    if drive is not None:
        return drive.names, drive.at_steps(num_steps, options.dt)
    constant = torch.tensor(options.currents, dtype=torch.double)
    return tuple(f"{current:g} µA/cm²" for current in options.currents), constant.expand(num_steps, -1)


# --- the report -------------------------------------------------------------------------------------------------------


def _silent_section(axon: Axon) -> Section:
    words = (
        f"This membrane rests at {_millivolts(axon.model.rest)}. It answers no pulse of {PULSE:g} ms up to "
        f"{axon.strongest(PULSE):.0f} µA/cm² with a spike; a stronger one would lift its voltage that far by itself. "
        "So it has no threshold, refractory period or phases. Change its conductances or reversal potentials to see it "
        "fire."
    )
    return Section("No threshold", [Text(words)])


def _action_potential_section(axon: Axon, threshold: float) -> Section:
    duration, strength = PULSE_AT + ANSWER, torch.tensor([1.5 * threshold], dtype=torch.double)
    recording = axon.run(axon.pulse(strength, duration), duration, watch=True)
    times = axon.times(recording)
    flows = {ion: flow[:, 0] for ion, flow in axon.model.ionic_currents(recording).items()}
    voltage, rest, neuron = recording.voltages[:, 0], axon.model.rest, axon.options.neuron
    phases = phases_of(times, voltage, torch.stack(list(flows.values())).sum(0), rest, PULSE_AT)
    names = {"n": "n opens potassium", "m": "m opens sodium", "h": "h closes it"}
    gates = {name: getattr(recording, gate)[:, 0] for gate, name in names.items()}
    sodium, potassium, _ = neuron.reversals
    levels = {"E_Na": sodium, "rest": rest, "E_K": potassium}
    words = (
        f"A pulse of {1.5 * threshold:.1f} µA/cm² for {PULSE:g} ms, half as strong again as it need be. It lifts the "
        "voltage until the m gates, which are fast, let in more sodium than leaves as potassium. From there on the "
        "membrane goes by itself: what enters opens more gates. The slow gates then close sodium off (h) and let "
        f"potassium out (n){_undershoot(voltage, rest)}."
    )
    took_off = next((begin for name, begin, _ in phases if name.startswith("rising")), PULSE_AT)
    level = voltage[int(round(took_off / axon.options.dt)) - 1].item()
    late = f"{times[voltage.argmax()] - PULSE_AT:.2f} ms after the pulse began"
    facts = [
        Number("rest", _millivolts(rest)),
        Number("takes off at", _millivolts(level), "where more flows in than out"),
        Number("peak", _millivolts(voltage.max().item()), late),
        Number("lowest", _millivolts(voltage.min().item()), f"E_K is {_millivolts(potassium)}"),
    ]
    rows = [[str(k), name, f"{begin:.2f}", f"{end - begin:.2f}"] for k, (name, begin, end) in enumerate(phases, 1)]
    table = Table(["", "phase", "begins (ms)", "lasts (ms)"], rows)
    figure = pictures.action_potential(times, voltage, phases, gates, flows, levels)
    picture = Picture.of(figure, alt="an action potential with its phases, gates and currents")
    return Section("An action potential", [Numbers(facts), Text(words), picture, table])


def _undershoot(voltage: Trace, rest: float) -> str:
    below = rest - voltage[int(voltage.argmax()) :].min().item()
    return f", which takes the voltage {below:.1f} mV below rest" if below > 0 else ", and the voltage stays above rest"


def _millivolts(voltage: float) -> str:
    return f"{voltage:.1f} mV".replace("-", "−")


def _gate_section(axon: Axon) -> Section:
    v, neuron = torch.linspace(-110, 60, 341, dtype=torch.double), axon.options.neuron
    steady = dict(zip("nmh", equations.steady_state(v, neuron.speed, neuron.shift)[1:], strict=True))
    constants = dict(zip("nmh", equations.time_constants(v, neuron.speed, neuron.shift), strict=True))
    at_rest = int((v - axon.model.rest).abs().argmin())
    ratios = {gate: (constants[gate] / constants["m"])[at_rest].item() for gate in "nh"}
    words = (
        "The steady state and the time constant of each gate depend on the voltage alone. At rest m, which opens "
        f"sodium, is {ratios['n']:.1f} times as fast as n, which opens potassium, and {ratios['h']:.1f} times as fast "
        "as h, which closes sodium. A spike is that race."
    )
    figure = pictures.gate_curves(v, steady, constants, rest=axon.model.rest)
    return Section.illustrated("Gates", words, figure, "steady states and time constants of the gates")


def _threshold_section(axon: Axon, threshold: float) -> Section:
    widths = torch.tensor(WIDTHS, dtype=torch.double)
    widths = widths[widths >= axon.options.dt]
    strengths = axon.least_strength(widths)
    widths, strengths = widths[~strengths.isnan()], strengths[~strengths.isnan()]
    rheobase = strengths[-1].item()
    chronaxie = float(np.interp(2 * rheobase, strengths.flip(0), widths.flip(0), left=math.nan, right=math.nan))
    shares, duration = torch.tensor([0.6, 0.9, 0.99, 1.01, 1.5], dtype=torch.double), PULSE_AT + ANSWER / 2
    recording = axon.run(axon.pulse(shares * threshold, duration), duration, watch=True)
    times = axon.times(recording)
    pulses, limits = (times, recording.voltages, (shares * threshold).tolist()), (widths, strengths)
    figure = pictures.all_or_none(*pulses, *limits, rheobase=rheobase, chronaxie=chronaxie)
    words = (
        f"A pulse of {PULSE:g} ms must have {threshold:.2f} µA/cm². One per cent less reaches {_peak(recording, 2)}; "
        f"one per cent more {_peak(recording, 3)}, and half as much again {_peak(recording, 4)}. The shortest pulse, "
        f"of {widths[0]:g} ms, takes {strengths[0]:.3g} µA/cm², one of {widths[-1]:g} ms {rheobase:.2f} µA/cm² (the "
        "rheobase)."
    )
    alt = "pulses below and above the threshold, and strength by duration"
    return Section.illustrated("The threshold", words, figure, alt)


def _peak(recording: HodgkinHuxleyRecording, neuron: int) -> str:
    """How high the voltage gets, and whether that is a spike."""
    peak, fired = recording.voltages[:, neuron].max().item(), bool((recording.neurons == neuron).any())
    return f"{_millivolts(peak)} ({'a spike' if fired else 'no spike'})"


def _refractory_section(axon: Axon, threshold: float) -> Section:
    ratios = axon.least_second_strength(DELAYS, threshold) / threshold
    shown = torch.tensor(SHOWN_DELAYS, dtype=torch.double)
    duration = PULSE_AT + float(shown.max()) + 12
    strength = torch.full_like(shown, 1.5 * threshold)
    both = axon.pulse(strength, duration) + axon.pulse(strength, duration, start=PULSE_AT + shown)
    recording = axon.run(both, duration, watch=True)
    times = axon.times(recording)
    figure = pictures.refractoriness(times, recording.voltages, SHOWN_DELAYS, DELAYS, ratios, first_pulse=PULSE_AT)
    possible = torch.isfinite(ratios)
    absolute = f"For {DELAYS[possible][0]:g} ms no" if possible.any() else "No"
    absolute += f" second pulse is answered, up to {MOST_RATIO:g} times the threshold at rest"
    recovered = DELAYS[possible & (ratios <= 1)]
    relative = f"; until {recovered[0]:g} ms it must be stronger than at rest" if len(recovered) else ""
    words = (
        "After a spike h is closed and n is open: sodium cannot enter, and potassium carries out what does. "
        f"{absolute} (the absolute refractory period){relative} (the relative one). On the left two pulses of "
        f"{1.5 * threshold:.1f} µA/cm² each, marked by arrows."
    )
    if possible.any() and (easiest := ratios[possible].min().item()) < 1:
        words += f" Later {100 * easiest:.0f} % of it are enough: the voltage comes back from below and swings past."
    alt = "answers to two pulses, and the strength of the second by delay"
    return Section.illustrated("The refractory period", words, figure, alt)


def _rate_section(rates: Rates, fires_at: float) -> Section:
    firing = (rates > 0).nonzero().flatten()
    figure = pictures.firing_rates(CURVE, rates)
    if not len(firing):
        words = f"No constant current up to {CURVE[-1]:g} µA/cm² makes this membrane fire on and on."
        return Section.illustrated("f–I curve", words, figure, "rate by constant current")
    lowest, highest = int(firing[0]), int(firing[-1])
    words = (
        f"Up to {CURVE[max(lowest - 1, 0)]:g} µA/cm² a constant current gives some spikes at most. From "
        f"{CURVE[lowest]:g} on the membrane fires without end, with {rates[lowest]:.0f} Hz at first and "
        f"{rates[firing].max():.0f} Hz at most. "
    )
    if highest + 1 < len(CURVE):
        words += f"Above {CURVE[highest]:g} µA/cm² the voltage no longer rises through {fires_at:g} mV."
    rows = [[f"{CURVE[i]:g}", f"{rates[i]:.1f}"] for i in range(0, len(CURVE), 20)]
    caption = f"Counted from {CURVE_SETTLED:g} to {CURVE_DURATION:g} ms, by the intervals between spikes."
    table = Table(["current (µA/cm²)", "rate (Hz)"], rows, caption)
    return Section.illustrated("f–I curve", words, figure, "rate by constant current", table)


def _neuron_results(names: Sequence[str], recording: HodgkinHuxleyRecording) -> list[Result]:
    """Of each current: how fast the neuron fires, how high its voltage gets, and when it fires first, if it does."""
    peaks = recording.voltages.amax(0).tolist()
    first = latencies(recording.times, recording.neurons, recording.num_neurons).tolist()
    results = []
    for name, rate, peak, latency in zip(names, recording.rates().tolist(), peaks, first, strict=True):
        found = {"rate_hz": rate, "peak_mv": peak}
        results.append(Result(name, found if math.isnan(latency) else found | {"latency_ms": latency}))
    return results


def _given_section(axon: Axon, names: Sequence[str], currents: Tensor, recording: HodgkinHuxleyRecording) -> Section:
    options, times = axon.options, axon.times(recording)
    counts = torch.bincount(recording.neurons, minlength=recording.num_neurons).tolist()
    measures = ("rate_hz", "peak_mv", "latency_ms")
    rows = []
    for result, count in zip(_neuron_results(names, recording), counts, strict=True):
        found = [f"{result.metrics[name]:.1f}" if name in result.metrics else "–" for name in measures]
        rows.append([result.name, str(count), *found])
    shown = slice(0, 6)
    figure = pictures.voltages_and_currents(times, recording.voltages[:, shown], currents[:, shown], names[shown])
    origin = "Currents of your file" if options.drive else "Constant currents from the start on"
    words = f"{origin} (shaded, against the right axis) and the voltages; `spikes.npz` and `traces.npz` hold them."
    header = ["neuron" if options.drive else "current", f"spikes in {options.duration:g} ms"]
    header += [find_metric(name).title for name in measures]
    table = Table(header, rows)
    return Section.illustrated("Given currents", words, figure, "voltages over time, with the currents", table)


def _step_section(axon: Axon, rates: Rates) -> tuple[list[Result], Section]:
    """Every method with steps of several lengths, against rk4 with much shorter ones."""
    options = axon.options
    largest = {method: equations.largest_dt(options.neuron, method) for method in STEPS}
    current = _firing_current(rates)
    fine = min(options.dt, largest["rk4"]) / FINE
    truth = axon.run(current, STEP_TEST, dt=fine, method="rk4")
    dts = [options.dt * factor for factor in STEP_FACTORS]
    stable = [(method, dt) for method in STEPS for dt in dts if dt <= largest[method]]
    scores = {(m, dt): _scores(axon.run(current, STEP_TEST, dt=dt, method=m), truth) for m, dt in stable}
    own_first = sorted(STEPS, key=lambda method: method != options.method)
    named = {(method, options.dt): f"{METHOD_NAMES[method]}, steps of {options.dt:g} ms" for method in own_first}
    results = [Result(name, scores[key]) for key, name in named.items() if key in scores]
    results.append(Result(f"rk4, steps of {fine:g} ms", _scores(truth, truth)))

    words = (
        f"A current of {current.item():g} µA/cm² for {STEP_TEST:g} ms, with several time steps: the largest difference "
        f"of a spike time from rk4 with steps of {fine:.3g} ms. Exponential Euler is of the first order; staggering "
        "its gates by half a step costs nothing and makes it of the second. rk4 is of the fourth and does four times "
        "the work; times of spikes between two of its steps are interpolated linearly. Its "
        f"steps must not exceed {largest['rk4']:g} ms, or it could become unstable; the others' not "
        f"{largest['staggered']:g} ms, or gates would open within one."
    )
    found = {key: score["ms_of_spike_time_error"] for key, score in scores.items()}
    errors = {METHOD_NAMES[method]: [found.get((method, dt), math.nan) for dt in dts] for method in STEPS}
    written = [["–" if math.isnan(error) else f"{error:.2g}" for error in row] for row in errors.values()]
    rows = [[f"{dt:g}", *row] for dt, *row in zip(dts, *written, strict=True)]
    table = Table(["time step (ms)", *errors], rows, "The largest error of a spike time, in ms.")
    if not len(truth.times):
        return results, Section("Integration error", [Text(words), table])
    figure, alt = pictures.step_errors(dts, errors), "errors of spike times by the length of a step"
    return results, Section.illustrated("Integration error", words, figure, alt, table)


def _firing_current(rates: Rates) -> Float[Tensor, " one"]:
    """Half as strong again as the weakest that makes the membrane fire on and on, if any does."""
    return 1.5 * CURVE[rates > 0][:1] if (rates > 0).any() else CURVE[20:21]


def _pump_section(axon: Axon, rates: Rates) -> Section:
    """An axon that is made to fire and then left alone, with its pump and with the pump blocked."""
    pumped, current, dt = PumpedAxon(axon.model, axon.options.ions), _firing_current(rates), axon.options.dt
    duration = FIRING + RECOVERY
    drive = current_pulse(current, start=0.0, stop=FIRING, duration=duration, dt=dt)
    recordings = {
        name: pumped.simulate(drive, duration=duration, dt=dt, every=EVERY, blocked=blocked)
        for name, blocked in (("with the pump", False), ("pump blocked", True))
    }
    seconds = recordings["with the pump"].sampled / 1000
    panels = {
        "sodium inside (mM)": {name: each.sodium[:, 0] for name, each in recordings.items()},
        "potassium inside (mM)": {name: each.potassium[:, 0] for name, each in recordings.items()},
        "voltage (mV)": {name: each.voltages[:, 0] for name, each in recordings.items()},
        "pump current (µA/cm²)": {"with the pump": pumped.pump_current(recordings["with the pump"].sodium[:, 0])},
    }
    words = (
        "The pump takes three sodium ions out for two potassium ions in, so that a net current flows outwards. "
        f"{current.item():g} µA/cm² for {FIRING / 1000:g} s (shaded), then none, for an axon of "
        f"{axon.options.ions.diameter:g} µm: {_restored(pumped, recordings['with the pump'])} "
        f"{_run_down(pumped, recordings['pump blocked'])}"
    )
    rows = [[name, *cells] for name, cells in _ion_rows(pumped, recordings)]
    header = ["", "spikes", "sodium at most (mM)", "sodium at the end", "E_Na at the end (mV)", "E_K", "V"]
    caption = f"At rest sodium inside is {pumped.sodium:.1f} mM, and the pump current {_at_rest(pumped):.2f} µA/cm²."
    figure = pictures.ions_over_time(seconds, panels, stimulus=FIRING / 1000)
    alt = "concentrations, voltage and pump current, with the pump and without"
    return Section.illustrated("The sodium–potassium pump", words, figure, alt, Table(header, rows, caption))


def _at_rest(pumped: PumpedAxon) -> float:
    return float(pumped.pump_current(torch.tensor(pumped.sodium, dtype=torch.double)))


def _restored(pumped: PumpedAxon, recording: IonRecording) -> str:
    sodium, current = recording.sodium[:, 0], pumped.pump_current(recording.sodium[:, 0])
    raised, left = sodium.max().item() - pumped.sodium, sodium[-1].item() - pumped.sodium
    return (
        f"with the pump {len(recording.times)} spikes raise sodium inside by {raised:.2f} mM and the pump current from "
        f"{_at_rest(pumped):.2f} to {current.max():.2f} µA/cm²; after {RECOVERY / 1000:g} s without current "
        f"{100 * (1 - left / raised) if raised > 0 else 100:.0f} % of the rise are gone."
    )


def _run_down(pumped: PumpedAxon, recording: IonRecording) -> str:
    ends = {name: potential[-1, 0].item() for name, potential in pumped.reversals(recording).items()}
    membrane = pumped.membrane
    return (
        f"With the pump blocked there are {len(recording.times)} spikes, and all runs down: E_Na goes from "
        f"{_millivolts(membrane.sodium_reversal)} to {_millivolts(ends['E_Na'])}, E_K from "
        f"{_millivolts(membrane.potassium_reversal)} to {_millivolts(ends['E_K'])}, and the voltage from "
        f"{_millivolts(pumped.model.rest)} to {_millivolts(recording.voltages[-1, 0].item())}."
    )


def _ion_rows(pumped: PumpedAxon, recordings: Mapping[str, IonRecording]) -> Iterator[tuple[str, list[str]]]:
    for name, each in recordings.items():
        ends = [potential[-1, 0].item() for potential in pumped.reversals(each).values()]
        voltages = [f"{value:.1f}".replace("-", "−") for value in (*ends, each.voltages[-1, 0].item())]
        sodium = each.sodium[:, 0]
        yield name, [str(len(each.times)), f"{sodium.max():.2f}", f"{sodium[-1]:.2f}", *voltages]


def _scores(recording: HodgkinHuxleyRecording, truth: HodgkinHuxleyRecording) -> dict[str, float]:
    """Of one neuron and the spikes that both have: the last may come on the other side of the end."""
    common = min(len(recording.times), len(truth.times))
    error = (recording.times[:common] - truth.times[:common]).abs()
    return {"ms_of_spike_time_error": error.max().item() if common else 0.0, "spikes": float(len(recording.times))}


RECIPE = Recipe(HodgkinHuxleyOptions(), build, verb="simulate", about="models.hodgkin_huxley.neuron")
