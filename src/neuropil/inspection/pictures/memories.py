"""Memories: energies that fall, and what is left of patterns as more are stored."""

from collections.abc import Sequence

from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import MUTED, PALETTE, Array, Figure, numbers


@style.house_style
def energies(values: Float[Array, "pattern sweep"]) -> Figure:
    """A line for each pattern."""
    figure, axes = style.one_panel(2.4)
    for row in numbers(values):
        axes.plot(range(len(row)), row, color=PALETTE[0], alpha=0.5, marker="o", markersize=2.5)
    axes.set(xlabel="sweep over all units", ylabel="energy")
    style.show_whole_numbers(axes)
    return figure


@style.house_style
def capacity_against_load(
    measured: Sequence[tuple[float, float]], theory: Sequence[tuple[float, float]], critical: float, label: str
) -> Figure:
    """The overlap that is left against patterns for each unit, measured and in theory."""
    figure, axes = style.one_panel(2.8)
    axes.plot(*zip(*measured, strict=True), color=PALETTE[0], marker="o", markersize=3.5, label=label)
    if theory:
        axes.plot(*zip(*theory, strict=True), color=PALETTE[1], linestyle="--", label="theory, very many units")
    axes.axvline(critical, color=MUTED, linewidth=0.9, linestyle=":")
    axes.annotate(f"{critical:.3f}", (critical, 0), (4, 4), textcoords="offset points", color=MUTED, fontsize=8)
    axes.set(xlabel="patterns / units", ylabel="mean overlap", ylim=(0, 1.05))
    axes.legend(loc="lower left")
    return figure
