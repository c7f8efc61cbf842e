"""Kernel smoothing and Gaussian processes: curves, the weights behind them, functions sampled from a process."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, minus, numbers, short

Places: TypeAlias = Float[Array, " place"]
Samples: TypeAlias = Float[Array, "sample place"]
Queries: TypeAlias = Float[Array, " query"]
Keys: TypeAlias = Float[Array, " key"]

MOST_MARKERS = 130
"""Of the points in one panel: more would hide each other, and make a drawing of megabytes."""
BAND = 1.96
"""Standard deviations on either side that hold 95 % of a normal distribution."""


class Points(NamedTuple):
    x: Float[Array, " point"]
    y: Float[Array, " point"]


class Curve(NamedTuple):
    """`deviation` is the standard deviation around the mean, where there is one."""

    mean: Places
    deviation: Places | None = None


@style.house_style
def smoothers(
    x: Places, curves: Mapping[str, Curve], known: Points, held_out: Points, *, xlabel: str = "x", ylabel: str = "y"
) -> Figure:
    """Curves through the same points, a panel each under its name; a deviation is drawn as the band that holds 95 %."""
    style.require_some(curves, "a picture of smoothers needs at least one curve")
    rows, columns = style.rows_of(len(curves), 2)
    figure = style.new_figure(WIDTH, 2.15 * rows + 0.5)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for index, (axes, (name, curve)) in enumerate(zip(panels.flat, curves.items(), strict=False)):
        _scatter(axes, held_out, color="#c3c8d0", markersize=2.2, label="held out")
        _scatter(axes, known, color=INK, markersize=2.6, label="known")
        colour = PALETTE[index % len(PALETTE)]
        if curve.deviation is not None:
            _band(axes, x, curve, colour)
        axes.plot(numbers(x), numbers(curve.mean), color=colour, linewidth=1.5)
        axes.set_title(name)
    _frame(panels[0, 0], known, held_out)
    style.label_outer(panels, len(curves), xlabel=short(xlabel, 40), ylabel=short(ylabel, 24))
    figure.legend(*style.legend_entries(panels.flat[: len(curves)]), loc="outside upper right", ncols=3)
    return figure


@style.house_style
def weight_matrices(weights: Mapping[str, Float[Array, "query key"]], x_query: Queries, x_key: Keys) -> Figure:
    """The weight of each key (column) for each query (row), blue; where there are negative ones they are red.

    Each matrix has a scale of its own. Queries and keys should be in the order of x, which the axes are labelled with.
    """
    style.require_some(weights, "a picture of weights needs at least one matrix")
    figure = style.new_figure(WIDTH, 0.32 + WIDTH / max(len(weights), 2))
    panels = figure.subplots(1, len(weights), squeeze=False)[0]
    for axes, (name, matrix) in zip(panels, weights.items(), strict=True):
        values = numbers(matrix)
        # The few largest weights would leave the rest white.
        limit = float(np.quantile(np.abs(values), 0.998)) or 1.0
        signed = bool(values.min() < -1e-3 * limit)
        low, colours = (-limit, "RdBu") if signed else (0.0, "Blues")
        image = style.draw_matrix(axes, values, cmap=colours, vmin=low, vmax=limit, aspect="auto")
        flat = {"orientation": "horizontal", "fraction": 0.05, "pad": 0.03, "aspect": 30}
        bar = style.draw_colour_bar(figure, image, axes, **flat)
        bar.set_ticks([low, 0, limit] if signed else [0, limit])
        bar.ax.set_xticklabels([minus(f"{tick:.2g}") for tick in bar.get_ticks()])
        axes.set_title(name)
        _name_places(axes, numbers(x_query), numbers(x_key))
    panels[0].set_ylabel("query: x asked for")
    return figure


@style.house_style
def weight_profiles(x: Keys, weights: Mapping[str, Keys], at: float) -> Figure:
    """The weights of one query at x = `at` over the points near enough to have one; negative ones are red."""
    style.require_some(weights, "a picture of weights needs at least one query's")
    shown = _near(numbers(x), [numbers(values) for values in weights.values()], at)
    places = numbers(x)[shown]
    figure = style.new_figure(WIDTH, 2.3)
    panels = figure.subplots(1, len(weights), sharex=True, squeeze=False)[0]
    for axes, (name, values) in zip(panels, weights.items(), strict=True):
        height = numbers(values)[shown]
        axes.axhline(0, color=style.AXIS, linewidth=0.8)
        axes.axvline(at, color=MUTED, linewidth=0.8, linestyle=":")
        axes.vlines(places, 0, height, color=np.where(height < 0, "#b3202e", PALETTE[0]).tolist(), linewidth=1.4)
        axes.plot(places, height, "o", color=INK, markersize=2)
        axes.set_title(minus(f"{name}: sum {numbers(values).sum():.2f}"))
        axes.set_xlabel("x of the points")
    panels[0].set_ylabel(f"weight at x = {at:.4g}")
    return figure


@style.house_style
def process_samples(
    x: Places, processes: Mapping[str, tuple[Curve, Samples]], known: Points, *, xlabel: str = "x", ylabel: str = "y"
) -> Figure:
    """Functions sampled from each process, over its mean and band of 95 %; points in all but the first, the prior."""
    style.require_some(processes, "a picture of samples needs at least one process")
    figure = style.new_figure(WIDTH, 2.75)
    panels = figure.subplots(1, len(processes), sharex=True, sharey=True, squeeze=False)
    for axes, (name, (curve, samples)) in zip(panels[0], processes.items(), strict=True):
        _band(axes, x, curve, MUTED)
        for index, sample in enumerate(numbers(samples)):
            axes.plot(numbers(x), sample, color=PALETTE[index % len(PALETTE)], linewidth=0.9)
        axes.plot(numbers(x), numbers(curve.mean), color=INK, linewidth=1.2, linestyle="--")
        axes.set_title(name)
    for axes in panels[0, 1:]:
        _scatter(axes, known, color=INK, markersize=2.2)
    style.label_outer(panels, len(processes), xlabel=short(xlabel, 40), ylabel=short(ylabel, 24))
    return figure


def _scatter(axes: Axes, points: Points, **marker: Any) -> None:
    x, y = numbers(points.x), numbers(points.y)
    order = np.argsort(x, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_MARKERS)).round().astype(int))]
    axes.plot(x[chosen], y[chosen], "o", markeredgewidth=0, **marker)


def _band(axes: Axes, x: Array, curve: Curve, colour: str) -> None:
    mean, reach = numbers(curve.mean), BAND * numbers(curve.deviation if curve.deviation is not None else [])
    axes.fill_between(numbers(x), mean - reach, mean + reach, color=colour, alpha=0.2, linewidth=0, label="holds 95 %")


def _frame(axes: Axes, known: Points, held_out: Points) -> None:
    """As high as the points reach: a band that flares out between them is cut."""
    heights = np.concatenate([numbers(known.y), numbers(held_out.y)])
    room = 0.15 * (np.ptp(heights) or 1.0)
    axes.set_ylim(heights.min() - room, heights.max() + room)


def _name_places(axes: Axes, x_query: np.ndarray, x_key: np.ndarray) -> None:
    """Rows and columns stand for places on x, which need not be even: some of them are named."""
    for places, name in ((x_query, axes.set_yticks), (x_key, axes.set_xticks)):
        ticks = np.linspace(0, len(places) - 1, min(4, len(places))).round().astype(int)
        name(ticks, [minus(f"{places[tick]:.3g}") for tick in ticks])
    axes.tick_params(length=0)
    axes.set_xlabel("key: x of a point")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()


def _near(x: np.ndarray, weights: list[np.ndarray], at: float) -> Bool[np.ndarray, " key"]:
    """The points in the smallest interval around `at` with every weight above 1 % of the largest of its kind."""
    matters = np.any([np.abs(values) >= 0.01 * np.abs(values).max() for values in weights], axis=0)
    distance = np.abs(x - at)
    near = distance <= distance[matters].max()
    last = min(len(x), MOST_MARKERS) - 1  # of very many points the nearest are enough to see the shape
    return near & (distance <= np.partition(distance, last)[last])
