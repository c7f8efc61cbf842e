"""Spiking networks beside Brian2 (cython, and C++ in its standalone mode) and Nengo: 1,000 LIF neurons with dense
recurrent weights in steps of 1 ms, Brunel's balanced network of 12,500 neurons and 15.6 million synapses for one
second, and what a neuron costs as the network grows at a fixed fan-in. Goals: 25 times as fast as Brian2 on the first
and 12 times as fast as its standalone mode, faster than real time on the second; cost linear within 1.3 from 1,000 to
100,000 neurons.

    python -m benchmarks.spiking_networks [--small]

Brian2 has an environment of its own in the user's cache, made when it is missing. It simulates the same weights and
input in a process that stays, so that what it compiles and builds is not counted; ours neither. In standalone mode the
whole is one binary, built once without and once with OpenMP: of each round only the seconds of its run count, which the
binary writes down."""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import alternate, ratio
from benchmarks.workers import brian
from neuropil.models.balanced_network import SIZES, BalancedNetworkConfig, balanced_network
from neuropil.models.lif import LIFConfig
from neuropil.models.spiking.network import (
    CurrentInput,
    NeuronGroup,
    PoissonInput,
    Projection,
    SpikingNetwork,
    SpikingSimulator,
)
from neuropil.runs.environment import environment

NEURONS, DENSE_STEPS, ROUNDS = 1_000, 20_000, 5
BALANCED_ROUNDS = 3
GROWTH, FAN_IN = (1_000, 10_000, 100_000), 100

BRIAN_DENSE = """
import sys, time
import numpy as np
import brian2
from brian2 import ms
with np.load(sys.argv[1]) as file:
    weights, inputs, start = file["weights"], file["inputs"], file["start"]
brian2.defaultclock.dt = 1 * ms
tau = 20 * ms
neurons = brian2.NeuronGroup(
    len(inputs), "dv/dt = (drive - v) / tau : 1 (unless refractory)\\ndrive : 1",
    threshold="v > 1", reset="v = 0", refractory=3 * ms, method="exact",
)
neurons.v, neurons.drive = start, inputs
synapses = brian2.Synapses(neurons, neurons, "w : 1", on_pre="v_post += w")
synapses.connect()
synapses.w = weights.reshape(-1)
monitor = brian2.SpikeMonitor(neurons)
network = brian2.Network(neurons, synapses, monitor)
"""
BRIAN_CYTHON = """
import brian2
brian2.prefs.codegen.target = "cython"
"""
BRIAN_RUNS = """
def work(steps):
    network.run(steps * ms)
work(100)
"""
BRIAN_STANDALONE = """
import sys
import brian2
steps, threads, folder = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
brian2.set_device("cpp_standalone", directory=folder, build_on_run=False)
brian2.prefs.devices.cpp_standalone.openmp_threads = threads
"""
BRIAN_BINARY_RUNS = """
network.run(steps * ms)
brian2.device.build(directory=folder, compile=True, run=False, debug=False)
print("ready", flush=True)
for line in sys.stdin:
    brian2.device.run(directory=folder, with_output=False)
    print(monitor.num_spikes, brian2.device._last_run_time, flush=True)
"""
BRIAN_BALANCED = """
import sys, time
import numpy as np
import brian2
from brian2 import mV, ms, Hz
with np.load(sys.argv[1]) as file:
    excitatory, inhibitory = file["excitatory"], file["inhibitory"]
size, sources = map(int, sys.argv[2:4])
strength, g, rate = map(float, sys.argv[4:7])
brian2.prefs.codegen.target = "cython"
brian2.defaultclock.dt = 0.1 * ms
brian2.seed(0)
tau = 20 * ms
neurons = brian2.NeuronGroup(
    size, "dv/dt = -v / tau : volt (unless refractory)", threshold="v > 20*mV", reset="v = 10*mV",
    refractory=2.1 * ms, method="exact"
)
jumps = {"jump": strength * mV, "fall": g * strength * mV}
excite = brian2.Synapses(neurons, neurons, on_pre="v_post += jump", delay=1.5 * ms, namespace=jumps)
excite.connect(i=excitatory[0], j=excitatory[1])
inhibit = brian2.Synapses(neurons, neurons, on_pre="v_post -= fall", delay=1.5 * ms, namespace=jumps)
inhibit.connect(i=inhibitory[0], j=inhibitory[1])
outside = brian2.PoissonInput(neurons, "v", sources, rate / sources * Hz, weight=strength * mV)
monitor = brian2.SpikeMonitor(neurons)
network = brian2.Network(neurons, excite, inhibit, outside, monitor)
def work(steps):
    network.run(steps * 0.1 * ms)
work(10)
"""
BRIAN_ANSWERS = """
print("ready", flush=True)
for line in sys.stdin:
    before, began = monitor.num_spikes, time.perf_counter()
    work(int(line))
    print(monitor.num_spikes - before, time.perf_counter() - began, flush=True)
"""


