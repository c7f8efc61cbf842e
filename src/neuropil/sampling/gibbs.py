"""Gibbs sampling: let a Boltzmann machine run freely, and it visits its states in proportion to e^{−E/T}.

    block Gibbs     h ~ q(h | v),  v ~ q(v | h)                         all units of a layer of an RBM at once
    single units    P(x_i = 1) = 1 / (1 + e^{δE_i / T})                 one at a time, for any symmetric connections

At T → 0 a unit does what lowers the energy, and the machine stops at the first minimum that it meets, as a Hopfield
network does. At a temperature that falls slowly it leaves such minima first (simulated annealing).

    particles = fantasy_particles(rbm, 64, generator=generator)
    pictures = rbm.decode(particles.mean)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.hopfield.network import HopfieldNetwork
from neuropil.models.rbm import RBM
from neuropil.parts.binary_units.energy_gaps import UnitUpdates, mask_of, pairwise_energy

STEPS = 1000


def annealing(start: float, end: float = 1.0, steps: int = STEPS) -> list[float]:
    """Temperatures that fall (or rise) by the same factor in every step; a single one is `end`."""
    require_temperatures((start, end))
    return [end * (start / end) ** (step / max(1, steps - 1)) for step in reversed(range(steps))]


def require_temperatures(temperatures: Sequence[float]) -> None:
    if not all(temperature > 0 for temperature in temperatures):
        rule, fix = "the temperature of stochastic units must be above 0", "lower it to 0.01 for units that hardly err"
        raise InputError(rule, got=f"{min(temperatures):g}", fix=fix)


# --- block Gibbs, around an RBM ---------------------------------------------------------------------------------------


class GibbsState(NamedTuple):
    """After a step. `mean` is E[v | h], of which `visible` is a sample: it makes the better picture."""

    visible: Float[Tensor, "chain visible"]
    hidden: Float[Tensor, "chain hidden"]
    mean: Float[Tensor, "chain visible"]


def gibbs_chain(
    model: RBM,
    v: Float[Tensor, "chain visible"],
    temperatures: Sequence[float],
    *,
    clamped: Shaped[Tensor, "..."] | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[GibbsState]:
    """Parallel chains from v, a step for each temperature. Visible units where `clamped`, [visible] or [chain visible],
    is true are held."""
    require_temperatures(temperatures)
    start, held = v, None if clamped is None else mask_of(v, clamped)
    for temperature in temperatures:
        with torch.no_grad():
            h = model.sample_hidden(v, temperature, generator)
            mean = model.visible_mean(h, temperature)
            v = model.sample_around(mean, temperature, generator)
            if held is not None:
                mean, v = torch.where(held, start, mean), torch.where(held, start, v)
        yield GibbsState(v, h, mean)


def fantasy_particles(
    model: RBM,
    count: int,
    temperatures: Sequence[float] = (1.0,) * STEPS,
    *,
    generator: torch.Generator | None = None,
) -> GibbsState:
    """What the model imagines: the ends of chains that begin at what the visible biases alone would do."""
    if count < 1 or not temperatures:
        got = f"{count} chains of {len(temperatures)} steps"
        raise InputError("fantasy particles need at least one chain of one step", got=got)
    with torch.no_grad():
        nothing = model.hidden_bias.new_zeros(count, model.config.hidden_size)
        start = model.sample_visible(nothing, temperatures[0], generator)
    *_, last = gibbs_chain(model, start, temperatures, generator=generator)
    return last


# --- single units, of any machine -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoltzmannMachine:
    """E(x) = −½ x W xᵀ − b xᵀ with W symmetric and without a diagonal; a unit is `off` or 1."""

    weight: Float[Tensor, "unit unit"]
    bias: Float[Tensor, " unit"]
    off: float = 0.0

    def __post_init__(self) -> None:
        """There is no energy otherwise, and units that were to lower it may never come to rest."""
        rule = "the weights of a Boltzmann machine must be symmetric with a zero diagonal"
        if self.weight.diagonal().any():
            largest = self.weight.diagonal().abs().max()
            raise InputError(rule, got=f"{largest:g} on the diagonal", fix="take weight.fill_diagonal_(0)")
        if not torch.equal(self.weight, self.weight.mT):
            largest = (self.weight - self.weight.mT).abs().max()
            raise InputError(rule, got=f"differences of up to {largest:g}", fix="take (weight + weight.mT) / 2")

    @classmethod
    def of_rbm(cls, model: RBM) -> Self:
        """Its units are (v, h)."""
        if model.gaussian:
            raise InputError("a Boltzmann machine has binary units", got="an RBM of Gaussian visible units")
        weight, (visible, hidden) = model.weight.detach(), model.weight.shape
        # −v W hᵀ = −½ x [0 W; Wᵀ 0] xᵀ
        above = torch.cat([weight.new_zeros(visible, visible), weight], 1)
        below = torch.cat([weight.mT, weight.new_zeros(hidden, hidden)], 1)
        return cls(torch.cat([above, below]), torch.cat([model.visible_bias, model.hidden_bias]).detach())

    @classmethod
    def of_hopfield(cls, network: HopfieldNetwork) -> Self:
        return cls(network.weight, network.bias, off=-1.0)

    def energy(self, x: Float[Tensor, "*batch unit"]) -> Float[Tensor, "*batch"]:
        return pairwise_energy(x, self.weight, self.bias)

    def random_states(self, count: int, generator: torch.Generator | None = None) -> Float[Tensor, "start unit"]:
        bits = torch.randint(0, 2, (count, len(self.bias)), generator=generator)
        return torch.where(bits == 1, 1.0, self.off).to(self.weight)


def stochastic_updates(
    machine: BoltzmannMachine,
    x: Float[Tensor, "start unit"],
    temperatures: Sequence[float],
    *,
    generator: torch.Generator | None = None,
) -> Iterator[Float[Tensor, "start unit"]]:
    """The states after each sweep over all units in random order, one for each temperature."""
    require_temperatures(temperatures)
    updates = UnitUpdates(x, machine.weight, machine.bias, off=machine.off)
    for temperature in temperatures:
        order = torch.randperm(len(machine.bias), generator=generator)
        updates.stochastic_sweep(order, temperature, generator)
        yield updates.states.clone()


def deterministic_updates(
    machine: BoltzmannMachine, x: Float[Tensor, "start unit"], *, generator: torch.Generator | None = None
) -> Iterator[Float[Tensor, "start unit"]]:
    """The states after each sweep over all units in random order, if units do what lowers the energy. In the last no
    single unit can lower it further."""
    updates = UnitUpdates(x, machine.weight, machine.bias, off=machine.off)
    while not updates.settled.all():
        updates.sweep(torch.randperm(len(machine.bias), generator=generator))
        yield updates.states.clone()


class EnergyPaths(NamedTuple):
    """Energies of the same starts before and after each sweep: by deterministic updates alone, and by annealed ones,
    which deterministic ones follow at the end. The last are those of minima."""

    deterministic: Float[Tensor, "sweep start"]
    stochastic: Float[Tensor, "longer start"]

    @property
    def lowest(self) -> float:
        return min(self.deterministic[-1].min().item(), self.stochastic[-1].min().item())

    def stuck(self, path: Float[Tensor, "any start"], tolerance: float = 1e-5) -> float:
        """The share of starts that stopped above the lowest energy of all."""
        return (path[-1] > self.lowest + tolerance * abs(self.lowest)).double().mean().item()


def compare_updates(
    machine: BoltzmannMachine,
    x: Float[Tensor, "start unit"],
    temperatures: Sequence[float],
    *,
    generator: torch.Generator | None = None,
) -> EnergyPaths:
    """Deterministic updates stop at the first minimum that they meet; stochastic ones at falling temperatures, from the
    same starts, mostly reach deeper ones. Each start has its own order of units: it decides which minimum is met."""
    paths = [_energy_paths(machine, start, temperatures, generator) for start in x.split(1)]
    return EnergyPaths(*(_side_by_side(each) for each in zip(*paths, strict=True)))


def _energy_paths(
    machine: BoltzmannMachine,
    x: Float[Tensor, "start unit"],
    temperatures: Sequence[float],
    generator: torch.Generator | None,
) -> EnergyPaths:
    falling = [x, *deterministic_updates(machine, x, generator=generator)]
    annealed = [x, *stochastic_updates(machine, x, temperatures, generator=generator)]
    annealed += deterministic_updates(machine, annealed[-1], generator=generator)
    return EnergyPaths(machine.energy(torch.stack(falling)), machine.energy(torch.stack(annealed)))


def _side_by_side(paths: Sequence[Float[Tensor, "_ start"]]) -> Float[Tensor, "longest all"]:
    """What has settled stays as it is."""
    longest = max(map(len, paths))
    return torch.cat([torch.cat([path, path[-1:].expand(longest - len(path), -1)]) for path in paths], 1)
