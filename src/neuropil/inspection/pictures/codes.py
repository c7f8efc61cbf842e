"""Codes of examples in the plane: the bottleneck of an autoencoder, latent variables, samples among data."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import MUTED, PALETTE, Array, Figure, numbers, short

MOST_POINTS, MOST_NAMED = 2_000, 20
"""Points that are drawn, and classes that get a colour of their own."""


@style.house_style
def code_map(
    points: Float[Array, "example 2"], classes: Int[Array, " example"] | None, names: Sequence[str], axes: Sequence[str]
) -> Figure:
    """A point for each example, coloured by its class, whose name stands at the middle of its points."""
    places = numbers(points)[:MOST_POINTS]
    figure, panel = style.one_panel(4.6, width=5.6)
    if classes is None or len(names) > MOST_NAMED:
        panel.plot(*places.T, "o", color=PALETTE[0], markersize=3, alpha=0.5, markeredgewidth=0)
    else:
        numbered = numbers(classes)[:MOST_POINTS]
        colours = _colours(len(names))
        for number, name in enumerate(names):
            own = places[numbered == number]
            panel.plot(*own.T, "o", color=colours[number], markersize=3, alpha=0.6, markeredgewidth=0)
            if len(own):
                box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.75, "edgecolor": "none"}
                x, y = np.median(own, axis=0)
                panel.text(x, y, short(name, 12), ha="center", va="center", fontsize=9, fontweight="bold", bbox=box)
    panel.set(xlabel=axes[0], ylabel=axes[1])
    panel.tick_params(colors=MUTED)
    return figure


def _colours(count: int) -> list[str] | np.ndarray:
    """As many as there are classes, as different as possible."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    import matplotlib

    return matplotlib.colormaps["tab20"](np.linspace(0, 1, count))
