"""Binary units with symmetric connections, updated one at a time by their energy gaps.

    E(x) = −½ x W xᵀ − b xᵀ             x_i ∈ {off, 1}: off is −1 in Hopfield networks, 0 in Boltzmann machines
    a_i = Σ_j x_j W_ji + b_i            the field of unit i, with W_ii = 0
    δE_i = E(x_i = 1) − E(x_i = off) = −(1 − off) a_i

    deterministic    x_i = 1 where δE_i ≤ 0, else off: a tie goes to 1, and E never rises
    stochastic       P(x_i = 1) = 1 / (1 + e^{δE_i / T}): every state is visited in proportion to e^{−E / T}

A unit that changes by d changes all fields by d W_i. So fields are computed once and kept up to date, and a unit that
stays as it is costs nothing. A field counts as a tie if it differs from zero by no more than rounding may."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Num, Shaped
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts.binary_units.bernoulli import random_start, uniform
from neuropil.parts.compilation import compiled
from neuropil.parts.threads.team import TeamMember, team_of

ROUNDINGS = 8
"""Of Σ_j |W_ij|, the largest that a field could be."""
FIELDS_IN_CACHE = 2**20
"""Bytes: a second-level cache."""
UNITS_FOR_THREADS = 2**16
"""With fewer units in all states together, threads take longer to start than to sweep."""


def fields(
    x: Float[Tensor, "*batch unit"], weight: Float[Tensor, "unit unit"], bias: Float[Tensor, " unit"]
) -> Float[Tensor, "*batch unit"]:
    # a = x W + b
    return torch.addmm(bias, x, weight) if x.ndim == 2 else x @ weight + bias


def pairwise_energy(
    x: Float[Tensor, "*batch unit"], weight: Float[Tensor, "unit unit"], bias: Float[Tensor, " unit"]
) -> Float[Tensor, "*batch"]:
    # E(x) = −½ x W xᵀ − b xᵀ
    return -0.5 * ((x @ weight) * x).sum(-1) - x @ bias


def tie_widths(weight: Float[Tensor, "unit unit"], bias: Float[Tensor, " unit"]) -> Float[Tensor, " unit"]:
    """How far from zero rounding may put the field of each unit."""
    return ROUNDINGS * torch.finfo(weight.dtype).eps * (weight.abs().sum(1) + bias.abs())


class UnitUpdates:
    """States of binary units, [batch unit], and sweeps over them. Weights are symmetric with a zero diagonal. Units
    where `clamped`, [unit] or [batch unit], is true stay as they are; a state of 0 where off is −1 stands for a unit
    that is not known yet."""

    def __init__(
        self,
        x: Float[Tensor, "..."],
        weight: Float[Tensor, "..."],
        bias: Float[Tensor, "..."],
        *,
        off: float,
        clamped: Shaped[Tensor, "..."] | None = None,
    ):
        _require_machine(x, weight, bias)
        x, weight, bias = (given.detach().to("cpu", weight.dtype).contiguous() for given in (x, weight, bias))
        self.states = x.clone()
        self._levels = np.array([off, 1], self.states.numpy().dtype)
        free = torch.ones_like(x, dtype=torch.bool) if clamped is None else ~mask_of(x, clamped)
        self._machine = weight.numpy(), tie_widths(weight, bias).numpy(), free.contiguous().numpy()
        self._fields = fields(x, weight, bias).numpy()
        self._at_once = max(1, FIELDS_IN_CACHE // max(1, x.shape[1] * x.element_size()))
        self._team = team_of(torch.get_num_threads() if x.numel() >= UNITS_FOR_THREADS else 1)
        self.settled = torch.zeros(len(x), dtype=torch.bool)
        """True where a deterministic sweep has changed nothing, so that no other will."""

    def sweep(self, order: Num[Tensor, "..."]) -> None:
        """Deterministic updates of all units in this order, one after the other. Each thread has states of its own."""
        weight, ties, free = self._machine
        of_states = self.states.numpy(), self._fields, free, self.settled.numpy()
        machine = weight, ties, self._levels, self._units(order), self._at_once

        def share(thread: TeamMember) -> None:
            gap_sweep(*(np.array_split(each, thread.members)[thread.member] for each in of_states), *machine)

        self._team.run(share)

    def stochastic_sweep(
        self, order: Num[Tensor, "..."], temperature: float, generator: torch.Generator | None = None
    ) -> None:
        weight, _, free = self._machine
        arrays = self.states.numpy(), self._fields, weight, free, self._levels
        stochastic_sweep(*arrays, self._units(order), float(temperature), random_start(generator), self._at_once)

    def _units(self, order: Num[Tensor, "..."]) -> Int64[np.ndarray, " update"]:
        """Compiled loops do not look where an array ends."""
        units = self.states.shape[1]
        if order.ndim != 1 or order.dtype != torch.int64:
            raise InputError("an order of updates must be a row of whole numbers", got=_described(order))
        if ((order < 0) | (order >= units)).any():
            rule = f"an order of updates must have units from 0 to {units - 1}"
            raise InputError(rule, got=f"{order.min()} to {order.max()}")
        return order.numpy(force=True)


def _require_machine(x: Tensor, weight: Tensor, bias: Tensor) -> None:
    if weight.dtype not in (torch.float, torch.double):
        raise InputError("weights of binary units must be in single or double precision", got=_described(weight))
    units = weight.shape[-1] if weight.ndim else 0
    if weight.shape != (units, units) or bias.shape != (units,) or x.ndim != 2 or x.shape[1] != units:
        rule = "binary units need states [batch, unit], weights [unit, unit] and biases [unit]"
        raise InputError(rule, got=f"{list(x.shape)}, {list(weight.shape)} and {list(bias.shape)}")


def mask_of(x: Float[Tensor, "batch unit"], clamped: Shaped[Tensor, "..."]) -> Bool[Tensor, "batch unit"]:
    """Which unit of which state is held, of a mask that may be the same for all states."""
    batch, units = x.shape
    if clamped.dtype != torch.bool or clamped.shape not in ((units,), (1, units), (batch, units)):
        rule = f"clamped units of states {[batch, units]} must be a mask of truth values {[units]} or {[batch, units]}"
        raise InputError(rule, got=_described(clamped))
    return clamped.to(x.device).expand(batch, units)


def _described(given: Tensor) -> str:
    return f"{list(given.shape)} of {str(given.dtype).removeprefix('torch.')}"


@compiled
def change(x, field, row, unit, level):
    """x_i = level, and a_j += (level − x_i) W_ij for all j."""
    difference = level - x[unit]
    x[unit] = level
    for other in range(len(field)):
        field[other] += difference * row[other]


@compiled
def gap_sweep(states, fields, free, settled, weight, ties, levels, order, at_once):
    """Unit by unit, and each unit in `at_once` states after each other: its weights are read from memory once."""
    changed = np.zeros(len(states), np.bool_)
    for begin in range(0, len(states), at_once):
        for unit in order:
            for index in range(begin, min(begin + at_once, len(states))):
                if settled[index]:
                    continue
                level = levels[1] if fields[index, unit] >= -ties[unit] else levels[0]
                if level != states[index, unit] and free[index, unit]:
                    change(states[index], fields[index], weight[unit], unit, level)
                    changed[index] = True
    for index in range(len(states)):
        settled[index] = not changed[index]


@compiled
def stochastic_sweep(states, fields, weight, free, levels, order, temperature, start, at_once):
    difference = levels[1] - levels[0]
    for begin in range(0, len(states), at_once):
        for place in range(len(order)):
            unit = order[place]
            for index in range(begin, min(begin + at_once, len(states))):
                probability = 1 / (1 + np.exp(-difference * fields[index, unit] / temperature))
                drawn = uniform(start, index * len(order) + place)
                level = levels[1] if drawn < probability else levels[0]
                if level != states[index, unit] and free[index, unit]:
                    change(states[index], fields[index], weight[unit], unit, level)
