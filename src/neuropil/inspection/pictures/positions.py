"""Position encodings, and how similar two positions are."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from einops import rearrange
from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import AXIS, PALETTE, WIDTH, Array, Figure, numbers

Encodings: TypeAlias = Float[Array, "position width"]
SIGNED = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1}


@style.house_style
def position_encodings(encodings: Encodings) -> Figure:
    """A row for each position, sines apart from cosines: side by side they would be stripes."""
    values = numbers(encodings)
    num_positions = len(values)
    figure = style.new_figure(WIDTH, 0.09 * min(num_positions, 40) + 1.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, first, name in zip(panels, (0, 1), ("sines", "cosines"), strict=True):
        part = values[:, first::2]
        extent = (first - 1, first + 2 * part.shape[1] - 1, num_positions - 0.5, -0.5)
        style.draw_matrix(axes, part, aspect="auto", extent=extent, **SIGNED)
        title = f"{name}: dimensions {first}, {first + 2} … {first + 2 * (part.shape[1] - 1)}"
        axes.set(title=title, xlabel="dimension")
    panels[0].set_ylabel("position")
    style.draw_colour_bar(figure, panels[0].images[0], list(panels), ticks=[-1, 0, 1], pad=0.015, fraction=0.03)
    return figure


@style.house_style
def position_similarity(encodings: Encodings, by_distance: Mapping[str, Float[Array, " distance"]]) -> Figure:
    """Inner products of all pairs of positions, relative to that of a position with itself, and by distance."""
    values = numbers(encodings)
    similarity = values @ values.T / (np.square(values).sum(-1).mean() or 1.0)
    figure = style.new_figure(WIDTH, 3.0)
    pairs, fall = figure.subplots(1, 2, width_ratios=[1, 1.35])
    image = style.draw_matrix(pairs, similarity, **SIGNED)
    pairs.set(xlabel="position", ylabel="position", title="similarity of two positions")
    style.draw_colour_bar(figure, image, pairs, ticks=[-1, 0, 1], pad=0.02, fraction=0.045)
    fall.axhline(0, color=AXIS, linewidth=0.8)
    for index, (name, curve) in enumerate(by_distance.items()):
        fall.plot(numbers(curve), color=PALETTE[index % len(PALETTE)], label=name)
    fall.set(xlabel="distance", ylabel="similarity", title="by distance")
    fall.legend(loc="upper right")
    return figure


@style.house_style
def position_maps(similarity: Mapping[str, Float[Array, "patch patch"]], grid: tuple[int, int]) -> Figure:
    """For each kind of positions: one small map for every patch of the grid, red where another has a similar vector."""
    rows, columns = grid
    side = min(3.4, (WIDTH - 0.6) / max(2, len(similarity)))
    figure = style.new_figure(max(2 * side, side * len(similarity)) + 0.6, side * rows / columns + 0.3)
    figure.set_layout_engine("constrained", wspace=0.06)
    panels = figure.subplots(1, max(2, len(similarity)), squeeze=False)[0]
    for axes in panels[len(similarity) :]:
        axes.set_visible(False)
    for axes, (name, values) in zip(panels, similarity.items(), strict=False):
        tiles = rearrange(numbers(values), "(row column) (a b) -> row column a b", row=rows, a=rows)
        tiles = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)  # gaps between the maps
        style.draw_matrix(axes, rearrange(tiles, "row column a b -> (row a) (column b)")[:-1, :-1], **SIGNED)
        axes.set_axis_off()
        axes.set_title(name, loc="center")
    drawn = list(panels[: len(similarity)])
    style.draw_colour_bar(figure, panels[0].images[0], drawn, ticks=[-1, 0, 1], fraction=0.03, pad=0.02)
    return figure
