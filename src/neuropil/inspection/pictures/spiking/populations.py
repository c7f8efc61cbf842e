"""Populations: tuning curves, decoded functions and their errors, spikes, values over time, and paths."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import Array, Axes, Figure, house_style, line, new_figure, numbers

MOST_CURVES = 60
MOST_POINTS, MOST_POINTS_OF_A_LINE = 7000, 1200
MOST_SPIKES = 4000
"""More would be a drawing of megabytes, and grey."""


Steps: TypeAlias = Float[Array, " step"]
Values: TypeAlias = Mapping[str, Steps]
Errors: TypeAlias = Float[Array, " size"]
Drifts: TypeAlias = Float[Array, " start"]
Points: TypeAlias = Float[Array, " point"]
Curves: TypeAlias = Mapping[str, Points]


class Path(NamedTuple):
    """Two coordinates over time."""

    x: Steps
    y: Steps


@house_style
def tuning_curves(x: Points, rates: Float[Array, "point neuron"], *, rising: Sequence[bool] | np.ndarray) -> Figure:
    """How fast each neuron fires at each value: those whose encoder points up in blue, the others in orange."""
    values, rising = numbers(rates), np.asarray(rising)
    if values.shape[1] == 0:
        raise InputError("a picture of tuning curves needs at least one neuron", got="none")
    figure, axes = style.one_panel(2.9)
    shown = np.unique(np.linspace(0, values.shape[1] - 1, min(values.shape[1], MOST_CURVES)).round().astype(int))
    for neuron in shown:
        colour = style.PALETTE[0 if rising[neuron] else 1]
        axes.plot(numbers(x), values[:, neuron], color=colour, linewidth=0.8, alpha=0.75)
    axes.set(xlabel="value x", ylabel="rate (Hz)")
    axes.set_ylim(0, None)
    axes.margins(x=0)
    count = f"{len(shown)} of {values.shape[1]}" if len(shown) < values.shape[1] else f"{values.shape[1]}"
    axes.set_title(f"tuning curves of {count} neurons")
    return figure


@house_style
def decoded_curves(
    x: Points, wanted: Points, decoded: Curves, *, noisy: Curves | None = None, ylabel: str = "f(x)"
) -> Figure:
    """A function and its decoded values, as lines or, where noisy, as dots; below, the errors on their own scale."""
    style.require_some(decoded, "a picture of what is decoded needs at least one curve")
    figure = new_figure(style.WIDTH, 4.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.6, 1])
    for index, (name, values) in enumerate((noisy or {}).items(), start=len(decoded)):
        colour = style.PALETTE[index % len(style.PALETTE)]
        dots = {"color": colour, "marker": "o", "linestyle": "", "markersize": 1.9, "markeredgewidth": 0}
        above.plot(numbers(x), numbers(values), label=name, **dots)
        below.plot(numbers(x), numbers(values) - numbers(wanted), **dots)
    above.plot(numbers(x), numbers(wanted), color=style.INK, linewidth=1.0, label="wanted")
    below.axhline(0, color=style.INK, linewidth=0.8)
    for index, (name, values) in enumerate(decoded.items()):
        above.plot(numbers(x), numbers(values), label=name, **line(index))
        below.plot(numbers(x), numbers(values) - numbers(wanted), **(line(index) | {"linewidth": 1.1}))
    above.set_ylabel(ylabel)
    below.set(xlabel="value x", ylabel="error")
    above.margins(x=0)
    figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


@house_style
def error_by_neurons(sizes: Sequence[int], noisy: Mapping[str, Errors], exact: Errors) -> Figure:
    """Errors against the number of neurons, both axes logarithmic, as points: of noisy rates for several noises, and of
    exact rates. The lines fall as theory says, 1/√N and 1/N, through the middle of the points."""
    if len(sizes) < 2 or not noisy:
        got = f"{len(sizes)} and {len(noisy)}"
        raise InputError("a picture of errors needs at least two sizes of population and one noise", got=got)
    figure = new_figure(style.WIDTH, 3.2)
    left, right = figure.subplots(1, 2, sharex=True)
    for index, (name, errors) in enumerate(noisy.items()):
        _draw_law(left, sizes, numbers(errors), -0.5, style.PALETTE[index % len(style.PALETTE)], name)
    _draw_law(right, sizes, numbers(exact), -1.0, style.INK, "")
    left.set_title("noisy rates: lines fall as 1/√N")
    right.set_title("exact rates: the line falls as 1/N")
    for axes in (left, right):
        axes.set_xlabel("neurons N")
        style.make_logarithmic(axes, "x")
        style.make_logarithmic(axes)
    left.set_ylabel("RMSE of the decoded value")
    left.legend(loc="lower left", title="noise")
    return figure


@house_style
def condition_numbers(
    sizes: Sequence[int], curves: Mapping[str, Errors], spectrum: Points, floor: float, *, neurons: int
) -> Figure:
    """The condition number against the number of neurons, a line for each noise; on the right the eigenvalues of one
    population, and what noise adds to each of them."""
    if len(sizes) < 2 or not curves:
        got = f"{len(sizes)} and {len(curves)}"
        raise InputError("a picture of condition numbers needs at least two sizes of population and one noise", got=got)
    figure = new_figure(style.WIDTH, 3.2)
    left, right = figure.subplots(1, 2)
    for index, (name, values) in enumerate(curves.items()):
        left.plot(sizes, numbers(values), marker="o", markersize=3.4, label=name, **line(index))
    left.set(xlabel="neurons N", title="condition number of HᵀH + Pσ²I")
    style.make_logarithmic(left, "x")
    style.make_logarithmic(left)
    left.legend(title="noise σ", loc="upper left", bbox_to_anchor=(0, 0.92))
    values = numbers(spectrum)
    right.plot(np.arange(1, len(values) + 1), values, "o", markersize=2.6, color=style.INK)
    right.axhline(floor, color=style.PALETTE[1], linewidth=1.0)
    right.annotate(
        "Pσ²", (1, floor), (-3, 3), textcoords="offset points", xycoords=("axes fraction", "data"), ha="right"
    )
    style.make_logarithmic(right)
    right.set(xlabel="eigenvalue number", title=f"eigenvalues of HᵀH, {neurons} neurons")
    return figure


def _draw_law(axes: Axes, sizes: Sequence[int], errors: np.ndarray, slope: float, colour: str, name: str) -> None:
    neurons = np.asarray(sizes, dtype=float)
    height = np.exp(np.mean(np.log(errors) - slope * np.log(neurons)))
    axes.plot(neurons, height * neurons**slope, color=colour, linewidth=0.9, alpha=0.7)
    axes.plot(neurons, errors, "o", markersize=3.4, color=colour, label=name)


@house_style
def spikes_and_value(
    times: Steps,
    values: Values,
    spike_times: Float[Array, " spike"],
    neurons: Int[Array, " spike"],
    *,
    num_neurons: int,
) -> Figure:
    """A row of ticks for each neuron, in the order given, and under it what they say together."""
    style.require_some(values, "a picture of spikes and value needs at least one value")
    figure = new_figure(style.WIDTH, 4.2)
    raster, axes = figure.subplots(2, 1, sharex=True, height_ratios=[1.3, 1])
    marks: dict[str, Any] = {"color": style.INK, "markersize": 2.6, "markeredgewidth": 0.5, "rasterized": True}
    raster.plot(*_thinned(spike_times, neurons, MOST_SPIKES), "|", **marks)
    raster.set(ylabel="neuron", ylim=(-0.5, num_neurons - 0.5))
    raster.grid(visible=False)
    for index, (name, value) in enumerate(values.items()):
        axes.plot(*_thinned(times, value), label=name, **line(index))
    axes.set(xlabel="time (ms)", ylabel="value", xlim=(0, float(numbers(times)[-1])))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


@house_style
def over_time(times: Steps, panels: Mapping[str, Values], *, columns: int = 1, ylabel: str = "value") -> Figure:
    """Values against time, a panel for each group of them; names that several panels share have one colour."""
    if not panels or not all(panels.values()):
        raise InputError("a picture over time needs at least one value in each panel", got="none")
    rows = -(-len(panels) // columns)
    figure = new_figure(style.WIDTH, 1.75 * rows + 0.6)
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
    drawn = [name for lines in panels.values() for name in lines]
    names, most = list(dict.fromkeys(drawn)), min(MOST_POINTS_OF_A_LINE, MOST_POINTS // len(drawn))
    entries = {}
    for index, axes in enumerate(grid.flat):
        axes.set_visible(index < len(panels))
        axes.set_ylabel(ylabel if index % columns == 0 else "")
        axes.set_xlabel("time (ms)" if index + columns >= len(panels) else "")
    for axes, (title, lines) in zip(grid.flat, panels.items(), strict=False):
        for name, values in lines.items():
            (entries[name],) = axes.plot(*_thinned(times, values, most), label=name, **line(names.index(name)))
        axes.set_title(title)
        axes.margins(x=0)
    figure.legend(list(entries.values()), list(entries), loc="outside upper center", ncols=4)
    return figure


@house_style
def paths(panels: Mapping[str, Mapping[str, Path]], *, xlabel: str = "x", ylabel: str = "y") -> Figure:
    """Two coordinates against each other; all panels have one scale, and the names of the first."""
    if not panels or not all(panels.values()):
        raise InputError("a picture of paths needs at least one path in each panel", got="none")
    width = style.WIDTH if len(panels) > 1 else 0.6 * style.WIDTH
    figure = new_figure(width, 0.5 + style.WIDTH / max(len(panels), 1.9))
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for number, (axes, (title, lines)) in enumerate(zip(grid, panels.items(), strict=True)):
        for index, (name, path) in enumerate(lines.items()):
            points = _thinned(path.x, path.y, most=4 * MOST_POINTS_OF_A_LINE)
            axes.plot(*points, label=name, **(line(index) | {"linewidth": 0.9}))
        axes.set_title(title)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel if number == 0 else "")
    names = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
    if len(names) > 1:
        figure.legend(list(names.values()), list(names), loc="outside upper center", ncols=4)
    return figure


@house_style
def drift(starts: Drifts, drifts: Mapping[str, Drifts], *, allowed: float | None = None) -> Figure:
    """How fast values that should stay move, in percent of the radius per second, against where they are held."""
    style.require_some(drifts, "a picture of drift needs at least one memory")
    figure, axes = style.one_panel(2.6)
    axes.axhline(0, color=style.MUTED, linewidth=0.8)
    if allowed is not None:
        axes.axhspan(-allowed, allowed, color=style.MUTED, alpha=0.12, linewidth=0, label=f"within {allowed:g} %")
    for index, (name, values) in enumerate(drifts.items()):
        axes.plot(numbers(starts), numbers(values), marker="o", markersize=3, label=name, **line(index))
    axes.set(xlabel="value that is held", ylabel="drift (% of the radius / s)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def _thinned(x: Array, y: Array, most: int = MOST_POINTS_OF_A_LINE) -> tuple[np.ndarray, np.ndarray]:
    across, up = numbers(x), numbers(y)
    if len(across) <= most:
        return across, up
    kept = np.unique(np.linspace(0, len(across) - 1, most).round().astype(int))
    return across[kept], up[kept]
