"""What a spiking network is made of, as a person would write it down; `neuropil.models.spiking.network` has the equations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from torch import Tensor

from neuropil.config import Config, option
from neuropil.errors import InputError, nearest
from neuropil.models.lif import LIFConfig

Numbers: TypeAlias = np.ndarray | Tensor


@dataclass(frozen=True)
class NeuronGroup:
    """Neurons of one kind. `start` is their first voltage: one for all, the (lowest, highest) of random ones, one for each, or rest."""

    name: str
    size: int
    neurons: LIFConfig = field(default_factory=LIFConfig)
    start: float | tuple[float, float] | Numbers | None = None


@dataclass(frozen=True)
class SpikeSource:
    """Cells that only send: at random with a rate (Hz), or the given spikes as (times in ms, cells)."""

    name: str
    size: int
    rate: float = 0.0
    spikes: tuple[Numbers, Numbers] | None = None


class STDP(Config):
    potentiation: float = option(
        0.01, "A₊: what a pair adds to a weight when the target fires right after the spike arrives", low=0
    )
    depression: float = option(0.0105, "A₋: what a pair takes away when the target has fired right before", low=0)
    tau_plus: float = option(20.0, "time constant τ₊ of potentiation (ms)")
    tau_minus: float = option(20.0, "time constant τ₋ of depression (ms)")
    low: float = option(0.0, "smallest weight")
    high: float = option(1.0, "largest weight")

    def validate(self) -> None:
        if not (self.tau_plus > 0 and self.tau_minus > 0):
            raise InputError(
                "tau_plus and tau_minus must be times above 0 ms",
                got=f"tau_plus={self.tau_plus:g}, tau_minus={self.tau_minus:g}",
            )
        if not self.low <= self.high:
            raise InputError(
                "the smallest weight must not be above the largest", got=f"low={self.low:g}, high={self.high:g}"
            )


@dataclass(frozen=True)
class Projection:
    """Synapses from each neuron of `source` to each of `target`; or to each with a `probability`, or as many from random ones as `fan_in`,
    where no neuron is connected with itself; or from the first of `pairs` to the second. `weight` is one for all, or an array: [source,
    target], or one for each pair. `delay` in ms; `tau` (ms) is the time constant, and None makes delta synapses."""

    source: str
    target: str
    weight: float | Numbers
    probability: float | None = None
    fan_in: int | None = None
    pairs: tuple[Numbers, Numbers] | None = None
    delay: float = 0.0
    tau: float | None = None
    stdp: STDP | None = None

    @property
    def name(self) -> str:
        return f"the connection {self.source} → {self.target}"


@dataclass(frozen=True)
class PoissonInput:
    """Random spikes from outside, independent for each neuron of `target`; `rate` (Hz) is that of all that a neuron gets."""

    target: str
    rate: float
    weight: float
    tau: float | None = None


@dataclass(frozen=True)
class CurrentInput:
    """An input v_in: one number, one for each neuron, or for each step [step, neuron], where one column is for all neurons."""

    target: str
    amount: float | Numbers


@dataclass(frozen=True)
class Probe:
    """Watch the voltages of these neurons of a group."""

    group: str
    neurons: Sequence[int] = (0,)


@dataclass(frozen=True)
class SpikingNetwork:
    groups: Sequence[NeuronGroup | SpikeSource]
    connections: Sequence[Projection] = ()
    inputs: Sequence[PoissonInput | CurrentInput] = ()
    probes: Sequence[Probe] = ()

    def __post_init__(self) -> None:
        if not any(isinstance(group, NeuronGroup) for group in self.groups):
            raise InputError("a network must have a group of neurons", got="none")
        for group in self.groups:
            _require_group(group, [other.name for other in self.groups])
        for connection in self.connections:
            _require_connection(connection, self.find(connection.source), self.neurons(connection.target))
        for each in self.inputs:
            _require_input(each, self.neurons(each.target))
        for probe in self.probes:
            size = self.neurons(probe.group).size
            for neuron in probe.neurons:
                if not 0 <= neuron < size:
                    raise InputError(
                        f"a probe of {probe.group!r} watches neurons from 0 to {size - 1}", got=f"{neuron}"
                    )

    @property
    def num_neurons(self) -> int:
        return sum(group.size for group in self.groups)

    def find(self, name: str) -> NeuronGroup | SpikeSource:
        for group in self.groups:
            if group.name == name:
                return group
        raise InputError(
            "a group must be one of the network's",
            got=f"{name!r}",
            fix=nearest(name, [group.name for group in self.groups]),
        )

    def neurons(self, name: str) -> NeuronGroup:
        group = self.find(name)
        if isinstance(group, SpikeSource):
            raise InputError("only neurons can be driven, connected to or watched", got=f"the source {name!r}")
        return group


# --- what is refused -------------------------------------------------------------------------------------------------------------------


def _require_group(group: NeuronGroup | SpikeSource, names: Sequence[str]) -> None:
    if names.count(group.name) > 1:
        raise InputError("groups must have different names", got=f"{group.name!r} twice")
    if group.size < 1:
        raise InputError(f"the group {group.name!r} must have at least one neuron", got=f"{group.size}")
    if isinstance(group, NeuronGroup):
        if isinstance(group.start, np.ndarray | Tensor) and tuple(group.start.shape) != (group.size,):
            raise InputError(
                f"the first voltages of {group.name!r} must be {group.size}, one for each neuron",
                got=_shape(group.start),
            )
    elif group.spikes is not None:
        times, cells = group.spikes
        if tuple(times.shape) != tuple(cells.shape) or len(times.shape) != 1:
            raise InputError(
                f"the spikes of {group.name!r} must have a time and a cell each",
                got=f"{_shape(times)} and {_shape(cells)}",
            )
        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < group.size:
            raise InputError(
                f"the cells of {group.name!r} are numbers from 0 to {group.size - 1}", got=f"{_outside(cells)}"
            )
        if len(times) and not (float(times.min()) > 0 and math.isfinite(float(times.max()))):
            raise InputError(f"the spikes of {group.name!r} must have times after 0 ms", got=f"{float(times.min()):g}")
    elif not 0 <= group.rate < math.inf:
        raise InputError(f"the rate of {group.name!r} must be 0 Hz or more", got=f"{group.rate:g}")


def _require_connection(connection: Projection, source: NeuronGroup | SpikeSource, target: NeuronGroup) -> None:
    name, sizes = connection.name, (source.size, target.size)
    given = [key for key in ("probability", "fan_in", "pairs") if getattr(connection, key) is not None]
    if len(given) > 1:
        raise InputError(
            f"{name} is made by a probability, a fan_in or pairs", got=" and ".join(given), fix="give one of them"
        )
    if connection.probability is not None and not 0 <= connection.probability <= 1:
        raise InputError(f"the probability of {name} must be from 0 to 1", got=f"{connection.probability:g}")
    most = source.size - (source is target)
    if connection.fan_in is not None and not 0 <= connection.fan_in <= most:
        raise InputError(f"the fan_in of {name} must be from 0 to {most}", got=f"{connection.fan_in}")
    if connection.pairs is not None:
        _require_pairs(name, connection.pairs, sizes)
    _require_weight(connection, sizes)
    if not 0 <= connection.delay < math.inf:
        raise InputError(f"the delay of {name} must be 0 ms or more", got=f"{connection.delay:g}")
    _require_tau(name, connection.tau)


def _require_pairs(name: str, pairs: tuple[Numbers, Numbers], sizes: tuple[int, int]) -> None:
    if tuple(pairs[0].shape) != tuple(pairs[1].shape) or len(pairs[0].shape) != 1:
        raise InputError(
            f"the pairs of {name} must have a source and a target each",
            got=f"{_shape(pairs[0])} and {_shape(pairs[1])}",
        )
    for side, neurons, size in zip(("sources", "targets"), pairs, sizes, strict=True):
        if len(neurons) and not 0 <= int(neurons.min()) <= int(neurons.max()) < size:
            raise InputError(f"the {side} of {name} are numbers from 0 to {size - 1}", got=f"{_outside(neurons)}")


def _require_weight(connection: Projection, sizes: tuple[int, int]) -> None:
    name, weight = connection.name, connection.weight
    if isinstance(weight, np.ndarray | Tensor):
        wanted = sizes if connection.pairs is None else tuple(connection.pairs[0].shape)
        if connection.probability is not None or connection.fan_in is not None:
            raise InputError(
                f"random synapses of {name} must have one weight",
                got=_shape(weight),
                fix="give pairs with a weight each",
            )
        if tuple(weight.shape) != wanted:
            raise InputError(f"the weights of {name} must be {'×'.join(map(str, wanted))}", got=_shape(weight))
    smallest, largest = (float(weight), float(weight)) if isinstance(weight, int | float) else _range(weight)
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        raise InputError(f"the weights of {name} must be finite numbers", got="some that are not")
    rule = connection.stdp
    if rule is not None and not rule.low <= smallest <= largest <= rule.high:
        raise InputError(
            f"plastic weights of {name} must be within {rule.low:g} and {rule.high:g}",
            got=f"weights from {smallest:g} to {largest:g}",
        )


def _require_input(each: PoissonInput | CurrentInput, target: NeuronGroup) -> None:
    if isinstance(each, PoissonInput):
        if not 0 <= each.rate < math.inf:
            raise InputError(f"the rate of Poisson input to {each.target!r} must be 0 Hz or more", got=f"{each.rate:g}")
        _require_tau(f"the Poisson input to {each.target!r}", each.tau)
    elif isinstance(each.amount, np.ndarray | Tensor):
        shape = tuple(each.amount.shape)
        if shape != (target.size,) and not (len(shape) == 2 and shape[1] in (1, target.size)):
            raise InputError(
                f"the current to {each.target!r} must be one number, {target.size} numbers, or a row of 1 or {target.size} for each step",
                got=_shape(each.amount),
            )
        if not all(map(math.isfinite, _range(each.amount))):
            raise InputError(f"the current to {each.target!r} must be finite numbers", got="some that are not")
    elif not math.isfinite(each.amount):
        raise InputError(f"the current to {each.target!r} must be a finite number", got=f"{each.amount:g}")


def _require_tau(name: str, tau: float | None) -> None:
    if tau is not None and not 0 < tau < math.inf:
        raise InputError(
            f"the tau of {name} must be a time above 0 ms", got=f"{tau:g}", fix="leave it out for delta synapses"
        )


def _shape(array: Numbers) -> str:
    return f"{'×'.join(map(str, array.shape)) or 'one'} numbers"


def _outside(numbers: Numbers) -> int:
    return int(numbers.min()) if int(numbers.min()) < 0 else int(numbers.max())


def _range(array: Numbers) -> tuple[float, float]:
    """NaN if any is."""
    return (float(array.min()), float(array.max())) if math.prod(array.shape) else (0.0, 0.0)
