"""Weights drawn as pictures."""

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures.style import WIDTH, Array, house_style, new_figure, numbers

if TYPE_CHECKING:
    import matplotlib.figure


@house_style
def weight_grid(weights: Float[Array, "unit height width"], *, columns: int = 12) -> "matplotlib.figure.Figure":
    """One square per unit: red where it is pushed up, blue where it is pulled down, white at zero; all share one scale."""
    values = numbers(weights)
    limit = np.abs(values).max() or 1.0
    columns = min(columns, len(values))
    rows = math.ceil(len(values) / columns)
    cell = WIDTH / 12
    figure = new_figure(max(cell * columns, 2.0), cell * rows * values.shape[1] / values.shape[2] + 0.1)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    for axes, unit in zip(panels.flat, values, strict=False):
        axes.imshow(unit, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none")
    return figure
