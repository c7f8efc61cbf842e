"""Hopfield network: a memory that is read by falling downhill.

    E(x) = −½ x W xᵀ − b xᵀ                x_i ∈ {−1, +1},  W symmetric with a zero diagonal

    asynchronous     x_i = +1 where (x W + b)_i ≥ 0, else −1, one unit after the other: E never rises, and it settles
    synchronous      the same for all units at once: it settles, or goes to and fro between two states
    continuous       τ dx/dt = −∇E = x W + b, within −1 ≤ x_i ≤ 1

Patterns that were learned (see `rules`) are, or are close to, minima of E. So a network that is started at a part of
one, or at a noisy one, settles at the whole. Up to about 0.138 N random patterns fit into N units (see `capacity`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, Self, TypeAlias

import torch
from jaxtyping import Bool, Float, Int64, Num, Shaped
from torch import Tensor

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.hopfield.rules import RULES, RuleName
from neuropil.parts.binary_units.energy_gaps import UnitUpdates, fields, mask_of, pairwise_energy, tie_widths
from neuropil.parts.parameters import Model

States: TypeAlias = Float[Tensor, "batch unit"]
Dynamics = Literal["asynchronous", "synchronous", "continuous"]

MOST_STEPS = 1000
"""Sweeps or steps after which a state is given up; random patterns settle within twenty sweeps."""
TINY = 1e-30
"""A network without weights is at rest."""


class HopfieldNetworkConfig(Config):
    rule: RuleName = option("hebb", "learning rule")
    bias: bool = option(False, "learn a bias as well: the mean of the patterns")
    units: int = from_data(64, "units, one for each sign of a pattern")


@dataclass(frozen=True)
class Recall:
    """Where each state settled: `period` is 1 at a fixed point, 2 in a cycle between two states, of which `states` has
    one, and 0 where `steps`, the number of sweeps or steps, was not enough."""

    states: States
    period: Int64[Tensor, " batch"]
    steps: int

    @property
    def cycles(self) -> Bool[Tensor, " batch"]:
        return self.period == 2


class HopfieldNetwork(Model):
    weight: Tensor
    bias: Tensor

    def __init__(self, config: HopfieldNetworkConfig):
        super().__init__()
        self.config = config
        self.register_buffer("weight", torch.zeros(config.units, config.units))
        self.register_buffer("bias", torch.zeros(config.units))

    @torch.no_grad()
    def fit(self, patterns: Num[Tensor, "..."]) -> Self:
        """Learn these patterns, [pattern unit], by the rule, in place of those before."""
        self._require_states(patterns, "fit stores patterns of -1 and +1", unknown=False)
        if len(patterns) == 0:
            raise InputError("HopfieldNetwork.fit needs at least one pattern", got="none")
        patterns = patterns.to(self.weight)
        self.weight.copy_(RULES[self.config.rule](patterns))
        # τ db/dt = Σ_s x⁽ˢ⁾ / M
        self.bias.copy_(patterns.mean(0) if self.config.bias else torch.zeros_like(self.bias))
        return self

    def energy(self, x: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch"]:
        return pairwise_energy(x, self.weight, self.bias)

    def forward(self, x: Num[Tensor, "..."]) -> States:
        """What is recalled, asynchronously."""
        return self.recall(x).states

    # --- dynamics -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def recall(
        self,
        x: Num[Tensor, "..."],
        dynamics: Dynamics = "asynchronous",
        *,
        clamped: Shaped[Tensor, "..."] | None = None,
        generator: torch.Generator | None = None,
        most_steps: int = MOST_STEPS,
    ) -> Recall:
        """Where states [batch unit] settle. Units that are not known are 0; those where `clamped`, [unit] or
        [batch unit], is true are held. The order of asynchronous updates is random, from `generator`."""
        before = x = self._states(x)
        if dynamics == "asynchronous":
            return self._settle(
                UnitUpdates(x, self.weight, self.bias, off=-1.0, clamped=clamped), generator, most_steps
            )
        period, steps = torch.zeros(len(x), dtype=torch.int64, device=x.device), 0
        for after in islice(self.trajectory(x, dynamics, clamped=clamped), most_steps):
            steps += 1
            period[(after == before).all(1) & (period == 0)] = 2
            period[(after == x).all(1)] = 1
            before, x = x, after
            if period.all():
                break
        return Recall(signs(x), period, steps)

    def _settle(self, updates: UnitUpdates, generator: torch.Generator | None, most_steps: int) -> Recall:
        """E falls with every change, so that no state comes back."""
        steps = 0
        while steps < most_steps and not updates.settled.all():
            updates.sweep(torch.randperm(self.config.units, generator=generator))
            steps += 1
        device = self.weight.device
        return Recall(signs(updates.states).to(device), updates.settled.long().to(device), steps)

    def trajectory(
        self,
        x: Num[Tensor, "..."],
        dynamics: Dynamics = "asynchronous",
        *,
        clamped: Shaped[Tensor, "..."] | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[States]:
        """The states after each sweep over all units, or after each step, without end."""
        x = self._states(x)
        if dynamics == "asynchronous":
            return self._sweeps(x, clamped, generator)
        return self._steps(x, self._synchronous() if dynamics == "synchronous" else self._continuous(), clamped)

    @torch.no_grad()
    def flips(
        self,
        x: Num[Tensor, " unit"],
        *,
        clamped: Shaped[Tensor, " unit"] | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[Float[Tensor, " unit"]]:
        """One state after each change of a unit in asynchronous recall, until a whole sweep changes nothing: the steps
        of `recall`, to be watched."""
        state = self._states(x[None])
        held = torch.zeros_like(state, dtype=torch.bool) if clamped is None else mask_of(state, clamped)
        field, ties = fields(state, self.weight, self.bias)[0], tie_widths(self.weight, self.bias)
        x, settled = state[0].clone(), False
        while not settled:
            settled = True
            for unit in torch.randperm(self.config.units, generator=generator).tolist():
                level = 1.0 if field[unit] >= -ties[unit] else -1.0
                if level != x[unit] and not held[0, unit]:
                    field = field + (level - x[unit]) * self.weight[unit]
                    x[unit], settled = level, False
                    yield x.clone()

    def _sweeps(self, x: States, clamped: Tensor | None, generator: torch.Generator | None) -> Iterator[States]:
        updates = UnitUpdates(x, self.weight, self.bias, off=-1.0, clamped=clamped)
        while True:
            updates.sweep(torch.randperm(self.config.units, generator=generator))
            yield updates.states.to(x.device, copy=True)

    def _steps(self, x: States, step: Callable[[States], States], clamped: Tensor | None) -> Iterator[States]:
        start, held = x, None if clamped is None else mask_of(x, clamped)
        while True:
            x = step(x) if held is None else torch.where(held, start, step(x))
            yield x

    def _synchronous(self) -> Callable[[States], States]:
        ties = tie_widths(self.weight, self.bias)
        return lambda x: torch.where(fields(x, self.weight, self.bias) >= -ties, 1.0, -1.0).to(x)

    def _continuous(self) -> Callable[[States], States]:
        # Σ_j |W_ij| is nowhere below ‖W‖, and steps of up to τ / ‖W‖ never raise E.
        dt = 1 / (self.weight.abs().sum(1).amax() + TINY)
        # τ dx/dt = x W + b
        return lambda x: (x + dt * fields(x, self.weight, self.bias)).clamp(-1, 1)

    def _states(self, x: Tensor) -> States:
        self._require_states(x, "recall takes states of -1 and +1, with 0 for what is not known", unknown=True)
        return x.to(self.weight)

    def _require_states(self, x: Tensor, rule: str, *, unknown: bool) -> None:
        if x.ndim != 2 or x.shape[1] != self.config.units:
            units = self.config.units
            raise InputError(f"a network of {units} units needs states [batch, {units}]", got=f"{list(x.shape)}")
        if not ((x.abs() == 1) | ((x == 0) & unknown)).all():
            fix = "map your pixels first, for instance patterns = 2 * (images > 0.5) - 1"
            raise InputError(f"HopfieldNetwork.{rule}", got=f"values from {x.min():g} to {x.max():g}", fix=fix)


def signs(x: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch unit"]:
    """A field or a state of zero goes to 1."""
    return torch.where(x >= 0, 1.0, -1.0).to(x)


SIZES = {"base": HopfieldNetworkConfig()}
