"""Images and what a model makes of them: grids under captions, attention laid over them, similarities to captions."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from einops import repeat
from jaxtyping import Float, Shaped
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, minus, numbers, short

Image: TypeAlias = Shaped[Array, "_ _"] | Shaped[Array, "_ _ 3"]
Images: TypeAlias = Shaped[Array, "image height width"] | Shaped[Array, "image height width 3"]
Pixels: TypeAlias = Float[np.ndarray, "height width 3"]
Maps: TypeAlias = Float[Array, "_ _ _"]
"""A map [row column] for each word or head."""
Similarity: TypeAlias = Float[Array, "picture caption"]
Grid: TypeAlias = tuple[int, int]
"""Rows and columns."""
PatchWeights: TypeAlias = Float[np.ndarray, "row column"]

LIGHT = (0.94, 0.55, 0.12)
"""What attention lights a patch with: seen on black ink and on white."""
MOST_WORDS = 11
"""In a line, beside the image itself."""
LARGEST_SIDE = 160
"""Pixels of an image as it is drawn, about; larger ones are thinned out."""
TEXT_WIDTH, LETTERS = 2.1, 34
"""Inches for a caption beside its row of similarities, and letters that fit into a line of it."""


@style.house_style
def image_grid(images: Images, captions: Sequence[str] | None = None, *, columns: int = 8) -> Figure:
    """Images in rows, each under its caption. Bytes are drawn as they are; of other grey images each uses its own scale
    from darkest to lightest."""
    captions = captions or [""] * len(images)
    if len(images) != len(captions):
        got = f"{len(images)} images and {len(captions)} captions"
        raise InputError("a grid of images needs one caption for each", got=got)
    rows, columns = style.rows_of(len(images), columns)
    cell = WIDTH / max(columns, 5)
    wrapped = ["\n".join(textwrap.wrap(caption, int(13 * cell), max_lines=3, placeholder="…")) for caption in captions]
    lines = max(caption.count("\n") + 1 for caption in wrapped) if any(captions) else 0
    height = rows * (cell * images.shape[1] / images.shape[2] + (0.1 + 0.15 * lines if lines else 0.05))
    figure, panels = _image_panels(rows, columns, cell * columns, height)
    for axes, image, caption in zip(panels.flat, numbers(images), wrapped, strict=False):
        draw_image(axes, image)
        axes.set_title(caption, fontsize=8.5, fontweight="normal", loc="center", pad=3)
    return figure


# --- attention laid over an image -------------------------------------------------------------------------------------


@style.house_style
def patch_overlays(image: Image, weights: Float[Array, "patch patch"], grid: Grid) -> Figure:
    """The image once for each query patch, which is framed: the larger the weight of a patch, the more it is lit."""
    pixels = numbers(image)
    rows, columns = grid
    cell = min(1.05, (WIDTH - 0.2) / columns)
    figure = style.new_figure(cell * columns + 0.2, cell * rows * pixels.shape[0] / pixels.shape[1] + 0.2)
    panels = figure.subplots(rows, columns, squeeze=False)
    for index, (axes, row) in enumerate(zip(panels.flat, numbers(weights), strict=True)):
        draw_image(axes, _light_patches(pixels, row.reshape(grid)))
        _frame(axes, pixels.shape[:2], grid, divmod(index, columns))
    return figure


@style.house_style
def received_attention(
    images: Images, received: Float[Array, "image patch"], grid: Grid, titles: Sequence[str], *, columns: int = 5
) -> Figure:
    """Images whose patches are lit by how much attention they receive; all share one scale."""
    rows, columns = style.rows_of(len(titles), columns)
    cell = WIDTH / max(columns, 5)
    height = rows * (cell * images.shape[1] / images.shape[2] + 0.25)
    figure, panels = _image_panels(rows, columns, cell * columns, height)
    brightest = float(numbers(received).max())
    for axes, image, shares, title in zip(panels.flat, numbers(images), numbers(received), titles, strict=False):
        draw_image(axes, _light_patches(image, shares.reshape(grid), brightest))
        axes.set_title(short(title), loc="center", fontsize=9, fontweight="normal", pad=3)
    return figure


@style.house_style
def caption_overlays(images: Sequence[Image], weights: Sequence[Maps], words: Sequence[Sequence[str]]) -> Figure:
    """Each image, and beside it the same image once for each word of its caption, lit by that word's attention.

    Weights are [word row column]; sizes and words may differ.
    """
    if not images or not len(images) == len(weights) == len(words):
        got = f"{len(images)} images, {len(weights)} weights and {len(words)} captions"
        raise InputError("a picture of attention over images needs weights and words for each image", got=got)
    rows = [
        (image if begin == 0 else None, maps[begin : begin + MOST_WORDS], caption[begin : begin + MOST_WORDS], image)
        for image, maps, caption in zip(map(numbers, images), map(numbers, weights), words, strict=True)
        for begin in range(0, len(caption), MOST_WORDS)  # a long caption goes on in the next line
    ]
    tallest = max(image.shape[0] / image.shape[1] for *_, image in rows)
    figure = style.new_figure(WIDTH, len(rows) * (WIDTH / (MOST_WORDS + 1) * tallest + 0.22))
    lines = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, (first, maps, caption, image) in zip(lines, rows, strict=True):
        pixels = rgb(image)
        # One image for the whole line: many small ones would take long to lay out.
        panels = [None if first is None else pixels, *(overlay(pixels, each) for each in maps)]
        axes.imshow(side_by_side(panels, MOST_WORDS + 1, pixels.shape[:2]), interpolation="none")
        axes.set_axis_off()
        for place, word in enumerate(caption, start=1):
            style.write_above(axes, short(word, 10), _middle(place, pixels.shape[1]), va="bottom")
    return figure


@style.house_style
def rollout_overlays(
    images: Sequence[Image], weights: Sequence[Float[Array, "_ _"]] | Maps, titles: Sequence[str], *, columns: int = 5
) -> Figure:
    """Pairs of each image and the same lit by its weights, under its title; sizes and grids may differ between images.

    Roll-out spreads a share over all places alike; light begins where there is more than the least.
    """
    if not len(images) or not len(images) == len(weights) == len(titles):
        got = f"{len(images)} images, {len(weights)} weights and {len(titles)} titles"
        raise InputError("a picture of roll-outs needs weights and a title for each image", got=got)
    rows, columns = style.rows_of(len(images), columns)
    colours = [rgb(thinned(numbers(image))) for image in images]
    tallest = max(image.shape[0] / (2 * image.shape[1]) for image in colours)
    cell = WIDTH / max(columns, 3)
    figure, panels = _image_panels(rows, columns, cell * columns, rows * (cell * tallest + 0.22))
    figure.set_layout_engine("constrained", wspace=0.12)  # pairs stand apart from one another
    for axes, image, each, title in zip(panels.flat, colours, map(numbers, weights), titles, strict=False):
        pair = side_by_side([image, overlay(image, each - each.min())], 2, image.shape[:2])
        axes.imshow(pair, interpolation="none")
        axes.set_title(short(title, int(11 * cell)), loc="center", fontsize=8.5, fontweight="normal", pad=3)
    return figure


@style.house_style
def head_overlays(image: Image, layers: Mapping[str, Maps]) -> Figure:
    """One image, a row for each layer: as it is, then lit by the weights of each head, which are [head row column]."""
    style.require_some(layers, "a picture of heads needs at least one layer")
    pixels = rgb(thinned(numbers(image)))
    height, width = pixels.shape[:2]
    heads = max(len(each) for each in layers.values())
    cell = min(1.0, (WIDTH - 0.9) / (heads + 1))
    figure = style.new_figure(cell * (heads + 1) + 0.9, len(layers) * (cell * height / width + 0.06) + 0.25)
    rows = figure.subplots(len(layers), 1, squeeze=False)[:, 0]
    for axes, (name, maps) in zip(rows, layers.items(), strict=True):
        panels = [pixels, *(overlay(pixels, each) for each in numbers(maps))]
        style.draw_matrix(axes, side_by_side(panels, heads + 1, (height, width)))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        label = short(name.removesuffix(".attention"), 14)
        axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8, color=MUTED)
    for head in range(heads):
        style.write_above(rows[0], f"head {head + 1}", _middle(head + 1, width))
    return figure


def side_by_side(panels: Sequence[Pixels | None], count: int, size: Grid) -> Float[np.ndarray, "height all 4"]:
    """Room for `count` panels in a row, clear where there is none."""
    height, width = size
    step = width + gap(width)
    row = np.zeros((height, count * step - gap(width), 4))
    for place, panel in enumerate(panels):
        if panel is not None:
            row[:, place * step : place * step + width, :3] = panel
            row[:, place * step : place * step + width, 3] = 1
    return row


def gap(width: int) -> int:
    """Pixels between two panels of this width."""
    return max(1, width // 12)


def _middle(place: int, width: int) -> float:
    return place * (width + gap(width)) + width / 2 - 0.5


def rgb(image: np.ndarray) -> Pixels:
    """Grey or coloured bytes as colours from 0 to 1."""
    colours = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)
    return colours / 255.0


def overlay(pixels: Pixels, weights: PatchWeights) -> Pixels:
    """The image, covered with light by its weights, which are interpolated between the places of the grid."""
    grid = torch.from_numpy(weights)[None, None].float()
    spread = F.interpolate(grid, pixels.shape[:2], mode="bilinear", align_corners=False)[0, 0].numpy()
    cover = 0.8 * (spread / (spread.max() or 1.0))[..., None]
    return (1 - cover) * 0.8 * pixels + cover * np.array(LIGHT)


def thinned(image: np.ndarray) -> np.ndarray:
    """A photograph needs no more pixels than the page shows."""
    every = max(1, max(image.shape[:2]) // LARGEST_SIDE)
    return image[::every, ::every]


def draw_image(axes: Axes, image: np.ndarray) -> None:
    limits = (0, 255) if image.dtype == np.uint8 else (None, None)
    axes.imshow(image, cmap="gray", interpolation="none", vmin=limits[0], vmax=limits[1])
    axes.set_axis_off()


def _image_panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    """Axes without anything around them."""
    figure = style.new_figure(width, height)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    return figure, panels


def _light_patches(image: np.ndarray, weights: PatchWeights, brightest: float | None = None) -> Pixels:
    """An image whose patches are covered with light, that of the largest weight with most."""
    height, width = image.shape[:2]
    side = -(-height // weights.shape[0])
    shares = repeat(weights, "row column -> (row a) (column b)", a=side, b=side)[:height, :width]
    cover = 0.85 * (shares / (brightest or shares.max() or 1.0))[..., None]
    grey = image if image.ndim == 3 else repeat(image, "height width -> height width 3")
    span = float(grey.max()) - float(grey.min())
    return (1 - cover) * (0.75 * (grey - float(grey.min())) / (span or 1.0)) + cover * np.array(LIGHT)


def _frame(axes: Axes, shape: tuple[int, ...], grid: Grid, place: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    side = -(-shape[0] // grid[0])
    corner = (place[1] * side - 0.5, place[0] * side - 0.5)
    sizes = min(side, shape[1] - place[1] * side), min(side, shape[0] - place[0] * side)
    axes.add_patch(Rectangle(corner, *sizes, fill=False, edgecolor="#5fb3ff", linewidth=1.8))


# --- activation maps --------------------------------------------------------------------------------------------------


@style.house_style
def activation_rows(layers: Mapping[str, Maps], channels: Mapping[str, Sequence[int]]) -> Figure:
    """A row for each layer: the maps of its channels, which are [channel row column], under their numbers and scales.
    Red is positive, blue negative; each map is coloured up to its own largest size."""
    style.require_some(layers, "a picture of activation maps needs at least one layer")
    most = max(len(maps) for maps in layers.values())
    cell = (WIDTH - 1.5) / max(most, 8)
    heights = [maps.shape[1] / maps.shape[2] for maps in layers.values()]
    figure = style.new_figure(cell * most + 1.5, sum(cell * height + 0.24 for height in heights))
    rows = figure.subplots(len(layers), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, maps) in zip(rows, layers.items(), strict=True):
        values = numbers(maps)
        scales = np.abs(values).max((1, 2)).tolist()
        panels = [_signed_colours(each, scale) for each, scale in zip(values, scales, strict=True)]
        style.draw_matrix(axes, side_by_side(panels, most, values.shape[1:]))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        axes.set_ylabel(short(name, 22), rotation=0, ha="right", va="center", fontsize=7.5, color=MUTED)
        for place, (channel, scale) in enumerate(zip(channels[name], scales, strict=True)):
            style.write_above(axes, f"{channel}: {scale:.2g}", _middle(place, values.shape[2]), fontsize=6.5)
    return figure


def _signed_colours(values: np.ndarray, scale: float) -> Pixels:
    from matplotlib import colormaps

    return colormaps["RdBu_r"](0.5 + 0.5 * values / (scale or 1.0))[..., :3]


# --- similarities -----------------------------------------------------------------------------------------------------


@style.house_style
def similarity_matrix(similarity: Similarity, images: Sequence[Image], captions: Sequence[str]) -> Figure:
    """A column under each image, a row beside each caption, darker where they are more similar; pairs are framed."""
    values = numbers(similarity).T  # a caption a row
    if not values.size or values.shape != (len(captions), len(images)):
        got = f"{values.shape[1]}×{values.shape[0]} numbers, {len(images)} images and {len(captions)} captions"
        raise InputError("a picture of similarities needs a number for each image with each caption", got=got)
    cell = (WIDTH - TEXT_WIDTH) / max(len(images), 6)
    figure = style.new_figure(TEXT_WIDTH + cell * len(images), cell * (len(captions) + 1) + 0.1)
    figure.set_layout_engine("none")
    width, height = figure.get_size_inches()
    for place, image in enumerate(images):
        left = (TEXT_WIDTH + cell * (place + 0.06)) / width
        top = figure.add_axes((left, 1 - cell / height, 0.88 * cell / width, cell / height))
        draw_image(top, rgb(thinned(numbers(image))))
        top.set_anchor("S")
    axes = figure.add_axes((TEXT_WIDTH / width, 0.02, cell * len(images) / width, cell * len(captions) / height))
    _draw_similarities(axes, values, cell)
    beside = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 7.5, "linespacing": 1.05}
    for place, caption in enumerate(captions):
        lines = "\n".join(textwrap.wrap(caption, LETTERS, max_lines=2, placeholder="…"))
        axes.annotate(lines, (-0.5, place), (-6, 0), **beside)
    return figure


def _draw_similarities(axes: Axes, values: Float[np.ndarray, "caption picture"], cell: float) -> None:
    from matplotlib.patches import Rectangle

    low, high = min(0.0, float(values.min())), max(1.0, float(values.max()))
    axes.imshow(values, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    axes.set_axis_off()
    size = min(7.5, 15 * cell)
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 else INK
        axes.text(column, row, minus(f"{value:.2f}"), ha="center", va="center", fontsize=size, color=colour)
    for place in range(min(values.shape)):
        corner = (place - 0.47, place - 0.47)
        axes.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor=PALETTE[1], linewidth=1.8))
