"""Which ways of training a model on so many devices there are, what each needs, and which to take.

plan = plan_training("gpt2-xl", published_options("gpt2-xl"), {}, hardware, Wanted())
plan.ways, plan.recommended, plan.command(plan.recommended)
"""

import contextlib
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from neuropil import recipes
from neuropil.config import Config, words_for
from neuropil.errors import InputError
from neuropil.memory import written
from neuropil.runs.plan.communication import Hardware, Traffic, traffic, waiting_seconds
from neuropil.runs.plan.memory import Memory, Way, measured_memory, transformer_memory
from neuropil.runs.plan.shapes import PUBLISHED, MeasuredShape, PublishedConfig, TransformerShape, measured, transformer
from neuropil.runs.planned import PlannedRun
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.processes import launch_words

HEADROOM = 0.9
"""Of the memory of a device, for a way that is said to fit: kernels, the allocator and NCCL need some too."""
ABOUT_AS_FAST = 1.02
"""A difference that is less than what the formulas leave out."""
LATENCY = 1e-3
"""Seconds: an update starts hundreds of kernels and messages, and each takes microseconds however little it does."""
MOST_DEVICES = 2**14
"""That are looked at for one on which a way fits."""


@dataclass(frozen=True)
class Wanted:
    """What of a way is given."""

    parallel: str | None = None
    tensor: int | None = None
    recompute: bool | None = None


@dataclass(frozen=True)
class PlannedWay:
    """`batch` is what a device computes at once; `efficiency` the share of the time of an update in which it computes
    what one device alone would, where that can be planned."""

    way: Way
    batch: int
    memory: Memory
    traffic: Traffic
    computing: float
    waiting: float
    efficiency: float | None
    fits: bool

    @property
    def seconds(self) -> float:
        return self.computing + self.waiting

    @property
    def name(self) -> str:
        words = [] if self.way.parallel == "none" else [f"{self.way.parallel} {self.way.data}"]
        words += [f"tensor {self.way.tensor}"] if self.way.tensor > 1 else []
        words += ["recompute"] if self.way.recompute else []
        words += [f"accumulate {self.way.accumulate}"] if self.way.accumulate > 1 else []
        return ", ".join(words) or "one device"

    def to_dict(self) -> dict[str, Any]:
        parts = {"memory": self.memory.to_dict(), "traffic": self.traffic.to_dict()}
        times = {"seconds_computing": self.computing, "seconds_waiting": self.waiting, "efficiency": self.efficiency}
        return {
            "name": self.name,
            **asdict(self.way),
            "batch_per_device": self.batch,
            **parts,
            **times,
            "fits": self.fits,
        }


@dataclass(frozen=True)
class TrainingPlan:
    name: str
    model: TransformerShape | MeasuredShape
    hardware: Hardware
    batch: int
    """Sequences or examples of an update, of all devices."""
    precision: str
    ways_on: "Callable[[Hardware], Sequence[PlannedWay]]"
    command: Callable[[PlannedWay], str]

    @cached_property
    def ways(self) -> Sequence[PlannedWay]:
        return self.ways_on(self.hardware)

    @property
    def recommended(self) -> PlannedWay | None:
        """The simplest, which come first, of those that fit and are about as fast as the fastest."""
        fitting = [each for each in self.ways if each.fits]
        fastest = min((each.seconds for each in fitting), default=0.0)
        return next((each for each in fitting if each.seconds <= ABOUT_AS_FAST * fastest), None)

    def to_dict(self) -> dict[str, Any]:
        best = self.recommended
        about = {"name": self.name, "parameters": self.model.parameters, "batch": self.batch}
        chosen = None if best is None else best.to_dict() | {"command": self.command(best)}
        ways = [each.to_dict() for each in self.ways]
        return {
            **about,
            "precision": self.precision,
            "hardware": asdict(self.hardware),
            "ways": ways,
            "recommended": chosen,
        }

    def sentence(self, best: PlannedWay) -> str:
        needs = f"It needs {written(best.memory.total)} of the {written(self.hardware.memory)} of a device"
        if best.efficiency is None:
            return (
                f"Recommended: {best.name}. {needs}. Its speed is not planned: an update computes for "
                f"{seconds_text(best.computing)}, and below {seconds_text(LATENCY)} most of the time is the latency of "
                "kernels and messages, which these figures leave out."
            )
        return (
            f"Recommended: {best.name}. {needs}, and makes an update in about {seconds_text(best.seconds)}, in which "
            f"each device is {100 * best.efficiency:.0f} % as efficient as one alone."
        )

    def refusal(self) -> InputError:
        """Where no way fits: how much memory, or how many devices, would do."""
        least = min(self.ways, key=lambda each: each.memory.total)
        rule = f"training must fit into {100 * HEADROOM:.0f} % of the memory of a device"
        sizes = f"{written(least.memory.total)} for {written(self.hardware.memory)}"
        got = f"{sizes} ({least.name}, the way that needs least)"
        more = self.devices_that_fit()
        ways_out = [f"--memory {written(_rounded_up(least.memory.total / HEADROOM)).replace(' ', '')}"]
        ways_out += [f"--gpus {more} of this memory"] if more is not None else []
        return InputError(rule, got=got, fix=f"it takes {' or '.join(ways_out)}, or a smaller model")

    def devices_that_fit(self) -> int | None:
        """How many there must be of these devices, doubled until a way fits; None where no number would do."""
        devices = self.hardware.devices
        while devices < MOST_DEVICES:
            devices *= 2
            with contextlib.suppress(InputError):  # of a batch or a host that cannot be divided so
                if any(each.fits for each in self.ways_on(replace(self.hardware, devices=devices))):
                    return devices
        return None


