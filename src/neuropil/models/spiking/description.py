"""Description of a spiking network: groups, connections, inputs and probes. `neuropil.models.spiking.network` has the
equations. A field with a `Key` can be set in a TOML file too; all others are for Python.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.networks.files import is_source, read_network
from neuropil.data.networks.keys import Key, NetworkKeys, keys_of, made, require_bounds
from neuropil.errors import InputError, nearest
from neuropil.memory import require_room
from neuropil.models.lif import LIFConfig

Numbers: TypeAlias = np.ndarray | Tensor
Target: TypeAlias = Annotated[str, Key("group that receives", name="to")]
TAU = Key("synaptic time constant (ms); delta synapses without it", above=0, fix="leave it out for delta synapses")
BYTES_OF_A_SYNAPSE = 8
MOST_CELLS = 10**9
"""Of a group: what is above it fits nowhere, and numbers of any length would be multiplied."""
SynapticTau: TypeAlias = Annotated[float | None, TAU]


@dataclass(frozen=True)
class NeuronGroup:
    """Leaky integrate-and-fire neurons of one kind. In Python, `start` may also hold a voltage for each neuron."""

    name: str
    size: Annotated[int, Key("number of neurons", low=1, high=MOST_CELLS)]
    neurons: LIFConfig = field(default_factory=LIFConfig)
    start: Annotated[
        float | tuple[float, float] | Numbers | None, Key("initial voltage of all, or a range for random ones; or rest")
    ] = None


@dataclass(frozen=True)
class SpikeSource:
    """Cells that only send: Poisson spikes of a rate or, in Python, the given `spikes` as (times in ms, cells)."""

    name: str
    size: Annotated[int, Key("number of cells", low=1, high=MOST_CELLS)]
    rate: Annotated[float, Key("firing rate of each cell (Hz)", low=0)] = 0.0
    spikes: tuple[Numbers, Numbers] | None = None


class STDP(Config):
    potentiation: float = option(0.01, "A₊, added to a weight when the target fires after a spike arrives", low=0)
    depression: float = option(0.0105, "A₋, subtracted when a spike arrives after the target has fired", low=0)
    tau_plus: float = option(20.0, "time constant τ₊ of potentiation (ms)", above=0)
    tau_minus: float = option(20.0, "time constant τ₋ of depression (ms)", above=0)
    low: float = option(0.0, "smallest weight")
    high: float = option(1.0, "largest weight")
    mu_plus: float = option(
        0.0, "weight dependence μ₊ of potentiation, ∝ (high − w)^μ₊: 0 additive, 1 multiplicative", low=0
    )
    mu_minus: float = option(
        0.0, "weight dependence μ₋ of depression, ∝ (w − low)^μ₋: 0 additive, 1 multiplicative", low=0
    )
    dendritic_delay: float = option(
        0.0, "part of the delay between synapse and soma (ms), which spikes of the target take back too", low=0
    )

    def validate(self) -> None:
        if not self.low <= self.high:
            got = f"low={self.low:g}, high={self.high:g}"
            raise InputError("the smallest weight must not be above the largest", got=got)


@dataclass(frozen=True)
class Projection:
    """Synapses from each neuron of a group to each of another (none to itself), or to some. In Python, `weight` may be
    an array [source, target], and `pairs` (sources, targets) are single synapses, with one weight or one each."""

    source: Annotated[str, Key("group that sends", name="from")]
    target: Target
    weight: Annotated[float | Numbers, Key("weight of each synapse: a voltage, or a voltage times ms with a tau")]
    probability: Annotated[float | None, Key("connection probability of each pair", low=0, high=1)] = None
    fan_in: Annotated[int | None, Key("number of random sources of each target", low=0, high=MOST_CELLS)] = None
    pairs: tuple[Numbers, Numbers] | None = None
    delay: Annotated[float, Key("synaptic delay (ms)", low=0)] = 0.0
    tau: SynapticTau = None
    stdp: Annotated[STDP | None, Key("spike-timing-dependent plasticity")] = None

    @property
    def name(self) -> str:
        return f"the connection {self.source} → {self.target}"


@dataclass(frozen=True)
class PoissonInput:
    """Poisson spikes from outside, independent for each neuron of a group."""

    target: Target
    rate: Annotated[float, Key("rate of all spikes that one neuron receives (Hz)", low=0)]
    weight: Annotated[float, Key("weight of each spike")]
    tau: SynapticTau = None

    @property
    def name(self) -> str:
        return f"the Poisson input to {self.target!r}"


@dataclass(frozen=True)
class CurrentInput:
    """An input v_in. In Python, also one for each neuron, or for each step [step, neuron or 1]."""

    target: Target
    amount: Annotated[float | Numbers, Key("constant input v_in, in the unit of the voltage")]

    @property
    def name(self) -> str:
        return f"the current to {self.target!r}"


@dataclass(frozen=True)
class Probe:
    """Neurons of a group whose voltages are recorded."""

    group: Annotated[str, Key("group to record from")]
    neurons: Annotated[Sequence[int], Key("numbers of the neurons, from 0", low=0)] = (0,)


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
        require_room("the synapses of a network", sum(map(self._bytes_of, self.connections)))
        for each in self.inputs:
            _require_input(each, self.neurons(each.target))
        for probe in self.probes:
            size = self.neurons(probe.group).size
            for neuron in probe.neurons:
                if not 0 <= neuron < size:
                    rule = f"a probe of {probe.group!r} watches neurons from 0 to {size - 1}"
                    raise InputError(rule, got=f"{neuron}")

    def _bytes_of(self, connection: Projection) -> float:
        """Of its synapses while they are made: 4 each for the target or the weight, and again while lists grow."""
        source, target = self.find(connection.source).size, self.find(connection.target).size
        if connection.pairs is not None:
            return 0  # there already
        share = 1.0 if connection.probability is None else connection.probability
        each = share * source if connection.fan_in is None else connection.fan_in
        return BYTES_OF_A_SYNAPSE * each * target

    @property
    def num_neurons(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def poisson(self) -> list[PoissonInput]:
        return [each for each in self.inputs if isinstance(each, PoissonInput)]

    def place(self, name: str) -> int:
        names = [group.name for group in self.groups]
        if name not in names:
            raise InputError("a group must be one of the network's", got=f"{name!r}", fix=nearest(name, names))
        return names.index(name)

    def find(self, name: str) -> NeuronGroup | SpikeSource:
        return self.groups[self.place(name)]

    def neurons(self, name: str) -> NeuronGroup:
        group = self.find(name)
        if isinstance(group, SpikeSource):
            raise InputError("only neurons can be driven, connected to or watched", got=f"the source {name!r}")
        return group


# --- TOML ---------------------------------------------------------------------------------------------------

LISTS = {"connections": Projection, "poisson": PoissonInput, "currents": CurrentInput, "probes": Probe}
LIST_KEYS = {section: keys_of(owner) for section, owner in LISTS.items()}
KEYS = NetworkKeys(keys_of(NeuronGroup), keys_of(SpikeSource), LIST_KEYS)


def load_network(path: Path) -> SpikingNetwork:
    tables = read_network(path, KEYS)
    kinds = {name: SpikeSource if is_source(table) else NeuronGroup for name, table in tables.groups.items()}
    groups = [made(kinds[name], table, name=name) for name, table in tables.groups.items()]
    lists = {section: [made(LISTS[section], table) for table in rows] for section, rows in tables.lists.items()}
    return SpikingNetwork(groups, lists["connections"], [*lists["poisson"], *lists["currents"]], lists["probes"])


# --- what is refused ----------------------------------------------------------------------------------------


def _require_group(group: NeuronGroup | SpikeSource, names: Sequence[str]) -> None:
    if names.count(group.name) > 1:
        raise InputError("groups must have different names", got=f"{group.name!r} twice")
    require_bounds(f"the group {group.name!r}", group)
    if isinstance(group, NeuronGroup):
        if isinstance(group.start, np.ndarray | Tensor) and tuple(group.start.shape) != (group.size,):
            rule = f"the initial voltages of {group.name!r} must be {group.size}, one for each neuron"
            raise InputError(rule, got=_shape(group.start))
    elif group.spikes is not None:
        times, cells = group.spikes
        _require_equal_lengths(f"the spikes of {group.name!r} must have a time and a cell each", group.spikes)
        _require_indices(f"the cells of {group.name!r}", cells, group.size)
        if len(times) and not (float(times.min()) > 0 and math.isfinite(float(times.max()))):
            raise InputError(f"the spikes of {group.name!r} must have times after 0 ms", got=f"{float(times.min()):g}")


def _require_connection(connection: Projection, source: NeuronGroup | SpikeSource, target: NeuronGroup) -> None:
    name = connection.name
    given = [way for way in ("probability", "fan_in", "pairs") if getattr(connection, way) is not None]
    if len(given) > 1:
        rule = f"{name} is made by a probability, a fan_in or pairs"
        raise InputError(rule, got=" and ".join(given), fix="give one of them")
    require_bounds(name, connection)
    most = source.size - (source is target)
    if connection.fan_in is not None and not connection.fan_in <= most:
        raise InputError(f"the fan_in of {name} must be from 0 to {most}", got=f"{connection.fan_in}")
    if connection.pairs is not None:
        _require_equal_lengths(f"the pairs of {name} must have a source and a target each", connection.pairs)
        for side, neurons, group in zip(("sources", "targets"), connection.pairs, (source, target), strict=True):
            _require_indices(f"the {side} of {name}", neurons, group.size)
    dendritic = 0.0 if connection.stdp is None else connection.stdp.dendritic_delay
    if dendritic > connection.delay:
        got = f"{dendritic:g} of {connection.delay:g} ms"
        raise InputError(f"the dendritic delay of {name} must be a part of its delay", got=got)
    _require_weight(connection, (source.size, target.size))


def _require_weight(connection: Projection, sizes: tuple[int, int]) -> None:
    name, weight = connection.name, connection.weight
    if isinstance(weight, np.ndarray | Tensor):
        wanted = sizes if connection.pairs is None else tuple(connection.pairs[0].shape)
        if connection.probability is not None or connection.fan_in is not None:
            fix = "give pairs with a weight each"
            raise InputError(f"random synapses of {name} must have one weight", got=_shape(weight), fix=fix)
        if tuple(weight.shape) != wanted:
            raise InputError(f"the weights of {name} must be {'×'.join(map(str, wanted))}", got=_shape(weight))
        _require_finite(f"the weights of {name}", weight)
    smallest, largest = (weight, weight) if isinstance(weight, int | float) else _range(weight)
    rule = connection.stdp
    if rule is not None and not rule.low <= smallest <= largest <= rule.high:
        got = f"weights from {smallest:g} to {largest:g}"
        raise InputError(f"plastic weights of {name} must be within {rule.low:g} and {rule.high:g}", got=got)


def _require_input(each: PoissonInput | CurrentInput, target: NeuronGroup) -> None:
    require_bounds(each.name, each)
    if isinstance(each, CurrentInput) and isinstance(each.amount, np.ndarray | Tensor):
        shape, size = tuple(each.amount.shape), target.size
        if shape != (size,) and not (len(shape) == 2 and shape[1] in (1, size)):
            rule = f"{each.name} must be one number, {size} numbers, or a row of 1 or {size} for each step"
            raise InputError(rule, got=_shape(each.amount))
        _require_finite(each.name, each.amount)


def _require_equal_lengths(rule: str, pair: tuple[Numbers, Numbers]) -> None:
    if tuple(pair[0].shape) != tuple(pair[1].shape) or len(pair[0].shape) != 1:
        raise InputError(rule, got=f"{_shape(pair[0])} and {_shape(pair[1])}")


def _require_indices(name: str, indices: Numbers, size: int) -> None:
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        outside = int(indices.min()) if int(indices.min()) < 0 else int(indices.max())
        raise InputError(f"{name} are numbers from 0 to {size - 1}", got=f"{outside}")


def _require_finite(name: str, array: Numbers) -> None:
    if not all(map(math.isfinite, _range(array))):
        raise InputError(f"{name} must be finite numbers", got="some that are not")


def _shape(array: Numbers) -> str:
    return f"{'×'.join(map(str, array.shape)) or 'one'} numbers"


def _range(array: Numbers) -> tuple[float, float]:
    """NaN if any is."""
    return (float(array.min()), float(array.max())) if math.prod(array.shape) else (0.0, 0.0)