class Brian:
    """A process of Brian2 that has built its network and waits for a number of steps."""

    def __init__(self, python: str, script: str, *arguments: object):
        command = [python, "-c", script, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.spikes, self.seconds = 0, list[float]()
        """Of the last run, and inside Brian2 for each run."""
        if self._line() != "ready":
            raise RuntimeError(f"Brian2 did not start with {python}")

    def run(self, steps: int) -> None:
        if self.process.stdin is None:
            raise RuntimeError("Brian2 does not listen")
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        spikes, seconds = self._line().split()
        self.spikes = int(spikes)
        self.seconds.append(float(seconds))

    def _line(self) -> str:
        return self.process.stdout.readline().strip() if self.process.stdout is not None else ""

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


class Ours:
    def __init__(self, network: SpikingNetwork, dt: float, **options: int):
        self.simulator, self.spikes = SpikingSimulator(network, dt=dt, **options), 0
        self.run(10)

    def run(self, steps: int) -> None:
        recording = self.simulator.run(steps * self.simulator.dt)
        self.spikes = sum(len(train.times) for train in recording.spikes.values())


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a moment of each, to see that it runs")
    small = parser.parse_args([] if words is None else words).small
    python = brian()
    print(environment()["processor"])
    print_dense(python, *((100, 20, 1) if small else (NEURONS, DENSE_STEPS, ROUNDS)))
    print_balanced(
        python, *((SIZES["AI"].override(neurons=500), 100, 1) if small else (SIZES["AI"], 10_000, BALANCED_ROUNDS))
    )
    print_growth((1_000, 2_000) if small else GROWTH, 50 if small else 100_000)


def print_dense(python: str, neurons: int, steps: int, rounds: int) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.02, (neurons, neurons)).astype(np.float32)
    inputs, start = random.uniform(0.9, 1.3, neurons), random.uniform(0, 1, neurons)
    network = SpikingNetwork(
        [NeuronGroup("all", neurons, LIFConfig(), start)],
        [Projection("all", "all", weights)],
        [CurrentInput("all", inputs)],
    )
    ours = Ours(network, 1.0)
    work: dict[str, Callable[[], object]] = {"neuropil": lambda: ours.run(steps)}
    if nengo_is_there():
        work["Nengo"] = nengo_dense(weights, inputs, steps)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.npz"
        np.savez(file, weights=weights, inputs=inputs, start=start)
        peers = {"Brian2": Brian(python, BRIAN_CYTHON + BRIAN_DENSE + BRIAN_RUNS + BRIAN_ANSWERS, file)}
        standalone = BRIAN_STANDALONE + BRIAN_DENSE + BRIAN_BINARY_RUNS
        for threads in (0, 2):
            name = f"Brian2, C++ standalone{f', {threads} OpenMP threads' if threads else ''}"
            peers[name] = Brian(python, standalone, file, steps, threads, Path(folder) / f"binary{threads}")
        work |= {name: (lambda peer=peer: peer.run(steps)) for name, peer in peers.items()}
        seconds = alternate(work, rounds)
        for name, peer in peers.items():
            seconds[name] = peer.seconds[1:]
            peer.close()
            print(f"spikes in the last round: neuropil {ours.spikes:,}, {name} {peer.spikes:,}")
    for name, values in seconds.items():
        print(f"{neurons:,} neurons, dense, {name}: {1e6 * statistics.median(values) / steps:.1f} µs a step")
    for name, values in seconds.items():
        if name != "neuropil":
            print(f"{name} / neuropil: {ratio(values, seconds['neuropil'])}")


