"""Hodgkin–Huxley neuron: why a nerve fires, from the currents through its membrane.

    C dV/dt = I − ḡ_Na m³h (V − E_Na) − ḡ_K n⁴ (V − E_K) − ḡ_L (V − E_L)
    da/dt   = α_a(V) (1 − a) − β_a(V) a = (a_∞(V) − a) / τ_a(V)              a = n, m, h

    α_n = φ 0.1 B(−(V + 55) / 10)        β_n = φ 0.125 exp(−(V + 65) / 80)       B(x) = x / (eˣ − 1)
    α_m = φ B(−(V + 40) / 10)            β_m = φ 4 exp(−(V + 65) / 18)           φ = 3^((T − 6.3 °C) / 10)
    α_h = φ 0.07 exp(−(V + 65) / 20)     β_h = φ / (1 + exp(−(V + 35) / 10))

V in mV, time in ms, I in µA/cm², conductances in mS/cm², C in µF/cm², rates in 1/ms: no factor is needed.

Hodgkin and Huxley measured voltages from rest, so that a set of parameters follows from where rest is put: at −65 mV as
above, with E_Na = 50, E_K = −77 and E_L = −54.387, or at −70 mV, with everything 5 mV lower.

While the gates are held, V goes to V_∞ with the time constant τ_V = C / Σg; while V is held, each gate goes to a_∞ with
τ_a. So one rule serves all four, and the ways to take a step differ in what is held when:

    exponential Euler    x(t + dt) = x_∞ + (x(t) − x_∞) exp(−dt / τ)   all from V(t) and the gates at t: order dt
    staggered            the same, but V from gates half a step later, and those from V(t) (Hines): order dt², same work
    rk4                  Runge and Kutta's: order dt⁴, but it blows up where dt is too long for the fastest current

Equations and steps are written once. Numba compiles them for `simulate`: many neurons, no Python in the loop. PyTorch
runs the same lines in `forward`, for gradients. Only exp and B differ."""

import math
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.models.hodgkin_huxley.chunks import march_in_chunks
from neuropil.models.hodgkin_huxley.currents import checked_currents, require_steps
from neuropil.models.hodgkin_huxley.exponential import bernoulli, both, exp, relax
from neuropil.models.hodgkin_huxley.recording import HodgkinHuxleyRecording
from neuropil.parts.compilation import compiled
from neuropil.parts.parameters import ParameterRow

Method = Literal["staggered", "exponential_euler", "rk4"]
IONS = ("sodium", "potassium", "leak")

RATES_REST, REVERSALS = -65.0, (50.0, -77.0, -54.387)
"""mV: the resting potential for which the rates are written, and the reversal potentials that go with it."""
RK4_LIMIT = 2.785
"""Runge and Kutta's step is stable for dx/dt = −λx while λ dt is below this."""
NEURONS_AT_ONCE = 128
"""As many as stay in the nearest cache. The number of threads changes neither this nor any bit of a result."""
MOST_STEPS = 100_000_000


class HodgkinHuxleyConfig(Config):
    capacitance: float = option(1.0, "membrane capacitance C (µF/cm²)", low=1e-3)
    sodium: float = option(120.0, "maximal sodium conductance ḡ_Na (mS/cm²)", low=0)
    potassium: float = option(36.0, "maximal potassium conductance ḡ_K (mS/cm²)", low=0)
    leak: float = option(0.3, "leak conductance ḡ_L (mS/cm²)", low=1e-6)
    resting_potential: float = option(
        -65.0, "resting potential of the parameter set (mV): −65 or −70", low=-90, high=-40
    )
    sodium_reversal: float | None = option(None, "E_Na (mV); 115 above the resting potential", low=-200, high=200)
    potassium_reversal: float | None = option(None, "E_K (mV); 12 below the resting potential", low=-200, high=200)
    leak_reversal: float | None = option(None, "E_L (mV); 10.613 above the resting potential", low=-200, high=200)
    temperature: float = option(6.3, "temperature T (°C); gates are three times as fast per 10 °C", low=0, high=40)
    fires_at: float = option(0.0, "voltage whose upward crossing counts as a spike (mV)", low=-60, high=60)

    @property
    def speed(self) -> float:
        """φ"""
        return 3.0 ** ((self.temperature - 6.3) / 10)

    @property
    def shift(self) -> float:
        """mV that all voltages lie above those of the equations."""
        return self.resting_potential - RATES_REST

    @property
    def reversals(self) -> tuple[float, float, float]:
        """E_Na, E_K and E_L: those that are given, or where they lie from rest."""
        given = self.sodium_reversal, self.potassium_reversal, self.leak_reversal
        usual = (potential + self.shift for potential in REVERSALS)
        sodium, potassium, leak = (other if own is None else own for own, other in zip(given, usual, strict=True))
        return sodium, potassium, leak


