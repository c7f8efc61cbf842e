"""Brian2's Hodgkin–Huxley neurons, for tests/parity/test_hodgkin_huxley.py. Run in an environment of its own, for it
needs NumPy 1:

    python -m venv brian && brian/bin/pip install "brian2==2.9.0" "numpy<2" "setuptools<80"
    brian/bin/python tests/parity/references/hodgkin_huxley_brian.py

Ten neurons for 100 ms in steps of 0.01 ms: five with constant currents, four with steps and pulses, one with a new
current every millisecond. Everything starts at −65 mV, with the gates that belong there."""

# pyright: reportMissingImports=false, reportArgumentType=false

import platform
from pathlib import Path

import brian2
import numpy as np
from brian2 import (
    NeuronGroup,
    StateMonitor,
    TimedArray,
    cm,
    defaultclock,
    ms,
    msiemens,
    mV,
    run,
    start_scope,
    uA,
    ufarad,
)

DURATION, DT = 100.0, 0.01
SAMPLED = 20
"""Voltages are kept of every so many steps, to keep the file small; spike times are found in all of them."""

EQUATIONS = """
dv/dt = (I(t, i) - g_na * m**3 * h * (v - e_na) - g_k * n**4 * (v - e_k) - g_l * (v - e_l)) / c : volt
dn/dt = alpha_n * (1 - n) - beta_n * n : 1
dm/dt = alpha_m * (1 - m) - beta_m * m : 1
dh/dt = alpha_h * (1 - h) - beta_h * h : 1
alpha_n = 0.1 / exprel(-(v + 55 * mV) / (10 * mV)) / ms : Hz
beta_n = 0.125 * exp(-(v + 65 * mV) / (80 * mV)) / ms : Hz
alpha_m = 1 / exprel(-(v + 40 * mV) / (10 * mV)) / ms : Hz
beta_m = 4 * exp(-(v + 65 * mV) / (18 * mV)) / ms : Hz
alpha_h = 0.07 * exp(-(v + 65 * mV) / (20 * mV)) / ms : Hz
beta_h = 1 / (1 + exp(-(v + 35 * mV) / (10 * mV))) / ms : Hz
"""
CONSTANTS = {
    "c": 1 * ufarad / cm**2,
    "g_na": 120 * msiemens / cm**2,
    "g_k": 36 * msiemens / cm**2,
    "g_l": 0.3 * msiemens / cm**2,
    "e_na": 50 * mV,
    "e_k": -77 * mV,
    "e_l": -54.387 * mV,
}


def currents() -> np.ndarray:
    """µA/cm² for each millisecond and neuron."""
    table = np.zeros((round(DURATION), 10))
    table[:, :5] = 3, 7, 10, 20, 50
    table[20:, 5] = 10
    table[10:12, 6] = 15
    table[[10, 11, 40, 41, 70, 71], 7] = 15
    table[10:60, 8] = -10
    table[:, 9] = np.random.default_rng(0).uniform(0, 25, len(table))
    return table


def simulate(method: str) -> np.ndarray:
    """Voltages (mV) at the end of every step, a column for each neuron."""
    start_scope()
    defaultclock.dt = DT * ms
    namespace = CONSTANTS | {"I": TimedArray(currents() * uA / cm**2, dt=1 * ms)}
    group = NeuronGroup(10, EQUATIONS, method=method, namespace=namespace)
    group.v = -65 * mV
    for gate in "nmh":
        setattr(group, gate, f"alpha_{gate} / (alpha_{gate} + beta_{gate})")
    monitor = StateMonitor(group, "v", record=True, when="end")
    run(DURATION * ms)
    return np.asarray(monitor.v / mV).T


def spikes(voltages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times (ms) and neurons where the voltage rises through 0 mV, on a straight line from step to step."""
    before = np.concatenate([np.full_like(voltages[:1], -65), voltages[:-1]])
    step, neuron = np.nonzero((before < 0) & (voltages >= 0))
    low, high = before[step, neuron], voltages[step, neuron]
    return (step - low / (high - low)) * DT, neuron


def main() -> None:
    brian2.prefs.codegen.target = "numpy"
    found: dict[str, np.ndarray] = {
        "currents": currents(),
        "duration": np.array(DURATION),
        "dt": np.array(DT),
        "sampled": np.array(SAMPLED),
    }
    for method in ("exponential_euler", "rk4"):
        voltages = simulate(method)
        times, neurons = spikes(voltages)
        found |= {
            f"{method}_voltages": voltages[SAMPLED - 1 :: SAMPLED],
            f"{method}_times": times,
            f"{method}_neurons": neurons,
        }
    versions = f"Brian2 {brian2.__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
    np.savez_compressed(Path(__file__).with_suffix(".npz"), versions=np.array(versions), **found)


if __name__ == "__main__":
    main()
