"""A diffusion model at work: strips from noise to a picture, and the schedule by which noise is added."""

from collections.abc import Sequence

from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.images import Image, rgb, side_by_side, thinned
from neuropil.inspection.pictures.style import MUTED, PALETTE, WIDTH, Array, Figure, numbers, short


@style.house_style
def strips(pictures: Sequence[Sequence[Image]], times: Sequence[str], names: Sequence[str]) -> Figure:
    """A row for each sample, a column for each time."""
    style.require_some(pictures, "a strip needs at least one sample")
    rows = [[rgb(thinned(numbers(image))) for image in row] for row in pictures]
    height, width = rows[0][0].shape[:2]
    cell = (WIDTH - 0.6) / len(times)
    figure = style.new_figure(WIDTH, len(rows) * (cell * height / width + 0.06) + 0.25)
    panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, row, name in zip(panels, rows, names, strict=True):
        axes.imshow(side_by_side(row, len(times), (height, width)), interpolation="none")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
        axes.set_ylabel(short(name, 10), rotation=0, ha="right", va="center", fontsize=8, color=MUTED)
    for place, time in enumerate(times):
        x = place * (width + max(1, width // 12)) + width / 2 - 0.5
        style.write_above(panels[0], time, x)
    return figure


@style.house_style
def noise_schedule(alpha_bar: Float[Array, " time"], weights: Float[Array, " time"]) -> Figure:
    """ᾱ_t and λ_t against t."""
    figure = style.new_figure(WIDTH, 2.3)
    left, right = figure.subplots(1, 2)
    kept, weight = numbers(alpha_bar), numbers(weights)
    left.plot(range(len(kept)), kept, color=PALETTE[0])
    left.set(xlabel="t", title="share of the picture's variance")
    right.plot(range(1, len(weight)), weight[1:], color=PALETTE[1])
    style.make_logarithmic(right)
    right.set(xlabel="t", title="weight λ in the bound")
    return figure
