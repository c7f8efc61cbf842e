"""Spiking classifier: spikes through the layers, voltages, rates, and accuracy over time."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.images import Image
from neuropil.inspection.pictures.style import Array, Axes, Figure, house_style, line, new_figure, numbers

Traces: TypeAlias = Mapping[str, Float[Array, "time _"]]
"""Of the neurons of each layer."""

MOST_ROWS = 256
"""Neurons of a layer that are drawn: more would be thinner than a pixel."""
MOST_CLASSES = 40


@house_style
def spikes_through_layers(
    layers: Traces, logits: Float[Array, "time class"], classes: Sequence[str], dt: float, image: Image | None = None
) -> Figure:
    """The spikes (1, else 0) of one input in every layer, a neuron in each row, above the logits so far."""
    _require_names("a picture of what is read needs", numbers(logits).shape[1], classes)
    figure = new_figure(style.WIDTH, 1.35 * len(layers) + 1.9)
    heights = [*[1] * len(layers), 1.25]
    rows = figure.subplots(len(heights), 2, squeeze=False, width_ratios=[1, 5.2], height_ratios=heights)
    for axes in rows[:, 0]:
        axes.set_axis_off()
    if image is not None:
        rows[0, 0].imshow(image, cmap="gray", interpolation="none")
    end = len(numbers(logits)) * dt
    for axes, (name, spikes) in zip(rows[:, 1], layers.items(), strict=False):
        _draw_spikes(axes, numbers(spikes), dt)
        axes.set(ylabel=f"{name}\nneuron", xlim=(0, end + dt / 2))
        axes.tick_params(labelbottom=False)
    _draw_readings(rows[-1, 1], numbers(logits), classes, dt)
    rows[-1, 1].set(xlim=(0, end + dt / 2), xlabel="time (ms)", ylabel="read so far")
    return figure


@house_style
def voltage_traces(voltages: Traces, names: Sequence[str], threshold: float, dt: float) -> Figure:
    """Voltages of some neurons of each layer, by their names, with a dot where one was above threshold and fired."""
    figure = new_figure(style.WIDTH, 1.5 * len(voltages) + 0.75)
    panels = figure.subplots(len(voltages), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (layer, values) in zip(panels, voltages.items(), strict=True):
        values = numbers(values)
        times = dt * np.arange(1, len(values) + 1)
        axes.axhline(threshold, color=style.INK, linewidth=0.9, linestyle="--")
        for index, (name, trace) in enumerate(zip(names, values.T, strict=False)):
            colour = style.PALETTE[index % len(style.PALETTE)]
            axes.plot(times, trace, color=colour, linewidth=1.1, label=name)
            fired = trace > threshold
            axes.plot(times[fired], trace[fired], "o", color=colour, markersize=3, markeredgewidth=0)
        axes.set(ylabel=f"{layer}\nvoltage", xlim=(0, times[-1]))
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(names))
    panels[-1].set_xlabel("time (ms)")
    return figure


@house_style
def rates_by_class(rates: Mapping[str, Float[Array, "class unit"]], classes: Sequence[str]) -> Figure:
    """The mean rate of each layer for each class; below, those of its neurons, sorted by their preferred class."""
    for values in rates.values():
        _require_names("rates by class need", len(values), classes)
    shown = [style.short(name, 12) for name in classes[:MOST_CLASSES]]
    columns = max(2, len(rates))
    room = (style.WIDTH - 0.4 - 0.4 * columns) / columns / len(shown)  # inches for the name of a class
    upright = 0.085 * max(map(len, shown)) > room
    ticks = range(0, len(shown), math.ceil(0.15 / room) if upright else 1)
    figure = new_figure(style.WIDTH, 4.6 + (0.07 * max(map(len, shown)) if upright else 0))
    panels = figure.subplots(2, columns, squeeze=False, sharex="col", height_ratios=[1, 2.6])
    for axes in panels[:, len(rates) :].flat:
        axes.set_visible(False)
    for (bars, grid), (name, values) in zip(panels.T, rates.items(), strict=False):
        values = numbers(values)[: len(shown)]
        bars.bar(range(len(shown)), values.mean(1), color=style.PALETTE[0], width=0.7)
        bars.grid(visible=False, axis="x")
        bars.set_title(f"{name}: {values.mean():.3g} Hz", fontsize=9)
        cells = _sorted_by_class(values).T
        extent = (-0.5, len(shown) - 0.5, len(cells) + 0.5, 0.5)
        drawn = grid.imshow(cells, cmap="Blues", vmin=0, aspect="auto", interpolation="none", extent=extent)
        _count_neurons(grid)
        grid.grid(visible=False)
        grid.set_xticks(ticks, [shown[tick] for tick in ticks], rotation=90 if upright else 0)
        grid.tick_params(length=0)
        bar = figure.colorbar(drawn, ax=grid, location="bottom", label="Hz", fraction=0.05, aspect=30)
        bar.outline.set_visible(False)
    panels[0, 0].set_ylabel("mean rate (Hz)")
    panels[1, 0].set_ylabel("neuron")
    return figure


@house_style
def accuracy_by_time(accuracy: Float[Array, " time"], dt: float) -> Figure:
    """Share of right answers if reading ended after each step."""
    values = 100 * numbers(accuracy)
    times = dt * np.arange(1, len(values) + 1)
    figure, axes = style.one_panel(2.6)
    axes.plot(times, values, marker="o", markersize=3.4, **line(0))
    label, end = f"{values[-1]:.1f} %", (times[-1], values[-1])
    axes.annotate(label, end, xytext=(0, -14), textcoords="offset points", ha="right", color=style.INK)
    axes.set(xlabel="readout time (ms)", ylabel="accuracy (%)", ylim=(0, 103), xlim=(0, times[-1] + dt))
    return figure


# --- pieces of the above ----------------------------------------------------------------------------------------------


def _draw_spikes(axes: Axes, spikes: Float[np.ndarray, "time unit"], dt: float) -> None:
    """Sorted by the first spike, so that the wave can be seen; neurons that stay silent are counted, not drawn."""
    fires = spikes.sum(0) > 0
    busy = spikes[:, fires]
    busy = busy[:, np.lexsort((-busy.sum(0), busy.argmax(0)))[:MOST_ROWS]]
    rows, steps = busy.T.nonzero()
    # one line with gaps is the smallest drawing of many marks
    x, y = np.full((2, len(rows), 3), np.nan)
    x[:, :2], y[:, :2] = dt * (steps[:, None] + 1), rows[:, None] + [0.55, 1.45]
    axes.plot(x.ravel(), y.ravel(), color=style.PALETTE[0], linewidth=1.8, solid_capstyle="butt")
    axes.set_ylim(max(busy.shape[1], 1) + 0.5, 0.5)
    _count_neurons(axes)
    axes.grid(visible=False)
    note = f"{int(spikes.sum()):,} spikes, {int((~fires).sum()):,} of {spikes.shape[1]:,} silent"
    axes.set_title(note, fontsize=8, fontweight="normal", color=style.MUTED, loc="right", pad=2)


def _count_neurons(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, min_n_ticks=1))


def _sorted_by_class(rates: Float[np.ndarray, "class unit"]) -> Float[np.ndarray, "class unit"]:
    """The busiest neurons, by the class that each fires for most."""
    busiest = rates[:, np.sort(rates.sum(0).argsort()[::-1][:MOST_ROWS])]
    return busiest[:, np.lexsort((-busiest.max(0), busiest.argmax(0)))]


def _draw_readings(axes: Axes, logits: Float[np.ndarray, "time class"], classes: Sequence[str], dt: float) -> None:
    """The likeliest classes in colour and by name, the others grey."""
    times = dt * np.arange(1, len(logits) + 1)
    best: list[int] = logits[-1].argsort()[::-1].tolist()
    axes.plot(times, logits[:, best[3:]], color="#c3c8d0", linewidth=0.9)
    for rank in reversed(range(min(3, len(best)))):
        name, width = style.short(classes[best[rank]]), 2.0 if rank == 0 else 1.2
        axes.plot(times, logits[:, best[rank]], label=name, linewidth=width, **line(rank))
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="lower left", bbox_to_anchor=(0, 0.97), ncols=3)


def _require_names(what: str, num_classes: int, names: Sequence[str]) -> None:
    if num_classes != len(names):
        raise InputError(f"{what} a name for each class", got=f"{num_classes} classes and {len(names)} names")
