"""Brunel's network of 12,500 neurons in its four regimes, beside the theory and the published simulation.

The same network, with only the strength of inhibition and the drive from outside changed, fires like one clock, like
many that swing together, or each neuron on its own and at irregular times. Its mean rates are compared with the theory
of a network without oscillations, and with table 1 of the paper."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from neuropil.config import Config, option
from neuropil.inspection.pictures.spiking.networks import RegimeActivity, evenly, regimes
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.inspection.spike_statistics import (
    SpikeTrains,
    at_random,
    firing,
    oscillation,
    population_rate,
    record,
    trains_of,
)
from neuropil.models.balanced_network import SIZES, BalancedNetworkConfig, balanced_network, stationary_rate
from neuropil.models.spiking.network import SpikingSimulator
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.recordings import SPIKES, write_arrays
from neuropil.tasks.study import Findings, Study
from neuropil.training.progress import Display

FIRST = "AI"
"""The regime that a run is judged by: the theory holds there."""
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "SI, fast": {"rate_hz": 60.7, "oscillation_hz": 180.0},
    "AI": {"rate_hz": 37.7},
    "SI, slow": {"rate_hz": 5.5, "oscillation_hz": 22.0},
}
"""Simulations in table 1 of Brunel (2000)."""
WORDS = {
    "SR": "synchronous, regular: excitation wins, and nearly all fire together, as fast as they can",
    "SI, fast": "synchronous, irregular, fast: the whole swings faster than any of its neurons fires",
    "AI": "asynchronous, irregular: the whole stays level, and each neuron fires on its own, at irregular times",
    "SI, slow": "synchronous, irregular, slow: rare bursts, in which each time other neurons take part",
}
DRAWN, DRAWN_TIME, BIN = 40, 200.0, 1.0


class BalancedNetworkOptions(Config):
    neurons: int = option(12_500, "neurons; four of five excite, and smaller networks have stronger synapses", low=200)
    duration: float = option(1000.0, "how long to simulate each regime (ms)")
    settle: float = option(200.0, "how long before that, unrecorded, until it has settled (ms)", low=0)
    dt: float = option(0.1, "step (ms); the delay of 1.5 ms must be a whole number of them")


@dataclass(frozen=True)
class Observed:
    config: BalancedNetworkConfig
    trains: SpikeTrains
    metrics: dict[str, float]
    theory: float


def build(options: BalancedNetworkOptions, seed: int) -> Study:
    networks = {name: config.override(neurons=options.neurons) for name, config in SIZES.items()}
    SpikingSimulator.require(balanced_network(networks[FIRST]), options.dt, options.duration)
    return Study("balanced network", lambda folder, display: _compute(options, networks, seed, folder, display))


def _compute(
    options: BalancedNetworkOptions,
    networks: Mapping[str, BalancedNetworkConfig],
    seed: int,
    folder: Path,
    display: Display,
) -> Findings:
    observed: dict[str, Observed] = {}
    for number, (name, config) in enumerate(networks.items()):

        def tell(share: float, name: str = name, number: int = number) -> None:
            if display.due():
                display.update((number + share) / len(networks), f"regime {name}")

        observed[name] = _observe(config, options, seed, tell)
        display.update((number + 1) / len(networks), f"{name}: {observed[name].metrics['rate_hz']:.1f} Hz")
    arrays = {
        f"{name.replace(', ', '_')}_{part}": getattr(each.trains, part)
        for name, each in observed.items()
        for part in ("times", "neurons")
    }
    write_arrays(folder / SPIKES, **arrays)
    return Findings(_results(observed), [_regimes_section(observed), _numbers_section(observed, seed)])


def _observe(
    config: BalancedNetworkConfig, options: BalancedNetworkOptions, seed: int, tell: Callable[[float], None]
) -> Observed:
    simulator = SpikingSimulator(balanced_network(config), dt=options.dt, seed=seed)
    trains = trains_of(record(simulator, options.settle, options.duration, tell), "excitatory", "inhibitory")
    swing = oscillation(trains)
    return Observed(
        config, trains, firing(trains) | ({"oscillation_hz": swing} if swing == swing else {}), stationary_rate(config)
    )


def _results(observed: Mapping[str, Observed]) -> list[Result]:
    """The regime in which the theory holds first, then what it says, then what was published; then the other
    regimes."""
    rows = []
    for name in sorted(observed, key=lambda name: name != FIRST):
        rows += [Result(name, observed[name].metrics), Result(f"{name}, theory", {"rate_hz": observed[name].theory})]
        if name in PUBLISHED:
            rows.append(Result(f"{name}, published", PUBLISHED[name]))
    return rows


def _regimes_section(observed: Mapping[str, Observed]) -> Section:
    words = "\n\n".join(
        [
            "Spikes of some excitatory neurons over the rate of the whole network, as in figure 8 of the paper. The "
            "networks differ in two numbers only: g, how much stronger inhibition is than excitation, and the drive "
            "from outside in units of what just reaches the threshold.",
            *(f"`{name}` {words}." for name, words in WORDS.items()),
        ]
    )
    figure = regimes(
        {
            f"{name}: g = {each.config.g:g}, ν_ext/ν_thr = {each.config.external:g}": _activity(each)
            for name, each in observed.items()
        }
    )
    return Section(
        "Four regimes of one network", [Text(words), Picture.of(figure, alt="rasters and rates in four regimes")]
    )


def _activity(observed: Observed) -> RegimeActivity:
    """The last part of some excitatory neurons' trains and of the rate of all."""
    trains = observed.trains
    kept = torch.tensor(evenly(observed.config.num_excitatory, DRAWN))
    place = torch.full((trains.num_neurons,), -1).index_put((kept,), torch.arange(len(kept)))[trains.neurons]
    rate = population_rate(trains, BIN)
    last = min(len(rate), round(DRAWN_TIME / BIN))
    return RegimeActivity(trains.times[place >= 0], place[place >= 0], rate[-last:], (len(rate) - last) * BIN, BIN)


def _numbers_section(observed: Mapping[str, Observed], seed: int) -> Section:
    words = (
        "The theory is that of a network whose neurons fire on their own, which the asynchronous regime comes close "
        "to; where all swing together, the published simulation differs from it as this one does."
    )
    more = (
        "The CV of the intervals between a neuron's spikes and the Fano factor of its counts are 1 for spikes at "
        "random and 0 for a clock (for few spikes the CV is too low). Synchrony is 1 if all fire together; the last "
        "column has it for neurons that fire as often, but each on its own."
    )
    rates, firings = [], []
    for name, each in observed.items():
        own, published, alone = each.metrics, PUBLISHED.get(name, {}), firing(at_random(each.trains, seed))
        swings = (own.get("oscillation_hz"), published.get("oscillation_hz"))
        rates.append([name, *map(_written, (own.get("rate_hz"), each.theory, published.get("rate_hz"), *swings))])
        firings.append(
            [
                name,
                *map(_written, (own.get("cv"), own.get("fano_factor"), own.get("synchrony"), alone.get("synchrony"))),
            ]
        )
    caption = "Published: Brunel (2000), Journal of Computational Neuroscience 8, 183–208, table 1, simulation."
    return Section(
        "In numbers",
        [
            Text(words),
            Table(["regime", "rate (Hz)", "theory", "published", "swings at (Hz)", "published"], rates, caption),
            Text(more),
            Table(["regime", "CV", "Fano factor", "synchrony", "on their own"], firings),
        ],
    )


def _written(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


RECIPE = Recipe(BalancedNetworkOptions(), build, verb="simulate")