def nengo_is_there() -> bool:
    return find_spec("nengo") is not None


def nengo_dense(weights: np.ndarray, inputs: np.ndarray, steps: int) -> Callable[[], object]:
    """The same neurons and weights; Nengo's synapse filters a spike over one step, which is a delta synapse there."""
    nengo: Any = import_module("nengo")
    with nengo.Network(seed=0) as model:
        ensemble = nengo.Ensemble(
            len(inputs), 1, neuron_type=nengo.LIF(tau_rc=0.02, tau_ref=0.002), gain=np.ones(len(inputs)), bias=inputs
        )
        # a spike is 1/dt for one step: w τ_m of it moves the voltage by w
        nengo.Connection(ensemble.neurons, ensemble.neurons, transform=weights.T * 0.02, synapse=0)
    simulator = nengo.Simulator(model, dt=0.001, progress_bar=False, optimize=True)
    return lambda: simulator.run_steps(steps, progress_bar=False)


def print_balanced(python: str, config: BalancedNetworkConfig, steps: int, rounds: int) -> None:
    ours = {
        f"neuropil, {threads} thread{'s' * (threads > 1)}": Ours(balanced_network(config), 0.1, threads=threads)
        for threads in (1, 2)
    }
    work: dict[str, Callable[[], object]] = {name: (lambda each=each: each.run(steps)) for name, each in ours.items()}
    first, last = ours.values()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "synapses.npz"
        arguments = (file, config.neurons, config.fan_in[0], config.jump, config.g, config.external_rate)
        ends = pairs(first.simulator)
        np.savez(file, excitatory=ends["excitatory"], inhibitory=ends["inhibitory"])
        peer = Brian(python, BRIAN_BALANCED + BRIAN_ANSWERS, *arguments)
        work["Brian2"] = lambda: peer.run(steps)
        seconds = alternate(work, rounds)
    peer.close()
    print(f"spikes in the last round: neuropil {last.spikes:,}, Brian2 {peer.spikes:,}")
    print(f"{config.neurons:,} neurons, {first.simulator.num_synapses:,} synapses, {steps * 0.1:g} ms:")
    for name, values in seconds.items():
        print(
            f"{name}: {statistics.median(values):.2f} s, {statistics.median(values) / (steps * 1e-4):.2f} of real time"
        )
    for name in ours:
        print(f"Brian2 / {name}: {ratio(seconds['Brian2'], seconds[name])}")


def pairs(simulator: SpikingSimulator) -> dict[str, np.ndarray]:
    """[2, synapse] from the excitatory and from the inhibitory group: numbers of neurons among all."""
    network, found = simulator.network, {}
    first = dict(zip((group.name for group in network.groups), (0, network.groups[0].size), strict=True))
    for place, each in enumerate(network.connections):
        synapses = simulator.synapses(place)
        ends = np.stack([first[each.source] + synapses.sources, first[each.target] + synapses.targets.astype(np.int64)])
        found.setdefault(each.source, []).append(ends.astype(np.int32))
    return {name: np.concatenate(ends, 1) for name, ends in found.items()}


def print_growth(sizes: tuple[int, ...], steps: int) -> None:
    """Every neuron hears FAN_IN others, fires at the same rate, and the work of all networks is the same number of
    neurons times steps."""
    costs = []
    for size in sizes:
        config = LIFConfig()
        network = SpikingNetwork(
            [NeuronGroup("all", size, config, (0.0, 1.0))],
            [Projection("all", "all", -0.01, fan_in=FAN_IN, delay=1.5)],
            [PoissonInput("all", 2_000.0, 0.03)],
        )
        ours, number = Ours(network, 0.1, threads=1), max(1, steps * sizes[0] // size)
        taken = min(alternate({"ours": lambda ours=ours, number=number: ours.run(number)}, 3)["ours"])
        costs.append(taken / (number * size))
        rate = ours.spikes / (number * size) * 10_000
        print(
            f"{size:,} neurons: {1e9 * costs[-1]:.2f} ns for a neuron's step at {rate:.1f} Hz, "
            f"{costs[-1] / costs[0]:.2f} of the smallest"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