class Membrane(NamedTuple):
    """C, ḡ, E, φ and how far voltages are shifted: tensors for PyTorch, numbers for Numba."""

    capacitance: Any
    sodium: Any
    potassium: Any
    leak: Any
    sodium_reversal: Any
    potassium_reversal: Any
    leak_reversal: Any
    speed: float
    shift: float


class MembraneState(NamedTuple):
    v: Any
    n: Any
    m: Any
    h: Any


# --- the equations, for PyTorch and for Numba -------------------------------------------------------------------------


@both
def rates(v, speed, shift):
    """α and β of n, m and h, in 1/ms."""
    v = v - shift
    return (
        (speed * 0.1 * bernoulli(-(v + 55) / 10), speed * 0.125 * exp(-(v + 65) / 80)),
        (speed * bernoulli(-(v + 40) / 10), speed * 4 * exp(-(v + 65) / 18)),
        (speed * 0.07 * exp(-(v + 65) / 20), speed / (1 + exp(-(v + 35) / 10))),
    )


@both
def conductances(state, membrane):
    """Of sodium, potassium and the leak, in mS/cm²."""
    n2 = state.n * state.n
    # ḡ_Na m³h,  ḡ_K n⁴,  ḡ_L
    return membrane.sodium * (state.m * state.m * state.m * state.h), membrane.potassium * (n2 * n2), membrane.leak


@both
def pull(state, current, membrane):
    """Σg E + I and Σg, with which C dV/dt = (Σg E + I) − Σg V."""
    sodium, potassium, leak = conductances(state, membrane)
    flow = sodium * membrane.sodium_reversal + potassium * membrane.potassium_reversal + leak * membrane.leak_reversal
    return flow + current, sodium + potassium + leak


@both
def derivative(state, current, membrane):
    """dV/dt in mV/ms and that of the gates in 1/ms."""
    drive, conductance = pull(state, current, membrane)
    (alpha_n, beta_n), (alpha_m, beta_m), (alpha_h, beta_h) = rates(state.v, membrane.speed, membrane.shift)
    return MembraneState(
        (drive - conductance * state.v) / membrane.capacitance,
        alpha_n * (1 - state.n) - beta_n * state.n,
        alpha_m * (1 - state.m) - beta_m * state.m,
        alpha_h * (1 - state.h) - beta_h * state.h,
    )


@both
def relax_voltage(state, current, dt, membrane):
    drive, conductance = pull(state, current, membrane)
    return relax(state.v, drive, conductance, dt / membrane.capacitance)


@both
def relax_gates(state, dt, membrane):
    (alpha_n, beta_n), (alpha_m, beta_m), (alpha_h, beta_h) = rates(state.v, membrane.speed, membrane.shift)
    n = relax(state.n, alpha_n, alpha_n + beta_n, dt)
    m = relax(state.m, alpha_m, alpha_m + beta_m, dt)
    return MembraneState(state.v, n, m, relax(state.h, alpha_h, alpha_h + beta_h, dt))


