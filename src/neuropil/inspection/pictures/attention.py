"""Attention over the patches of a picture, and the positions that tell its patches or words apart."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from einops import rearrange, repeat
from jaxtyping import Float, Shaped

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import (
    GRID,
    INK,
    MUTED,
    PALETTE,
    WIDTH,
    Array,
    house_style,
    new_figure,
    numbers,
    short,
)

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LIGHT = (0.94, 0.55, 0.12)
"""What a patch is lit with as it is looked at: seen on black ink and on white."""
MOST_NUMBERED = 36


@house_style
def patch_attention(
    images: Shaped[Array, "image height width"] | Shaped[Array, "image height width 3"],
    layers: Mapping[str, Float[Array, "image patch patch"]],
    grid: tuple[int, int],
    titles: Sequence[str],
) -> "matplotlib.figure.Figure":
    """Under each picture, cut into numbered patches, its matrix of weights in every layer: row i is where patch i looks."""
    if len(images) != len(titles):
        raise InputError(
            "a picture of attention needs one title for each image",
            got=f"{len(images)} images and {len(titles)} titles",
        )
    columns = max(len(titles), 3)
    cell = (WIDTH - 0.5) / columns
    figure = new_figure(WIDTH, (len(layers) + 1) * (cell + 0.12) + 0.35)
    panels = figure.subplots(len(layers) + 1, columns, squeeze=False)
    for axes in panels[:, len(titles) :].flat:
        axes.set_visible(False)
    for axes, image, title in zip(panels[0], numbers(images), titles, strict=False):
        _draw(axes, image)
        _draw_grid(axes, image.shape[:2], grid)
        axes.set_title(short(title), loc="center")
    for row, (name, weights) in zip(panels[1:], layers.items(), strict=True):
        for index, (axes, matrix) in enumerate(zip(row, numbers(weights), strict=False)):
            _draw_weights(axes, matrix, ylabel=f"{name}\npatch" if index == 0 else "")
    for axes in panels[-1, : len(titles)]:
        axes.set_xlabel("looks at patch", fontsize=8.5)
    return figure


@house_style
def patch_looks(
    image: Shaped[Array, "height width"] | Shaped[Array, "height width 3"],
    weights: Float[Array, "patch patch"],
    grid: tuple[int, int],
) -> "matplotlib.figure.Figure":
    """The picture once for each patch, which is framed: the more a patch is looked at from there, the more it is lit."""
    pixels = numbers(image)
    rows, columns = grid
    cell = min(1.05, (WIDTH - 0.2) / columns)
    figure = new_figure(cell * columns + 0.2, cell * rows * pixels.shape[0] / pixels.shape[1] + 0.2)
    panels = figure.subplots(rows, columns, squeeze=False)
    for index, (axes, row) in enumerate(zip(panels.flat, numbers(weights), strict=True)):
        _draw(axes, _lit(pixels, row.reshape(grid)))
        _frame(axes, pixels.shape[:2], grid, divmod(index, columns))
    return figure


@house_style
def patch_averages(
    images: Shaped[Array, "image height width"] | Shaped[Array, "image height width 3"],
    received: Float[Array, "image patch"],
    grid: tuple[int, int],
    titles: Sequence[str],
    *,
    columns: int = 5,
) -> "matplotlib.figure.Figure":
    """Pictures whose patches are lit by how much they are looked at; all share one scale."""
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    cell = WIDTH / max(columns, 5)
    figure = new_figure(cell * columns, rows * (cell * images.shape[1] / images.shape[2] + 0.25))
    panels = figure.subplots(rows, columns, squeeze=False)
    brightest = float(numbers(received).max())
    for axes in panels.flat:
        axes.set_axis_off()
    for axes, image, shares, title in zip(panels.flat, numbers(images), numbers(received), titles, strict=False):
        _draw(axes, _lit(image, shares.reshape(grid), brightest))
        axes.set_title(short(title), loc="center", fontsize=9, fontweight="normal", pad=3)
    return figure


@house_style
def position_encodings(encodings: Float[Array, "position width"]) -> "matplotlib.figure.Figure":
    """Every position as a row of numbers between −1 and 1, the sines apart from the cosines: side by side they would be stripes."""
    values = numbers(encodings)
    num_positions = len(values)
    figure = new_figure(WIDTH, 0.09 * min(num_positions, 40) + 1.0)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, first, name in zip(panels, (0, 1), ("sines", "cosines"), strict=True):
        part = values[:, first::2]
        axes.imshow(
            part,
            cmap="RdBu_r",
            vmin=-1,
            vmax=1,
            aspect="auto",
            interpolation="none",
            extent=(first - 1, first + 2 * part.shape[1] - 1, num_positions - 0.5, -0.5),
        )
        axes.grid(visible=False)
        axes.set(
            title=f"{name}: dimensions {first}, {first + 2} … {first + 2 * (part.shape[1] - 1)}", xlabel="dimension"
        )
    panels[0].set_ylabel("position")
    bar = figure.colorbar(panels[0].images[0], ax=list(panels), ticks=[-1, 0, 1], pad=0.015, fraction=0.03)
    bar.outline.set_visible(False)
    return figure


@house_style
def position_likeness(
    encodings: Float[Array, "position width"], by_distance: Mapping[str, Float[Array, " distance"]]
) -> "matplotlib.figure.Figure":
    """Inner products of all pairs of positions, relative to that of a position with itself, and how likeness falls with distance."""
    values = numbers(encodings)
    likeness = values @ values.T / (np.square(values).sum(-1).mean() or 1.0)
    figure = new_figure(WIDTH, 3.0)
    pairs, fall = figure.subplots(1, 2, width_ratios=[1, 1.35])
    drawn = pairs.imshow(likeness, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
    pairs.grid(visible=False)
    pairs.set(xlabel="position", ylabel="position", title="likeness of two positions")
    bar = figure.colorbar(drawn, ax=pairs, ticks=[-1, 0, 1], pad=0.02, fraction=0.045)
    bar.outline.set_visible(False)
    fall.axhline(0, color="#aab0ba", linewidth=0.8)
    for index, (name, curve) in enumerate(by_distance.items()):
        fall.plot(numbers(curve), color=PALETTE[index % len(PALETTE)], label=name)
    fall.set(xlabel="distance", ylabel="likeness", title="by distance")
    fall.legend(loc="upper right")
    return figure


@house_style
def position_maps(
    likeness: Mapping[str, Float[Array, "patch patch"]], grid: tuple[int, int]
) -> "matplotlib.figure.Figure":
    """For each kind of positions: one small map for every place of the grid, red where another place has a vector like its own."""
    rows, columns = grid
    side = min(3.4, (WIDTH - 0.6) / max(2, len(likeness)))
    figure = new_figure(max(2 * side, side * len(likeness)) + 0.6, side * rows / columns + 0.3)
    figure.set_layout_engine("constrained", wspace=0.06)
    panels = figure.subplots(1, max(2, len(likeness)), squeeze=False)[0]
    for axes in panels[len(likeness) :]:
        axes.set_visible(False)
    for axes, (name, values) in zip(panels, likeness.items(), strict=False):
        tiles = rearrange(numbers(values), "(row column) (a b) -> row column a b", row=rows, a=rows)
        tiles = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)  # gaps between the maps
        board = rearrange(tiles, "row column a b -> (row a) (column b)")[:-1, :-1]
        axes.imshow(board, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        axes.set_axis_off()
        axes.set_title(name, loc="center")
    bar = figure.colorbar(
        panels[0].images[0], ax=list(panels[: len(likeness)]), ticks=[-1, 0, 1], fraction=0.03, pad=0.02
    )
    bar.outline.set_visible(False)
    return figure


# --- pieces of the above -------------------------------------------------------------------------------------------------------


def _draw(axes: "matplotlib.axes.Axes", image: np.ndarray) -> None:
    axes.imshow(image, cmap="gray", interpolation="none")
    axes.set_axis_off()


def _lit(
    image: np.ndarray, weights: Float[np.ndarray, "row column"], brightest: float | None = None
) -> Float[np.ndarray, "height width 3"]:
    """A picture whose patches are covered with light, the brightest with most."""
    height, width = image.shape[:2]
    side = -(-height // weights.shape[0])
    shares = repeat(weights, "row column -> (row a) (column b)", a=side, b=side)[:height, :width]
    cover = 0.85 * (shares / (brightest or shares.max() or 1.0))[..., None]
    grey = image if image.ndim == 3 else repeat(image, "height width -> height width 3")
    span = float(grey.max()) - float(grey.min())
    return (1 - cover) * (0.75 * (grey - float(grey.min())) / (span or 1.0)) + cover * np.array(LIGHT)


def _draw_grid(axes: "matplotlib.axes.Axes", shape: tuple[int, ...], grid: tuple[int, int]) -> None:
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


def _frame(axes: "matplotlib.axes.Axes", shape: tuple[int, ...], grid: tuple[int, int], place: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    side = -(-shape[0] // grid[0])
    corner = (place[1] * side - 0.5, place[0] * side - 0.5)
    sizes = min(side, shape[1] - place[1] * side), min(side, shape[0] - place[0] * side)
    axes.add_patch(Rectangle(corner, *sizes, fill=False, edgecolor="#5fb3ff", linewidth=1.8))


def _draw_weights(axes: "matplotlib.axes.Axes", weights: Float[np.ndarray, "patch patch"], *, ylabel: str) -> None:
    """Each with its own scale, for a row of a large matrix is spread thin."""
    count = len(weights)
    axes.imshow(weights, cmap="Oranges", vmin=0, interpolation="none", extent=(0.5, count + 0.5, count + 0.5, 0.5))
    ticks = [1, *range(4, count + 1, 4)] if count <= MOST_NUMBERED else [1, count]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks if ylabel else [])
    axes.tick_params(length=0, labelsize=7)
    axes.grid(visible=False)
    axes.spines[:].set(visible=True, color=GRID)
    axes.set_ylabel(ylabel, fontsize=8.5, color=MUTED if ylabel else INK)
