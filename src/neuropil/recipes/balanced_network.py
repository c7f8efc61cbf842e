"""Brunel's network of 12,500 neurons in its four regimes, beside the theory and the published simulation.

The same network, with only the strength of inhibition and the drive from outside changed, fires like one clock, like
many that swing together, or each neuron on its own and at irregular times. Its mean rates are compared with the theory
of a network without oscillations, and with table 1 of the paper."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from neuropil.config import Config, option
from neuropil.inspection import spike_statistics as statistics
from neuropil.inspection.pictures.spiking.networks import RegimeActivity, regimes
from neuropil.inspection.report.page import Section, Table, Text
from neuropil.inspection.spike_statistics import SpikeTrains
from neuropil.models.balanced_network import SIZES, BalancedNetworkConfig, balanced_network, stationary_rate
from neuropil.models.spiking.network import SpikingSimulator
from neuropil.progress import Display
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import SPIKES, Findings, Study, write_arrays

Networks: TypeAlias = Mapping[str, BalancedNetworkConfig]

FIRST = "AI"
"""The regime that a run is scored by: the theory holds there."""
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "SI, fast": {"rate_hz": 60.7, "oscillation_hz": 180.0},
    "AI": {"rate_hz": 37.7},
    "SI, slow": {"rate_hz": 5.5, "oscillation_hz": 22.0},
}
"""Simulations in table 1 of Brunel (2000)."""
WORDS = {
    "SR": "synchronous, regular: excitation wins, and nearly all fire together, as fast as they can",
    "SI, fast": "synchronous, irregular, fast: the network oscillates faster than any of its neurons fires",
    "AI": "asynchronous, irregular: the population rate stays level, and each neuron fires on its own, irregularly",
    "SI, slow": "synchronous, irregular, slow: rare bursts, in which each time other neurons take part",
}
DRAWN, DRAWN_TIME, BIN = 40, 200.0, 1.0


class BalancedNetworkOptions(Config):
    neurons: int = option(12_500, "neurons, 80 % excitatory; smaller networks have stronger synapses", low=200)
    duration: float = option(1000.0, "simulated time of each regime (ms)")
    settle: float = option(200.0, "simulated time before the recording begins (ms)", low=0)
    dt: float = option(0.1, "time step (ms); the delay of 1.5 ms must be a multiple of it")


@dataclass(frozen=True)
class ObservedRegime:
    config: BalancedNetworkConfig
    trains: SpikeTrains
    metrics: dict[str, float]
    theory: float


def build(options: BalancedNetworkOptions, seed: int) -> Study:
    networks = {name: config.override(neurons=options.neurons) for name, config in SIZES.items()}
    SpikingSimulator.require(balanced_network(networks[FIRST]), options.dt, options.duration)
    return Study("balanced network", partial(_compute, options, networks, seed))


def _compute(
    options: BalancedNetworkOptions, networks: Networks, seed: int, folder: Path, display: Display
) -> Findings:
    observed: dict[str, ObservedRegime] = {}
    for number, (name, config) in enumerate(networks.items()):

        def show(share: float, name: str = name, number: int = number) -> None:
            if display.due():
                display.update((number + share) / len(networks), f"regime {name}")

        observed[name] = _observe(config, options, seed, show)
        display.update((number + 1) / len(networks), f"{name}: {observed[name].metrics['rate_hz']:.1f} Hz")
    trains = {name.replace(", ", "_"): each.trains for name, each in observed.items()}
    times = {f"{name}_times": train.times for name, train in trains.items()}
    write_arrays(folder / SPIKES, **times, **{f"{name}_neurons": train.neurons for name, train in trains.items()})
    return Findings(_results(observed), [_regimes_section(observed), _numbers_section(observed, seed)])


def _observe(
    config: BalancedNetworkConfig, options: BalancedNetworkOptions, seed: int, progress: Callable[[float], None]
) -> ObservedRegime:
    simulator = SpikingSimulator(balanced_network(config), dt=options.dt, seed=seed)
    recording = statistics.record(simulator, options.settle, options.duration, progress)
    trains = statistics.trains_of(recording, "excitatory", "inhibitory")
    frequency = statistics.oscillation(trains)
    metrics = statistics.firing(trains) | ({} if math.isnan(frequency) else {"oscillation_hz": frequency})
    return ObservedRegime(config, trains, metrics, stationary_rate(config))


def _results(observed: Mapping[str, ObservedRegime]) -> list[Result]:
    """Each regime with theory and publication; first the one in which the theory holds."""
    rows = []
    for name in sorted(observed, key=lambda name: name != FIRST):
        rows += [Result(name, observed[name].metrics), Result(f"{name}, theory", {"rate_hz": observed[name].theory})]
        if name in PUBLISHED:
            rows.append(Result(f"{name}, published", PUBLISHED[name]))
    return rows


def _regimes_section(observed: Mapping[str, ObservedRegime]) -> Section:
    words = (
        "Spikes of some excitatory neurons and the population rate, as in figure 8 of the paper. The networks differ "
        "in two numbers only: g, the relative strength of inhibition, and the external drive in units of the threshold "
        "rate."
    )
    words = "\n\n".join([words, *(f"`{name}` {_regime_words(name, each)}" for name, each in observed.items())])
    activities = {
        f"{name}: g = {each.config.g:g}, ν_ext/ν_thr = {each.config.external:g}": _activity(each)
        for name, each in observed.items()
    }
    return Section.illustrated("Four regimes", words, regimes(activities), "rasters and rates in four regimes")


def _regime_words(name: str, observed: ObservedRegime) -> str:
    """What the paper calls the regime, and what was measured."""
    metrics, neurons = observed.metrics, observed.config.neurons
    words = statistics.regime(metrics, neurons)
    if words is None:
        return f"is, in the paper, {WORDS[name]}. Here too few spikes were recorded to say."
    alone = statistics.independent_synchrony(neurons)
    numbers = f"CV {metrics['cv']:.2g}, synchrony {metrics['synchrony']:.2g}, {alone:.2g} if independent"
    measured = f"{words} firing ({numbers})"
    return f"is, in the paper, {WORDS[name]}. Here: {measured}."


def _activity(observed: ObservedRegime) -> RegimeActivity:
    """The last part of some excitatory neurons' trains and of the rate of all."""
    trains = observed.trains
    spikes = statistics.some_neurons(trains.times, trains.neurons, observed.config.num_excitatory, DRAWN)
    rate = statistics.population_rate(trains, BIN)
    last = min(len(rate), round(DRAWN_TIME / BIN))
    return RegimeActivity(*spikes, rate[-last:], (len(rate) - last) * BIN, BIN)


