"""What trains of spikes have in common: how often, how regularly and how much together the neurons of a group fire.

    rate          spikes per second of each neuron
    CV            standard deviation / mean of its inter-spike intervals: 0 like a clock, 1 like a Poisson process
    Fano factor   variance / mean of its spikes in windows of equal length: 0 like a clock, 1 like a Poisson process
    synchrony     χ = √(Var_t⟨n⟩ / ⟨Var_t n_i⟩) of the spikes n_i of neuron i in short bins, ⟨…⟩ the mean over neurons:
                  1 if all fire together, about 1/√N if they are independent (Golomb and Rinzel)

Times are in ms, counted from the beginning of what was recorded; rates are in Hz.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.spiking.network import SpikingNetworkRecording, SpikingSimulator
from neuropil.randomness import seeded

Times: TypeAlias = Float[Tensor, " spike"]
Neurons: TypeAlias = Int[Tensor, " spike"]

FANO_WINDOW = 100.0
SYNCHRONY_BIN = 2.0
"""ms"""
IRREGULAR, CORRELATED, SYNCHRONOUS = 0.5, 3, 0.3
"""The CV above which firing is nearer to chance than to a clock; how many times the synchrony of independent neurons
is more than chance; and the synchrony above which neurons are more than weakly synchronous."""


@dataclass(frozen=True)
class SpikeTrains:
    """The spikes of `num_neurons` from 0 to `duration` (ms), each with its time and its neuron."""

    times: Times
    neurons: Neurons
    num_neurons: int
    duration: float

    def __post_init__(self) -> None:
        if not (self.num_neurons > 0 and self.duration > 0):
            got = f"{self.num_neurons} neurons and {self.duration:g} ms"
            raise InputError("trains of spikes need neurons and time", got=got)

    def after(self, start: float) -> "SpikeTrains":
        """Without the first `start` ms, in which a simulation settles."""
        kept = self.times > start
        return SpikeTrains(self.times[kept] - start, self.neurons[kept], self.num_neurons, self.duration - start)


def joined(parts: Sequence[SpikeTrains]) -> SpikeTrains:
    """Of the same neurons, one part after the other."""
    begins = accumulate((part.duration for part in parts), initial=0.0)
    times = torch.cat([part.times + begin for part, begin in zip(parts, begins, strict=False)])
    neurons, duration = torch.cat([part.neurons for part in parts]), sum(part.duration for part in parts)
    return SpikeTrains(times, neurons, parts[0].num_neurons, duration)


def rates(trains: SpikeTrains) -> Float[Tensor, " neuron"]:
    return 1000 * torch.bincount(trains.neurons, minlength=trains.num_neurons).double() / trains.duration


def interval_cv(trains: SpikeTrains) -> Float[Tensor, " neuron"]:
    """Of each neuron; not a number where there are fewer than two intervals."""
    order = torch.argsort(trains.times, stable=True)
    order = order[torch.argsort(trains.neurons[order], stable=True)]
    times, neurons = trains.times[order].double(), trains.neurons[order]
    same = neurons[1:] == neurons[:-1]
    intervals, owners = (times[1:] - times[:-1])[same], neurons[1:][same]
    count = torch.bincount(owners, minlength=trains.num_neurons).double()
    mean = torch.bincount(owners, intervals, minlength=trains.num_neurons) / count
    variance = torch.bincount(owners, (intervals - mean[owners]) ** 2, minlength=trains.num_neurons) / count
    return torch.where(count >= 2, variance.sqrt() / mean, math.nan)


def fano_factor(trains: SpikeTrains, window: float = 100.0) -> Float[Tensor, " neuron"]:
    """Of each neuron, over whole windows (ms); not a number where there is no spike."""
    counts = binned(trains, window)
    if counts.shape[1] < 2:
        raise InputError(f"a Fano factor needs at least two windows of {window:g} ms", got=f"{trains.duration:g} ms")
    return counts.var(1) / counts.mean(1)


def population_rate(trains: SpikeTrains, bin: float = 1.0) -> Float[Tensor, " time"]:
    """Hz, the mean over neurons in each whole bin (ms)."""
    index, num_bins = _bins(trains, bin)
    return 1000 * torch.bincount(index[index < num_bins], minlength=num_bins).double() / (trains.num_neurons * bin)


def synchrony(trains: SpikeTrains, bin: float = 2.0) -> float:
    """χ from 0 to 1; not a number without spikes."""
    counts = binned(trains, bin)
    together, alone = counts.mean(0).var(correction=0), counts.var(1, correction=0).mean()
    return math.sqrt(together / alone) if alone > 0 else math.nan


def oscillation(trains: SpikeTrains, bin: float = 0.5, *, slowest: float = 5.0) -> float:
    """Frequency (Hz) above `slowest` at which the population rate oscillates most; NaN without spikes."""
    rate = population_rate(trains, bin)
    # windows smear a peak over two neighbours, so that one between two frequencies is found too
    window = torch.hann_window(len(rate), periodic=False, dtype=rate.dtype)
    spectrum = torch.fft.rfft((rate - rate.mean()) * window).abs()
    frequencies = torch.fft.rfftfreq(len(rate), bin / 1000)
    spectrum = torch.where(frequencies >= slowest, spectrum, 0)
    return float(frequencies[spectrum.argmax()]) if spectrum.max() > 0 else math.nan


def binned(trains: SpikeTrains, bin: float) -> Float[Tensor, "neuron time"]:
    """Spikes of each neuron in each whole bin (ms)."""
    index, num_bins = _bins(trains, bin)
    kept = index < num_bins
    places = trains.neurons[kept] * num_bins + index[kept]
    return torch.bincount(places, minlength=trains.num_neurons * num_bins).float().reshape(trains.num_neurons, num_bins)


def _bins(trains: SpikeTrains, bin: float) -> tuple[Int[Tensor, " spike"], int]:
    """The bin of each spike; a spike at the end of a bin, where steps end, is of that bin."""
    num_bins = math.floor(trains.duration / bin + 1e-9)
    if num_bins < 1:
        raise InputError("a bin must not be longer than what was recorded", got=f"{bin:g} ms of {trains.duration:g} ms")
    return torch.clamp(torch.ceil(trains.times / bin - 1e-6).long() - 1, min=0), num_bins


# --- recordings of spiking networks, beside Poisson neurons -------------------------------------------------------


def record(
    simulator: SpikingSimulator, settle: float, duration: float, progress: Callable[[float], None]
) -> SpikingNetworkRecording:
    """`duration` ms after `settle` ms that are not kept; `progress` is called with the share that is done."""
    whole = settle + duration
    if settle >= simulator.dt:
        simulator.run(settle, progress=lambda share: progress(share * settle / whole))
    return simulator.run(duration, progress=lambda share: progress((settle + share * duration) / whole))


def trains_of(recording: SpikingNetworkRecording, *groups: str) -> SpikeTrains:
    """The spikes of some groups as if they were one, from the beginning of the recording."""
    *firsts, total = accumulate((recording.sizes[group] for group in groups), initial=0)
    times = torch.cat([recording.spikes[group].times for group in groups]) - recording.start
    neurons = [recording.spikes[group].neurons + first for group, first in zip(groups, firsts, strict=True)]
    return SpikeTrains(times, torch.cat(neurons), total, recording.duration)


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


def independent_synchrony(num_neurons: int) -> float:
    """About what `synchrony` is if neurons are independent."""
    return 1 / math.sqrt(num_neurons)


def regime(found: Mapping[str, float], num_neurons: int) -> str | None:
    """In words, of what `firing` has found; None where too few spikes were recorded to say."""
    if "cv" not in found or "synchrony" not in found:
        return None
    if found["synchrony"] > SYNCHRONOUS:
        together = "synchronous"
    else:
        chance = CORRELATED * independent_synchrony(num_neurons)
        together = "weakly synchronous" if found["synchrony"] > chance else "asynchronous"
    return f"{together} and {'irregular' if found['cv'] > IRREGULAR else 'regular'}"


def some_neurons(times: Times, neurons: Neurons, size: int, most: int) -> tuple[Float[Tensor, " _"], Int[Tensor, " _"]]:
    """The spikes of up to `most` of the first `size` neurons, evenly chosen and counted anew, for a raster."""
    count = min(size, most)
    place = torch.full((max(size, int(neurons.max()) + 1 if len(neurons) else 0),), -1)
    place[torch.arange(count) * size // count] = torch.arange(count)
    chosen = place[neurons] >= 0
    return times[chosen], place[neurons[chosen]]


def poisson_twin(trains: SpikeTrains, seed: int) -> SpikeTrains:
    """Neurons that fire as often as these, independently and at random: Poisson processes given their spike counts."""
    times = torch.rand(len(trains.times), generator=seeded(seed, "at random"), dtype=torch.double) * trains.duration
    return SpikeTrains(times, trains.neurons, trains.num_neurons, trains.duration)
