"""Weights between the tokens of two texts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float

from neuropil.inspection.pictures.style import WIDTH, Array, house_style, new_figure, numbers
from neuropil.inspection.report.alignment import shown

if TYPE_CHECKING:
    import matplotlib.figure


@house_style
def token_weights(
    weights: Float[Array, "query key"], queries: Sequence[str], keys: Sequence[str]
) -> "matplotlib.figure.Figure":
    """A row for each token that looks, a column for each that is looked at, darker for more."""
    values = numbers(weights)
    cell = min(0.28, (WIDTH - 1.6) / len(keys))
    figure = new_figure(min(WIDTH, 1.8 + cell * len(keys)), 0.5 + cell * len(queries))
    axes = figure.subplots()
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(keys)), [shown(token) for token in keys])
    axes.set_yticks(range(len(queries)), [shown(token) for token in queries])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    figure.colorbar(image, label="weight", shrink=0.7)
    return figure
