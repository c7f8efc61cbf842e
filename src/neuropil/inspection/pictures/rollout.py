"""Attention laid over the picture that it was computed from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped

from neuropil.errors import InputError
from neuropil.inspection.pictures.captions import gap, lit, shade, side_by_side
from neuropil.inspection.pictures.style import MUTED, WIDTH, Array, house_style, new_figure, numbers, short

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LARGEST_SIDE = 160
"""Pixels of a picture as it is drawn, about; larger ones are thinned out."""


@house_style
def rollouts(
    images: Sequence[Shaped[Array, "_ _"] | Shaped[Array, "_ _ 3"]],
    weights: Sequence[Float[Array, "_ _"]] | Float[Array, "_ _ _"],
    titles: Sequence[str],
    *,
    columns: int = 5,
) -> "matplotlib.figure.Figure":
    """Pairs of each picture and the same lit by its weights, under its title. Each may have a size of its own, and weights for any grid.

    Roll-out spreads a share over all places alike; light begins where there is more than the least.
    """
    if not len(images) or not len(images) == len(weights) == len(titles):
        raise InputError(
            "a picture of roll-outs needs weights and a title for each image",
            got=f"{len(images)} images, {len(weights)} weights and {len(titles)} titles",
        )
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    shaded = [shade(thinned(numbers(image))) for image in images]
    tallest = max(image.shape[0] / (2 * image.shape[1]) for image in shaded)
    cell = WIDTH / max(columns, 3)
    figure = new_figure(cell * columns, rows * (cell * tallest + 0.22))
    figure.set_layout_engine("constrained", wspace=0.12)  # pairs stand apart from one another
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    for axes, image, look, title in zip(panels.flat, shaded, weights, titles, strict=False):
        axes.imshow(
            side_by_side([image, lit(image, above_least(numbers(look)))], 2, image.shape[:2]), interpolation="none"
        )
        axes.set_title(short(title, int(11 * cell)), loc="center", fontsize=8.5, fontweight="normal", pad=3)
    return figure


@house_style
def head_looks(
    image: Shaped[Array, "_ _"] | Shaped[Array, "_ _ 3"], layers: Mapping[str, Float[Array, "_ _ _"]]
) -> "matplotlib.figure.Figure":
    """One picture, a row for each layer: as it is, then lit where each head looks. Weights are [head row column]."""
    if not layers:
        raise InputError("a picture of heads needs at least one layer", got="none")
    pixels = shade(thinned(numbers(image)))
    heads = max(len(each) for each in layers.values())
    cell = min(1.0, (WIDTH - 0.9) / (heads + 1))
    figure = new_figure(
        cell * (heads + 1) + 0.9, len(layers) * (cell * pixels.shape[0] / pixels.shape[1] + 0.06) + 0.25
    )
    rows = figure.subplots(len(layers), 1, squeeze=False)[:, 0]
    for place, (axes, (name, looks)) in enumerate(zip(rows, layers.items(), strict=True)):
        panels = [pixels, *(lit(pixels, look) for look in numbers(looks))]
        axes.imshow(side_by_side(panels, heads + 1, pixels.shape[:2]), interpolation="none")
        _label(axes, name.removesuffix(".attention"))
        if place == 0:
            width = pixels.shape[1]
            for head in range(heads):
                middle = (head + 1) * (width + gap(width)) + width / 2 - 0.5
                axes.annotate(
                    f"head {head + 1}", (middle, -0.5), (0, 2), textcoords="offset points", ha="center", fontsize=8
                )
    return figure


def above_least(look: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row column"]:
    return look - look.min()


def thinned(image: np.ndarray) -> np.ndarray:
    """A photograph needs no more pixels than the page shows."""
    every = max(1, max(image.shape[:2]) // LARGEST_SIDE)
    return image[::every, ::every]


def _label(axes: "matplotlib.axes.Axes", name: str) -> None:
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_ylabel(short(name, 14), rotation=0, ha="right", va="center", fontsize=8, color=MUTED)