@both
def exponential_euler(state, current, dt, membrane):
    later = relax_gates(state, dt, membrane)
    return MembraneState(relax_voltage(state, current, dt, membrane), later.n, later.m, later.h)


@both
def staggered(state, current, dt, membrane):
    """Gates are half a step behind the voltage, before and after; at rest, where all begins, it is the same."""
    later = relax_gates(state, dt, membrane)
    return MembraneState(relax_voltage(later, current, dt, membrane), later.n, later.m, later.h)


@both
def moved(state, slope, dt):
    return MembraneState(state.v + dt * slope.v, state.n + dt * slope.n, state.m + dt * slope.m, state.h + dt * slope.h)


@both
def rk4(state, current, dt, membrane):
    first = derivative(state, current, membrane)
    second = derivative(moved(state, first, dt / 2), current, membrane)
    third = derivative(moved(state, second, dt / 2), current, membrane)
    fourth = derivative(moved(state, third, dt), current, membrane)
    # x(t + dt) = x(t) + dt/6 (k₁ + 2k₂ + 2k₃ + k₄)
    return moved(moved(moved(moved(state, first, dt / 6), second, dt / 3), third, dt / 3), fourth, dt / 6)


@both
def march(take_step, state, currents, first, last, begin, end, dt, membrane, fires_at, watched, traces):
    """Neurons from `first` to before `last` through steps from `begin` to before `end`, in place: times and neurons of
    their spikes."""
    size, changing = last - first, currents.shape[0] > 1
    own = state[:, first:last].copy()
    v, n, m, h = own[0], own[1], own[2], own[3]
    # Numba sees from an empty list what it will hold.
    before, times, neurons = np.empty(size), [0.0 for _ in range(0)], [0 for _ in range(0)]
    for step in range(begin, end):
        current, crossed = currents[step if changing else 0, first:last], 0
        for i in range(size):
            before[i] = v[i]
            v[i], n[i], m[i], h[i] = take_step(MembraneState(v[i], n[i], m[i], h[i]), current[i], dt, membrane)
        for i in range(size):
            crossed += (before[i] < fires_at) & (v[i] >= fires_at)
        for i in range(size if crossed else 0):
            if before[i] < fires_at <= v[i]:
                # on a straight line from one voltage to the next
                times.append((step + (fires_at - before[i]) / (v[i] - before[i])) * dt)
                neurons.append(first + i)
        for place in range(len(watched)):
            i = watched[place] - first
            if 0 <= i < size:
                for k in range(4):
                    traces[k, step, place] = own[k, i]
    state[:, first:last] = own
    return np.array(times), np.array(neurons)


# Each has a name of its own, by which Numba keeps it. It is compiled when it is first called.
@compiled
def march_staggered(*arguments):
    return march(staggered, *arguments)


@compiled
def march_exponential_euler(*arguments):
    return march(exponential_euler, *arguments)


@compiled
def march_rk4(*arguments):
    return march(rk4, *arguments)


STEPS: dict[Method, Any] = {"staggered": staggered, "exponential_euler": exponential_euler, "rk4": rk4}
MARCHES = {"staggered": march_staggered, "exponential_euler": march_exponential_euler, "rk4": march_rk4}


def steady_state(v: Float[Tensor, "*shape"], speed: float = 1.0, shift: float = 0.0) -> MembraneState:
    """The gates of a membrane that has long been at this voltage: a_∞ = α / (α + β)."""
    return MembraneState(v, *(alpha / (alpha + beta) for alpha, beta in rates(v, speed, shift)))


def time_constants(
    v: Float[Tensor, "*shape"], speed: float = 1.0, shift: float = 0.0
) -> tuple[Float[Tensor, "*shape"], ...]:
    """τ = 1 / (α + β) of n, m and h, in ms."""
    return tuple(1 / (alpha + beta) for alpha, beta in rates(v, speed, shift))


# --- many neurons over time -------------------------------------------------------------------------------------------


