"""Spikes and what makes them: rasters, membranes, tuning curves and synapses, with their units."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Shaped

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import Array, Axes, Figure, house_style, line, new_figure, numbers

Points: TypeAlias = Shaped[Array, " point"]
Steps: TypeAlias = Shaped[Array, " step"]
Curves: TypeAlias = Mapping[str, Points]
Rates: TypeAlias = Mapping[str, Steps]
Formula: TypeAlias = tuple[Array, Array]
SpikeTrains: TypeAlias = Mapping[str, tuple[Array, Array]]
"""Times (ms) and neurons of each group."""

MOST_LINES = 20_000
"""Spikes that are drawn as lines; more become pixels, or the page would be too heavy."""
BINS = 100
LEAST_ERROR = 1e-14
"""Per cent: what a logarithmic axis shows of an error of zero."""
SPIKE_HEIGHT = 0.6
"""Of the way from reset to threshold: how far the mark of a spike stands out."""


@house_style
def raster(
    spikes: SpikeTrains, sizes: Mapping[str, int], *, duration: float, start: float = 0.0, ylabel: str = "neuron"
) -> Figure:
    """Every spike from `start` to `duration` ms as a tick, groups one above the other, and below their mean rates."""
    style.require_some(spikes, "a raster needs at least one group of neurons")
    figure = new_figure(style.WIDTH, 4.2)
    ticks, rates = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    edges = np.linspace(start, duration, BINS + 1)
    total, below = sum(sizes[name] for name in spikes), 0
    for index, (name, train) in enumerate(spikes.items()):
        times, neurons = (numbers(part) for part in train)
        shown = (times >= start) & (times <= duration)
        colour, size = style.PALETTE[index % len(style.PALETTE)], sizes[name]
        _draw_ticks(ticks, times[shown], neurons[shown] + below, colour, total)
        counts, _ = np.histogram(times[shown], edges)
        # spikes per neuron and second: a bin lasts so many ms
        heights = 1000 * counts / (size * (edges[1] - edges[0]))
        rates.stairs(heights, edges, color=colour, linewidth=1.2, label=f"{name} ({size:,})")
        below += size
    ticks.set(ylabel=ylabel, ylim=(-0.5 - 0.01 * total, total - 0.5 + 0.01 * total), xlim=(start, duration))
    ticks.grid(axis="y", visible=False)
    rates.set(xlabel="time (ms)", ylabel="mean rate (Hz)")
    rates.set_ylim(bottom=0)
    if len(spikes) > 1:
        figure.legend(*rates.get_legend_handles_labels(), loc="outside upper right", ncols=min(4, len(spikes)))
    return figure


def _draw_ticks(axes: Axes, times: np.ndarray, heights: np.ndarray, colour: str, total: int) -> None:
    reach = 0.42 if total <= 100 else 0.8  # among many neurons a tick as high as its row would not be seen
    # one line with gaps, which is lighter than a line for every spike
    x, gap = np.repeat(times.astype(float), 3), np.full(len(times), np.nan)
    y = np.stack([heights - reach, heights + reach, gap], axis=1).reshape(-1)
    width, many = 0.9 if total <= 100 else 0.7, len(times) > MOST_LINES
    axes.plot(x, y, color=colour, linewidth=width, solid_capstyle="butt", rasterized=many)


@house_style
def membranes(
    times: Steps,
    voltages: Float[Array, "step neuron"],
    spikes: Sequence[Array],
    names: Sequence[str],
    *,
    threshold: float,
    reset: float,
    unit: str = "",
) -> Figure:
    """The voltage of each neuron over time (ms) in its own panel, with the threshold and marks at its `spikes`."""
    style.require_some(names, "a picture of membranes needs at least one neuron")
    t, v = numbers(times), numbers(voltages)
    figure = new_figure(style.WIDTH, 0.95 * len(names) + 0.75)
    panels = figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    top = threshold + SPIKE_HEIGHT * (threshold - reset)
    for index, axes in enumerate(panels):
        _draw_membrane(axes, t, v[:, index], numbers(spikes[index]), threshold, top)
        axes.set_title(names[index], fontsize=9, fontweight="normal", pad=3)
    lowest = min(float(v.min()) if v.size else reset, reset)
    height = top - lowest
    panels[0].set(ylim=(lowest - 0.08 * height, top + 0.04 * height), xlim=(0, float(t[-1]) if len(t) else 1))
    panels[-1].set_xlabel("time (ms)")
    figure.supylabel(f"v ({unit})" if unit else "v (threshold = 1)", fontsize=9, color=style.MUTED)
    return figure


def _draw_membrane(axes: Axes, t: Array, v: Array, spikes: Array, threshold: float, top: float) -> None:
    axes.axhline(threshold, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.plot(t, v, color=style.PALETTE[0], linewidth=1.2)
    axes.vlines(spikes, threshold, top, color=style.PALETTE[1], linewidth=1.2)


@house_style
def tuning_curve(v_in: Points, counted: Curves, expected: Points, formula: Formula, *, unit: str = "") -> Figure:
    """Rates (Hz) that were counted for each input, on the line of the formula; below, by how many per cent they differ
    from those `expected` there. `formula` are inputs and rates, as densely as the line is to be drawn."""
    x, right = numbers(v_in), numbers(expected)
    figure = new_figure(style.WIDTH, 4.3)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.plot(*(numbers(part) for part in formula), color=style.INK, linewidth=1.4, label="formula")
    fires = right > 0
    for index, (name, rates) in enumerate(counted.items()):
        colour = style.PALETTE[index % len(style.PALETTE)]
        marks = {"color": colour, "marker": "o+xs"[index % 4], "linestyle": "", "markersize": 4}
        above.plot(x, numbers(rates), label=name, **marks)
        error = 100 * np.abs(numbers(rates)[fires] / right[fires] - 1)
        below.plot(x[fires], np.maximum(error, LEAST_ERROR), label=name, **marks)
    above.set_ylabel("rate (Hz)")
    above.set_ylim(bottom=0)
    style.make_logarithmic(below)
    below.set(ylabel="difference (%)", xlabel=_input_label(unit))
    above.legend(loc="upper left")
    return figure


@house_style
def rate_curves(v_in: Points, curves: Curves, ceilings: Sequence[float | None], *, unit: str = "") -> Figure:
    """Rates (Hz) over the input, each with the ceiling that it never reaches, where there is one."""
    figure, axes = style.one_panel(2.9)
    for index, ((name, rates), ceiling) in enumerate(zip(curves.items(), ceilings, strict=True)):
        axes.plot(numbers(v_in), numbers(rates), label=name, **line(index))
        if ceiling is not None:
            axes.axhline(ceiling, color=style.PALETTE[index % len(style.PALETTE)], linewidth=0.8, linestyle=":")
    x = numbers(v_in)
    axes.set(xlabel=_input_label(unit), ylabel="rate (Hz)", ylim=(0, None), xlim=(float(x[0]), float(x[-1])))
    axes.legend(loc="upper left")
    return figure


@house_style
def synaptic_filters(t: Points, filters: Curves, times: Steps, filtered: Rates, spikes: Array) -> Figure:
    """Above the filters h(t) (1/ms), of unit area; below what they make of one spike train. Times are in ms."""
    figure = new_figure(style.WIDTH, 4.6)
    above, below = figure.subplots(2, 1)
    for index, (name, values) in enumerate(filters.items()):
        above.plot(numbers(t), numbers(values), label=name, **line(index))
    for index, (name, values) in enumerate(filtered.items()):
        below.plot(numbers(times), numbers(values), label=name, **line(index))
    high = below.get_ylim()[1]
    below.vlines(numbers(spikes), -0.12 * high, -0.03 * high, color=style.INK, linewidth=1)
    below.set(xlabel="time (ms)", ylabel="s(t) (1/ms)", ylim=(-0.16 * high, high), xlim=(0, float(numbers(times)[-1])))
    above.set(xlabel="time after a spike (ms)", ylabel="h(t) (1/ms)", xlim=(0, float(numbers(t)[-1])), ylim=(0, None))
    above.set_title("the filters")
    below.set_title("a train of spikes (ticks) through them")
    above.legend(loc="upper right")
    return figure


@house_style
def driven(
    times: Steps,
    v_in: Steps,
    voltage: Steps,
    spikes: Array,
    rates: Rates,
    *,
    threshold: float,
    reset: float,
    unit: str = "",
) -> Figure:
    """One neuron with an input that changes: the input, the voltage with its spikes, and rates (Hz) to compare."""
    t = numbers(times)
    figure = new_figure(style.WIDTH, 4.4)
    above, middle, below = figure.subplots(3, 1, sharex=True)
    # times are the ends of the steps
    above.plot(t, numbers(v_in), color=style.INK, linewidth=1.4, drawstyle="steps-pre")
    above.set_ylabel(f"v_in ({unit})" if unit else "v_in")
    top = threshold + SPIKE_HEIGHT * (threshold - reset)
    _draw_membrane(middle, t, numbers(voltage), numbers(spikes), threshold, top)
    middle.set_ylabel(f"v ({unit})" if unit else "v")
    for index, (name, values) in enumerate(rates.items()):
        below.plot(t, numbers(values), label=style.short(name, 40), **line(index))
    below.set(xlabel="time (ms)", ylabel="rate (Hz)", xlim=(0, float(t[-1])), ylim=(0, None))
    figure.legend(*below.get_legend_handles_labels(), loc="outside upper right", ncols=min(3, len(rates)))
    return figure


def _input_label(unit: str) -> str:
    return f"constant input v_in ({unit})" if unit else "constant input v_in (threshold = 1)"