def _numbers_section(observed: Mapping[str, ObservedRegime], seed: int) -> Section:
    words = f"The theory assumes independent neurons. {_theory_words(observed)}"
    more = (
        "The CV of inter-spike intervals and the Fano factor of spike counts are 1 for a Poisson process and 0 for a "
        "clock (for few spikes the CV is too low). Synchrony is 1 if all fire together; the last column has it for "
        "independent Poisson neurons of the same rates."
    )
    rates, firings = [], []
    for name, each in observed.items():
        own, published = each.metrics, PUBLISHED.get(name, {})
        poisson = statistics.firing(statistics.poisson_twin(each.trains, seed))
        swings = own.get("oscillation_hz"), published.get("oscillation_hz")
        rates.append([name, *map(_written, (own.get("rate_hz"), each.theory, published.get("rate_hz"), *swings))])
        firing = [own.get("cv"), own.get("fano_factor"), own.get("synchrony"), poisson.get("synchrony")]
        firings.append([name, *map(_written, firing)])
    caption = "Published: Brunel (2000), Journal of Computational Neuroscience 8, 183–208, table 1, simulation."
    table = Table(["regime", "rate (Hz)", "theory", "published", "oscillation (Hz)", "published"], rates, caption)
    statistics_table = Table(["regime", "CV", "Fano factor", "synchrony", "synchrony, Poisson"], firings)
    return Section("In numbers", [Text(words), table, Text(more), statistics_table])


def _theory_words(observed: Mapping[str, ObservedRegime]) -> str:
    """How far each regime is from the theory, here and where it was published."""
    found = []
    for name, each in observed.items():
        pairs = ("here", each.metrics.get("rate_hz")), ("as published", PUBLISHED.get(name, {}).get("rate_hz"))
        away = [f"{100 * (rate / each.theory - 1):+.0f} % {where}" for where, rate in pairs if rate is not None]
        found += [f"`{name}` {' and '.join(away)}".replace("-", "−")] if away else []
    return f"The rate differs from it by: {'; '.join(found)}."


def _written(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


RECIPE = Recipe(BalancedNetworkOptions(), build, verb="simulate", about="models.balanced_network")