class HodgkinHuxley(nn.Module):
    """A membrane whose capacitance, conductances and reversal potentials can be learned. It starts at `rest` (mV),
    where a membrane of its configuration comes to rest."""

    def __init__(self, config: HodgkinHuxleyConfig):
        super().__init__()
        self.config = config
        constants = [config.capacitance], [getattr(config, ion) for ion in IONS], config.reversals
        doubles = (torch.tensor(numbers, dtype=torch.double) for numbers in constants)
        self.capacitance, self.conductance, self.reversal = map(nn.Parameter, doubles)
        self.rest = resting_voltage(self.membrane())

    def membrane(self) -> Membrane:
        config = self.config
        return Membrane._make((self.capacitance, *self.conductance, *self.reversal, config.speed, config.shift))

    def numbers(self) -> Membrane:
        """The same for compiled loops."""
        config, constants = self.config, (self.capacitance, self.conductance, self.reversal)
        return Membrane._make([*torch.cat([each.detach() for each in constants]).tolist(), config.speed, config.shift])

    def forward(
        self, current: Float[Tensor, "batch step"], dt: float = 0.01, method: Method = "staggered"
    ) -> Float[Tensor, "batch step"]:
        """The voltage (mV) after each step of `dt` ms for currents in µA/cm², and its gradient; `simulate` is
        faster."""
        require_dt(self.config, dt, method)
        given, membrane = current.to(self.capacitance.dtype), self.membrane()
        state, voltages = steady_state(torch.full_like(given[:, 0], self.rest), membrane.speed, membrane.shift), []
        for now in given.unbind(1):
            state = STEPS[method](state, now, dt, membrane)
            voltages.append(state.v)
        return torch.stack(voltages, 1).to(current.dtype)

    def simulate(
        self,
        current: Float[Tensor, " neuron"] | Float[Tensor, "step neuron"],
        *,
        duration: float,
        dt: float = 0.01,
        method: Method = "staggered",
        start: float | None = None,
        watch: Int[Tensor, " watched"] | None = None,
    ) -> HodgkinHuxleyRecording:
        """Run for `duration` ms in steps of `dt` ms. The current (µA/cm²) of each neuron is constant, or given for
        every step. `start` is the voltage (mV) of a membrane that has long been there (at rest without it); `watch` are
        the neurons whose voltages and gates are wanted (none without it)."""
        currents = checked_currents(current)
        num_steps = self.num_steps(duration, dt, method, currents.min().item())
        require_steps(current, num_steps)
        size, watched = currents.shape[1], torch.empty(0) if watch is None else watch
        if len(outside := watched[(watched < 0) | (watched >= size)]):
            raise InputError(f"neurons to watch must be of 0 to {size - 1}", got=f"{int(outside[0])}")
        watched = watched.to("cpu", torch.long).numpy()
        membrane, begin = self.numbers(), torch.full_like(currents[0], self.rest if start is None else start)
        first_state = steady_state(begin, membrane.speed, membrane.shift)
        state, traces = torch.stack(first_state).numpy(), np.empty((4, num_steps, len(watched)))
        how = dt, membrane, self.config.fires_at, watched, traces
        times, neurons = march_in_chunks(
            lambda *places: MARCHES[method](state, currents.numpy(), *places, *how),
            size,
            num_steps,
            at_once=NEURONS_AT_ONCE,
            threads=torch.get_num_threads(),
        )
        if not np.isfinite(state).all():
            fix = "take shorter steps"
            raise InputError("voltages must stay finite", got=f"currents too strong for steps of {dt:g} ms", fix=fix)
        order = np.argsort(times, kind="stable")
        found = (torch.from_numpy(part) for part in (times[order], neurons[order], *traces))
        return HodgkinHuxleyRecording(*found, num_neurons=size, duration=num_steps * dt)

    def ionic_currents(self, recording: HodgkinHuxleyRecording) -> dict[str, Float[Tensor, "step watched"]]:
        """What flows out through the membranes that were watched, in µA/cm², by the ion that carries it."""
        state = MembraneState(recording.voltages, recording.n, recording.m, recording.h)
        with torch.no_grad():
            each = zip(IONS, conductances(state, self.membrane()), self.reversal, strict=True)
            return {ion: conductance * (state.v - reversal) for ion, conductance, reversal in each}

    def num_steps(self, duration: float, dt: float, method: Method, lowest_current: float = 0.0) -> int:
        require_dt(self.config, dt, method, lowest_current)
        if not dt <= duration <= MOST_STEPS * dt:
            got = f"{duration:g} ms in steps of {dt:g} ms"
            raise InputError(f"a simulation must last for 1 to {MOST_STEPS:,} steps", got=got)
        return round(duration / dt)

    def parameter_table(self) -> list[ParameterRow]:
        return [ParameterRow(name, "n", {"n": parameter.numel()}) for name, parameter in self.named_parameters()]


