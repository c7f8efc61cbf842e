"""Networks of populations (Neural Engineering Framework): they compute functions and follow differential equations.

    s(t) = h(t) * Σ_i a_i(t) d_i            decode: a connection carries f̂(x) through a synapse h(t) = e^{−t/τ}/τ
    J_j(t) = α_j ⟨e_j, Σ s(t)⟩ / r + β_j    encode: the next population takes the sum of all that arrives as its value
    W = D E                                 the same as full weights: N·M numbers where N + M are enough

A population connected to itself has dynamics. Its synapse obeys τ dx/dt = g(x) − x, where g(x) is what it sends back,
so it follows any equation:

    dx/dt = f(x) + u        ⇐        g(x) = x + τ f(x), and τ u as the input

A decoder can be learned online, from nothing but an error e that another population reports (PES):

    dD/dt = −(κ/N) a ⊗ e

Times are in ms, rates in Hz, and changes of a value per second. A description has no step; a simulation is one call of
compiled code:

    network, a = PopulationNetwork(), Population(200)
    network.connect(Input(lambda t: math.sin(t / 200)), a)
    seen = network.probe(a)
    value = network.simulate(1000)[seen]
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from neuropil.errors import InputError
from neuropil.models.dynamics import description
from neuropil.models.dynamics.description import PES as PES
from neuropil.models.dynamics.description import Input as Input
from neuropil.models.dynamics.description import Numbers, Source, Target
from neuropil.models.dynamics.description import PopulationConnection as PopulationConnection
from neuropil.models.dynamics.kernel import Activity, Program, at_rest, num_terms, run, smoothed
from neuropil.models.population import Array, Function, Population, SignalSlice, solve_decoders, values_of
from neuropil.randomness import mix

Times: TypeAlias = Float[Array, " step"]
Voltages: TypeAlias = Mapping[Population, Float[Array, " _"]]


class PopulationSpikes(NamedTuple):
    """`times` in ms, in the order in which they came step by step, and who fired."""

    times: Float[Array, " spike"]
    neurons: Int[Array, " spike"]


@dataclass(frozen=True)
class Simulation:
    """`simulation[probe]` is what the probe saw, [step, output]: what a target in its place would have been given in
    each step. Steps are dated by their ends, `times` in ms."""

    times: Times
    seen: Mapping[PopulationConnection, Float[Array, "step _"]]
    spikes: Mapping[Population, PopulationSpikes]
    decoders: Mapping[PopulationConnection, Float[Array, "_ _"]]
    """Of every connection from a population; of those that learn, as they were in the end."""

    def __getitem__(self, probe: PopulationConnection) -> Float[Array, "step output"]:
        return self.seen[probe]


@dataclass
class PopulationState:
    """Where a simulation stands, from which it can go on. `step` is the number of steps that are done; `inputs` is what
    the synapse of each connection carries, by its place, where an input is its source."""

    step: int
    activity: Activity
    inputs: list[Float[Array, " _"]]


@dataclass
class PopulationNetwork:
    connections: list[PopulationConnection] = field(default_factory=list)
    watched: list[Population] = field(default_factory=list)

    def connect(
        self,
        source: Source,
        target: Target | None,
        *,
        function: Function | None = None,
        transform: Numbers | None = None,
        tau: float | None = 5.0,
        change: bool = False,
        learning: PES | None = None,
        start: Numbers | None = None,
    ) -> PopulationConnection:
        """Let the target have `transform` times `function` of the source's value, through a synapse with the time
        constant `tau` (ms).

        Without a synapse (None) an input arrives as it is, and what a population says in the next step. With `change`,
        what is carried is not a value but a change of the target's value per second, which is how inputs and functions
        enter a differential equation. `start` is what the connection carries when time begins. To a connection that
        learns, connect its error. Without a target, it is a probe.
        """
        begin, end = description.part_of(source), None if target is None else description.target_of(target)
        description.require_source(begin, tau, change, learning)
        if learning is not None and transform is not None:
            raise InputError("a connection that learns must have no transform", got="one", fix="let the function do it")
        size = description.output_size(function, begin)
        matrix = description.transform_matrix(transform, size, size if end is None else len(end.indices))
        first = description.start_values(start, begin, len(matrix))
        connection = PopulationConnection(begin, end, function, matrix, tau, change, learning, first)
        self.connections.append(connection)
        return connection

    def follow(
        self, population: Population, f: Function | None = None, *, tau: float = 100.0, start: Numbers | None = None
    ) -> None:
        """Let the population's value x follow dx/dt = f(x), per second, from `start`, or from 0; without f it stays,
        and integrates what arrives with `change`.

        Where f gives fewer numbers than there are dimensions, it moves the first ones; the others are inputs to it.
        """
        moved = population[:] if f is None else population[: len(values_of(f, population.points[:1])[0])]
        self.connect(moved, moved, tau=tau, start=start)
        if f is not None:
            self.connect(population, moved, function=f, change=True, tau=tau)

    def probe(
        self, source: Source, *, function: Function | None = None, tau: float | None = 10.0
    ) -> PopulationConnection:
        """Record a function of the source's value, through a synapse."""
        return self.connect(source, None, function=function, tau=tau)

    def probe_spikes(self, population: Population) -> None:
        """Keep the spikes of all neurons: `simulation.spikes[population]`."""
        self.watched.append(population)

    @property
    def populations(self) -> list[Population]:
        """In the order in which they were first named."""
        parts = [part for each in self.connections for part in (each.source, each.target) if part is not None]
        ends = [*(part.whole for part in parts), *self.watched]
        return list(dict.fromkeys(end for end in ends if isinstance(end, Population)))

    def largest_dt(self) -> float:
        """ms: the shortest time constant or refractory period, within which a neuron fires no more than once."""
        synapses = [connection.tau for connection in self.connections if connection.tau is not None]
        learning = [connection.learning.tau for connection in self.connections if connection.learning is not None]
        spiking = [min(p.neuron.tau_m, p.neuron.tau_ref) for p in self.populations if p.mode == "spiking"]
        lags = [p.lag for p in self.populations if p.mode == "rate" and p.lag]
        return min([*synapses, *learning, *spiking, *lags], default=math.inf)

    def simulate(
        self,
        duration: float,
        dt: float = 1.0,
        *,
        seed: int = 0,
        first: Voltages | None = None,
        full_weights: bool = False,
    ) -> Simulation:
        """Run for `duration` ms in steps of `dt` ms. Voltages begin at random, between 0 and 1, or at the `first`. With
        `full_weights`, populations are connected neuron by neuron, which gives the same and takes longer."""
        self.require_times(duration, dt)
        return PopulationSimulator(self, dt, full_weights=full_weights).run(duration, seed=seed, first=first)

    def require_times(self, duration: float, dt: float) -> None:
        """Refuse what `simulate` would refuse."""
        if not self.populations:
            raise InputError("a network must have a population", got="none", fix="connect an input to one")
        if not 0 < dt <= self.largest_dt():
            fix = f"the largest that works here is {self.largest_dt():g}"
            rule = "dt must be a time above 0 ms, no longer than any time constant or refractory period"
            raise InputError(rule, got=f"{dt:g}", fix=fix)
        if not dt <= duration < math.inf:
            got = f"{duration:g} ms in steps of {dt:g} ms"
            raise InputError("duration must be a time of at least one step", got=got)


