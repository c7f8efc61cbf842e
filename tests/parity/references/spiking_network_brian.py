"""Spikes of Brian2 for networks of 1,000 neurons, which ours must repeat one by one. Needs Brian2 (numpy < 2) and
nothing of neuropil:

    python tests/parity/references/spiking_network_brian.py

writes `spiking_network_brian.npz` beside this file. What both simulate is made here from a seed, by NumPy alone, so
that the file holds spikes only.

Two conventions differ. Brian2 dates a spike at the beginning of the step at whose end the voltage is above the
threshold, ours at its end; and it counts a refractory period from there, so that `refractory` is one step longer here
for the same number of steps at reset."""

import json
import platform
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".npz")
SIZE, NUM_EXCITATORY, STEPS, DT = 1000, 800, 5000, 0.1
HOLD = 100
"""Steps for which the input stays what it is."""
TAU_M, TAU_REF, REST, THRESHOLD, RESET = 20.0, 2.0, -65.0, -50.0, -60.0


@dataclass(frozen=True)
class Synapses:
    """All that come from excitatory neurons, or from inhibitory ones. Times in ms; no `tau` for delta synapses."""

    sources: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    delay: float
    tau: float | None


@dataclass(frozen=True)
class Case:
    start: np.ndarray
    inputs: np.ndarray
    """[step / HOLD, neuron] in mV."""
    excitatory: Synapses
    inhibitory: Synapses


def cases() -> dict[str, Case]:
    return {
        "delta": _case(1, weights=(0.12, -0.6), delays=(1.5, 0.8), taus=(None, None)),
        "exponential": _case(2, weights=(2.4, -14.0), delays=(1.0, 0.0), taus=(5.0, 10.0)),
        "mixed": _case(3, weights=(0.12, -14.0), delays=(0.0, 2.0), taus=(None, 8.0)),
    }


def _case(
    seed: int, weights: tuple[float, float], delays: tuple[float, float], taus: tuple[float | None, float | None]
) -> Case:
    random = np.random.default_rng(seed)
    start = random.uniform(REST, THRESHOLD, SIZE)
    inputs = 14.0 + 4.0 * random.standard_normal((STEPS // HOLD, SIZE))
    sources, targets = np.nonzero(random.random((SIZE, SIZE)) < 0.1)
    factors = random.uniform(0.5, 1.5, len(sources))
    excites = sources < NUM_EXCITATORY
    parts = [
        Synapses(sources[chosen], targets[chosen], (weight * factors[chosen]).astype(np.float32), delay, tau)
        for chosen, weight, delay, tau in zip((excites, ~excites), weights, delays, taus, strict=True)
    ]
    return Case(start, inputs, *parts)


def spikes_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Steps and neurons, as Brian2 has them."""
    brian2: Any = import_module("brian2")
    ms = brian2.ms
    brian2.start_scope()
    brian2.defaultclock.dt = DT * ms
    used = {
        "tau_m": TAU_M * ms,
        "rest": REST,
        "threshold": THRESHOLD,
        "reset": RESET,
        "drive": brian2.TimedArray(case.inputs, dt=HOLD * DT * ms),
    }
    equations = "dv/dt = (rest + drive(t, i) + s_e + s_i - v) / tau_m : 1 (unless refractory)\n"
    for name, synapses in (("e", case.excitatory), ("i", case.inhibitory)):
        used[f"tau_{name}"] = (synapses.tau or 1.0) * ms
        equations += f"ds_{name}/dt = -s_{name} / tau_{name} : 1\n"
    neurons = brian2.NeuronGroup(
        SIZE,
        equations,
        threshold="v > threshold",
        reset="v = reset",
        refractory=(TAU_REF + DT) * ms,
        method="exact",
        namespace=used,
    )
    neurons.v = case.start
    parts: list[object] = [neurons]
    for name, synapses in (("e", case.excitatory), ("i", case.inhibitory)):
        effect = "v_post += w" if synapses.tau is None else f"s_{name}_post += w / {synapses.tau}"
        made = brian2.Synapses(neurons, neurons, "w : 1", on_pre=effect, delay=synapses.delay * ms)
        made.connect(i=synapses.sources, j=synapses.targets)
        made.w = synapses.weights
        parts.append(made)
    monitor = brian2.SpikeMonitor(neurons)
    brian2.Network(*parts, monitor).run(STEPS * DT * ms)
    steps = np.round(np.asarray(monitor.t / ms) / DT).astype(np.int16)
    return steps, np.asarray(monitor.i).astype(np.int16)


def main() -> None:
    arrays = {}
    for name, case in cases().items():
        arrays[f"{name}_steps"], arrays[f"{name}_neurons"] = spikes_of(case)
        rate = len(arrays[f"{name}_steps"]) / (SIZE * STEPS * DT / 1000)
        print(f"{name}: {len(arrays[f'{name}_steps']):,} spikes, {rate:.1f} Hz")  # noqa: T201 (a script that a person runs)
    versions = {
        "brian2": import_module("brian2").__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    np.savez_compressed(FILE, versions=np.array(json.dumps(versions)), **arrays)


if __name__ == "__main__":
    main()
