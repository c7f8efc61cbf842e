"""Which pictures and captions a model finds alike."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped

from neuropil.errors import InputError
from neuropil.inspection.pictures.captions import shade
from neuropil.inspection.pictures.rollout import thinned
from neuropil.inspection.pictures.style import INK, PALETTE, WIDTH, Array, house_style, new_figure, numbers

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

TEXT_WIDTH, LETTERS = 2.1, 34
"""Inches for a caption beside its row, and letters that fit into a line of it."""


@house_style
def similarity_matrix(
    similarity: Float[Array, "picture caption"],
    images: Sequence[Shaped[Array, "_ _"] | Shaped[Array, "_ _ 3"]],
    captions: Sequence[str],
) -> "matplotlib.figure.Figure":
    """A column under each picture, a row beside each caption, darker where the two are more alike; what belongs together is framed."""
    values = numbers(similarity).T  # a caption a row
    if not values.size or values.shape != (len(captions), len(images)):
        raise InputError(
            "a picture of similarities needs a number for each image with each caption",
            got=f"{values.shape[1]}×{values.shape[0]} numbers, {len(images)} images and {len(captions)} captions",
        )
    cell = (WIDTH - TEXT_WIDTH) / max(len(images), 6)
    figure = new_figure(TEXT_WIDTH + cell * len(images), cell * (len(captions) + 1) + 0.1)
    figure.set_layout_engine("none")
    width, height = figure.get_size_inches()
    for place, image in enumerate(images):
        top = figure.add_axes(
            ((TEXT_WIDTH + cell * (place + 0.06)) / width, 1 - cell / height, 0.88 * cell / width, cell / height)
        )
        top.imshow(shade(thinned(numbers(image))), interpolation="none")
        top.set_axis_off()
        top.set_anchor("S")
    axes = figure.add_axes((TEXT_WIDTH / width, 0.02, cell * len(images) / width, cell * len(captions) / height))
    _draw_cells(axes, values, cell)
    for place, caption in enumerate(captions):
        lines = "\n".join(textwrap.wrap(caption, LETTERS, max_lines=2, placeholder="…"))
        axes.annotate(
            lines,
            (-0.5, place),
            (-6, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=7.5,
            linespacing=1.05,
        )
    return figure


def _draw_cells(axes: "matplotlib.axes.Axes", values: Float[np.ndarray, "caption picture"], cell: float) -> None:
    from matplotlib.patches import Rectangle

    axes.imshow(
        values, cmap="Blues", vmin=min(0.0, float(values.min())), vmax=max(1.0, float(values.max())), aspect="auto"
    )
    axes.set_axis_off()
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 else INK
        axes.text(
            column,
            row,
            f"{value:.2f}".replace("-", "−"),
            ha="center",
            va="center",
            fontsize=min(7.5, 15 * cell),
            color=colour,
        )
    for place in range(min(values.shape)):
        axes.add_patch(
            Rectangle((place - 0.47, place - 0.47), 0.94, 0.94, fill=False, edgecolor=PALETTE[1], linewidth=1.8)
        )
