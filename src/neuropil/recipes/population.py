"""Population coding: tuning curves, decoders of any function, and how noise and the number of neurons affect the error.

The decoders are solved for a noise σ on the rates, given as a share of the highest rate. Two errors are told apart:
that of decoding exact rates, which is what the tuning curves cannot express, and that of decoding noisy rates. The
report draws both against the number of neurons beside theory, and the condition number of the matrix that is inverted,
with noise and without; then it decodes from spikes, and two values at once.

The function is an expression of x such as ``sin(3*x)``, read by the project's own parser and never run as code.
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking import populations as pictures
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.models import population as coding
from neuropil.models.dynamics.network import Input, PopulationNetwork
from neuropil.models.lif import LIFConfig
from neuropil.models.population import Array, DecodingError, Function, Population
from neuropil.parts.expression import Expression
from neuropil.progress import Display
from neuropil.randomness import mix
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, TRACES, Findings, Study, write_arrays

SIZES = (10, 20, 40, 80, 160, 320, 640)
NOISES = (0.05, 0.1, 0.2, 0.4)
HARDLY_ANY = 1e-4
"""Noise that keeps equations solvable, and no more."""
SYNAPSES = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
DRAWS = 50
"""Of the noise, over which a measured error is averaged."""


class PopulationOptions(Config):
    neurons: int = option(50, "neurons of the population", low=2, high=20_000)
    noise: float = option(0.2, "noise on each rate, as a share of the highest rate", low=1e-3, high=10)
    function: str = option("x^2", "function to decode: an expression of x with + - * / ^, sin, exp, abs, max …")
    lowest: float = option(100.0, "lowest maximum firing rate of a neuron (Hz)", low=1)
    highest: float = option(200.0, "highest maximum firing rate of a neuron (Hz)", low=1)
    tau_m: float = option(20.0, "membrane time constant (ms)")
    tau_ref: float = option(2.0, "refractory period (ms)")
    tau: float = option(10.0, "synaptic time constant of the decoder (ms)")
    duration: float = option(1000.0, "simulated time (ms)")
    dt: float = option(1.0, "time step (ms)")
    repeats: int = option(3, "populations of each size whose errors are averaged", low=1)

    def validate(self) -> None:
        if self.lowest > self.highest:
            raise InputError("lowest must not be above highest", got=f"{self.lowest:g} and {self.highest:g} Hz")

    def population(self, neurons: int, seed: int, dimensions: int = 1) -> Population:
        neuron = LIFConfig(tau_m=self.tau_m, tau_ref=self.tau_ref)
        rates = (float(self.lowest), float(self.highest))
        return Population(neurons, dimensions, max_rates=rates, noise=self.noise, neuron=neuron, seed=seed)


class DecodedSpikes(NamedTuple):
    """The value and the function of it, as they are and as they were decoded from spikes."""

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
    coding.values_of(function, population.points)  # what is not finite somewhere is refused before a folder is made
    _network(options, population, function).require_times(options.duration, options.dt)
    return Study("population", partial(_compute, options, population, function, seed))


def function_of(expression: Expression) -> Function:
    return lambda x: float(expression(*map(float, x)))


def _compute(
    options: PopulationOptions, population: Population, function: Function, seed: int, folder: Path, display: Display
) -> Findings:
    scaling = {}
    for index, size in enumerate(SIZES):
        scaling[size] = _errors_of(options, size, seed)
        display.update(0.8 * (index + 1) / len(SIZES), f"{size} neurons")
    decoded = _decode_spikes(options, population, function, seed)
    display.update(0.9, "spikes")
    write_arrays(folder / SPIKES, times=decoded.spike_times, neurons=decoded.neurons)
    write_arrays(folder / TRACES, **dict(zip(decoded._fields[:5], decoded[:5], strict=True)))
    sections = [_curves_section(population), _decoding_section(options, population, function, seed)]
    sections += [_scaling_section(scaling), _condition_section(options, seed)]
    sections.append(_spikes_section(options, population, decoded, seed))
    sections.append(_vector_section(options, seed))
    return Findings(_results(options, population, decoded, seed), sections)


# --- results ----------------------------------------------------------------------------------------------------------


def _results(options: PopulationOptions, population: Population, decoded: DecodedSpikes, seed: int) -> list[Result]:
    expecting, careless = (_measured(population, solved, options.noise, seed) for solved in (options.noise, 0.0))
    theory = population.error(noise=options.noise)
    # without the beginning, in which the synapse has nothing to filter yet
    settled = min(round(5 * options.tau / options.dt), len(decoded.times) // 2)
    from_spikes = {"rmse_of_spikes": coding.rms((decoded.value - decoded.truth)[settled:])}
    return [
        Result(f"{options.neurons} neurons, solved for noise {options.noise:g}", _named(expecting) | from_spikes),
        Result("solved for no noise", _named(careless)),
        Result("by the formula", _named(DecodingError(theory.distortion, theory.total))),
    ]


def _named(error: DecodingError) -> dict[str, float]:
    return {"rmse_of_exact_rates": error.distortion, "rmse_of_noisy_rates": error.noise}


def _measured(population: Population, solved: float, noise: float, seed: int) -> DecodingError:
    """Of x by decoders that were `solved` for one noise: from exact rates, and from rates with another, drawn noise."""
    decoders = coding.solve_decoders(population.rates(population.points), population.points, max(solved, HARDLY_ANY))
    x = np.linspace(-1, 1, 1000)[:, None]
    rates, random = population.rates(x), np.random.default_rng(mix(seed, "noise"))
    deviation = noise * rates.max()
    noisy = [rates @ decoders + deviation * random.normal(size=rates.shape) @ decoders - x for _ in range(DRAWS)]
    return DecodingError(coding.rms(rates @ decoders - x), coding.rms(np.concatenate(noisy)))


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


def _decode_spikes(options: PopulationOptions, population: Population, function: Function, seed: int) -> DecodedSpikes:
    network = _network(options, population, function)
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    probes = [simulation[connection][:, 0] for connection in network.connections if connection.target is None]
    truth = np.array([_wave(t, options.duration) for t in simulation.times])
    wanted = coding.values_of(function, truth[:, None])[:, 0]
    return DecodedSpikes(simulation.times, truth, probes[0], wanted, probes[1], *simulation.spikes[population])


# --- the report -------------------------------------------------------------------------------------------------------


def _curves_section(population: Population) -> Section:
    x = np.linspace(-1, 1, 400)
    words = (
        "Every neuron begins to fire at its intercept, and fires faster the further the value goes in the direction of "
        "its encoder. No single neuron tells the value; every value activates a different set of them."
    )
    figure = pictures.tuning_curves(x, population.rates(x), rising=population.encoders[:, 0] > 0)
    return Section.illustrated("Tuning curves", words, figure, "rates of the neurons against the value")


def _decoding_section(options: PopulationOptions, population: Population, function: Function, seed: int) -> Section:
    x = np.linspace(-1, 1, 400)
    rates, noisy = population.rates(x), np.random.default_rng(mix(seed, "drawn noise"))
    words = (
        "Different decoders of the same rates: of x itself, and of a function of it. The line is decoded from exact "
        f"rates, the dots from rates with noise of {100 * options.noise:g} % of the highest rate, drawn anew at every "
        "x."
    )
    blocks: list[Block] = [Text(words)]
    rows = []
    for name, one in (("x", None), (options.function, function)):
        decoders, wanted = population.decoders(one), coding.values_of(one, x[:, None])
        noise = options.noise * rates.max() * noisy.normal(size=rates.shape)
        exact = {"from exact rates": (rates @ decoders)[:, 0]}
        dots = {"from noisy rates": ((rates + noise) @ decoders)[:, 0]}
        figure = pictures.decoded_curves(x, wanted[:, 0], exact, noisy=dots, ylabel=name)
        blocks.append(Picture.of(figure, alt=f"{name} and what is decoded instead of it"))
        error = coding.decoding_error(rates, decoders, wanted, options.noise)
        rows.append([name, f"{error.distortion:.4f}", f"{error.noise:.4f}", f"{error.total:.4f}"])
    caption = "Root mean squares over x from −1 to 1. The second is σ ‖D‖, and the third the two together."
    blocks.append(Table(["decoded", "from exact rates", "by noise", "from noisy rates"], rows, caption))
    return Section("What is decoded", blocks)


def _scaling_section(scaling: dict[int, dict[float, DecodingError]]) -> Section:
    words = (
        "Independent noise averages out as the root of the number of neurons: in theory the error of noisy rates falls "
        "as 1/√N, a slope of −0.5. If rates were exact, and the decoders solved for no noise, only what the tuning "
        "curves cannot express together would be left, which for neurons that are spread by chance falls as 1/N."
    )
    noisy = {f"{noise:g}": np.array([errors[noise].total for errors in scaling.values()]) for noise in NOISES}
    exact = np.array([errors[HARDLY_ANY].distortion for errors in scaling.values()])
    header = ["noise", *(f"N = {size}" for size in SIZES[::2]), "slope", "theory"]
    rows = [_scaling_row(name, errors, "−0.50") for name, errors in noisy.items()]
    rows.append(_scaling_row("exact rates", exact, "−1.00"))
    table = Table(header, rows, "Root mean square errors, and the slope of a line through their logarithms.")
    words += f" Here the slopes are {', '.join(row[-2] for row in rows[:-1])}, and {rows[-1][-2]} for exact rates."
    figure, alt = pictures.error_by_neurons(SIZES, noisy, exact), "error against the number of neurons and the noise"
    return Section.illustrated("Neurons and noise", words, figure, alt, table)


def _scaling_row(name: str, errors: Float[Array, " size"], theory: str) -> list[str]:
    slope = f"{np.polyfit(np.log(SIZES), np.log(errors), 1)[0]:.2f}".replace("-", "−")
    return [name, *(f"{error:.4f}" for error in errors[::2]), slope, theory]


def _condition_section(options: PopulationOptions, seed: int) -> Section:
    """How well HᵀH can be inverted, for populations of several sizes, and the spectrum of one."""
    activities = {size: _activities(options, size, seed) for size in SIZES}
    noises = (0.0, *NOISES)
    found = {
        noise: np.array([coding.condition_number(each, noise) for each in activities.values()]) for noise in noises
    }
    shown = min(SIZES, key=lambda size: abs(size - options.neurons))
    spectrum = coding.gram_eigenvalues(activities[shown])
    floor = len(activities[shown]) * (options.noise * activities[shown].max()) ** 2
    raised, condition = int((spectrum < floor).sum()), coding.condition_number(activities[shown], options.noise)
    words = (
        "Decoders invert HᵀH, where H holds the rates of all neurons at all sample points. Its condition number, the "
        "largest eigenvalue over the smallest, says how much an error of the rates can be magnified. Tuning curves are "
        f"alike, so that it is {_power(found[0.0][0])} for {SIZES[0]} neurons and {_power(found[0.0][-1])} for "
        f"{SIZES[-1]} (doubles have 16 digits). Noise σ adds Pσ² to every eigenvalue: with σ = {options.noise:g}, "
        f"{raised} of {len(spectrum)} eigenvalues of {shown} neurons are below that, and the condition number falls "
        f"from {_power(found[0.0][SIZES.index(shown)])} to {_power(condition)}."
    )
    header = ["noise σ", *(f"N = {size}" for size in SIZES[::2])]
    rows = [["none" if not noise else f"{noise:g}", *map(_power, each[::2])] for noise, each in found.items()]
    curves = {"none" if not noise else f"{noise:g}": each for noise, each in found.items()}
    figure = pictures.condition_numbers(SIZES, curves, spectrum, floor, neurons=shown)
    alt = "condition number against the number of neurons, and eigenvalues"
    return Section.illustrated("Condition number", words, figure, alt, Table(header, rows, "Of HᵀH + Pσ²I."))


def _activities(options: PopulationOptions, size: int, seed: int) -> Float[Array, "point neuron"]:
    population = options.population(size, mix(seed, size, 0))
    return population.rates(population.points)


def _power(value: float) -> str:
    """Two digits and a power of ten."""
    if value < 10_000:
        return f"{value:,.0f}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def _spikes_section(options: PopulationOptions, population: Population, decoded: DecodedSpikes, seed: int) -> Section:
    order = np.argsort(np.argsort(population.encoders[:, 0] * (1.0 - (1 - population.biases) / population.gains)))
    values = {"the value": decoded.truth, "decoded x": decoded.value, f"decoded {options.function}": decoded.function}
    spikes = decoded.spike_times, order[decoded.neurons]
    figure = pictures.spikes_and_value(decoded.times, values, *spikes, num_neurons=population.neurons)
    words = (
        "Real neurons have no rates, only spikes. Filtered by a synapse, the same decoders work on spikes as they "
        "come. A slow synapse smooths more and answers later. "
    )
    rows = [[f"{tau:g}", *_by_synapse(options, population, tau, seed)] for tau in SYNAPSES if tau >= options.dt]
    if rows:
        best = min(rows, key=lambda row: float(row[1]))
        words += f"Of these, the one of {best[0]} ms leaves the smallest error, {best[1]}."
    caption = (
        "Root mean square error against the true value, and against the true value filtered by the same synapse: the "
        "first counts the delay as an error, the second only the variance of spikes."
    )
    table = Table(["synapse (ms)", "error", "without the delay"], rows, caption)
    alt = "spikes, and the value that is decoded from them"
    return Section.illustrated("Decoding spikes", words, figure, alt, table)


def _by_synapse(options: PopulationOptions, population: Population, tau: float, seed: int) -> list[str]:
    network, wave = PopulationNetwork(), Input(lambda t: _wave(t, options.duration))
    network.connect(wave, population, tau=None)
    probed = ((population, tau), (wave, None), (wave, tau))
    decoded, *others = (network.probe(source, tau=synapse) for source, synapse in probed)
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    begin = min(round(200 / options.dt), len(simulation.times) // 2)
    return [f"{coding.rms((simulation[decoded] - simulation[other])[begin:]):.4f}" for other in others]


def _vector_section(options: PopulationOptions, seed: int) -> Section:
    population = options.population(4 * options.neurons, mix(seed, "vector"), dimensions=2)
    network = PopulationNetwork()
    circling = Input(lambda t: _lissajous(t, options.duration))
    network.connect(circling, population, tau=None)
    seen = network.probe(population, tau=options.tau)
    product = network.probe(population, function=lambda x: x[0] * x[1], tau=options.tau)
    simulation = network.simulate(options.duration, options.dt, seed=seed)
    truth = circling.over(simulation.times)
    error, error_of_product = population.error(), population.error(lambda x: x[0] * x[1])
    words = (
        f"Encoders that point in all directions of a plane represent two dimensions. Here {population.neurons} neurons "
        f"follow a moving point, and the product is decoded from the same spikes. With noise {options.noise:g} the "
        f"error of rates is {error.total:.3f} for the point and {error_of_product.total:.3f} for the product."
    )
    panels = {"x and y": {"the point": pictures.Path(*truth.T), "decoded": pictures.Path(*simulation[seen].T)}}
    products = {"their product": {"x·y": truth.prod(1), "decoded": simulation[product][:, 0]}}
    over_time = pictures.over_time(simulation.times, products)
    after = Picture.of(over_time, alt="the product of both coordinates over time")
    alt = "the path of a point and what is decoded"
    return Section.illustrated("Two dimensions", words, pictures.paths(panels), alt, after)


def _lissajous(t: float, duration: float) -> Sequence[float]:
    angle = 2 * math.pi * t / duration
    return (0.7 * math.sin(2 * angle), 0.7 * math.sin(3 * angle))


RECIPE = Recipe(PopulationOptions(), build, verb="simulate", about="models.population")