# --- from the description to flat arrays ------------------------------------------------------------------------------


class PopulationSimulator:
    """A network that is ready to run, as often as you like: all decoders are solved, and everything has its place in
    flat arrays.

    Its inputs are the values of all populations, then the errors of connections that learn, then (with full weights)
    the currents of all neurons. Each population has a row of outputs, side by side, of all that is decoded from it."""

    def __init__(self, network: PopulationNetwork, dt: float = 1.0, *, full_weights: bool = False):
        network.require_times(dt, dt)
        self.network, self.dt, self.full_weights = network, float(dt), full_weights
        self.populations = network.populations
        self.learned = [connection for connection in network.connections if connection.learning is not None]
        self.neuron_starts = _starts([p.neurons for p in self.populations])
        sizes = [p.dimensions for p in self.populations] + [connection.size for connection in self.learned]
        self.input_starts = _starts(sizes)
        self.leaving = [self._leaving(p) for p in self.populations]
        self.solved: dict[PopulationConnection, Array] = {}
        for population, outputs in zip(self.populations, self.leaving, strict=True):
            self.solved |= self._solve(population, outputs)
        self.column_starts = _starts([sum(self.solved[each].shape[1] for each in outputs) for outputs in self.leaving])
        self.program = self.flatten()

    def run(self, duration: float, *, seed: int = 0, first: Voltages | None = None) -> Simulation:
        """From time 0, as `PopulationNetwork.simulate` says."""
        return self.advance(self.begin(seed=seed, first=first), duration)

    def begin(self, *, seed: int = 0, first: Voltages | None = None) -> PopulationState:
        """The state at time 0."""
        voltages = np.concatenate([_first(p, number, seed, first or {}) for number, p in enumerate(self.populations)])
        nothing = [np.zeros(connection.size) for connection in self.network.connections]
        return PopulationState(0, at_rest(self.program, voltages), nothing)

    def advance(self, state: PopulationState, duration: float) -> Simulation:
        """Another `duration` ms from a state, which is changed. An input that is an array has a row for every step of
        this piece. The state may come from another network with the same populations and connections, whose functions
        and transforms differ: values go on, and are decoded as they are here."""
        self.network.require_times(duration, self.dt)
        self._require_state(state)
        activity = state.activity if self.learned else state.activity._replace(decoders=self.program.decoders.copy())
        times = self.dt * np.arange(state.step + 1, state.step + round(duration / self.dt) + 1)
        signals = self.signals(state, times)
        begin = state.step * self.dt
        recorded, spike_times, neurons = run(self.program, self.drive(signals, times), activity, begin, self.dt)
        state.step += len(times)
        seen, decoders = self.seen(recorded, signals), self.split(activity.decoders.copy())
        return Simulation(times, seen, self.spikes(spike_times, neurons), decoders)

    def _require_state(self, state: PopulationState) -> None:
        shapes = [each.shape for each in at_rest(self.program, np.zeros(len(self.program.biases)))]
        inputs = [connection.size for connection in self.network.connections]
        if [each.shape for each in state.activity] != shapes or [len(each) for each in state.inputs] != inputs:
            got = f"{len(state.activity.v):,} neurons and {len(state.inputs)} connections"
            raise InputError("a state must be of a network with the same populations and connections", got=got)

    def flatten(self) -> Program:
        populations, dt = self.populations, self.dt
        flat = [
            np.concatenate([self.solved[each] for each in outputs], 1).reshape(-1) if outputs else np.zeros(0)
            for outputs in self.leaving
        ]
        every = [connection for outputs in self.leaving for connection in outputs]
        widths = [self.solved[connection].shape[1] for connection in every]
        columns = _starts(widths)
        place = {connection: int(start) for connection, start in zip(every, columns, strict=False)}
        rules = [(connection, connection.learning) for connection in self.learned if connection.learning]
        return Program(
            neuron_starts=self.neuron_starts,
            input_starts=self.input_starts,
            encoder_starts=_starts([p.neurons * p.dimensions for p in populations]),
            encoders=np.concatenate([p.scaled_encoders.reshape(-1) for p in populations]),
            biases=np.concatenate([p.biases for p in populations]),
            full_weights=self.full_weights,
            spiking=np.array([p.mode == "spiking" for p in populations]),
            tau_m=np.array([float(p.neuron.tau_m) for p in populations]),
            tau_ref=np.array([float(p.neuron.tau_ref) for p in populations]),
            decay=np.array([math.exp(-dt / p.neuron.tau_m) for p in populations]),
            num_terms=_indices(num_terms(dt / p.neuron.tau_m) if p.mode == "spiking" else 0 for p in populations),
            lag_decay=np.array([math.exp(-dt / p.lag) if p.lag else 0.0 for p in populations]),
            watched=np.array([p in self.network.watched for p in populations]),
            column_starts=self.column_starts,
            decoder_starts=_starts([len(part) for part in flat]),
            decoders=np.concatenate(flat),
            column_decay=np.repeat(np.array([math.exp(-dt / each.tau) if each.tau else 0.0 for each in every]), widths),
            column_start=np.concatenate([np.zeros(0), *(self._start(each) for each in every)]),
            column_target=_indices(target for each in every for target in self._targets(each)),
            recorded=_indices(place[each] + k for each in every if each.target is None for k in range(each.size)),
            learned_population=_indices(populations.index(each.source.whole) for each, _ in rules),
            learned_column=_indices(place[each] for each, _ in rules),
            learned_size=_indices(each.size for each, _ in rules),
            error_start=self.input_starts[len(populations) :][: len(rules)].copy(),
            learning_rate=np.array([float(rule.rate) for _, rule in rules]),
            trace_decay=np.array([math.exp(-dt / rule.tau) for _, rule in rules]),
        )

    def signals(self, state: PopulationState, times: Times) -> dict[PopulationConnection, Float[Array, "step _"]]:
        """What inputs bring, with their synapses, which the state goes on with."""
        connections = self.network.connections
        places = [place for place, each in enumerate(connections) if isinstance(each.source.whole, Input)]
        found = {connections[place]: self._signal(connections[place], times, state.inputs[place]) for place in places}
        for place in places:
            state.inputs[place] = found[connections[place]][1]
        return {connection: signal for connection, (signal, _) in found.items()}

    def drive(self, signals: Mapping[PopulationConnection, Array], times: Times) -> Float[Array, "step input"]:
        """What arrives at values and errors from inputs: known before the simulation begins."""
        drive = np.zeros((len(times), self.input_starts[-1]))
        for connection, signal in signals.items():
            if connection.target is not None:
                drive[:, self._places(connection)] += signal
        return drive

    def seen(
        self, recorded: Float[Array, "step column"], signals: Mapping[PopulationConnection, Array]
    ) -> dict[PopulationConnection, Array]:
        probes = [each for outputs in self.leaving for each in outputs if each.target is None]
        starts = _starts([probe.size for probe in probes])
        seen = {probe: recorded[:, start : start + probe.size] for probe, start in zip(probes, starts, strict=False)}
        return seen | {probe: signal for probe, signal in signals.items() if probe.target is None}

    def spikes(
        self, times: Float[Array, " spike"], neurons: Int[Array, " spike"]
    ) -> dict[Population, PopulationSpikes]:
        found = {}
        for population, start in zip(self.populations, self.neuron_starts, strict=False):
            if population in self.network.watched:
                own = (neurons >= start) & (neurons < start + population.neurons)
                found[population] = PopulationSpikes(times[own], neurons[own] - start)
        return found

    def split(self, decoders: Float[Array, " number"]) -> dict[PopulationConnection, Float[Array, "_ _"]]:
        """The flat decoders, by connection."""
        found, begin = {}, 0
        for population, outputs in zip(self.populations, self.leaving, strict=True):
            widths = [self.solved[each].shape[1] for each in outputs]
            rows = decoders[begin : begin + population.neurons * sum(widths)].reshape(population.neurons, sum(widths))
            begin += rows.size
            found |= dict(zip(outputs, np.split(rows, np.cumsum(widths)[:-1], 1), strict=True)) if outputs else {}
        return found

    def _leaving(self, population: Population) -> list[PopulationConnection]:
        return [each for each in self.network.connections if each.source.whole is population]

    def _solve(self, population: Population, outputs: list[PopulationConnection]) -> dict[PopulationConnection, Array]:
        """Decoders of all that leaves a population, from one factorisation."""
        if not outputs:
            return {}
        wanted = [connection.carried(population.points, self.dt) for connection in outputs]
        decoders = solve_decoders(population.rates(population.points), np.concatenate(wanted, 1), population.noise)
        parts = np.split(decoders, np.cumsum([values.shape[1] for values in wanted])[:-1], 1)
        return {each: self._weights(each, part) for each, part in zip(outputs, parts, strict=True)}

    def _weights(self, connection: PopulationConnection, decoders: Float[Array, "neuron output"]) -> Array:
        """The decoders or, with full weights, D E."""
        target = self._full_target(connection)
        return decoders if target is None else decoders @ target.whole.scaled_encoders[target.indices]

    def _full_target(self, connection: PopulationConnection) -> SignalSlice | None:
        """The population whose neurons get a weight each, if the connection has full weights; none if it learns."""
        target = connection.target
        if not self.full_weights or connection.learning is not None or target is None:
            return None
        return target if isinstance(target.whole, Population) else None

    def _targets(self, connection: PopulationConnection) -> list[int]:
        """For every column of a connection the place in the inputs where it arrives, −1 for nowhere."""
        if connection.target is None:
            return [-1] * connection.size
        if (full := self._full_target(connection)) is not None:
            begin = int(self.input_starts[-1] + self.neuron_starts[self.populations.index(full.whole)])
            return list(range(begin, begin + full.whole.neurons))
        return self._places(connection)

    def _start(self, connection: PopulationConnection) -> Float[Array, " column"]:
        if connection.start is None:
            return np.zeros(self.solved[connection].shape[1])
        return self._weights(connection, connection.start[None])[0]

    def _places(self, connection: PopulationConnection) -> list[int]:
        target = connection.target
        if target is None:
            return []
        ends = [*self.populations, *self.learned]
        return [int(self.input_starts[ends.index(target.whole)]) + index for index in target.indices]

    def _signal(
        self, connection: PopulationConnection, times: Times, before: Float[Array, " output"]
    ) -> tuple[Float[Array, "step output"], Float[Array, " output"]]:
        """What an input brings in each step, and what its synapse carries in the end, if it has one."""
        values = connection.carried(connection.source.whole.over(times), self.dt)
        if connection.tau is None:
            return values, before
        return smoothed(np.ascontiguousarray(values), before, math.exp(-self.dt / connection.tau))


def _starts(sizes: Sequence[int]) -> Int[Array, " count"]:
    return np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)


def _indices(values: Iterable[int]) -> Int[Array, " each"]:
    return np.array(list(values), dtype=np.int64)


def _first(population: Population, number: int, seed: int, given: Voltages) -> Float[Array, " neuron"]:
    if population not in given:
        return np.random.default_rng(mix(seed, "voltages", number)).random(population.neurons)
    voltages = np.asarray(given[population], dtype=float)
    if voltages.shape != (population.neurons,) or not np.isfinite(voltages).all():
        got = f"{list(voltages.shape)}"
        raise InputError(f"first must hold {population.neurons} finite voltages of this population", got=got)
    return voltages
