"""A value that a population of neurons carries: its tuning curves, decoders of any function, and what noise and neurons
do to the error.

The decoders are solved for a noise σ on the rates, given as a share of the highest rate. Two errors are told apart:
that of decoding exact rates, which is what the tuning curves cannot express, and that of decoding rates with such
noise. The report draws both against the number of neurons beside what theory says, then does the same with spikes that
arrive in time, and with two values at once.

The function is an expression of x such as ``sin(3*x)``, read by the project's own parser and never run as code.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import populations as pictures
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.dynamics.network import Input, PopulationNetwork
from neuropil.models.lif import LIFConfig
from neuropil.models.population import (
    Array,
    DecodingError,
    Function,
    Population,
    decoding_error,
    solve_decoders,
    values_of,
)
from neuropil.parts.expression import Expression
from neuropil.randomness import mix
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.recordings import SPIKES, TRACES, write_arrays
from neuropil.tasks.study import Findings, Study
from neuropil.training.progress import Display

SIZES = (10, 20, 40, 80, 160, 320, 640)
NOISES = (0.05, 0.1, 0.2, 0.4)
HARDLY_ANY = 1e-4
"""Noise that keeps equations solvable, and no more."""
SYNAPSES = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
DRAWS = 50
"""Of the noise, over which a measured error is averaged."""


class PopulationOptions(Config):
    neurons: int = option(50, "neurons of the population", low=2, high=20_000)
    noise: float = option(
        0.2, "noise that decoders expect on every rate, as a share of the highest rate", low=1e-3, high=10
    )
    function: str = option(
        "x^2", "what else to decode: an expression of x with + - * / ^, sin, exp, abs, max and others"
    )
    lowest: float = option(100.0, "lowest of the neurons' highest rates (Hz)", low=1)
    highest: float = option(200.0, "highest of the neurons' highest rates (Hz)", low=1)
    tau_m: float = option(20.0, "membrane time constant (ms)")
    tau_ref: float = option(2.0, "refractory period (ms)")
    tau: float = option(10.0, "time constant of the synapse through which spikes are read (ms)")
    duration: float = option(1000.0, "how long the neurons fire (ms)")
    dt: float = option(1.0, "step (ms)")
    repeats: int = option(3, "populations of each size whose errors are averaged", low=1)

    def validate(self) -> None:
        if self.lowest > self.highest:
            raise InputError("lowest must not be above highest", got=f"{self.lowest:g} and {self.highest:g} Hz")

    def population(self, neurons: int, seed: int, dimensions: int = 1) -> Population:
        neuron = LIFConfig(tau_m=self.tau_m, tau_ref=self.tau_ref)
        rates = (float(self.lowest), float(self.highest))
        return Population(neurons, dimensions, max_rates=rates, noise=self.noise, neuron=neuron, seed=seed)


class Spoken(NamedTuple):
    """What was decoded from spikes, beside the truth."""

    times: Float[Array, " step"]
    truth: Float[Array, " step"]
    value: Float[Array, " step"]
    wanted: Float[Array, " step"]
    function: Float[Array, " step"]
    spike_times: Float[Array, " spike"]
    neurons: Array


def build(options: PopulationOptions, seed: int) -> Study:
    function = function_of(Expression(options.function))
    population = options.population(options.neurons, mix(seed, "population"))
    values_of(
        function, population.points
    )  # a function that is not finite somewhere is refused here, before a folder is made
    _network(options, population, function).require_times(options.duration, options.dt)
    return Study("population", lambda folder, display: _compute(options, population, function, seed, folder, display))


def function_of(expression: Expression) -> Function:
    return lambda x: float(expression(*map(float, x)))


def _compute(
    options: PopulationOptions, population: Population, function: Function, seed: int, folder: Path, display: Display
) -> Findings:
    scaling = {}
    for index, size in enumerate(SIZES):
        scaling[size] = _errors_of(options, size, seed)
        display.update(0.8 * (index + 1) / len(SIZES), f"{size} neurons")
    spoken = _speak(options, population, function, seed)
    display.update(0.9, "spikes")
    write_arrays(folder / SPIKES, times=spoken.spike_times, neurons=spoken.neurons)
    write_arrays(
        folder / TRACES,
        times=spoken.times,
        truth=spoken.truth,
        value=spoken.value,
        wanted=spoken.wanted,
        function=spoken.function,
    )
    return Findings(
        _results(options, population, spoken, seed),
        [
            _curves_section(population),
            _decoding_section(options, population, function, seed),
            _scaling_section(scaling),
            _spikes_section(options, population, function, spoken, seed),
            _vector_section(options, seed),
        ],
    )


# --- results ----------------------------------------------------------------------------------------------------------


def _results(options: PopulationOptions, population: Population, spoken: Spoken, seed: int) -> list[Result]:
    expecting, careless = (_measured(population, solved, options.noise, seed) for solved in (options.noise, 0.0))
    theory = population.error(noise=options.noise)
    from_spikes = _rms(_settled(spoken.value - spoken.truth, options))
    return [
        Result(
            f"{options.neurons} neurons, solved for noise {options.noise:g}",
            _named(expecting) | {"rmse_of_spikes": from_spikes},
        ),
        Result("solved for no noise", _named(careless)),
        Result("by the formula", {"rmse_of_exact_rates": theory.distortion, "rmse_of_noisy_rates": theory.total}),
    ]


def _named(error: DecodingError) -> dict[str, float]:
    return {"rmse_of_exact_rates": error.distortion, "rmse_of_noisy_rates": error.noise}


def _measured(population: Population, solved: float, noise: float, seed: int) -> DecodingError:
    """Errors of decoding x with decoders that were `solved` for one noise, from exact rates and from rates with another
    noise, drawn."""
    decoders = solve_decoders(population.rates(population.points), population.points, max(solved, HARDLY_ANY))
    x = np.linspace(-1, 1, 1000)[:, None]
    rates, random = population.rates(x), np.random.default_rng(mix(seed, "noise"))
    deviation = noise * rates.max()
    noisy = [rates @ decoders + deviation * random.normal(size=rates.shape) @ decoders - x for _ in range(DRAWS)]
    return DecodingError(_rms(rates @ decoders - x), _rms(np.concatenate(noisy)))


def _rms(values: Array) -> float:
    return float(np.sqrt(np.square(values).mean()))


def _errors_of(options: PopulationOptions, size: int, seed: int) -> dict[float, DecodingError]:
    """For each noise, the root of the mean squares over several populations."""
    populations = [options.population(size, mix(seed, size, repeat)) for repeat in range(options.repeats)]
    found = {}
    for noise in (*NOISES, HARDLY_ANY):
        errors = np.array([population.error(noise=noise) for population in populations])
        found[noise] = DecodingError(*np.sqrt(np.square(errors).mean(0)).tolist())
    return found


# --- spikes -----------------------------------------------------------------------------------------------------------


def _network(options: PopulationOptions, population: Population, function: Function) -> PopulationNetwork:
    network = PopulationNetwork()
    network.connect(Input(lambda t: _wave(t, options.duration)), population, tau=None)
    for one in (None, function):
        network.probe(population, function=one, tau=options.tau)
    network.probe_spikes(population)
    return network


def _wave(t: float, duration: float) -> float:
    """Twice up and down, within the radius."""
    return 0.9 * math.sin(4 * math.pi * t / duration)


def _speak(options: PopulationOptions, population: Population, function: Function, seed: int) -> Spoken:
    network = _network(options, population, function)
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    probes = [simulation[connection][:, 0] for connection in network.connections if connection.target is None]
    truth = np.array([_wave(t, options.duration) for t in simulation.times])
    wanted = values_of(function, truth[:, None])[:, 0]
    return Spoken(simulation.times, truth, probes[0], wanted, probes[1], *simulation.spikes[population])


def _settled(values: Array, options: PopulationOptions) -> Array:
    """Without the beginning, in which the synapse has nothing to read yet."""
    return values[min(round(5 * options.tau / options.dt), len(values) // 2) :]


# --- the report -------------------------------------------------------------------------------------------------------


def _curves_section(population: Population) -> Section:
    x = np.linspace(-1, 1, 400)
    words = (
        "Every neuron begins to fire at a value of its own, and fires faster the further the value goes in the "
        "direction of its encoder. No single one says what the value is, and each value wakes a different company of "
        "them."
    )
    figure = pictures.tuning_curves(x, population.rates(x), rising=population.encoders[:, 0] > 0)
    return Section("Tuning curves", [Text(words), Picture.of(figure, alt="rates of the neurons against the value")])


def _decoding_section(options: PopulationOptions, population: Population, function: Function, seed: int) -> Section:
    x = np.linspace(-1, 1, 400)
    rates, noisy = population.rates(x), np.random.default_rng(mix(seed, "drawn noise"))
    blocks: list = [
        Text(
            "The same rates, with other decoders, say other things: x itself, and a function of it. The line is "
            f"decoded from exact rates, the dots from rates with noise of {100 * options.noise:g} % of the highest "
            "rate on each neuron, drawn anew at every x."
        )
    ]
    rows = []
    for name, one in (("x", None), (options.function, function)):
        decoders, wanted = population.decoders(one), values_of(one, x[:, None])
        noise = options.noise * rates.max() * noisy.normal(size=rates.shape)
        exact, dots = (
            {"from exact rates": (rates @ decoders)[:, 0]},
            {"from noisy rates": ((rates + noise) @ decoders)[:, 0]},
        )
        figure = pictures.decoded_curves(x, wanted[:, 0], exact, noisy=dots, ylabel=name)
        blocks.append(Picture.of(figure, alt=f"{name} and what is decoded instead of it"))
        error = decoding_error(rates, decoders, wanted, options.noise)
        rows.append([name, f"{error.distortion:.4f}", f"{error.noise:.4f}", f"{error.total:.4f}"])
    caption = "Root mean squares over x from −1 to 1. The second is σ ‖D‖, and the third the two together."
    blocks.append(Table(["decoded", "from exact rates", "by noise", "from noisy rates"], rows, caption))
    return Section("What is decoded", blocks)


def _scaling_section(scaling: dict[int, dict[float, DecodingError]]) -> Section:
    words = (
        "Independent noise averages out as the root of the number of neurons, so the error of noisy rates falls as "
        "1/√N: four times the neurons halve it. If rates were exact, and the decoders solved for no noise, only what "
        "the tuning curves cannot express together would be left, and that falls as 1/N or, as neurons here are spread "
        "more evenly than by chance, faster."
    )
    noisy = {f"{noise:g}": np.array([errors[noise].total for errors in scaling.values()]) for noise in NOISES}
    exact = np.array([errors[HARDLY_ANY].distortion for errors in scaling.values()])
    header = ["noise", *(f"N = {size}" for size in SIZES[::2]), "slope", "theory"]
    rows = [
        [name, *(f"{error:.4f}" for error in errors[::2]), _slope(errors), "−0.50"] for name, errors in noisy.items()
    ]
    rows.append(["exact rates", *(f"{error:.4f}" for error in exact[::2]), _slope(exact), "−1.00"])
    figure = pictures.error_by_neurons(SIZES, noisy, exact)
    caption = "Root mean square errors, and the slope of a line through their logarithms."
    return Section(
        "Neurons and noise",
        [
            Text(words),
            Picture.of(figure, alt="error against the number of neurons and the noise"),
            Table(header, rows, caption),
        ],
    )


def _slope(errors: Float[Array, " size"]) -> str:
    return f"{np.polyfit(np.log(SIZES), np.log(errors), 1)[0]:.2f}".replace("-", "−")


def _spikes_section(
    options: PopulationOptions, population: Population, function: Function, spoken: Spoken, seed: int
) -> Section:
    order = np.argsort(np.argsort(population.encoders[:, 0] * (1.0 - (1 - population.biases) / population.gains)))
    figure = pictures.spikes_and_value(
        spoken.times,
        {"the value": spoken.truth, "decoded x": spoken.value, f"decoded {options.function}": spoken.function},
        spoken.spike_times,
        order[spoken.neurons],
        num_neurons=population.neurons,
    )
    words = (
        "Real neurons have no rates, only spikes. Read through a synapse, which smooths them, the same decoders work "
        "on spikes as they come. A slow synapse smooths better and answers later; the table shows what is left of the "
        "error for several."
    )
    rows = [[f"{tau:g}", *_by_synapse(options, population, tau, seed)] for tau in SYNAPSES if tau >= options.dt]
    caption = (
        "Root mean square between the decoded value and the true one, and the same if the decoded value is compared "
        "with the true one smoothed by the same synapse: the first counts the delay as an error, the second only the "
        "roughness of spikes."
    )
    table = Table(["synapse (ms)", "error", "without the delay"], rows, caption)
    return Section(
        "The same with spikes",
        [Text(words), Picture.of(figure, alt="spikes, and the value that is decoded from them"), table],
    )


def _by_synapse(options: PopulationOptions, population: Population, tau: float, seed: int) -> list[str]:
    network, wave = PopulationNetwork(), Input(lambda t: _wave(t, options.duration))
    network.connect(wave, population, tau=None)
    spoken, plain, smoothed = (
        network.probe(population, tau=tau),
        network.probe(wave, tau=None),
        network.probe(wave, tau=tau),
    )
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    begin = min(round(200 / options.dt), len(simulation.times) // 2)
    return [f"{_rms((simulation[spoken] - simulation[other])[begin:]):.4f}" for other in (plain, smoothed)]


def _vector_section(options: PopulationOptions, seed: int) -> Section:
    population = options.population(4 * options.neurons, mix(seed, "vector"), dimensions=2)
    network = PopulationNetwork()
    circling = Input(lambda t: _knot(t, options.duration))
    network.connect(circling, population, tau=None)
    seen = network.probe(population, tau=options.tau)
    product = network.probe(population, function=lambda x: x[0] * x[1], tau=options.tau)
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    truth = circling.over(simulation.times)
    error, error_of_product = population.error(), population.error(lambda x: x[0] * x[1])
    words = (
        f"Encoders that point in all directions of a plane carry two numbers at once. Here {population.neurons} "
        "neurons follow a moving point, and their product is decoded from the same spikes. With noise "
        f"{options.noise:g} the error of rates is {error.total:.3f} for the point and {error_of_product.total:.3f} for "
        "the product."
    )
    panels = {
        "where it is": {
            "the point": pictures.Path(*truth.T),
            "decoded from spikes": pictures.Path(*simulation[seen].T),
        },
    }
    over_time = {"their product": {"x·y": truth.prod(1), "decoded from spikes": simulation[product][:, 0]}}
    return Section(
        "Two numbers at once",
        [
            Text(words),
            Picture.of(pictures.paths(panels), alt="the path of a point and what is decoded"),
            Picture.of(
                pictures.over_time(simulation.times, over_time), alt="the product of both coordinates over time"
            ),
        ],
    )


def _knot(t: float, duration: float) -> Sequence[float]:
    angle = 2 * math.pi * t / duration
    return (0.7 * math.sin(2 * angle), 0.7 * math.sin(3 * angle))


RECIPE = Recipe(PopulationOptions(), build, verb="simulate")
