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
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.formats.traces import Traces, read_traces
from neuropil.errors import InputError
from neuropil.inspection.report.studies import hodgkin_huxley as study
from neuropil.models.hodgkin_huxley.axon import PULSE, Axon
from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig, Method, require_dt
from neuropil.models.hodgkin_huxley.pump import PumpConfig, PumpedAxon
from neuropil.progress import Display
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, TRACES, Findings, Study, write_arrays

MOST_KEPT = 20_000_000


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
            require_dt(self.neuron, self.dt, "staggered")


def build(options: HodgkinHuxleyOptions, seed: int) -> Study:
    drive = None if options.drive is None else read_traces(options.drive)
    if drive is not None:
        require_dt(options.neuron, options.dt, options.method, drive.values.min().item())
    kept = round(options.duration / options.dt) * len(options.currents if drive is None else drive.names)
    if kept > MOST_KEPT:
        fix = "make it shorter, or its steps longer"
        raise InputError(f"a run keeps up to {MOST_KEPT:,} voltages", got=f"{kept:,}", fix=fix)
    facts = {} if options.drive is None else {"source": f"currents of {options.drive.name}"}
    return Study("hodgkin-huxley", partial(_compute, options, drive), facts)


def _compute(options: HodgkinHuxleyOptions, drive: Traces | None, folder: Path, display: Display) -> Findings:
    axon = Axon(options.neuron, dt=options.dt, method=options.method)
    threshold = axon.threshold()
    if threshold is None:
        sections = [study.silent_section(axon), study.gate_section(axon)]
    else:
        display.update(0.1, f"threshold for {PULSE:g} ms: {threshold:.2f} µA/cm²")
        sections = [study.action_potential_section(axon, threshold), study.gate_section(axon)]
        sections += [study.threshold_section(axon, threshold), study.refractory_section(axon, threshold)]
    display.update(0.4, "f–I curve")
    rates = study.firing_rates(axon)
    sections.append(study.rate_section(rates, options.neuron.fires_at))
    display.update(0.7, "given currents")
    names, currents = _given_currents(options, drive)
    recording = axon.run(currents, options.duration, watch=True)
    write_arrays(folder / SPIKES, times=recording.times, neurons=recording.neurons)
    times = axon.times(recording)
    traces = {"voltages": recording.voltages, "n": recording.n, "m": recording.m, "h": recording.h}
    write_arrays(folder / TRACES, times=times, currents=currents, **traces)
    sections.append(study.given_section(axon, names, currents, recording, of_file=drive is not None))
    if options.ions.pump:
        display.update(0.75, "the sodium–potassium pump")
        sections.append(study.pump_section(axon, options.ions, rates))
    display.update(0.9, "steps of several lengths")
    steps, section = study.step_section(axon, rates)
    neurons = zip(names, study.neuron_metrics(recording), strict=True)
    results = [Result(name, metrics) for name, metrics in (*steps.items(), *neurons)]
    return Findings(results, [*sections, section])


def _given_currents(options: HodgkinHuxleyOptions, drive: Traces | None) -> tuple[Sequence[str], Tensor]:
    num_steps = round(options.duration / options.dt)
    if drive is not None:
        return drive.names, drive.at_steps(num_steps, options.dt)
    constant = torch.tensor(options.currents, dtype=torch.double)
    return tuple(f"{current:g} µA/cm²" for current in options.currents), constant.expand(num_steps, -1)


RECIPE = Recipe(HodgkinHuxleyOptions(), build, verb="simulate", about="models.hodgkin_huxley.neuron")
