"""Spiking networks: activity in several regimes, firing statistics, and learned weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import Array, Axes, Figure, house_style, new_figure, numbers


@dataclass(frozen=True)
class RegimeActivity:
    """Some neurons of a network and the rate (Hz) of all of it, whose bins begin at `start` and last for `bin` ms."""

    times: Shaped[Array, " spike"]
    neurons: Shaped[Array, " spike"]
    rate: Shaped[Array, " time"]
    start: float
    bin: float


@house_style
def regimes(activities: Mapping[str, RegimeActivity]) -> Figure:
    """For each regime the spikes of some neurons over the population rate, as in figure 8 of Brunel (2000)."""
    style.require_some(activities, "a picture of regimes needs at least one")
    columns = min(2, len(activities))
    rows = -(-len(activities) // columns)
    figure = new_figure(style.WIDTH, 2.5 * rows)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=(2, 1) * rows)
    for index, (name, activity) in enumerate(activities.items()):
        row, column = divmod(index, columns)
        ticks = figure.add_subplot(grid[2 * row, column])
        rate = figure.add_subplot(grid[2 * row + 1, column], sharex=ticks)
        _draw_activity(ticks, rate, activity)
        ticks.set_title(name)
        if column == 0:
            ticks.set_ylabel("neuron")
            rate.set_ylabel("rate (Hz)")
        if row == rows - 1:
            rate.set_xlabel("time (ms)")
    return figure


def _draw_activity(ticks: Axes, rate: Axes, activity: RegimeActivity) -> None:
    values = numbers(activity.rate)
    edges = activity.start + activity.bin * np.arange(len(values) + 1)
    times, neurons = numbers(activity.times), numbers(activity.neurons)
    shown = (times > edges[0]) & (times <= edges[-1])
    # one line with gaps, which is lighter than a line for every spike
    heights = neurons[shown] + np.array([[-0.4], [0.4], [np.nan]])
    x, y = np.repeat(times[shown], 3), heights.T.reshape(-1)
    ticks.plot(x, y, color=style.PALETTE[0], linewidth=0.8, solid_capstyle="butt")
    ticks.tick_params(labelbottom=False)
    ticks.grid(visible=False)
    rate.stairs(values, edges, fill=True, color=style.PALETTE[1])
    rate.set(xlim=(edges[0], edges[-1]), ylim=(0, None))


@house_style
def firing_statistics(statistics: Mapping[str, Mapping[str, Array]], chance: Mapping[str, float]) -> Figure:
    """A panel for each statistic: its distribution over the neurons of each group; `chance` marks Poisson neurons."""
    style.require_some(statistics, "a picture of firing needs at least one statistic")
    figure = new_figure(style.WIDTH, 2.5)
    panels = figure.subplots(1, len(statistics), squeeze=False)[0]
    for axes, (name, groups) in zip(panels, statistics.items(), strict=True):
        finite = {group: _finite(values) for group, values in groups.items()}
        everything = np.concatenate([*finite.values(), np.empty(0)])
        high = float(everything.max()) if everything.size else 1.0
        edges = np.linspace(0, max(1.05 * high, 1e-9), 31)
        for index, (group, values) in enumerate(finite.items()):
            shares = np.histogram(values, edges)[0] / max(len(values), 1)
            colour = style.PALETTE[index % len(style.PALETTE)]
            axes.stairs(100 * shares, edges, color=colour, linewidth=1.4, label=group)
        if name in chance:
            axes.axvline(chance[name], color=style.INK, linewidth=0.9, linestyle=(0, (4, 2)))
        axes.set(xlabel=name, ylim=(0, None))
    panels[0].set_ylabel("neurons (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def _finite(values: Shaped[Array, " neuron"]) -> np.ndarray:
    plain = numbers(values).astype(float)
    return plain[np.isfinite(plain)]


@house_style
def learned_weights(weights: Mapping[str, tuple[Array, Array]]) -> Figure:
    """For each plastic connection how its weights were spread before and after."""
    style.require_some(weights, "a picture of learned weights needs a plastic connection")
    figure = new_figure(style.WIDTH, 2.4 * len(weights) + 0.2)
    panels = figure.subplots(len(weights), 1, squeeze=False)[:, 0]
    for axes, (name, (before, after)) in zip(panels, weights.items(), strict=True):
        first, last = numbers(before), numbers(after)
        edges = np.histogram_bin_edges(np.concatenate([first, last]), 40)
        for values, label, colour in ((first, "before", style.PALETTE[0]), (last, "after", style.PALETTE[1])):
            shares = np.histogram(values, edges)[0] / max(len(values), 1)
            axes.stairs(100 * shares, edges, color=colour, linewidth=1.4, label=label)
        axes.set(title=name, xlabel="weight", ylabel="synapses (%)")
        axes.legend(loc="best")
    return figure
