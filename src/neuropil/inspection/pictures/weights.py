"""Weights as images and as histograms."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import PALETTE, WIDTH, Array, Figure, numbers


@style.house_style
def weight_grid(weights: Float[Array, "unit height width"], *, columns: int = 12) -> Figure:
    """One square per unit: positive weights are red, negative ones blue, zero is white; all share one scale."""
    values = numbers(weights)
    limit = np.abs(values).max() or 1.0
    rows, columns = style.rows_of(len(values), columns)
    cell = WIDTH / 12
    figure = style.new_figure(max(cell * columns, 2.0), cell * rows * values.shape[1] / values.shape[2] + 0.1)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    for axes, unit in zip(panels.flat, values, strict=False):
        axes.imshow(unit, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none")
    return figure


@style.house_style
def weight_histograms(weights: Mapping[str, Float[Array, " weight"]]) -> Figure:
    """Histograms of weights on one axis; counts are logarithmic, so that the tails show."""
    style.require_some(weights, "a picture of weights needs at least one set of them")
    figure = style.new_figure(WIDTH, 1.25 * len(weights) + 0.5)
    panels = figure.subplots(len(weights), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    limit = max(float(np.abs(numbers(values)).max()) for values in weights.values()) or 1.0
    edges = np.linspace(-limit, limit, 82)  # an odd number of bins has one around zero
    for index, (axes, (name, values)) in enumerate(zip(panels, weights.items(), strict=True)):
        axes.hist(numbers(values), bins=edges.tolist(), color=PALETTE[index % len(PALETTE)])
        axes.set(title=name, ylabel="weights")
    panels[0].set_ylim(0.7, None)
    style.make_logarithmic(panels[0])
    panels[-1].set_xlabel("value of a weight")
    return figure
