"""Brunel's balanced network beside NEST: 12,500 and 50,000 neurons, with fixed and with plastic synapses between
excitatory neurons. Goal: at least 10 times as fast as NEST on as many threads. The bytes of a synapse are printed, too.

    python -m benchmarks.plastic_networks [--neurons 12500 50000] [--duration 1000] [--rounds 3] [--threads 2]

STDP is that of NEST's `stdp_synapse_hom`: all pairs, multiplicative (μ = 1 both ways), with all of the delay in the
dendrite. Weights begin at J, in the middle of their range, where potentiation and depression are equal. Each simulator
draws its own network and its own noise, and both run for a while before anything is timed; the rates of every round are
printed, and it is no comparison where they differ.

Larger networks keep the number of synapses of a neuron. NEST has an environment of its own in the user's cache, made
when it is missing, and each simulator a process of its own."""

import statistics
import sys
from collections.abc import Sequence

from benchmarks.timing import alternate, ratio
from benchmarks.workers import Worker, interpreter
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.runs.environment import environment

PEER = "nest-simulator==3.10.0"
FAN_IN = 1000
"""Excitatory synapses of a neuron."""


class Arguments(Config):
    neurons: tuple[int, ...] = option((12_500, 50_000), "neurons of each network")
    synapses: tuple[str, ...] = option(("fixed", "plastic"), "synapses between excitatory neurons: fixed, plastic")
    duration: float = option(1000.0, "ms that are simulated in a round", above=0)
    settle: float = option(200.0, "ms before the first round", above=0)
    rounds: int = option(3, "rounds of each", low=1)
    threads: int = option(2, "threads of each", low=1)


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), list(words), command="plastic_networks", about="Plastic networks beside NEST.")
    print(f"{environment()['processor']}, {arguments.threads} threads each, {PEER.replace('==', ' ')}")
    for neurons in arguments.neurons:
        for synapses in arguments.synapses:
            compare(neurons, synapses == "plastic", arguments)


def compare(neurons: int, plastic: bool, arguments: Arguments) -> None:
    pythons = {"neuropil": sys.executable, "NEST": interpreter("NEST", [PEER], constrained=False)}
    workers = {name: Worker("benchmarks.plastic_worker", name, python) for name, python in pythons.items()}
    try:
        for name, worker in workers.items():
            made = worker.tell(
                "build",
                neurons=neurons,
                fan_in=min(FAN_IN, neurons * 2 // 25),
                plastic=plastic,
                threads=arguments.threads,
            )
            worker.tell("run", duration=arguments.settle)
            resident = worker.tell("resident") / made["synapses"]
            print(
                f"{neurons:,} neurons, {made['synapses']:,} synapses, {made['plastic']:,} of them plastic, {name}: "
                f"built in {made['seconds']:.1f} s, {resident:.1f} bytes a synapse"
            )
        rates: dict[str, list[float]] = {name: [] for name in workers}

        def run(name: str) -> None:
            rates[name].append(workers[name].tell("run", duration=arguments.duration))

        seconds = alternate({name: (lambda name=name: run(name)) for name in workers}, arguments.rounds)
        for name, worker in workers.items():
            weight = f", mean plastic weight {worker.tell('weight'):.4f} mV" if plastic else ""
            found = ", ".join(f"{rate:.2f}" for rate in rates[name])
            taken = 1000 * statistics.median(seconds[name]) / arguments.duration
            print(f"  {name}: {taken:.2f} s for a second; {found} Hz{weight}")
        kind = "plastic" if plastic else "fixed"
        print(f"  NEST / neuropil, {neurons:,} neurons, {kind}: {ratio(seconds['NEST'], seconds['neuropil'])}")
    finally:
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    main(sys.argv[1:])