@torch.no_grad()
def resting_voltage(membrane: Membrane) -> float:
    """The lowest voltage (mV) at which no net current flows; it lies between the reversal potentials."""
    reversal = torch.stack([membrane.sodium_reversal, membrane.potassium_reversal, membrane.leak_reversal])
    low, high = reversal.min(), reversal.max()
    for _ in range(6):
        v = low + (high - low) * torch.linspace(0, 1, 1001, dtype=torch.double)
        falling = derivative(steady_state(v, membrane.speed, membrane.shift), 0.0, membrane).v <= 0
        first = max(1, int(falling.int().argmax()))
        low, high = v[first - 1], v[first]
    return high.item()


@lru_cache
@torch.no_grad()
def largest_dt(config: HodgkinHuxleyConfig, method: Method, lowest_current: float = 0.0) -> float:
    """ms. Nothing is faster than a membrane that leaps from rest to the highest reversal potential, or whose m gates
    close because a negative current takes the voltage far down. Runge and Kutta's step must be stable for the largest
    conductance and rate on the way. An exponential step is always stable, but must not skip the opening of a gate."""
    model = HodgkinHuxley(config)
    gates = config.speed, config.shift
    at_rest = steady_state(torch.tensor([model.rest], dtype=torch.double), *gates)
    leapt = at_rest._replace(v=model.reversal.max()[None])
    fastest = min(constant.item() for constant in time_constants(leapt.v, *gates))
    if method == "rk4":
        after = relax_gates(leapt, fastest * torch.linspace(0, 100, 10_001, dtype=torch.double), model.membrane())
        charging = config.capacitance / pull(after, 0.0, model.membrane())[1].max().item()
        lowest = torch.tensor(min(model.rest, config.reversals[2] + lowest_current / config.leak), dtype=torch.double)
        closing = [constant.item() for constant in time_constants(lowest, *gates)]
        fastest = RK4_LIMIT * min(fastest, charging, *closing)
    digits = 1 - math.floor(math.log10(fastest))
    return math.floor(fastest * 10**digits) / 10**digits


def require_dt(config: HodgkinHuxleyConfig, dt: float, method: Method, lowest_current: float = 0.0) -> None:
    if not dt > 0:
        raise InputError("dt must be a time above 0 ms", got=f"{dt:g}")
    largest = largest_dt(config, method, lowest_current)
    if dt > largest:
        need = "be stable" if method == "rk4" else "not skip the opening of a gate"
        rule = f"a step of {method} must {need}"
        raise InputError(rule, got=f"dt = {dt:g} ms", fix=f"the largest that works is {largest:g} ms")


SIZES = {
    "squid": HodgkinHuxleyConfig(),
    "squid_at_70": HodgkinHuxleyConfig(resting_potential=-70.0),
    "warm_squid": HodgkinHuxleyConfig(temperature=18.5),
}
"""The giant axon as it was measured, with rest at −65 and at −70 mV, and at the temperature at which its travelling
impulse was computed."""
