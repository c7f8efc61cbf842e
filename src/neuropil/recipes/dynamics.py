"""Neural dynamics: populations of spiking neurons that follow differential equations, the Lorenz attractor or your own.

A population that is connected to itself through a synapse with the time constant τ follows dx/dt = f(x) if it sends
back x + τ f(x). Each system is simulated with spikes and compared with what it should do: an integrator with standing
still, an oscillator with its frequency, equations with a numerical solution (SciPy). Then the two limits of the time
constants, full and factored weights, and a decoder that is learned online (PES).

Equations are expressions of x, y, z, u, v, w, as many as there are equations, and give the change per second, for
instance ``--equations "y" "(1 - x^2)*y - x" --start 1 0``. They are read by the project's own parser and never run.
"""

import math
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import populations as pictures
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.models.dynamics.equations import NAMES, Equations, Solution
from neuropil.models.dynamics.network import PES, Input, PopulationNetwork
from neuropil.models.population import Array, Population, rms
from neuropil.progress import Display
from neuropil.randomness import mix
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, TRACES, Findings, Study, write_arrays

LORENZ = ("10*(y - x)", "x*(28 - z) - y", "x*y - 8/3*z")
ROOM = 1.15
"""How far beyond the solution the population reaches."""
HELD = np.array([-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9])
SETTLED = 500.0
"""ms after which a memory's drift is measured."""
FREQUENCY = 1.0
"""Hz, of the oscillator."""
RATIOS = (1.0, 0.3, 0.1, 0.03, 0.01)
WAVE = 1000.0
"""ms, the period of what the learning network is shown."""
CLOCKS = 600.0
"""ms of the comparison of the two time constants: later, oscillators that differ are anywhere on their circles."""
SHORTEST_MEMORY, SHORTEST_LEARNING = 2 * SETTLED, 2000.0


class DynamicsOptions(Config):
    equations: tuple[str, ...] = option(LORENZ, "changes per second of x, y, z, u, v, w, one expression for each")
    start: tuple[float, ...] = option((1.0, 1.0, 20.0), "initial values of the variables")
    neurons: int = option(1000, "neurons for each variable of a system", low=10, high=100_000)
    tau: float = option(100.0, "time constant of the recurrent synapses (ms)")
    duration: float = option(20_000.0, "simulated time of the equations (ms)", low=100)
    hold: float = option(4000.0, "simulated time of the other systems (ms)", low=SHORTEST_MEMORY)
    dt: float = option(1.0, "time step (ms)", low=1e-3)

    def validate(self) -> None:
        if not 1 <= len(self.equations) <= len(NAMES):
            raise InputError(f"equations must be one to {len(NAMES)} expressions", got=f"{len(self.equations)}")
        if len(self.start) != len(self.equations):
            got = f"{len(self.start)} for {len(self.equations)}"
            raise InputError("start must have a value for each equation", got=got)
        if not 0 < self.dt <= min(2.0, self.tau):
            fix = f"the largest that works here is {min(2.0, self.tau):g}"
            raise InputError("dt must be a time above 0 ms", got=f"{self.dt:g}", fix=fix)


def build(options: DynamicsOptions, seed: int) -> Study:
    equations = Equations(options.equations)
    # what has no solution is refused before a folder is made
    solution = equations.solve(options.start, options.duration, options.dt)
    return Study("dynamics", partial(_compute, options, equations, solution, seed))


