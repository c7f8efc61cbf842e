"""Why networks learn or do not: activations, the flow of gradients, and the construction behind universal approximation."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.gradients import GradientProfile, TimeProfile
from neuropil.inspection.pictures.style import (
    INK,
    MUTED,
    PALETTE,
    WIDTH,
    Array,
    house_style,
    label_outer,
    line,
    make_logarithmic,
    new_figure,
    numbers,
    short,
    spans_decades,
)

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


@house_style
def activation_curves(curves: Mapping[str, tuple[Array, Array, Array]]) -> "matplotlib.figure.Figure":
    """Each activation with its derivative, given as (x, y, dy/dx); all panels share their axes, so that slopes compare."""
    if not curves:
        raise InputError("a picture of activations needs at least one", got="none")
    columns = min(4, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure = new_figure(WIDTH, 1.75 * rows + 0.45)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (name, (x, y, dy)) in zip(panels.flat, curves.items(), strict=False):
        axes.axhline(0, color="#aab0ba", linewidth=0.8)
        axes.axvline(0, color="#aab0ba", linewidth=0.8)
        axes.plot(numbers(x), numbers(y), color=PALETTE[0], linewidth=1.8, label="activation")
        axes.plot(numbers(x), numbers(dy), color=PALETTE[1], linewidth=1.4, linestyle=(0, (4, 1.5)), label="derivative")
        axes.set_title(name)
    low, high = panels[0, 0].get_ylim()
    panels[0, 0].set_ylim(max(low, -1.8), min(high, 2.4))  # what goes on as a straight line needs no room
    label_outer(panels, len(curves))
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


@house_style
def gradient_flow(profiles: Mapping[str, GradientProfile], *, bound: float | None = None) -> "matplotlib.figure.Figure":
    """The gradient that reaches each layer, as a share of what the last layer receives; `bound` draws bound^distance from the output."""
    flows = {name: profile.flow() for name, profile in profiles.items()}
    deepest = max((len(flow) for flow in flows.values()), default=0)
    if deepest < 2:
        raise InputError("a picture of gradient flow needs a network of at least two layers", got=f"{deepest}")
    figure = new_figure(WIDTH, 3.3)
    axes = figure.add_subplot()
    for index, (name, flow) in enumerate(flows.items()):
        shares = np.array([norm for _, norm in flow]) / (flow[-1][1] or 1)
        shares[shares == 0] = np.nan
        axes.plot(
            np.arange(len(flow)) + deepest - len(flow) + 1, shares, marker="o", markersize=4, label=name, **line(index)
        )
    if bound is not None:
        distance = np.arange(deepest - 1, -1, -1)
        axes.plot(
            np.arange(1, deepest + 1),
            bound**distance,
            color=MUTED,
            linewidth=1,
            linestyle=":",
            label=f"{bound:g} per layer",
        )
    low, high = axes.dataLim.intervaly
    axes.set_ylim(min(low / 2, 0.1), max(high * 2, 10))  # at least two decades: what differs little should look so
    make_logarithmic(axes)
    _name_layers(axes, list(flows.values()), deepest)
    axes.set_ylabel("gradient norm relative to the last layer")
    axes.legend(loc="best")
    return figure


@house_style
def gradient_through_time(profiles: Mapping[str, TimeProfile]) -> "matplotlib.figure.Figure":
    """The gradient that reaches the input of each earlier step, as a share of the last step's."""
    figure = new_figure(WIDTH, 3.0)
    axes = figure.add_subplot()
    shares = {name: np.array(profile.norms) / (profile.norms[0] or 1) for name, profile in profiles.items()}
    for index, (name, share) in enumerate(shares.items()):
        axes.plot(np.where(share == 0, np.nan, share), label=name, **line(index))
    if any(spans_decades(share) for share in shares.values()):
        make_logarithmic(axes)
    axes.set(xlabel="steps back in time", ylabel="gradient norm relative to the last step")
    axes.invert_xaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")  # lines fan out over the whole panel
    return figure


@house_style
def approximation(
    x: Float[Array, " point"],
    target: Float[Array, " point"],
    approximated: Float[Array, " point"],
    pieces: Sequence[Float[Array, " point"]],
    errors_by_units: Mapping[int, float],
) -> "matplotlib.figure.Figure":
    """A function and the staircase of sigmoids that follows it, some of its pieces, and the error against the number of units."""
    figure = new_figure(WIDTH, 3.9)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.35, 1], height_ratios=[2, 1])
    function, parts, error = (
        figure.add_subplot(grid[0, 0]),
        figure.add_subplot(grid[1, 0]),
        figure.add_subplot(grid[:, 1]),
    )
    x = numbers(x)
    function.plot(x, numbers(target), color=INK, linewidth=1, label="function")
    function.plot(x, numbers(approximated), color=PALETTE[1], linewidth=1.5, label="network")
    function.set_title(f"largest error {np.abs(numbers(target) - numbers(approximated)).max():.2g}")
    function.legend(loc="best")
    function.tick_params(labelbottom=False)
    for index, piece in enumerate(pieces):
        parts.plot(x, numbers(piece), color=PALETTE[index % len(PALETTE)], linewidth=1.2)
    parts.set_title("some of the pieces")
    parts.sharex(function)
    parts.set_xlabel("x")
    _error_by_units(error, errors_by_units)
    return figure


def _error_by_units(axes: "matplotlib.axes.Axes", errors: Mapping[int, float]) -> None:
    units, heights = np.array(list(errors), dtype=float), np.array(list(errors.values()), dtype=float)
    axes.plot(units, heights, "o", color=PALETTE[0], markersize=5)
    axes.set(xlabel="units", ylabel="largest error")
    positive = heights > 0
    if positive.sum() >= 2:
        slope, offset = np.polyfit(np.log(units[positive]), np.log(heights[positive]), 1)
        axes.plot(units, np.exp(offset) * units**slope, color=PALETTE[0], linewidth=1, linestyle="--")
        axes.set_title(f"slope {slope:.2f}".replace("-", "−"))
        make_logarithmic(axes, "x")
        make_logarithmic(axes)


def _name_layers(axes: "matplotlib.axes.Axes", flows: list[list[tuple[str, float]]], deepest: int) -> None:
    """By name where all networks have the same layers and there is room, else by number."""
    names = [[name for name, _ in flow] for flow in flows]
    if all(layers == names[0] for layers in names) and deepest <= 24:
        shown = [short(name, 22) for name in names[0]]
        crowded = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, shown)) > 70 else {}
        axes.set_xticks(range(1, deepest + 1), shown, **crowded)
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("layer, from the input to the output")
