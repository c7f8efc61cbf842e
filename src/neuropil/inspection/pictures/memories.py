"""Memories: energies that fall, what is left of patterns as more are stored, and what is recalled after a while."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import MUTED, PALETTE, WIDTH, Array, Figure, numbers

MOST_LINES, MOST_POINTS = 50, 120
LINEAR = 0.1
"""Nats above the lowest energy, up to which the axis is linear."""
ENDS: dict[str, Any] = {"color": PALETTE[1], "markersize": 4, "alpha": 0.7, "markeredgewidth": 0, "clip_on": False}
BESIDE: dict[str, Any] = {"textcoords": "offset points", "color": MUTED, "fontsize": 8, "va": "center"}


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
def energies_above(panels: Mapping[str, Float[Array, "sweep start"]], lowest: float) -> Figure:
    """A panel for each way of updating and a line for each start, on an axis that is logarithmic above LINEAR: what
    reached the lowest energy ends on the line at zero."""
    from matplotlib.ticker import FuncFormatter

    figure = style.new_figure(WIDTH, 2.8)
    axes_of = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(axes_of, panels.items(), strict=True):
        above = np.maximum(numbers(values)[:, :MOST_LINES] - lowest, 0)
        sweeps = np.unique(np.linspace(0, len(above) - 1, MOST_POINTS).round().astype(int))
        axes.plot(sweeps, above[sweeps], color=PALETTE[0], alpha=0.4, linewidth=0.9)
        axes.plot(np.full(above.shape[1], sweeps[-1]), above[-1], "o", **ENDS)
        axes.set(title=name, xlabel="sweep over all units")
        style.show_whole_numbers(axes)
    axes_of[0].set_yscale("symlog", linthresh=LINEAR)
    axes_of[0].set_ylim(-LINEAR / 4, None)
    axes_of[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.power_of_ten(value)))
    axes_of[0].set_ylabel("energy above the lowest (nats)")
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


@style.house_style
def recall_over_distance(
    curves: Mapping[str, Sequence[tuple[int, float]]], *, chance: float, threshold: float, score: str
) -> Figure:
    """A line for each network, from distance to distance; below chance it is drawn at chance."""
    figure, axes = style.one_panel(2.8)
    for index, (name, points) in enumerate(curves.items()):
        distances, scores = zip(*points, strict=True)
        axes.plot(distances, np.maximum(scores, chance), marker="o", markersize=4, label=name, **style.line(index))
    for height, words in ((threshold, "solved"), (chance, "knowing nothing")):
        axes.axhline(height, color=MUTED, linewidth=0.9, linestyle=":")
        axes.annotate(words, (1, height), (4, 0), xycoords=("axes fraction", "data"), **BESIDE)
    shown = sorted({distance for points in curves.values() for distance, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [f"{distance}" for distance in shown])
    axes.minorticks_off()
    axes.set(xlabel="distance in steps", ylabel=score, ylim=(min(0.0, chance) - 0.03, 1.04))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    return figure