def _compute(
    options: DynamicsOptions, equations: Equations, solution: Solution, seed: int, folder: Path, display: Display
) -> Findings:
    memory = _remember(options, options.neurons, seed)
    small = _remember(options, max(options.neurons // 10, 10), seed)
    display.update(0.3, f"memory: drift {memory.mean:.2f} % / s")
    own, own_spikes = _follow(options, equations, solution, seed)
    display.update(0.6, "equations")
    write_arrays(folder / TRACES, times=solution.times, network=own, solver=solution.values, memory=memory.values)
    write_arrays(folder / SPIKES, times=own_spikes[0], neurons=own_spikes[1])
    oscillation, oscillator_section = _oscillator_section(options, seed)
    display.update(0.7, "oscillator")
    sections = [_memory_section(memory, small), oscillator_section]
    sections += [_equations_section(equations, solution, own), _limits_section(options, seed)]
    sections += [_weights_section(options, seed), _learning_section(options, seed)]
    results = {
        f"memory of {memory.neurons:,} neurons": memory.metrics(),
        f"memory of {small.neurons:,} neurons": small.metrics(),
        "a memory that stands still": dict.fromkeys(memory.metrics(), 0.0),
        "oscillator, in spikes": oscillation,
        "oscillator, as wanted": {"frequency_hz": FREQUENCY, "amplitude": 1.0},
        "equations, in spikes": _spread(own),
        "equations, by a solver": _spread(solution.values),
    }
    return Findings([Result(name, metrics) for name, metrics in results.items()], sections)


def _spread(values: Float[Array, "step variable"]) -> dict[str, float]:
    return {f"deviation_{name}": float(deviation) for name, deviation in zip(NAMES, values.std(0), strict=False)}


# --- integrator -------- ----------------------------------------------------------------------------------------------


class IntegratorMemory(NamedTuple):
    neurons: int
    times: Float[Array, " step"]
    values: Float[Array, "step start"]

    @property
    def drifts(self) -> Float[Array, " start"]:
        """Percent of the radius per second, from a straight line through what is held after the first half second."""
        late = self.times > SETTLED
        return 100 * np.polyfit(self.times[late] / 1000, self.values[late], 1)[0]

    @property
    def mean(self) -> float:
        return float(np.abs(self.drifts).mean())

    def metrics(self) -> dict[str, float]:
        return {"drift_percent_per_s": self.mean, "largest_drift_percent_per_s": float(np.abs(self.drifts).max())}


def _remember(options: DynamicsOptions, neurons: int, seed: int) -> IntegratorMemory:
    population, network = Population(neurons, seed=mix(seed, "memory")), PopulationNetwork()
    network.follow(population, tau=options.tau)
    # a pulse of 100 ms that, integrated, is the value
    pulse = np.zeros((round(options.hold / options.dt), 1))
    pulse[: round(100 / options.dt)] = 10.0
    seen = network.probe(population, tau=20.0)
    held = []
    for value in HELD:
        pulsed = PopulationNetwork([*network.connections])
        pulsed.connect(Input(value * pulse), population, change=True, tau=options.tau)
        held.append(pulsed.simulate(options.hold, options.dt, seed=seed)[seen][:, 0])
    return IntegratorMemory(neurons, options.dt * np.arange(1, len(pulse) + 1), np.stack(held, 1))


def _memory_section(memory: IntegratorMemory, small: IntegratorMemory) -> Section:
    words = (
        "With f = 0 a population sends its own value back to itself and keeps it: an integrator, and a memory. A pulse "
        f"sets it to seven different values, then nothing comes in. What {memory.neurons:,} neurons hold moves by "
        f"{memory.mean:.2f} % of the radius in a second, what {small.neurons:,} hold by {small.mean:.2f} %: each small "
        "error of the decoded value is integrated with it, and where the error changes its sign from above to below "
        "there is a value at which the memory comes to rest."
    )
    both = {f"{each.neurons:,} neurons": each for each in (memory, small)}
    labels = [f"set to {value:.1f}".replace("-", "−") for value in HELD]
    shown = {name: dict(zip(labels, each.values.T, strict=True)) for name, each in both.items()}
    figure, alt = pictures.over_time(memory.times, shown, columns=2), "values that two memories hold over time"
    drifts = pictures.drift(HELD, {name: each.drifts for name, each in both.items()}, allowed=1.0)
    after = Picture.of(drifts, alt="drift of both memories against the value that they hold")
    return Section.illustrated("Integrator", words, figure, alt, after)


# --- oscillator -------- ----------------------------------------------------------------------------------------------


def turning(x: Array) -> list[float]:
    """A circle of radius 1 that attracts, once around in a second."""
    turn, pull = 2 * math.pi * FREQUENCY, 5.0 * (1 - x[0] ** 2 - x[1] ** 2)
    return [pull * x[0] - turn * x[1], pull * x[1] + turn * x[0]]


def _oscillator_section(options: DynamicsOptions, seed: int) -> tuple[dict[str, float], Section]:
    network = PopulationNetwork()
    population = Population(2 * options.neurons, 2, radius=1.3, seed=mix(seed, "oscillator"))
    network.follow(population, turning, tau=options.tau, start=[0.3, 0.0])
    seen = network.probe(population, tau=10.0)
    simulation = network.simulate(options.hold, options.dt, seed=seed)
    x, y = simulation[seen].T
    late = simulation.times > options.hold / 2
    angle = np.unwrap(np.arctan2(y[late], x[late]))
    frequency = 1000 * np.polyfit(simulation.times[late], angle, 1)[0] / (2 * math.pi)
    found = {"frequency_hz": float(frequency), "amplitude": float(np.hypot(x, y)[late].mean())}
    words = (
        "Two numbers that feed each other turn around. The equation pulls the point to a circle of radius 1, which it "
        f"goes around once in {1 / FREQUENCY:g} s; the network went around at {found['frequency_hz']:.3f} Hz with a "
        f"radius of {found['amplitude']:.3f}."
    )
    circle = np.linspace(0, 2 * math.pi, 200)
    limit_cycle = pictures.Path(np.cos(circle), np.sin(circle))
    paths = pictures.paths({"in the plane": {"the network": pictures.Path(x, y), "the limit cycle": limit_cycle}})
    figure = pictures.over_time(simulation.times, {"over time": {"x": x, "y": y}})
    after = Picture.of(paths, alt="the oscillator in the plane")
    return found, Section.illustrated("Oscillator", words, figure, "both numbers of the oscillator over time", after)


# --- equations of your own --------------------------------------------------------------------------------------------


def _follow(
    options: DynamicsOptions, equations: Equations, solution: Solution, seed: int
) -> tuple[Float[Array, "step variable"], tuple[Array, Array]]:
    """The decoded value of a population that follows the equations, and its spikes in the first second."""
    middle, reach = solution.middle, solution.reach
    scaled = (solution.values - middle) / reach
    count = len(equations.texts)
    radius = ROOM * float(np.linalg.norm(scaled, axis=1).max())
    population = Population(count * options.neurons, count, radius=radius, noise=0.05, seed=mix(seed, "equations"))
    network = PopulationNetwork()
    start = (np.asarray(options.start) - middle) / reach

    def change(x: Array) -> Array:
        return np.asarray(equations(middle + reach * x)) / reach

    network.follow(population, change, tau=options.tau, start=start)
    seen = network.probe(population, tau=10.0)
    network.probe_spikes(population)
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    first = simulation.spikes[population].times <= 1000
    spikes = (simulation.spikes[population].times[first], simulation.spikes[population].neurons[first])
    return middle + reach * simulation[seen], spikes


def _equations_section(equations: Equations, solution: Solution, own: Float[Array, "step variable"]) -> Section:
    together = _together(solution, own)
    lines = "; ".join(f"d{name}/dt = {text}" for name, text in zip(equations.variables, equations.texts, strict=True))
    words = (
        f"{lines}. The population carries all {len(equations.texts)} variables at once, scaled to the range of the "
        "numerical solution, and starts where it starts. The two stay within a tenth of that range for "
        f"{together / 1000:.2f} s. Where equations are chaotic, as Lorenz's are, every small error grows until only "
        "the shape of the paths and how often they are where can agree, which the table compares."
    )
    header = ["", "mean in spikes", "mean by a solver", "deviation in spikes", "deviation by a solver"]
    numbers = np.stack([own.mean(0), solution.values.mean(0), own.std(0), solution.values.std(0)], 1)
    written = [[f"{number:.3f}".replace("-", "−") for number in row] for row in numbers]
    rows = [[name, *row] for name, row in zip(equations.variables, written, strict=True)]
    blocks: list[Block] = [Text(words)]
    if len(equations.texts) > 1:
        other = min(2, len(equations.texts) - 1)
        ours, solved = (pictures.Path(values[:, 0], values[:, other]) for values in (own, solution.values))
        panels = {"in spikes": {"network": ours}, "by a solver": {"solver": solved}}
        figure = pictures.paths(panels, xlabel="x", ylabel=equations.variables[other])
        blocks.append(Picture.of(figure, alt="the path of the network and the path of the solver"))
    both = zip(equations.variables, own.T, solution.values.T, strict=True)
    shown = {name: {"in spikes": ours, "by a solver": solved} for name, ours, solved in both}
    figure = pictures.over_time(solution.times, shown)
    blocks.append(Picture.of(figure, alt="every variable over time, of the network and of the solver"))
    return Section("Equations", [*blocks, Table(header, rows)])


def _together(solution: Solution, own: Float[Array, "step variable"]) -> float:
    """ms until the network is further from the solution than a tenth of its range, in any variable."""
    probe_settled = solution.times > 50
    apart = np.any(np.abs(own - solution.values) > 0.2 * solution.reach, axis=1) & probe_settled
    return float(solution.times[apart.argmax()] if apart.any() else solution.times[-1])


# --- the two time constants -------------------------------------------------------------------------------------------


def _limits_section(options: DynamicsOptions, seed: int) -> Section:
    words = (
        "A neuron has two clocks: its input current s follows what arrives with τ_s, and its activity v follows the "
        "current with τ_m.\n\n`τ_s ds/dt = −s + v W + β + C`  and  `τ_m dv/dt = −v + σ(s)`\n\nWhen τ_m is much "
        "shorter, the activity is always at its equilibrium v = σ(s), and the current is all that has dynamics. When "
        "τ_s is much shorter, the current is at its equilibrium, and the activity has them. Here a population with "
        "rates runs the oscillator with a recurrence made for the longer clock alone; the other is made shorter and "
        "shorter. "
    )
    slow_current = {ratio: _two_clocks(options, options.tau, ratio * options.tau, seed) for ratio in (*RATIOS, 0.0)}
    slow_activity = {ratio: _two_clocks(options, ratio * options.tau, options.tau, seed) for ratio in (*RATIOS, 0.0)}
    times = slow_current[0.0][0]
    limits = {"τ_m ≪ τ_s": slow_current, "τ_s ≪ τ_m": slow_activity}
    drawn = {"ratio 1": 1.0, "ratio 0.1": 0.1, "ratio 0.01": 0.01, "the limit": 0.0}
    panels = {name: {label: runs[ratio][1] for label, ratio in drawn.items()} for name, runs in limits.items()}
    apart = {ratio: [rms(runs[ratio][1] - runs[0.0][1]) for runs in limits.values()] for ratio in RATIOS}
    rows = [[f"{ratio:g}", *(f"{difference:.4f}" for difference in row)] for ratio, row in apart.items()]
    changes = " and ".join(f"from {first} to {last}" for first, last in zip(rows[0][1:], rows[-1][1:], strict=True))
    words += f"From a ratio of {rows[0][0]} to one of {rows[-1][0]} the differences from the two limits go {changes}."
    caption = "Root mean square of the difference of x from the limit."
    figure = pictures.over_time(times, panels, ylabel="x")
    table = Table(["shorter / longer", "τ_m is the shorter", "τ_s is the shorter"], rows, caption)
    alt = "the oscillator with both clocks, and its two limits"
    return Section.illustrated("Two time constants", words, figure, alt, table)


def _two_clocks(options: DynamicsOptions, tau_s: float, tau_m: float, seed: int) -> tuple[Array, Array]:
    """An oscillator of rates with these clocks, made for the longer one; 0 stands for a clock that is gone."""
    longer, dt = max(tau_s, tau_m), min(options.dt, options.tau * RATIOS[-1])
    population = Population(200, 2, radius=1.3, mode="rate", lag=tau_m, seed=mix(seed, "clocks"))
    network, tau = PopulationNetwork(), tau_s or None
    network.connect(population, population, function=lambda x: x + longer / 1000 * np.asarray(turning(x)), tau=tau)
    steps = round(CLOCKS / dt)
    kick = np.zeros((steps, 2))
    kick[: round(100 / dt), 0] = 5.0
    network.connect(Input(kick), population, transform=longer / 1000, tau=tau)
    seen = network.probe(population, tau=None)
    simulation = network.simulate(CLOCKS, dt, seed=seed)
    return simulation.times, simulation[seen][:, 0]


# --- full and factored weights ----------------------------------------------------------------------------------------


def _weights_section(options: DynamicsOptions, seed: int) -> Section:
    a, b = (Population(options.neurons, seed=mix(seed, name)) for name in ("weights a", "weights b"))
    network, duration = PopulationNetwork(), 500.0
    network.connect(Input(lambda t: math.sin(2 * math.pi * t / duration)), a)
    network.connect(a, b, function=lambda x: x**2)
    seen = network.probe(b)
    simulations = (network.simulate(duration, options.dt, seed=seed, full_weights=full) for full in (False, True))
    factored, full = (simulation[seen] for simulation in simulations)
    count, apart = options.neurons, np.abs(factored - full).max()
    words = (
        f"A connection that computes the square: {count:,} decoders and {count:,} encoders, or one weight for each of "
        f"the {count**2:,} pairs. W = D E has rank one, so the two are the same network: what they say differs by "
        f"{apart:.1g} at most, and a step of the second costs as much more as it has more numbers."
    )
    rows = [["decode, then encode", f"{2 * count:,}", "N + M"], ["a weight for every pair", f"{count**2:,}", "N · M"]]
    return Section("Weights in two forms", [Text(words), Table(["", "numbers", "cost of a step"], rows)])


# --- a learned decoder---- --------------------------------------------------------------------------------------------


def _learning_section(options: DynamicsOptions, seed: int) -> Section:
    neurons = max(options.neurons // 5, 10)
    a, b, wrong = (Population(neurons, seed=mix(seed, name)) for name in ("learner", "learned", "error"))
    duration, network = max(5 * options.hold, SHORTEST_LEARNING), PopulationNetwork()
    wave = Input(lambda t: math.sin(2 * math.pi * t / WAVE))
    network.connect(wave, a)
    learned = network.connect(a, b, function=lambda x: 0.0, learning=PES(rate=1e-4))
    network.connect(b, wrong)
    network.connect(wave, wrong, function=lambda x: -(x**2))
    network.connect(wrong, learned)
    said, error = network.probe(b, tau=20.0), network.probe(wrong, tau=20.0)
    simulation = network.simulate(duration, options.dt, seed=seed)
    wanted = np.sin(2 * math.pi * simulation.times / WAVE) ** 2
    x = np.linspace(-1, 1, 200)
    decoders = {"learned": simulation.decoders[learned], "solved": a.decoders(lambda v: v**2)}
    decoded = {name: (a.rates(x) @ matrix)[:, 0] for name, matrix in decoders.items()}
    errors = {name: rms(values - x**2) for name, values in decoded.items()}
    words = (
        f"The connection between two populations of {neurons} neurons begins with decoders of zero. A third population "
        "is told what came out and what should have, and its value, the error, changes the decoders while the network "
        "runs: `dD/dt = −(κ/N) a ⊗ e`. Nothing looks at more than the neurons' own activity and one error. After "
        f"{duration / 1000:g} s the learned decoders are off by {errors['learned']:.3f} (root mean square over x from "
        f"−1 to 1), and those that are solved by least squares by {errors['solved']:.3f}."
    )
    lines = {"wanted and said": {"wanted": wanted, "said": simulation[said][:, 0]}}
    lines["the error population"] = {"error": simulation[error][:, 0]}
    figure, alt = pictures.over_time(simulation.times, lines), "what is wanted, what is said, and the error, over time"
    curves = pictures.decoded_curves(x, x**2, decoded, ylabel="x²")
    after = Picture.of(curves, alt="the square, decoded by learned and by solved decoders")
    return Section.illustrated("A learned decoder", words, figure, alt, after)


RECIPE = Recipe(DynamicsOptions(), build, verb="simulate", about="models.dynamics.network")
