"""Attention weights as matrices over the patches of an image, and what attention heads are worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.images import LIGHT, Grid, Images, draw_image
from neuropil.inspection.pictures.style import GRID, INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, numbers, short

MOST_NUMBERED = 36


@style.house_style
def patch_attention(
    images: Images, layers: Mapping[str, Float[Array, "image patch patch"]], grid: Grid, titles: Sequence[str]
) -> Figure:
    """Under each image, cut into numbered patches, its attention matrix in every layer: row i is of patch i."""
    if len(images) != len(titles):
        got = f"{len(images)} images and {len(titles)} titles"
        raise InputError("a picture of attention needs one title for each image", got=got)
    columns = max(len(titles), 3)
    cell = (WIDTH - 0.5) / columns
    figure = style.new_figure(WIDTH, (len(layers) + 1) * (cell + 0.12) + 0.35)
    panels = figure.subplots(len(layers) + 1, columns, squeeze=False)
    for axes in panels[:, len(titles) :].flat:
        axes.set_visible(False)
    for axes, image, title in zip(panels[0], numbers(images), titles, strict=False):
        draw_image(axes, image)
        _draw_grid(axes, image.shape[:2], grid)
        axes.set_title(short(title), loc="center")
    for row, (name, weights) in zip(panels[1:], layers.items(), strict=True):
        for index, (axes, matrix) in enumerate(zip(row, numbers(weights), strict=False)):
            _draw_weights(axes, matrix, ylabel=f"{name}\npatch" if index == 0 else "")
    for axes in panels[-1, : len(titles)]:
        axes.set_xlabel("attends to patch", fontsize=8.5)
    return figure


@style.house_style
def head_importance(importance: Mapping[str, Float[Array, " head"]], removed: Mapping[str, Sequence[int]]) -> Figure:
    """A row per layer, a square per head, darker where it matters more within its layer; crosses mark those removed."""
    style.require_some(importance, "a picture of heads needs at least one layer")
    names = list(importance)
    rows = [np.clip(numbers(importance[name]), 0, None) for name in names]
    columns = max(map(len, rows))
    grid = np.full((len(rows), columns), np.nan)
    for index, row in enumerate(rows):
        grid[index, : len(row)] = row / (np.linalg.norm(row) or 1.0)
    figure, axes = style.one_panel(0.9 + 0.3 * len(rows))
    image = axes.imshow(grid, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for index, name in enumerate(names):
        crossed = list(removed.get(name, []))
        axes.plot(crossed, [index] * len(crossed), "x", color=PALETTE[1], markersize=8, markeredgewidth=1.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks(range(columns), [str(head) for head in range(columns)])
    axes.set_xlabel("head")
    axes.grid(visible=False)
    figure.colorbar(image, label="importance within the layer")
    return figure


@style.house_style
def loss_by_heads(curve: Mapping[int, float]) -> Figure:
    """Loss against the number of heads that are masked."""
    style.require_some(curve, "a picture of losses by heads needs at least one loss")
    figure, axes = style.one_panel(2.6)
    axes.plot(list(curve), list(curve.values()), color=PALETTE[0], marker="o", markersize=4)
    axes.set(xlabel="heads masked", ylabel="validation loss")
    axes.set_ylim(bottom=0)
    return figure


@dataclass(frozen=True)
class HeadScores:
    """A panel: named curves of scores by a number of heads, several for each number, and a bound that none can pass."""

    title: str
    label: str
    curves: Mapping[str, Mapping[int, Sequence[float]]]
    bound: Mapping[int, float] = field(default_factory=dict)


@style.house_style
def scores_by_heads(panels: Sequence[HeadScores], xlabel: str, *, logarithmic: bool = False) -> Figure:
    """Means as lines, from the lowest to the highest score a band; the bound is dotted."""
    style.require_some(panels, "a picture of scores by heads needs at least one panel")
    figure = style.new_figure(WIDTH, 3.0)
    drawn = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(drawn, panels, strict=True):
        for index, (name, curve) in enumerate(panel.curves.items()):
            heads, scores = np.array(list(curve)), [np.asarray(each, dtype=float) for each in curve.values()]
            look = style.line(index)
            axes.plot(heads, [each.mean() for each in scores], marker="o", markersize=4, label=name or None, **look)
            low, high = [each.min() for each in scores], [each.max() for each in scores]
            axes.fill_between(heads, low, high, color=look["color"], alpha=0.18, linewidth=0)
        if panel.bound:
            bound = (list(panel.bound), list(panel.bound.values()))
            axes.plot(*bound, color=INK, linestyle=":", linewidth=1.4, label="least possible")
        axes.set(xlabel=xlabel, ylabel=panel.label, title=panel.title)
        if panel.label == "accuracy":
            style.show_percent(axes)
        else:
            axes.set_ylim(bottom=0)
        if logarithmic:
            axes.set_xscale("log", base=2)
            numbers_of_heads = sorted({heads for curve in panel.curves.values() for heads in curve})
            axes.set_xticks(numbers_of_heads, [str(heads) for heads in numbers_of_heads])
            axes.minorticks_off()
    entries = style.legend_entries(drawn)
    figure.legend(*entries, loc="outside upper right", ncols=len(entries[0]))
    return figure


@style.house_style
def head_shares(shares: Mapping[str, Float[Array, "head asked"]]) -> Figure:
    """A matrix for each network: the attention weight of each head on each thing that was asked for."""
    style.require_some(shares, "a picture of heads needs at least one network")
    figure = style.new_figure(WIDTH, 2.6)
    panels = figure.subplots(1, len(shares), squeeze=False)[0]
    images = []
    for axes, (name, values) in zip(panels, shares.items(), strict=True):
        matrix = numbers(values)
        images.append(style.draw_matrix(axes, matrix, cmap="Oranges", vmin=0, vmax=1))
        axes.set_xticks(range(matrix.shape[1]), [str(asked + 1) for asked in range(matrix.shape[1])])
        axes.set_yticks(range(len(matrix)), [str(head + 1) for head in range(len(matrix))])
        axes.set(title=name, xlabel="slot asked for", ylabel="head")
    style.draw_colour_bar(figure, images[-1], list(panels), label="attention weight", shrink=0.9)
    return figure


def _draw_grid(axes: Axes, shape: tuple[int, ...], grid: tuple[int, int]) -> None:
    """Thin lines between the patches and, where there is room, their numbers."""
    side = -(-shape[0] // grid[0])
    for row in range(1, grid[0]):
        axes.axhline(row * side - 0.5, color=LIGHT, linewidth=0.8)
    for column in range(1, grid[1]):
        axes.axvline(column * side - 0.5, color=LIGHT, linewidth=0.8)
    if grid[0] * grid[1] > MOST_NUMBERED:
        return
    for index in range(grid[0] * grid[1]):
        row, column = divmod(index, grid[1])
        place = (column * side - 0.35, row * side - 0.35)
        behind = {"facecolor": "black", "edgecolor": "none", "alpha": 0.6, "pad": 0.8}
        axes.text(*place, f"{index + 1}", color=LIGHT, fontsize=7, ha="left", va="top", fontweight="bold", bbox=behind)


def _draw_weights(axes: Axes, weights: Float[np.ndarray, "patch patch"], *, ylabel: str) -> None:
    """Each with its own scale, for a row of a large matrix is spread thin."""
    count = len(weights)
    style.draw_matrix(axes, weights, cmap="Oranges", vmin=0, extent=(0.5, count + 0.5, count + 0.5, 0.5))
    ticks = [1, *range(4, count + 1, 4)] if count <= MOST_NUMBERED else [1, count]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks if ylabel else [])
    axes.tick_params(length=0, labelsize=7)
    axes.spines[:].set(visible=True, color=GRID)
    axes.set_ylabel(ylabel, fontsize=8.5, color=MUTED if ylabel else INK)
