"""The processor time of one step of two populations of N spiking neurons, of which the second gets the square of the
first: decoded and encoded again, which takes O(N + M) for N neurons that lead to M, and by full weights W = D E, which
take O(NM). The slope of a line through the logarithms says how the time grows: 1 is in proportion to N, 2 to its
square.

python -m benchmarks.transformations [--sizes 400 800 1600 3200] [--steps 50] [--rounds 5]
"""

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.timing import alternate
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.models.dynamics.network import Input, PopulationConnection, PopulationNetwork, PopulationSimulator
from neuropil.models.population import Population

HEADER = ("neurons N = M", "decode and encode (µs)", "full weights (µs)", "times as long", "largest difference")
POINTS = np.linspace(-1, 1, 200)[:, None]
"""At which decoders are solved: few, so that this takes little time for many neurons."""
LONGER = 20
"""Times as many steps where a step is short, so that what a run takes besides its steps does not count."""
FITTED = 4
"""Sizes through which the slope is fitted, the largest: in small ones other work takes the time."""


class Arguments(Config):
    sizes: tuple[int, ...] = option((100, 200, 400, 800, 1600, 3200), "neurons of each population", low=2)
    steps: int = option(50, "steps of 1 ms in a round by full weights; the other way takes 20 times as many", low=1)
    rounds: int = option(5, "rounds of each", low=1)


def main(words: Sequence[str] = ()) -> None:
    about = "Decode and encode beside full weights."
    measured = [*measure(parse(Arguments(), list(words), command="transformations", about=about))]
    for row in [HEADER, *written(measured)]:
        print("  ".join(f"{cell:>22}" for cell in row))
    print(in_words(measured))


def measure(arguments: Arguments) -> Iterator[tuple[int, float, float, float]]:
    """N, µs for a step in both ways, and the largest difference between the values that they decode."""
    for neurons in arguments.sizes:
        steps = {"factored": LONGER * arguments.steps, "full": arguments.steps}
        ways = {name: connected(neurons, count, full_weights=name == "full") for name, count in steps.items()}
        said = [simulator.run(float(steps[name]))[seen] for name, (simulator, seen) in ways.items()]
        work = {name: partial(simulator.run, float(steps[name])) for name, (simulator, _) in ways.items()}
        seconds = alternate(work, arguments.rounds, clock=time.process_time)
        factored, full = (1e6 * statistics.median(seconds[name]) / steps[name] for name in ways)
        yield neurons, factored, full, float(np.abs(said[0][: arguments.steps] - said[1]).max())


def connected(neurons: int, steps: int, *, full_weights: bool) -> tuple[PopulationSimulator, PopulationConnection]:
    """Two populations, and the probe of the second."""
    network = PopulationNetwork()
    first, second = (Population(neurons, points=POINTS, seed=seed) for seed in (1, 2))
    network.connect(Input(np.sin(np.arange(steps) / 30)[:, None]), first)
    network.connect(first, second, function=lambda x: x**2, tau=5.0)
    seen = network.probe(second, tau=10.0)
    return PopulationSimulator(network, full_weights=full_weights), seen


def written(measured: Sequence[tuple[int, float, float, float]]) -> list[list[str]]:
    return [
        [f"{neurons:,}", f"{factored:.1f}", f"{full:.1f}", f"{full / factored:.1f}", f"{apart:.0e}" if apart else "0"]
        for neurons, factored, full, apart in measured
    ]


def slopes(measured: Sequence[tuple[int, float, float, float]]) -> tuple[float, float]:
    """Of decode-and-encode and of full weights, in logarithms, over the largest sizes."""
    neurons, factored, full, _ = np.array(measured[-FITTED:]).T
    first, second = (float(np.polyfit(np.log(neurons), np.log(times), 1)[0]) for times in (factored, full))
    return first, second


def in_words(measured: Sequence[tuple[int, float, float, float]]) -> str:
    factored, full = slopes(measured)
    sizes = [row[0] for row in measured[-FITTED:]]
    return (
        f"From N = {sizes[0]:,} to {sizes[-1]:,} the time of a step grows as N^{factored:.2f} by decoding and encoding "
        f"and as N^{full:.2f} by full weights: twice the N takes {2**factored:.1f} and {2**full:.1f} times the time."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
