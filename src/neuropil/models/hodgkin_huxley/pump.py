"""Sodium–potassium pump: what restores the concentrations that action potentials run down.

    I_p = ρ / (1 + exp((25 − [Na]_i) / 3))              net, outwards: three sodium ions out for two potassium ions in
    d[Na]_i/dt = −(I_Na + I_NaL + 3 I_p) A / (F V)      E_Na = RT/F ln([Na]_o / [Na]_i)
    d[K]_i/dt  = −(I_K − 2 I_p) A / (F V)               E_K  = RT/F ln([K]_o / [K]_i)

A and V are the surface and the volume of the axon, A/V = 4/d for the diameter d; concentrations are in mM. The pump is
that of Cressman et al. (2009) and of Barreto and Cressman (2011), without its factor for the potassium outside, which a
large bath keeps as it is; sodium outside and chloride are held too.

Hodgkin and Huxley's leak stands for several currents. Here it is taken apart into leaks of sodium and chloride and the
pump,

    ḡ_L (V − E_L) = g_NaL (V − E_Na) + (ḡ_L − g_NaL) (V − E_Cl) + I_p        at the concentrations of rest, for every V

where E_Cl is the resting voltage, and g_NaL and ρ are such that at rest no concentration changes. So the membrane with
a pump is the one without as long as its concentrations are those of rest."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.models.hodgkin_huxley.chunks import march_in_chunks
from neuropil.models.hodgkin_huxley.currents import checked_currents, require_steps
from neuropil.models.hodgkin_huxley.exponential import both, exp
from neuropil.models.hodgkin_huxley.neuron import (
    HodgkinHuxley,
    Membrane,
    MembraneState,
    conductances,
    staggered,
    steady_state,
)
from neuropil.parts.compilation import compiled

GAS, FARADAY, CELSIUS = 8.31446261815324, 96485.33212331, 273.15
"""J/(mol K), C/mol and K."""
HALF, WIDTH = 25.0, 3.0
"""mM of sodium inside at which the pump runs at half its strength, and how steeply it rises."""


class PumpConfig(Config):
    pump: bool = option(False, "add ion concentrations and the sodium–potassium pump")
    diameter: float = option(10.0, "diameter of the axon (µm): in a thin one concentrations change fast", low=0.1)
    sodium_outside: float = option(145.0, "sodium concentration outside (mM)", low=1, high=1000)
    potassium_inside: float = option(140.0, "potassium concentration inside at rest (mM)", low=1, high=1000)

    def without_effect(self) -> dict[str, str]:
        others = (each.name for each in self.options() if each.name != "pump")
        return {} if self.pump else dict.fromkeys(others, "an axon without --pump")


class Ions(NamedTuple):
    """What the concentrations obey: RT/F (mV), mM outside, leaks (mS/cm²), E_Cl (mV), ρ (µA/cm²), and mM/ms that a
    current of 1 µA/cm² makes."""

    thermal: float
    sodium_outside: float
    potassium_outside: float
    sodium_leak: float
    chloride_leak: float
    chloride_reversal: float
    strength: float
    filling: float


@dataclass(frozen=True)
class IonRecording:
    """`times` (ms) and `neurons` of all spikes; `voltages` (mV) and concentrations inside (mM) when `sampled` (ms)."""

    times: Float[Tensor, " spike"]
    neurons: Int[Tensor, " spike"]
    sampled: Float[Tensor, " sample"]
    voltages: Float[Tensor, "sample neuron"]
    sodium: Float[Tensor, "sample neuron"]
    potassium: Float[Tensor, "sample neuron"]


# --- the equations ----------------------------------------------------------------------------------------------------


@both
def pump_current(sodium, ions):
    """I_p in µA/cm², of which 3 I_p is sodium going out and 2 I_p is potassium coming in."""
    return ions.strength / (1 + exp((HALF - sodium) / WIDTH))


@both
def nernst(outside, inside, thermal):
    return thermal * math.log(outside / inside)


@both
def at_concentrations(membrane, ions, sodium, potassium):
    """The membrane with the reversal potentials of these concentrations; its leak holds the pump."""
    sodium_reversal = nernst(ions.sodium_outside, sodium, ions.thermal)
    leaks = ions.sodium_leak * sodium_reversal + ions.chloride_leak * ions.chloride_reversal
    return Membrane(
        membrane.capacitance,
        membrane.sodium,
        membrane.potassium,
        membrane.leak,
        sodium_reversal,
        nernst(ions.potassium_outside, potassium, ions.thermal),
        (leaks - pump_current(sodium, ions)) / membrane.leak,
        membrane.speed,
        membrane.shift,
    )


@both
def ion_flows(v, state, sodium, membrane, ions):
    """What flows out as sodium and as potassium through channels, leak and pump, in µA/cm²."""
    through_sodium, through_potassium, _ = conductances(state, membrane)
    pumped = pump_current(sodium, ions)
    out = (through_sodium + ions.sodium_leak) * (v - membrane.sodium_reversal) + 3 * pumped
    return out, through_potassium * (v - membrane.potassium_reversal) - 2 * pumped


@compiled
def march_ions(state, concentrations, currents, first, last, begin, end, dt, membrane, ions, fires_at, every, traces):
    """Neurons from `first` to before `last` through steps from `begin` to before `end`, in place: times and neurons of
    their spikes. The voltage moves with the concentrations of the step's beginning, these with the voltage of its
    middle, where staggered gates are."""
    times, neurons = [0.0 for _ in range(0)], [0 for _ in range(0)]
    for i in range(first, last):
        now = MembraneState(state[0, i], state[1, i], state[2, i], state[3, i])
        sodium, potassium = concentrations[0, i], concentrations[1, i]
        for step in range(begin, end):
            current = currents[step if currents.shape[0] > 1 else 0, i]
            own = at_concentrations(membrane, ions, sodium, potassium)
            later = staggered(now, current, dt, own)
            out, other = ion_flows((now.v + later.v) / 2, later, sodium, own, ions)
            sodium -= dt * ions.filling * out
            potassium -= dt * ions.filling * other
            if now.v < fires_at <= later.v:
                times.append((step + (fires_at - now.v) / (later.v - now.v)) * dt)
                neurons.append(i)
            now = later
            if (step + 1) % every == 0:
                place = (step + 1) // every - 1
                traces[0, place, i], traces[1, place, i], traces[2, place, i] = now.v, sodium, potassium
        state[0, i], state[1, i], state[2, i], state[3, i] = now.v, now.n, now.m, now.h
        concentrations[0, i], concentrations[1, i] = sodium, potassium
    return np.array(times), np.array(neurons)


# --- an axon with a pump ----------------------------------------------------------------------------------------------


class PumpedAxon:
    """A membrane whose concentrations change. At rest it is the membrane that it is made of, and stays there."""

    def __init__(self, model: HodgkinHuxley, config: PumpConfig):
        self.model, self.config = model, config
        membrane = self.membrane = model.numbers()
        thermal = 1000 * GAS * (model.config.temperature + CELSIUS) / FARADAY
        # E_Na = RT/F ln([Na]_o / [Na]_i), and the same of potassium
        self.sodium = config.sodium_outside * math.exp(-membrane.sodium_reversal / thermal)
        self.potassium = config.potassium_inside
        potassium_outside = self.potassium * math.exp(membrane.potassium_reversal / thermal)
        gates = steady_state(torch.tensor(model.rest, dtype=torch.double), membrane.speed, membrane.shift)
        at_rest = MembraneState(*(float(each) for each in gates))
        sodium, potassium, leak = conductances(at_rest, membrane)
        # 2 I_p = I_K and 3 I_p = −(I_Na + I_NaL)
        pumped = potassium * (model.rest - membrane.potassium_reversal) / 2
        sodium_leak = 3 * pumped / (membrane.sodium_reversal - model.rest) - sodium
        if not (pumped > 0 and 0 <= sodium_leak <= leak):
            rule = (
                "a pump must balance the sodium and the potassium that leak at rest, by a part of the leak conductance"
            )
            got = f"{sodium_leak:.3g} of {leak:.3g} mS/cm² for sodium"
            raise InputError(
                rule, got=got, fix="take conductances and reversal potentials nearer to the published ones"
            )
        strength = pumped * (1 + math.exp((HALF - self.sodium) / WIDTH))
        # µA/cm² · ms = 1e-9 C/cm²; over F and V/A = d/4 it is mol/cm³, of which 1e-6 are 1 mM
        filling = 1e-9 / FARADAY * 4 / (config.diameter * 1e-4) / 1e-6
        outside = config.sodium_outside, potassium_outside
        self.ions = Ions(thermal, *outside, sodium_leak, leak - sodium_leak, model.rest, strength, filling)

    def simulate(
        self,
        current: Float[Tensor, " neuron"] | Float[Tensor, "step neuron"],
        *,
        duration: float,
        dt: float = 0.01,
        every: float = 1.0,
        blocked: bool = False,
    ) -> IonRecording:
        """Run from rest for `duration` ms in staggered steps of `dt` ms, and keep a sample every so many ms. The pump
        can be `blocked`, as ouabain does."""
        currents = checked_currents(current)
        num_steps = self.model.num_steps(duration, dt, "staggered", currents.min().item())
        require_steps(current, num_steps)
        stride = max(1, round(every / dt))
        size, membrane = currents.shape[1], self.membrane
        begin = torch.full((size,), self.model.rest, dtype=torch.double)
        state = torch.stack(steady_state(begin, membrane.speed, membrane.shift)).numpy()
        concentrations = np.tile([[self.sodium], [self.potassium]], (1, size))
        traces = np.empty((3, num_steps // stride, size))
        ions = self.ions._replace(strength=0.0) if blocked else self.ions
        how = dt, membrane, ions, self.model.config.fires_at, stride, traces
        times, neurons = march_in_chunks(
            lambda *places: march_ions(state, concentrations, currents.numpy(), *places, *how),
            size,
            num_steps,
            at_once=1,
            threads=torch.get_num_threads(),
        )
        if not (np.isfinite(traces).all() and (traces[1:] > 0).all()):
            got = f"currents too strong for an axon of {self.config.diameter:g} µm"
            raise InputError("concentrations must stay above 0", got=got, fix="give weaker currents or a thicker axon")
        order = np.argsort(times, kind="stable")
        sampled = dt * stride * np.arange(1, traces.shape[1] + 1)
        found = (torch.from_numpy(part) for part in (times[order], neurons[order], sampled, *traces))
        return IonRecording(*found)

    def pump_current(self, sodium: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """I_p (µA/cm²) at these concentrations inside."""
        return pump_current(sodium, self.ions)

    def reversals(self, recording: IonRecording) -> dict[str, Float[Tensor, "sample neuron"]]:
        """E_Na and E_K (mV) over time."""
        ions = self.ions
        pairs = {"E_Na": (ions.sodium_outside, recording.sodium), "E_K": (ions.potassium_outside, recording.potassium)}
        return {name: ions.thermal * torch.log(outside / inside) for name, (outside, inside) in pairs.items()}
