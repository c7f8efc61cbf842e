"""Trials of a search: the best so far, the curve of each, what each option did, and which mattered."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from neuropil.config import describe_value
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import AXIS, INK, MUTED, PALETTE, TRAIN, VALIDATION, WIDTH, Axes, Figure
from neuropil.metrics import Metric
from neuropil.ranges import Range, Searched
from neuropil.training.search import Trial, first_rung_value

COLOURS = {"complete": TRAIN, "pruned": AXIS, "stopped": PALETTE[3], "failed": VALIDATION}
COLUMNS = 3


@style.house_style
def best_so_far(trials: Sequence[Trial], metric: Metric) -> Figure:
    """The value of each trial, where it ended, and the best of the complete ones up to each."""
    scored = [trial for trial in trials if trial.value is not None]
    style.require_some(scored, "a picture of a search needs a trial with a value")
    figure, axes = style.one_panel(2.9)
    for state, colour in COLOURS.items():
        some = [trial for trial in scored if trial.state == state]
        filled = colour if state == "complete" else "white"
        marks = {"color": colour, "markerfacecolor": filled, "markersize": 5.5, "linestyle": "none", "zorder": 3}
        if some:
            axes.plot([trial.number for trial in some], [_value(trial) for trial in some], "o", label=state, **marks)
    for trial in trials:
        if trial.state == "failed":
            axes.plot(trial.number, 0.02, "x", color=VALIDATION, transform=axes.get_xaxis_transform(), clip_on=False)
    numbers, values = _running_best(trials, metric)
    if numbers:
        axes.step([*numbers, trials[-1].number], [*values, values[-1]], where="post", color=INK, label="best so far")
    axes.set(xlabel="trial", ylabel=f"validation {metric.title}")
    style.show_whole_numbers(axes)
    _scale(axes, metric, [_value(trial) for trial in scored])
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=5)
    return figure


@style.house_style
def trial_curves(trials: Sequence[Trial], best: Trial, metric: Metric, rungs: Sequence[float]) -> Figure:
    """What each validation measured against the share of the run; the best trial and the first, with the default
    options, stand out, and so do the rungs at which trials are stopped."""
    figure, axes = style.one_panel(3.2)
    for rung in rungs:
        axes.axvline(100 * rung, color=AXIS, linewidth=0.9, linestyle=":", zorder=1)
    plain = [trial for trial in trials if trial.curve and trial.number not in (best.number, trials[0].number)]
    for trial in plain:
        axes.plot(*_curve(trial), color=COLOURS.get(trial.state, AXIS), linewidth=0.9, alpha=0.75, zorder=2)
        end = np.array(trial.curve[-1]) * [100, 1]
        axes.plot(*end, "o", color=COLOURS.get(trial.state, AXIS), markersize=3, zorder=2)
    if trials[0].curve and best.number != trials[0].number:
        axes.plot(*_curve(trials[0]), color=VALIDATION, linewidth=1.8, label="default options", zorder=3)
    axes.plot(*_curve(best), color=INK, linewidth=2, label=f"best: trial {best.number}", zorder=4)
    axes.set(xlabel="share of the run (%)", ylabel=f"validation {metric.title}", xlim=(0, 102))
    _scale(axes, metric, [value for trial in trials for _, value in trial.curve])
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


@style.house_style
def option_slices(trials: Sequence[Trial], best: Trial, space: Mapping[str, Searched], metric: Metric) -> Figure:
    """The value at the first rung against each option, in the order of `space`, which holds all trials."""
    reached = [trial for trial in trials if first_rung_value(trial) is not None]
    style.require_some(reached, "slices need a trial that reached the first rung")
    values = [first_rung_value(trial) or math.nan for trial in reached]
    rows, columns = style.rows_of(len(space), COLUMNS)
    figure = style.new_figure(WIDTH, 2.25 * rows + 0.2)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, (name, searched) in zip(panels.flat, space.items(), strict=False):
        place = _places(axes, searched)
        for trial, value in zip(reached, values, strict=True):
            colour = COLOURS.get(trial.state, AXIS)
            filled = colour if trial.state == "complete" else "white"
            axes.plot(place(trial.options[name]), value, "o", color=colour, markerfacecolor=filled, markersize=5)
            if trial.number == best.number:
                ring = {"markersize": 11, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.3}
                axes.plot(place(trial.options[name]), value, "o", zorder=4, **ring)
        axes.set_title(name.replace("_", " "))
        _scale(axes, metric, values)
    for index, axes in enumerate(panels.flat):
        axes.set_visible(index < len(space))
        axes.set_ylabel(f"validation {metric.title}" if index % columns == 0 else "")
    return figure


@style.house_style
def importance_bars(importance: Mapping[str, float]) -> Figure:
    style.require_some(importance, "a picture of importance needs an option")
    names = sorted(importance, key=lambda name: importance[name])
    figure, axes = style.one_panel(0.5 + 0.3 * len(names))
    axes.barh([name.replace("_", " ") for name in names], [100 * importance[name] for name in names], color=TRAIN)
    for place, name in enumerate(names):
        axes.text(100 * importance[name] + 1, place, f"{100 * importance[name]:.0f} %", va="center", fontsize=8.5)
    axes.set(xlabel="share of the variance (%)", xlim=(0, 110))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelcolor=MUTED)
    return figure


def _value(trial: Trial) -> float:
    return math.nan if trial.value is None else trial.value


def _running_best(trials: Sequence[Trial], metric: Metric) -> tuple[list[int], list[float]]:
    numbers, values = list[int](), list[float]()
    for trial in trials:
        if trial.state == "complete" and metric.improves(_value(trial), values[-1] if values else None):
            numbers.append(trial.number)
            values.append(_value(trial))
    return numbers, values


def _curve(trial: Trial) -> tuple[np.ndarray, np.ndarray]:
    shares, values = np.array(trial.curve, dtype=float).T
    return 100 * shares, values


def _scale(axes: Axes, metric: Metric, values: Sequence[float]) -> None:
    if metric.format == "percent":
        style.show_percent(axes)
    elif style.spans_decades(values):
        style.make_logarithmic(axes)


def _places(axes: Axes, searched: Searched) -> Callable[[object], float]:
    """Where a value of the option stands on its axis."""
    if isinstance(searched, Range):
        axes.set_xlim(*_ends(searched))
        if searched.log:
            style.make_logarithmic(axes, "x")
        return lambda value: float(value)  # type: ignore[arg-type]  # a range has numbers
    labels = [describe_value(value) for value in searched.values]
    axes.set_xticks(range(len(labels)), labels, rotation=45 if max(map(len, labels)) > 5 else 0)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    return lambda value: float(searched.values.index(value))


def _ends(searched: Range) -> tuple[float, float]:
    """With a little room, so that points at the ends are whole."""
    if searched.log:
        room = (searched.high / searched.low) ** 0.05
        return searched.low / room, searched.high * room
    room = 0.05 * (searched.high - searched.low)
    return searched.low - room, searched.high + room
