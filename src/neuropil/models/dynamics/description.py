"""Description of a network of populations: inputs, connections and their learning rule; nothing is computed here.

s = h * (T f(x))        a connection carries a function f of its source's value x, transformed by T, through a synapse h
s = h * (τ T f(x))      and with `change`, T f(x) is what it adds to the target's value in a second
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.models.population import Array, Function, Population, SignalSlice, select, values_of
from neuropil.parts.synapses import Synapse

Numbers: TypeAlias = float | Sequence[Any] | Array


class Input:
    """A value over time: a number or vector that stays, an array with a row for every step, or a function of the time
    in ms, which is asked once for every step before the simulation begins."""

    def __init__(self, value: Any):
        self.value = value
        example = np.asarray(value(0.0) if callable(value) else value, dtype=float)
        if example.ndim > (1 if callable(value) else 2) or example.size == 0:
            rule = "an input must be a number, a vector, an array [step, dimension] or a function of time"
            raise InputError(rule, got=f"an array with {example.ndim} axes" if example.size else "nothing")
        self.dimensions = example.shape[-1] if example.ndim else 1

    def over(self, times: Float[Array, " step"]) -> Float[Array, "step dimension"]:
        rows = self._asked(times) if callable(self.value) else np.atleast_1d(np.asarray(self.value, dtype=float))
        if rows.ndim == 2 and len(rows) != len(times):
            got = f"{len(rows):,}"
            raise InputError(f"an input that changes must have a row for each of the {len(times):,} steps", got=got)
        if not np.isfinite(rows).all():
            raise InputError("an input must be finite", got="infinity or nan")
        return np.broadcast_to(rows, (len(times), self.dimensions))

    def __getitem__(self, index: int | slice | list[int]) -> SignalSlice:
        return SignalSlice(self, select(index, self.dimensions))

    def _asked(self, times: Float[Array, " step"]) -> Float[Array, "step dimension"]:
        values = [self.value(t) for t in times.tolist()]
        try:
            return np.array(values, dtype=float).reshape(len(times), self.dimensions)
        except ValueError:
            sizes = zip(times, map(np.size, values), strict=True)
            odd = [f"{size} at {t:g} ms" for t, size in sizes if size != self.dimensions]
            got = (odd or ["text"])[0]
            raise InputError(f"an input must have {self.dimensions} numbers at all times", got=got) from None


@dataclass(frozen=True)
class PES:
    """`rate` is κ, per second; the activities that it learns from are smoothed with `tau` (ms)."""

    rate: float = 1e-4
    tau: float = 5.0

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise InputError("a learning rate must be a number of 0 or more", got=f"{self.rate:g}")
        Synapse(self.tau)


@dataclass(frozen=True, eq=False)
class PopulationConnection:
    """What `Network.connect` and `Network.probe` describe; nothing is computed before a simulation."""

    source: SignalSlice
    target: "SignalSlice | None"
    """None for a probe, which is only looked at."""
    function: Function | None
    transform: Float[Array, "target output"]
    tau: float | None
    change: bool = False
    learning: PES | None = None
    start: Float[Array, " target"] | None = None
    """What it carries when time begins; nothing without it."""

    @property
    def size(self) -> int:
        return len(self.transform)

    def carried(self, points: Float[Array, "point dimension"], dt: float) -> Float[Array, "point target"]:
        """What should arrive when the source has these values."""
        values = values_of(self.function, points[:, self.source.indices]) @ self.transform.T
        # over a step x becomes e^{−dt/τ} x + (1 − e^{−dt/τ}) τ' f(x): Euler's x + dt f(x), if τ' = dt / (1 −
        # e^{−dt/τ}), which is about τ
        return values * (dt / -math.expm1(-dt / self.tau) / 1000) if self.change and self.tau else values


Source: TypeAlias = Population | Input | SignalSlice
Target: TypeAlias = Population | PopulationConnection | SignalSlice


def part_of(source: Source) -> SignalSlice:
    return source if isinstance(source, SignalSlice) else SignalSlice(source, list(range(source.dimensions)))


def target_of(target: Target) -> SignalSlice:
    """A population, some dimensions of it, or the error of a connection that learns."""
    if isinstance(target, PopulationConnection):
        if target.learning is None:
            fix = "connect it with learning=PES()"
            raise InputError("an error must go to a connection that learns", got="one that does not", fix=fix)
        return SignalSlice(target, list(range(target.size)))
    part = part_of(target)
    if not isinstance(part.whole, Population):
        raise InputError("a target must be a population", got="an input")
    return part


def output_size(function: Function | None, source: SignalSlice) -> int:
    """Of what the function makes of the source."""
    whole = source.whole
    if isinstance(whole, Population):
        example = whole.points[:1]
    else:
        example = whole.over(np.zeros(1)) if callable(whole.value) else np.zeros((1, whole.dimensions))
    return values_of(function, example[:, source.indices]).shape[1]


def transform_matrix(transform: Numbers | None, size: int, wanted: int) -> Float[Array, "target output"]:
    given = np.asarray(1.0 if transform is None else transform, dtype=float)
    matrix = given * np.eye(size) if given.ndim == 0 else np.atleast_2d(given)
    if matrix.shape != (wanted, size):
        got = "no transform" if transform is None else f"a transform of shape {list(given.shape)}"
        fix = f"give a function with {wanted} values or a transform of shape [{wanted}, {size}]"
        raise InputError(f"a connection must bring {wanted} numbers to its target, from {size}", got=got, fix=fix)
    return matrix


def start_values(given: Numbers | None, source: SignalSlice, size: int) -> Float[Array, " target"] | None:
    if given is None:
        return None
    if isinstance(source.whole, Input):
        raise InputError("only what leaves a population has a start", got="a start for an input")
    start = np.atleast_1d(np.asarray(given, dtype=float))
    if start.shape != (size,) or not np.isfinite(start).all():
        raise InputError(f"start must hold {size} finite numbers", got=f"{given}")
    return start


def require_source(source: SignalSlice, tau: float | None, change: bool, learning: PES | None) -> None:
    is_input = isinstance(source.whole, Input)
    if tau is None and change:
        raise InputError("what changes a value must pass a synapse", got="tau=None", fix="give a tau above 0 ms")
    if tau is not None:
        Synapse(tau)
    if learning is not None and is_input:
        raise InputError("only a population has decoders that can learn", got="an input as the source")
