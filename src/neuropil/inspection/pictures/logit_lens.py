"""What a model would say after each of its layers, as a table that is darker where it is surer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import INK, WIDTH, Array, house_style, new_figure, numbers, short
from neuropil.inspection.report.alignment import shown

if TYPE_CHECKING:
    import matplotlib.figure

CELL, LETTERS = 0.56, 9
"""Inches of a cell, and the letters of a token that fit into it."""


@house_style
def logit_lens(
    shares: Float[Array, "layer time"], likeliest: Sequence[Sequence[str]], tokens: Sequence[str]
) -> "matplotlib.figure.Figure":
    """A column for each token that was read, a row for each layer, the last on top: in each cell the likeliest next token, and how likely
    it is. The same token as in the top row is bold."""
    values = numbers(shares)
    if values.size == 0:
        raise InputError("a picture of layers needs at least one token", got="none")
    layers, time = values.shape
    figure = new_figure(min(WIDTH, 1.8 + CELL * time), 0.9 + 0.36 * layers)
    axes = figure.subplots()
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    size = 7.5 if time <= 10 else 6.5
    for layer, row in enumerate(likeliest):
        for place, token in enumerate(row):
            share, final = float(values[layer, place]), token == likeliest[-1][place]
            colour = "white" if share > 0.55 else INK
            label = f"{short(shown(token), LETTERS)}\n{100 * share:.0f} %"
            weight = "bold" if final else "normal"
            axes.text(
                place,
                layer,
                label,
                ha="center",
                va="center",
                fontsize=size,
                color=colour,
                fontweight=weight,
                linespacing=1.2,
            )
    axes.set_xticks(range(time), [short(shown(token), LETTERS) for token in tokens])
    axes.set_yticks(range(layers), ["embedding", *(f"block {layer}" for layer in range(1, layers))])
    axes.set_xlabel("after this token")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    figure.colorbar(image, label="probability of the likeliest", shrink=0.8, pad=0.01)
    return figure
