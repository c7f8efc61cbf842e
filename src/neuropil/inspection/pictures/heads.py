"""What attention heads are worth."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import PALETTE, WIDTH, Array, house_style, new_figure, numbers

if TYPE_CHECKING:
    import matplotlib.figure


@house_style
def head_importance(
    importance: Mapping[str, Float[Array, " head"]], removed: Mapping[str, Sequence[int]]
) -> "matplotlib.figure.Figure":
    """A row for each layer, a square for each head, darker where it is worth more of its layer; crosses mark those that are removed."""
    if not importance:
        raise InputError("a picture of heads needs at least one layer", got="none")
    names = list(importance)
    rows = [np.clip(numbers(importance[name]), 0, None) for name in names]
    columns = max(map(len, rows))
    grid = np.full((len(rows), columns), np.nan)
    for index, row in enumerate(rows):
        grid[index, : len(row)] = row / (np.linalg.norm(row) or 1.0)
    figure = new_figure(WIDTH, 0.9 + 0.3 * len(rows))
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for index, name in enumerate(names):
        axes.plot(
            list(removed.get(name, [])),
            [index] * len(removed.get(name, [])),
            "x",
            color=PALETTE[1],
            markersize=8,
            markeredgewidth=1.8,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_xticks(range(columns), [str(head) for head in range(columns)])
    axes.set_xlabel("head")
    axes.grid(visible=False)
    figure.colorbar(image, label="importance within the layer")
    return figure


@house_style
def loss_by_heads(curve: Mapping[int, float]) -> "matplotlib.figure.Figure":
    """Loss against the number of heads that are switched off."""
    if not curve:
        raise InputError("a picture of losses by heads needs at least one loss", got="none")
    figure = new_figure(WIDTH, 2.6)
    axes = figure.subplots()
    axes.plot(list(curve), list(curve.values()), color=PALETTE[0], marker="o", markersize=4)
    axes.set_xlabel("heads switched off")
    axes.set_ylabel("validation loss")
    axes.set_ylim(bottom=0)
    return figure
