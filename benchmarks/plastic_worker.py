"""One simulator's side of `benchmarks.plastic_networks`: a process in an environment of its own that builds the network
and runs it when it is told to, a JSON object a line. It needs that simulator alone."""

import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.workers import answer_requests

G, EXTERNAL, STRENGTH, DELAY, DT = 5.0, 2.0, 100.0, 1.5, 0.1
STEP = 0.0005
"""λ: the change of a weight by one pair, of its range. NEST sends a weight after the arriving spike has depressed it,
neuropil before: the smaller λ, the less that is."""


class Simulator:
    neurons: int
    before: int

    def resident(self) -> int:
        """Bytes that the network has taken, with what it needed to begin."""
        return resident() - self.before


class Ours(Simulator):
    def build(self, neurons: int, fan_in: int, plastic: bool, threads: int) -> dict[str, Any]:
        from neuropil.models.balanced_network import BalancedNetworkConfig, balanced_network
        from neuropil.models.spiking.network import STDP, SpikingSimulator, simulate

        def network(size: int, connectivity: float) -> Any:
            config = BalancedNetworkConfig(
                neurons=size, g=G, external=EXTERNAL, strength=STRENGTH, delay=DELAY, connectivity=connectivity
            )
            step = 2 * STEP * config.jump
            rule = STDP(
                potentiation=step,
                depression=step,
                high=2 * config.jump,
                mu_plus=1.0,
                mu_minus=1.0,
                dendritic_delay=DELAY,
            )
            return balanced_network(config, rule if plastic else None)

        simulate(network(100, 0.1), 10.0, DT, threads=threads)  # compile, or fetch what was compiled
        self.before, began = resident(), time.perf_counter()
        self.simulator = SpikingSimulator(network(neurons, fan_in / (neurons * 4 // 5)), dt=DT, threads=threads)
        self.neurons, seconds = neurons, time.perf_counter() - began
        learning = len(self.simulator.synapses(0)) if plastic else 0
        return {"seconds": seconds, "synapses": self.simulator.num_synapses, "plastic": learning}

    def run(self, duration: float) -> float:
        recording = self.simulator.run(duration)
        spikes = sum(len(train.times) for train in recording.spikes.values())
        return 1000 * spikes / (self.neurons * duration)

    def weight(self) -> float:
        return float(self.simulator.synapses(0).weights.mean())


class Nest(Simulator):
    def build(self, neurons: int, fan_in: int, plastic: bool, threads: int) -> dict[str, Any]:
        self.nest: Any = import_module("nest")
        nest = self.nest
        nest.verbosity = nest.VerbosityLevel.ERROR
        nest.set(resolution=DT, local_num_threads=threads, rng_seed=1)
        num_excitatory, jump = neurons * 4 // 5, STRENGTH / fan_in
        cell = {"tau_m": 20.0, "t_ref": 2.0, "E_L": 0.0, "V_m": 0.0, "V_th": 20.0, "V_reset": 10.0, "C_m": 1.0}
        self.before, began = resident(), time.perf_counter()
        excitatory, inhibitory = (
            nest.Create("iaf_psc_delta", size, params=cell | {"tau_minus": 20.0})
            for size in (num_excitatory, neurons - num_excitatory)
        )
        everyone = excitatory + inhibitory
        rate = 1000 * EXTERNAL * cell["V_th"] / (jump * cell["tau_m"])
        outside, self.recorder = nest.Create("poisson_generator", params={"rate": rate}), nest.Create("spike_recorder")
        nest.CopyModel("static_synapse_hom_w", "excite", {"weight": jump})
        nest.CopyModel("static_synapse_hom_w", "inhibit", {"weight": -G * jump})
        rule = {"tau_plus": 20.0, "lambda": STEP, "alpha": 1.0, "mu_plus": 1.0, "mu_minus": 1.0, "Wmax": 2 * jump}
        nest.CopyModel("stdp_synapse_hom", "learn", rule)
        learning = {"synapse_model": "learn", "weight": jump} if plastic else {"synapse_model": "excite"}
        self.excitatory = excitatory
        connect(nest, excitatory, excitatory, fan_in, learning)
        connect(nest, excitatory, inhibitory, fan_in, {"synapse_model": "excite"})
        connect(nest, inhibitory, everyone, fan_in // 4, {"synapse_model": "inhibit"})
        nest.Connect(outside, everyone, "all_to_all", {"synapse_model": "excite", "delay": DT})
        nest.Connect(everyone, self.recorder)
        nest.Prepare()
        self.neurons, self.spikes = neurons, 0
        synapses = neurons * (fan_in + fan_in // 4)
        return {
            "seconds": time.perf_counter() - began,
            "synapses": synapses,
            "plastic": num_excitatory * fan_in if plastic else 0,
        }

    def run(self, duration: float) -> float:
        self.nest.Run(duration)
        before, self.spikes = self.spikes, int(self.recorder.n_events)
        return 1000 * (self.spikes - before) / (self.neurons * duration)

    def weight(self) -> float:
        """Of the synapses of some neurons, as they were when a spike passed last."""
        some = self.excitatory[:20]
        weights = self.nest.GetConnections(some, synapse_model="learn").get("weight")
        return sum(weights) / len(weights)


def connect(nest: Any, source: Any, target: Any, fan_in: int, synapse: dict[str, Any]) -> None:
    rule = {"rule": "fixed_indegree", "indegree": fan_in, "allow_autapses": False, "allow_multapses": False}
    nest.Connect(source, target, rule, {**synapse, "delay": DELAY})


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    answer_requests({"neuropil": Ours, "NEST": Nest}[sys.argv[1]])
