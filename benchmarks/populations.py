"""Two populations of 500 spiking neurons, a connection that squares and a recurrence that integrates with a leak,
beside Nengo's reference simulator: the same neurons, decoders, synapses and step, so that both say the same. Goal: 40
times as fast.

python -m benchmarks.populations [--neurons 500] [--seconds 5] [--rounds 7]
"""

import importlib
import math
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.timing import alternate, ratio
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.models.dynamics.network import Input, PopulationConnection, PopulationNetwork, PopulationSimulator
from neuropil.models.population import Population

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it looks for NumPy's clip where it used to be
    nengo: Any = importlib.import_module("nengo")

SQUARE_TAU, LOOP_TAU, PROBE_TAU, FEEDBACK, OMEGA = 5.0, 100.0, 20.0, 0.5, 5.0
"""ms, and rad/s."""


class Arguments(Config):
    neurons: int = option(500, "neurons of each population", low=1)
    seconds: float = option(5.0, "seconds that are simulated in a round", low=0.1)
    rounds: int = option(7, "rounds of each", low=1)


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), list(words), command="populations", about="Populations beside Nengo.")
    began = time.perf_counter()
    model, ensembles, probe = theirs(arguments.neurons)
    reference = nengo.Simulator(model, progress_bar=False)
    built = time.perf_counter()
    simulator, seen = ours(reference, *ensembles)
    print(f"building: Nengo {built - began:.2f} s, neuropil {time.perf_counter() - built:.2f} s")
    milliseconds = 1000 * arguments.seconds
    steps = round(milliseconds)
    said = {"neuropil": simulator.run(milliseconds)[seen]}

    def run_theirs() -> None:
        reference.clear_probes()
        reference.run_steps(steps, progress_bar=False)

    seconds = alternate({"Nengo": run_theirs, "neuropil": lambda: simulator.run(milliseconds)}, arguments.rounds)
    reference.reset()
    run_theirs()
    said["Nengo"] = np.asarray(reference.data[probe])
    for name, values in seconds.items():
        error = np.sqrt(np.square(said[name][steps // 5 :] - ideal(steps)[steps // 5 :]).mean())
        print(
            f"{name}: {1e6 * min(values) / steps:.2f} µs a step of two populations of {arguments.neurons}, error "
            f"{error:.4f}"
        )
    print(f"Nengo / neuropil: {ratio(seconds['Nengo'], seconds['neuropil'])}")


def theirs(neurons: int) -> tuple[Any, tuple[Any, Any], Any]:
    """The model, its populations, and the probe that looks at the second."""
    with nengo.Network(seed=0) as model:
        wave = nengo.Node(lambda t: math.sin(OMEGA * t))
        a, b = nengo.Ensemble(neurons, 1), nengo.Ensemble(neurons, 1)
        nengo.Connection(wave, a)
        nengo.Connection(a, b, function=lambda x: x**2, transform=1 - FEEDBACK, synapse=SQUARE_TAU / 1000)
        nengo.Connection(b, b, transform=FEEDBACK, synapse=LOOP_TAU / 1000)
        probe = nengo.Probe(b, synapse=PROBE_TAU / 1000)
    return model, (a, b), probe


def ours(reference: Any, a: Any, b: Any) -> tuple[PopulationSimulator, PopulationConnection]:
    """The same network, with the neurons that Nengo drew."""
    first, second = (copied(reference, ensemble) for ensemble in (a, b))
    network = PopulationNetwork()
    network.connect(Input(lambda t: math.sin(OMEGA * t / 1000)), first)
    network.connect(first, second, function=lambda x: x**2, transform=1 - FEEDBACK, tau=SQUARE_TAU)
    network.connect(second, second, transform=FEEDBACK, tau=LOOP_TAU)
    seen = network.probe(second, tau=PROBE_TAU)
    simulator = PopulationSimulator(network)
    simulator.run(10.0)  # compile, or fetch what was compiled
    return simulator, seen


def copied(reference: Any, ensemble: Any) -> Population:
    drawn = reference.data[ensemble]
    return Population(
        ensemble.n_neurons, 1, encoders=drawn.encoders, gains=drawn.gain, biases=drawn.bias, points=drawn.eval_points
    )


def ideal(steps: int) -> np.ndarray:
    """What exact numbers in place of neurons would say, with the same synapses and delays."""
    first, square, loop, probe = (math.exp(-1 / tau) for tau in (5.0, SQUARE_TAU, LOOP_TAU, PROBE_TAU))
    a = b = fed = seen = 0.0
    said = np.empty((steps, 1))
    for step in range(steps):
        said[step] = seen
        value = fed + b
        seen = value + (seen - value) * probe
        fed = (1 - FEEDBACK) * a**2 + (fed - (1 - FEEDBACK) * a**2) * square
        b = FEEDBACK * value + (b - FEEDBACK * value) * loop
        a = math.sin(OMEGA * (step + 1) / 1000) + (a - math.sin(OMEGA * (step + 1) / 1000)) * first
    return said


if __name__ == "__main__":
    main(sys.argv[1:])
