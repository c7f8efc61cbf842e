"""Report of a Hodgkin–Huxley axon: its action potential, gates, threshold, refractory period, f–I curve, the given
currents, the pump, and the error of its time steps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.inspection.pictures.spiking import neurons as pictures
from neuropil.inspection.report.page import Number, Numbers, Picture, Section, Table, Text
from neuropil.metrics import find_metric
from neuropil.models.hodgkin_huxley import neuron as equations
from neuropil.models.hodgkin_huxley.axon import ANSWER, MOST_RATIO, PULSE, PULSE_AT, Axon, Trace, phases_of
from neuropil.models.hodgkin_huxley.currents import pulse
from neuropil.models.hodgkin_huxley.neuron import STEPS, Method
from neuropil.models.hodgkin_huxley.pump import IonRecording, PumpConfig, PumpedAxon
from neuropil.models.hodgkin_huxley.recording import HodgkinHuxleyRecording
from neuropil.parts.synapses import latencies

Rates: TypeAlias = Float[Tensor, " point"]
WIDTHS = (0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0, 15.0)
DELAYS, SHOWN_DELAYS = torch.arange(2.0, 30.01, 0.5, dtype=torch.double), (5.0, 9.0, 12.0, 20.0)
"""ms between two pulses."""
CURVE, CURVE_DURATION, CURVE_SETTLED = torch.linspace(0, 100, 201, dtype=torch.double), 500.0, 150.0
"""µA/cm² and ms."""
STEP_TEST, STEP_FACTORS, FINE = 100.0, (0.5, 1, 2, 4, 8), 10
"""ms of the comparison of time steps, multiples of the axon's own, and how much finer the reference is."""
FIRING, RECOVERY, EVERY = 5_000.0, 40_000.0, 5.0
"""ms for which a current is given to an axon with a pump, for which it then recovers, and between two samples."""
METHOD_NAMES: dict[Method, str] = {"staggered": "staggered", "exponential_euler": "exponential Euler", "rk4": "rk4"}


def firing_rates(axon: Axon) -> Rates:
    """Hz at each current of the f–I curve."""
    return axon.run(CURVE, CURVE_DURATION).rates(CURVE_SETTLED)


def silent_section(axon: Axon) -> Section:
    words = (
        f"This membrane rests at {_millivolts(axon.model.rest)}. It answers no pulse of {PULSE:g} ms up to "
        f"{axon.strongest(PULSE):.0f} µA/cm² with a spike; a stronger one would lift its voltage that far by itself. "
        "So it has no threshold, refractory period or phases. Change its conductances or reversal potentials to see it "
        "fire."
    )
    return Section("No threshold", [Text(words)])


def action_potential_section(axon: Axon, threshold: float) -> Section:
    duration, strength = PULSE_AT + ANSWER, torch.tensor([1.5 * threshold], dtype=torch.double)
    recording = axon.run(axon.pulse(strength, duration), duration, watch=True)
    times = axon.times(recording)
    flows = {ion: flow[:, 0] for ion, flow in axon.model.ionic_currents(recording).items()}
    voltage, rest, neuron = recording.voltages[:, 0], axon.model.rest, axon.model.config
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
    level = voltage[int(round(took_off / axon.dt)) - 1].item()
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


def gate_section(axon: Axon) -> Section:
    v, neuron = torch.linspace(-110, 60, 341, dtype=torch.double), axon.model.config
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


def threshold_section(axon: Axon, threshold: float) -> Section:
    widths = torch.tensor(WIDTHS, dtype=torch.double)
    widths = widths[widths >= axon.dt]
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


def refractory_section(axon: Axon, threshold: float) -> Section:
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


def rate_section(rates: Rates, fires_at: float) -> Section:
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


def neuron_metrics(recording: HodgkinHuxleyRecording) -> list[dict[str, float]]:
    """Of each neuron: how fast it fires, how high its voltage gets, and when it fires first, if it does."""
    peaks = recording.voltages.amax(0).tolist()
    first = latencies(recording.times, recording.neurons, recording.num_neurons).tolist()
    metrics = []
    for rate, peak, latency in zip(recording.rates().tolist(), peaks, first, strict=True):
        found = {"rate_hz": rate, "peak_mv": peak}
        metrics.append(found if math.isnan(latency) else found | {"latency_ms": latency})
    return metrics


def given_section(
    axon: Axon, names: Sequence[str], currents: Tensor, recording: HodgkinHuxleyRecording, *, of_file: bool
) -> Section:
    times = axon.times(recording)
    counts = torch.bincount(recording.neurons, minlength=recording.num_neurons).tolist()
    measures = ("rate_hz", "peak_mv", "latency_ms")
    rows = []
    for name, metrics, count in zip(names, neuron_metrics(recording), counts, strict=True):
        found = [f"{metrics[measure]:.1f}" if measure in metrics else "–" for measure in measures]
        rows.append([name, str(count), *found])
    shown = slice(0, 6)
    figure = pictures.voltages_and_currents(times, recording.voltages[:, shown], currents[:, shown], names[shown])
    origin = "Currents of your file" if of_file else "Constant currents from the start on"
    words = f"{origin} (shaded, against the right axis) and the voltages; `spikes.npz` and `traces.npz` hold them."
    header = ["neuron" if of_file else "current", f"spikes in {recording.duration:g} ms"]
    header += [find_metric(name).title for name in measures]
    table = Table(header, rows)
    return Section.illustrated("Given currents", words, figure, "voltages over time, with the currents", table)


def step_section(axon: Axon, rates: Rates) -> tuple[dict[str, dict[str, float]], Section]:
    """Every method with steps of several lengths, against rk4 with much shorter ones; what is measured of those with
    the axon's own step, and of the reference."""
    largest = {method: equations.largest_dt(axon.model.config, method) for method in STEPS}
    current = _firing_current(rates)
    fine = min(axon.dt, largest["rk4"]) / FINE
    truth = axon.run(current, STEP_TEST, dt=fine, method="rk4")
    dts = [axon.dt * factor for factor in STEP_FACTORS]
    stable = [(method, dt) for method in STEPS for dt in dts if dt <= largest[method]]
    scores = {(m, dt): _scores(axon.run(current, STEP_TEST, dt=dt, method=m), truth) for m, dt in stable}
    own_first = sorted(STEPS, key=lambda method: method != axon.method)
    named = {(method, axon.dt): f"{METHOD_NAMES[method]}, steps of {axon.dt:g} ms" for method in own_first}
    measured = {name: scores[key] for key, name in named.items() if key in scores}
    measured[f"rk4, steps of {fine:g} ms"] = _scores(truth, truth)

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
        return measured, Section("Integration error", [Text(words), table])
    figure, alt = pictures.step_errors(dts, errors), "errors of spike times by the length of a step"
    return measured, Section.illustrated("Integration error", words, figure, alt, table)


def _firing_current(rates: Rates) -> Float[Tensor, " one"]:
    """Half as strong again as the weakest that makes the membrane fire on and on, if any does."""
    return 1.5 * CURVE[rates > 0][:1] if (rates > 0).any() else CURVE[20:21]


def pump_section(axon: Axon, ions: PumpConfig, rates: Rates) -> Section:
    """An axon that is made to fire and then left alone, with its pump and with the pump blocked."""
    pumped, current, dt = PumpedAxon(axon.model, ions), _firing_current(rates), axon.dt
    duration = FIRING + RECOVERY
    drive = pulse(current, start=0.0, stop=FIRING, duration=duration, dt=dt)
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
        f"{ions.diameter:g} µm: {_restored(pumped, recordings['with the pump'])} "
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
