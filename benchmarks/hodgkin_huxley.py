"""A thousand Hodgkin–Huxley neurons at 0.01 ms steps beside Brian2's compiled loop: same equations, same exponential
Euler steps, spikes recorded by both. Goals: at least six times as fast on two cores, better twelve times.

    python -m benchmarks.hodgkin_huxley

Brian2 has an environment of its own in the user's cache, made when it is missing. It compiles before it is timed. What
a run costs before its first step is taken off on both sides: the time of a short run is subtracted from that of a long
one."""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

NEURONS, DT, LONG, SHORT, ROUNDS = 1_000, 0.01, 110.0, 10.0, 7
STRONGEST = 20.0
"""µA/cm²: neurons get from none to this, so that two thirds of them fire."""
REFERENCES = Path(__file__).parents[1] / "tests" / "parity" / "references"
PARITY_METHOD = "exponential_euler"


def main(*, long: float = LONG, rounds: int = ROUNDS) -> None:
    import torch

    from benchmarks.timing import alternate, ratio
    from benchmarks.workers import brian
    from neuropil.models.hodgkin_huxley.neuron import HodgkinHuxley, HodgkinHuxleyConfig, Method

    model, current = HodgkinHuxley(HodgkinHuxleyConfig()), torch.linspace(0, STRONGEST, NEURONS, dtype=torch.double)
    counts: dict[tuple[str, float], int] = {}

    def ours(method: Method, threads: int) -> Callable[[float], None]:
        def run(duration: float) -> None:
            torch.set_num_threads(threads)
            counts[method, duration] = len(
                model.simulate(current, duration=duration, dt=DT, method=method, start=-65.0).times
            )

        return run

    cores = os.cpu_count() or 1
    work = {
        f"exponential Euler, {cores} threads": ours(PARITY_METHOD, cores),
        "exponential Euler, 1 thread": ours(PARITY_METHOD, 1),
        f"staggered, {cores} threads": ours("staggered", cores),
        f"rk4, {cores} threads": ours("rk4", cores),
    }
    peer = Peer(brian())
    work["Brian2"] = peer.run
    names = [(name, duration) for name in work for duration in (SHORT, long)]
    seconds = alternate(
        {f"{name} {duration}": lambda n=name, d=duration: work[n](d) for name, duration in names}, rounds
    )
    steps = (long - SHORT) / DT
    each = {
        name: [(b - a) / steps for a, b in zip(seconds[f"{name} {SHORT}"], seconds[f"{name} {long}"], strict=True)]
        for name in work
    }
    for name, values in each.items():
        print(f"{name}: {1e6 * statistics.median(values):.1f} µs a step")
    peer.end()
    for name in list(work)[:-1]:
        print(f"Brian2 / neuropil, {name}: {ratio(each['Brian2'], each[name])}")
    print(f"spikes in {long:g} ms: {counts[PARITY_METHOD, long]:,} of neuropil, {peer.counts[long]:,} of Brian2")


class Peer:
    """Brian2 in its own process. It answers a duration (ms) with the number of spikes."""

    def __init__(self, python: str):
        self.process = subprocess.Popen(
            [python, __file__, "brian"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.counts: dict[float, int] = {}

    def run(self, duration: float) -> None:
        asked, answered = self.process.stdin, self.process.stdout
        if asked is None or answered is None:
            raise RuntimeError("Brian2's process must be spoken to through pipes")
        asked.write(f"{duration}\n")
        asked.flush()
        answer = answered.readline()
        if not answer:
            raise RuntimeError(f"Brian2's process ended with {self.process.wait()}")
        self.counts[duration] = int(answer)

    def end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


def answer_as_brian() -> None:
    import brian2  # pyright: ignore[reportMissingImports]  # runs in Brian2's environment
    import numpy as np
    from brian2 import Network, NeuronGroup, SpikeMonitor, cm, defaultclock, ms, mV, uA  # pyright: ignore[reportMissingImports]

    sys.path.insert(0, str(REFERENCES))
    from hodgkin_huxley_brian import CONSTANTS, EQUATIONS  # pyright: ignore[reportMissingImports]

    brian2.prefs.codegen.target = "cython"
    defaultclock.dt = DT * ms
    equations = EQUATIONS.replace("I(t, i)", "I") + "I : amp / meter**2\n"
    conditions = {"threshold": "v > 0 * mV", "refractory": "v > 0 * mV"}
    group = NeuronGroup(NEURONS, equations, method=PARITY_METHOD, namespace=CONSTANTS, **conditions)
    group.I = np.linspace(0, STRONGEST, NEURONS) * uA / cm**2
    monitor = SpikeMonitor(group)
    network = Network(group, monitor)

    def begin() -> None:
        group.v = -65 * mV
        for gate in "nmh":
            setattr(group, gate, f"alpha_{gate} / (alpha_{gate} + beta_{gate})")

    begin()
    network.store()
    for line in sys.stdin:
        network.restore()
        network.run(float(line) * ms)
        sys.stdout.write(f"{monitor.num_spikes}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["brian"]:
        answer_as_brian()
    else:
        main()