def seconds_text(seconds: float) -> str:
    """As in 8.63 s, 2.27 ms, 1.13 µs."""
    seconds = float(f"{seconds:.3g}")
    power = 0 if seconds >= 1 or not seconds else 1 if seconds >= 1e-3 else 2
    return f"{seconds:,.0f} s" if seconds >= 100 else f"{1000**power * seconds:.3g} {('s', 'ms', 'µs')[power]}"


def _rounded_up(size: float) -> float:
    """To the three digits that are written."""
    unit = 10.0 ** (math.floor(math.log10(size)) - 2)
    return math.ceil(size / unit) * unit


Planner = Callable[[Way, int, Hardware], PlannedWay]
"""A way, with so many examples on a device at once, on this hardware."""


def plan_training(
    name: str, options: Config, given: Mapping[str, Any], hardware: Hardware, wanted: Wanted
) -> TrainingPlan:
    """For a published size of GPT-2, or a system with the options that are `given`."""
    if isinstance(options, PublishedConfig):
        return _plan_published(name, options, hardware, wanted)
    return _plan_system(name, given, hardware, wanted)


def _plan_published(name: str, options: PublishedConfig, hardware: Hardware, wanted: Wanted) -> TrainingPlan:
    model, training = transformer(options), options.training
    half, average = training.precision == "bfloat16", bool(training.average)

    def planned(way: Way, batch: int, hardware: Hardware) -> PlannedWay:
        own = {"half": half, "optimizer": training.optimizer, "average": average}
        tokens = batch * way.accumulate * model.context
        flops = [model.flops(tokens, way.tensor, recompute=recompute) for recompute in (False, way.recompute)]
        needed = transformer_memory(model, way, batch, **own)
        return _planned(way, batch, needed, traffic(model, way, batch, half=half), flops, hardware)

    def ways_on(hardware: Hardware) -> Sequence[PlannedWay]:
        return [*_ways(training, hardware, wanted, _tensor_sizes(model, hardware, wanted), planned)]

    command = _command("gpt2", *options.command_options(), training, hardware)
    return TrainingPlan(name, model, hardware, _batch_of(training), training.precision, ways_on, command)


def _plan_system(name: str, given: Mapping[str, Any], hardware: Hardware, wanted: Wanted) -> TrainingPlan:
    """On one device or with its data divided: what it needs is measured here, and not how it could be divided."""
    refused = {"--parallel": wanted.parallel == "fsdp", "--tensor-parallel": (wanted.tensor or 1) > 1}
    for flag, is_given in {**refused, "--recompute": bool(wanted.recompute)}.items():
        if is_given:
            rule = f"{flag} is planned by formula, for the sizes of GPT-2"
            raise InputError(rule, got=f"{name!r}", fix=f"leave it out, or plan {', '.join(PUBLISHED)}")
    run = PlannedRun.of("train", name, 0, given)
    model, training = measured(run)

    def planned(way: Way, batch: int, hardware: Hardware) -> PlannedWay:
        flops = [batch * way.accumulate * model.example_flops] * 2
        needed = measured_memory(model, way, batch, average=bool(training.average))
        return _planned(way, batch, needed, traffic(model, way, batch, half=False), flops, hardware)

    def ways_on(hardware: Hardware) -> Sequence[PlannedWay]:
        simple = Wanted("ddp" if hardware.devices > 1 else None, 1, False)
        return [*_ways(training, hardware, simple, [1], planned)]

    command = _command(name, run.defaults, run.typed, training, hardware)
    return TrainingPlan(name, model, hardware, _batch_of(training), training.precision, ways_on, command)


