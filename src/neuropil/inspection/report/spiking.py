"""What the simulations of spiking networks have in common: how their neurons fire, in numbers and beside neurons that fire at random."""

import math
from collections.abc import Callable

import torch

from neuropil.inspection.spike_statistics import SpikeTrains, fano_factor, interval_cv, rates, synchrony
from neuropil.models.spiking.network import Recording, Simulator
from neuropil.randomness import seeded

FANO_WINDOW = 100.0
SYNCHRONY_BIN = 2.0


def record(simulator: Simulator, settle: float, duration: float, tell: Callable[[float], None]) -> Recording:
    """`duration` ms after the `settle` ms before them, which are not kept; `tell` hears the share that is done."""
    whole = settle + duration
    if settle >= simulator.dt:
        simulator.run(settle, progress=lambda share: tell(share * settle / whole))
    return simulator.run(duration, progress=lambda share: tell((settle + share * duration) / whole))


def trains_of(recording: Recording, *groups: str) -> SpikeTrains:
    """The spikes of some groups as if they were one, from the beginning of the recording."""
    first = dict(
        zip(groups, torch.tensor([0, *(recording.sizes[group] for group in groups)]).cumsum(0).tolist(), strict=False)
    )
    times = torch.cat([recording.spikes[group].times for group in groups]) - recording.start
    neurons = torch.cat([recording.spikes[group].neurons + first[group] for group in groups])
    return SpikeTrains(times, neurons, sum(recording.sizes[group] for group in groups), recording.duration)


def firing(trains: SpikeTrains) -> dict[str, float]:
    """Means over neurons; what cannot be said, for instance of neurons that are silent, is left out."""
    window = min(FANO_WINDOW, trains.duration / 2)
    found = {
        "rate_hz": float(rates(trains).mean()),
        "cv": float(interval_cv(trains).nanmean()),
        "fano_factor": float(fano_factor(trains, window).nanmean()),
        "synchrony": synchrony(trains, min(SYNCHRONY_BIN, trains.duration / 2)),
    }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def at_random(trains: SpikeTrains, seed: int) -> SpikeTrains:
    """Neurons that fire as often as these, each for itself and at any time: a Poisson process given its number of spikes."""
    times = torch.rand(len(trains.times), generator=seeded(seed, "at random"), dtype=torch.double) * trains.duration
    return SpikeTrains(times, trains.neurons, trains.num_neurons, trains.duration)
