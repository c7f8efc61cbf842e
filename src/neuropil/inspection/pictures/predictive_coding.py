"""Predictive coding: energy, weight changes beside those of back-propagation, generated and completed images."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.images import Image, gap, rgb, side_by_side, thinned
from neuropil.inspection.pictures.style import Array, Figure, house_style, line, new_figure, numbers

Pictures: TypeAlias = Sequence[Array]
Energies: TypeAlias = Mapping[str, Float[Array, " step"]]
Cosines: TypeAlias = Mapping[str, Float[Array, "_ _"]]
"""[step layer], of each network."""
VEIL = (190, 214, 240)


@house_style
def settling(energies: Energies, parts: Energies, *, title: str) -> Figure:
    """How the energy falls in each use of a network, as a share of the first; and its parts in one use, stacked."""
    if not energies or not parts:
        got = f"{len(energies)} energies and {len(parts)} parts"
        raise InputError("a picture of settling needs energies and their parts", got=got)
    figure = new_figure(style.WIDTH, 2.9)
    falling, layers = figure.subplots(1, 2, width_ratios=[1.1, 1])
    for index, (name, energy) in enumerate(energies.items()):
        values = numbers(energy)
        falling.plot(values / values[0], label=name, **line(index))
    falling.set(xlabel="settling step", ylabel="energy, as a share of the first", title="Energy falls", ylim=(0, 1.05))
    falling.legend(fontsize=8, loc="center right", bbox_to_anchor=(1, 0.36))
    heights = np.stack([numbers(part) for part in parts.values()])
    steps, colours = np.arange(heights.shape[1]), _ramp(len(parts))
    drawn = layers.stackplot(steps, heights, colors=colours, linewidth=0.4, edgecolor="white")
    names = [style.short(name, 26) for name in parts]
    layers.legend(drawn[::-1], names[::-1], loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1)
    layers.set(xlabel="settling step", ylabel="energy", title=title)
    layers.margins(x=0)
    return figure


@house_style
def cosines_over_settling(steps: Sequence[int], cosines: Cosines, *, columns: int = 3) -> Figure:
    """A panel for each network, a line for each layer, light at the input and dark at the target.
    There is no number, and no line, where a layer does not change yet."""
    if not cosines or any(len(each) != len(steps) for each in cosines.values()):
        got = f"{[len(each) for each in cosines.values()]} rows"
        raise InputError("a picture of cosines needs a row for each step", got=got)
    columns = min(columns, len(cosines))
    rows = -(-len(cosines) // columns)
    figure = new_figure(style.WIDTH, 2.1 * rows + 0.4)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (name, values) in zip(panels.flat, cosines.items(), strict=False):
        curves = numbers(values).T
        for layer, (curve, colour) in enumerate(zip(curves, _ramp(len(curves)), strict=True)):
            named = {0: "first layer of weights", len(curves) - 1: "last"}.get(layer)
            axes.plot(steps, curve, color=colour, label=named, marker="o", markersize=2.6)
        axes.axhline(1, color=style.INK, linewidth=0.8, linestyle="--")
        axes.set(xscale="log", title=name)
        axes.set_xticks([step for step in (1, 10, 100, 1000, 10_000) if steps[0] <= step <= steps[-1]])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    style.label_outer(panels, len(cosines), xlabel="settling steps", ylabel="cosine")
    figure.legend(*panels.flat[len(cosines) - 1].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


@house_style
def gradient_while_settling(shares: Energies, *, rest: float) -> Figure:
    """The gradient of the energy over steps, as a share of the first, a line for each kind of error nodes; at `rest`
    the states count as settled."""
    if not shares:
        raise InputError("a picture of settling needs gradients", got="none")
    figure = new_figure(style.WIDTH, 2.9)
    axes = figure.subplots()
    for index, (name, share) in enumerate(shares.items()):
        axes.plot(numbers(share), label=name, **line(index))
    axes.axhline(rest, color=style.INK, linewidth=0.8, linestyle="--")
    axes.set(xlabel="settling step", ylabel="gradient, as a share of the first", title="Gradient of the energy")
    style.make_logarithmic(axes)
    axes.margins(x=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


@house_style
def generated(images: Sequence[Sequence[Image]], classes: Sequence[str]) -> Figure:
    """A column for each class, one generated picture under the other."""
    if not images or any(len(row) != len(classes) for row in images):
        got = f"{[len(row) for row in images]} images"
        raise InputError("a picture of generated images needs rows of one for each class", got=got)
    return _table_of_images(images, titles=classes, labels=[""] * len(images))


@house_style
def completed(covered: Pictures, settled: Pictures, whole: Pictures, hidden: Shaped[Array, "_ _"]) -> Figure:
    """Three rows: pictures with a part (`hidden`) covered, completed by the network, and as they were."""
    veiled = [_veil(numbers(image), numbers(hidden)) for image in covered]
    labels = ["covered", "completed", "as it was"]
    return _table_of_images([veiled, settled, whole], titles=[""] * len(covered), labels=labels)


def _table_of_images(rows: Sequence[Sequence[Array]], titles: Sequence[str], labels: Sequence[str]) -> Figure:
    shaded = [[rgb(thinned(numbers(image))) for image in row] for row in rows]
    height, width = shaded[0][0].shape[:2]
    beside = 0.8 if any(labels) else 0.0
    cell = min(0.95, (style.WIDTH - beside) / len(titles))
    above = 0.24 if any(titles) else 0.0
    figure = new_figure(cell * len(titles) + beside, len(rows) * (cell * height / width + 0.04) + above)
    panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, images, label in zip(panels, shaded, labels, strict=True):
        axes.imshow(side_by_side(images, len(titles), (height, width)), interpolation="none")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8.5)
    for place, title in enumerate(titles):
        middle = place * (width + gap(width)) + width / 2 - 0.5
        name, at = style.short(title, int(13 * cell)), (middle, -0.5)
        panels[0].annotate(name, at, (0, 3), textcoords="offset points", ha="center", fontsize=8.5)
    return figure


def _veil(image: np.ndarray, hidden: np.ndarray) -> UInt8[np.ndarray, "height width 3"]:
    """What is covered is of a colour that no grey picture has."""
    colours = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)
    return np.where(hidden[..., None], np.array(VEIL, dtype=np.uint8), colours)


def _ramp(count: int) -> list[tuple[float, ...]]:
    """From light to dark, so that an order can be seen."""
    from matplotlib import colormaps

    return [colormaps["viridis_r"](0.12 + 0.82 * index / max(count - 1, 1)) for index in range(count)]
