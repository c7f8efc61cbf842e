"""What a report shows of a memory: patterns before and after recall, the energy, the capacity, spurious states."""

from collections.abc import Mapping, Sequence
from itertools import islice

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.inspection.pictures.memories import capacity_against_load, energies
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.models.hopfield.capacity import CRITICAL_LOAD, CapacityPoint, SettledStates, capacity, overlap_in_theory
from neuropil.models.hopfield.network import HopfieldNetwork
from neuropil.tasks.recall.predictor import PatternMemory

SHOWN, SWEEPS = 6, 8


def recall_section(
    memory: PatternMemory, patterns: Float[Tensor, "pattern unit"], shown: Mapping[str, tuple[Tensor, Tensor]]
) -> Section:
    """For each kind of damage, some patterns: stored, damaged, recalled."""
    blocks: list[Text | Gallery | Table] = []
    for name, (damaged, recalled) in shown.items():
        right = int((recalled == patterns).all(1).sum())
        blocks.append(Text(f"From {name}: {right} of {len(patterns)} come back to the last sign."))
        if memory.schema.kind == "image":
            rows = {"stored": patterns, "given": damaged, "recalled": recalled}
            made = {label: memory.pictures(states[:SHOWN]) for label, states in rows.items()}
            count = len(next(iter(made.values())))
            blocks.append(Gallery([Thumbnail(pixels(made[label][i]), label) for i in range(count) for label in made]))
    return Section("Recall", blocks)


def energy_section(
    network: HopfieldNetwork, damaged: Float[Tensor, "pattern unit"], generator: torch.Generator
) -> Section:
    """Of each state, before and after each sweep."""
    way = [damaged, *islice(network.trajectory(damaged, generator=generator), SWEEPS)]
    found = torch.stack([network.energy(states) for states in way], 1)
    rises = int((found.diff(dim=1) > 1e-4 * found.abs().amax()).any(1).sum())
    words = (
        f"The energy of each damaged pattern as it settles, one unit at a time; it rises in {rises} of {len(found)}."
    )
    return Section("Energy", [Text(words), Picture.of(energies(found), alt="energy against sweeps")])


def capacity_section(curve: Sequence[CapacityPoint]) -> Section:
    units, found = curve[0].units, capacity(curve)
    theory = [(point.load, value) for point in curve if (value := overlap_in_theory(point.load)) is not None]
    figure = capacity_against_load(
        [(point.load, point.mean_overlap) for point in curve], theory, CRITICAL_LOAD, f"{units} units"
    )
    measured = "does not fall below the critical overlap" if found is None else f"falls at {found:.3f} patterns a unit"
    words = (
        f"Random patterns, stored by Hebb's rule in a network of {units:,} units that is started at each of them: the "
        f"mean overlap that is left {measured}. Theory has {CRITICAL_LOAD:.3f} for very many units."
    )
    return Section("Capacity", [Text(words), Picture.of(figure, alt="overlap against load, with the line of theory")])


def settled_section(settled: SettledStates, patterns: int) -> Section:
    rows = [
        ["a stored pattern", settled.patterns],
        ["the negative of one", settled.negatives],
        ["a mixture of three", settled.mixtures],
        ["another spurious state", settled.others],
    ]
    words = (
        f"Where random states settle in the network of {patterns} patterns; {settled.distinct_spurious:,} different "
        "spurious states were met."
    )
    return Section("Spurious states", [Text(words), Table(["settled at", "starts"], rows)])