def _ways(
    training: TrainingConfig,
    hardware: Hardware,
    wanted: Wanted,
    tensor_sizes: Sequence[int],
    planned: Planner,
) -> Iterator[PlannedWay]:
    """From the simplest to the most involved; each with as few batches one after the other as make it fit. Where a
    batch has too few examples for all devices, there is no way."""
    least = hardware.devices // max(tensor_sizes)
    if training.batch_size < least:
        rule = f"a batch must have an example for each of {least:,} shares of the devices"
        fix = f"give --batch-size {least} or more, or fewer --gpus"
        raise InputError(rule, got=f"{training.batch_size:,}", fix=fix)
    for recompute in (False, True) if wanted.recompute is None else (wanted.recompute,):
        for tensor in tensor_sizes:
            data = hardware.devices // tensor
            if data > training.batch_size:
                continue
            parallels = ("ddp", "fsdp") if data > 1 else ("none",)
            for parallel in parallels:
                if data > 1 and wanted.parallel not in (None, parallel):
                    continue
                way = Way(parallel, data, tensor, recompute, training.accumulate)
                yield _fewest_batches(way, _batch_of(training), lambda way, batch: planned(way, batch, hardware))


def _batch_of(training: TrainingConfig) -> int:
    """Sequences or examples of an update."""
    return training.batch_size * training.accumulate


def _fewest_batches(way: Way, batch: int, planned: Callable[[Way, int], PlannedWay]) -> PlannedWay:
    """The batch of an update in as many as the way has, and each of these divided by two until a device has room for
    its share, or one example of it."""
    found, accumulate = planned(way, math.ceil(batch / way.accumulate / way.data)), 2 * way.accumulate
    while not found.fits and batch % accumulate == 0 and batch // accumulate >= way.data:
        found = planned(replace(way, accumulate=accumulate), math.ceil(batch / accumulate / way.data))
        accumulate *= 2
    return found


def _planned(
    way: Way, batch: int, memory: Memory, sent: Traffic, flops: Sequence[float], hardware: Hardware
) -> PlannedWay:
    """`flops` are those that are needed, and those that are made."""
    needed, computing = (each / (hardware.peak * hardware.utilisation) for each in flops)
    waiting = waiting_seconds(sent, way, hardware, computing)
    efficiency = needed / (computing + waiting) if computing >= LATENCY else None
    fits = memory.total <= HEADROOM * hardware.memory
    return PlannedWay(way, batch, memory, sent, computing, waiting, efficiency, fits)


def _tensor_sizes(model: TransformerShape, hardware: Hardware, wanted: Wanted) -> list[int]:
    """Devices that divide layers: all on one host, and each with as many heads and hidden units as the others."""
    most = min(hardware.devices, hardware.devices_per_host)
    possible = [
        size
        for size in range(1, most + 1)
        if not (model.heads % size or model.feed_forward % size or hardware.devices % size or most % size)
    ]
    if wanted.tensor is None:
        return possible
    if wanted.tensor not in possible:
        what = f"{model.heads} heads, {model.feed_forward} hidden units and {most} devices"
        rule = f"--tensor-parallel must divide {what}"
        raise InputError(rule, got=f"{wanted.tensor}", fix=f"choose from {', '.join(map(str, possible))}")
    return [wanted.tensor]


def _command(
    system: str, defaults: Config, typed: Config, training: TrainingConfig, hardware: Hardware
) -> Callable[[PlannedWay], str]:
    """That starts a way, on each host: with all that differs from the `defaults` of `neuropil train`. A time limit
    chooses what is not said, and so all is said beside one."""
    options, usual = ({each.name: each.default for each in config.options()} for config in (typed, defaults))
    said = {"batch_size", *(recipes.recipe(system).ladder.names if training.minutes is not None else [])}

    def command(planned: PlannedWay) -> str:
        way = planned.way
        words = [*launch_words(hardware.devices, hardware.devices_per_host), "train", system]
        ways = {"batch_size": _batch_of(training) // way.accumulate, "accumulate": way.accumulate}
        ways |= {"parallel": "auto" if way.parallel == "none" else way.parallel}
        ways |= {"tensor_parallel": way.tensor, "recompute": way.recompute}
        for key, value in ({key: value for key, value in options.items() if key not in ways} | ways).items():
            if value != usual[key] or key in said:
                words += words_for(key, value)
        return shlex.join(words)

    return command
