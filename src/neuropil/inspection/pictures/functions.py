"""Curves of functions: activations, losses and their gradients, softmax temperatures, universal approximation."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, minus, numbers

Points: TypeAlias = Float[Array, " point"]


@style.house_style
def activation_curves(curves: Mapping[str, tuple[Array, Array, Array]]) -> Figure:
    """Each activation with its derivative, given as (x, y, dy/dx); all panels share their axes."""
    style.require_some(curves, "a picture of activations needs at least one")
    rows, columns = style.rows_of(len(curves), 4)
    figure = style.new_figure(WIDTH, 1.75 * rows + 0.45)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (name, (x, y, dy)) in zip(panels.flat, curves.items(), strict=False):
        style.draw_axes_at_zero(axes)
        axes.plot(numbers(x), numbers(y), color=PALETTE[0], linewidth=1.8, label="activation")
        axes.plot(numbers(x), numbers(dy), color=PALETTE[1], linewidth=1.4, linestyle=(0, (4, 1.5)), label="derivative")
        axes.set_title(name)
    low, high = panels[0, 0].get_ylim()
    panels[0, 0].set_ylim(max(low, -1.8), min(high, 2.4))  # what goes on as a straight line needs no room
    style.label_outer(panels, len(curves))
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


@style.house_style
def loss_curves(curves: Mapping[str, tuple[Array, Array, Array]]) -> Figure:
    """Losses against the logit, given as (z, loss, gradient): the loss on the left, its gradient on the right."""
    style.require_some(curves, "a picture of losses needs at least one")
    figure = style.new_figure(WIDTH, 3.2)
    losses, gradients = figure.subplots(1, 2)
    for axes, title in ((losses, "loss"), (gradients, "its gradient by z")):
        style.draw_axes_at_zero(axes)
        axes.set(xlabel="logit z", title=title)
    for index, (name, (z, loss, gradient)) in enumerate(curves.items()):
        losses.plot(numbers(z), numbers(loss), label=name, **style.line(index))
        gradients.plot(numbers(z), numbers(gradient), **style.line(index))
    figure.legend(*losses.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


@style.house_style
def softmax_bars(units: Sequence[str], outputs: Mapping[str, Float[Array, " unit"]]) -> Figure:
    """The outputs of one layer under each of several functions of the whole layer, as bars that share one scale."""
    style.require_some(outputs, "a picture of softmax needs at least one function")
    figure = style.new_figure(WIDTH, 2.1)
    panels = figure.subplots(1, len(outputs), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(panels, outputs.items(), strict=True):
        bars = axes.bar(range(len(units)), numbers(values), color=PALETTE[0], width=0.72)
        axes.bar_label(bars, fmt="%.2f", fontsize=7.5, color=MUTED, padding=1)
        axes.set_xticks(range(len(units)), list(units))
        axes.set_title(name)
        axes.grid(visible=False, axis="x")
    panels[0].set_ylim(0, 1.12)
    return figure


@style.house_style
def approximation(
    x: Points, target: Points, approximated: Points, pieces: Sequence[Points], errors_by_units: Mapping[int, float]
) -> Figure:
    """A function and its approximation by sigmoids, some of the pieces, and the error against the number of units."""
    figure = style.new_figure(WIDTH, 3.9)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.35, 1], height_ratios=[2, 1])
    function, parts, error = (figure.add_subplot(part) for part in (grid[0, 0], grid[1, 0], grid[:, 1]))
    x = numbers(x)
    function.plot(x, numbers(target), color=INK, linewidth=1, label="function")
    function.plot(x, numbers(approximated), color=PALETTE[1], linewidth=1.5, label="network")
    function.set_title(f"largest error {np.abs(numbers(target) - numbers(approximated)).max():.2g}")
    function.legend(loc="best")
    function.tick_params(labelbottom=False)
    for index, piece in enumerate(pieces):
        parts.plot(x, numbers(piece), color=PALETTE[index % len(PALETTE)], linewidth=1.2)
    parts.set(title="some of the pieces", xlabel="x")
    parts.sharex(function)
    _error_by_units(error, errors_by_units)
    return figure


@style.house_style
def approximation_of_two(
    target: Float[Array, "row column"],
    approximated: Float[Array, "row column"],
    errors: Mapping[str, Mapping[int, tuple[float, float]]],
) -> Figure:
    """A function on [0, 1]², its approximation and their difference; below, error and bound against the number of units
    for each number of variables."""
    figure = style.new_figure(WIDTH, 5.4)
    grid = figure.add_gridspec(2, 3, height_ratios=[1, 1.25])
    values, network = numbers(target), numbers(approximated)
    limits = {"vmin": min(values.min(), network.min()), "vmax": max(values.max(), network.max())}
    off = float(np.abs(network - values).max()) or 1.0
    shown = (
        ("function", values, {"cmap": "viridis", **limits}),
        ("network", network, {"cmap": "viridis", **limits}),
        (f"difference, at most {off:.2g}", network - values, {"cmap": "RdBu_r", "vmin": -off, "vmax": off}),
    )
    for place, (title, heights, colours) in enumerate(shown):
        axes = figure.add_subplot(grid[0, place])
        image = style.draw_matrix(axes, heights, origin="lower", extent=(0, 1, 0, 1), **colours)
        axes.set(title=title, xlabel="x", ylabel="y" if place == 0 else "", xticks=(0, 1), yticks=(0, 1))
        style.draw_colour_bar(figure, image, axes, shrink=0.8)
    error = figure.add_subplot(grid[1, :])
    for index, (name, by_units) in enumerate(errors.items()):
        points = np.array([(units, *both) for units, both in by_units.items()], dtype=float)
        colour = PALETTE[index]
        error.plot(points[:, 0], points[:, 1], "o-", color=colour, markersize=4, label=name)
        error.plot(points[:, 0], points[:, 2], color=colour, linewidth=1, linestyle=":", label=f"{name}, bound")
    error.set(xlabel="units", ylabel="largest error")
    style.make_logarithmic(error, "x")
    style.make_logarithmic(error)
    figure.legend(*error.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _error_by_units(axes: Axes, errors: Mapping[int, float]) -> None:
    units, heights = np.array(list(errors), dtype=float), np.array(list(errors.values()), dtype=float)
    axes.plot(units, heights, "o", color=PALETTE[0], markersize=5)
    axes.set(xlabel="units", ylabel="largest error")
    positive = heights > 0
    if positive.sum() >= 2:
        slope, offset = np.polyfit(np.log(units[positive]), np.log(heights[positive]), 1)
        axes.plot(units, np.exp(offset) * units**slope, color=PALETTE[0], linewidth=1, linestyle="--")
        axes.set_title(minus(f"slope {slope:.2f}"))
        style.make_logarithmic(axes, "x")
        style.make_logarithmic(axes)
