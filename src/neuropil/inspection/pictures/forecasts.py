"""Forecasts and what happened: histories with forecasts and their bands, errors and coverage by step of the horizon."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, numbers, short

SHADES = (0.42, 0.25, 0.14)


@dataclass(frozen=True)
class Forecast:
    """One origin: the history before it, the median, bands from the narrowest to the widest, and the truth where known.

    Values may be NaN where there is none. `x` are dates or numbers, of the history and then of the horizon.
    """

    x: np.ndarray
    history: Float[Array, " time"]
    median: Float[Array, " horizon"]
    bands: Mapping[str, tuple[Float[Array, " horizon"], Float[Array, " horizon"]]]
    truth: Float[Array, " horizon"] | None = None
    title: str = ""


@style.house_style
def forecasts(shown: Sequence[Forecast], *, ylabel: str = "") -> Figure:
    """Each in a panel of its own: the history in ink, the forecast in colour with its bands, the truth as dots."""
    style.require_some(shown, "a picture of forecasts needs at least one")
    rows, columns = style.rows_of(len(shown), 2)
    figure = style.new_figure(WIDTH, (2.9 if columns == 1 else 2.2 * rows) + 0.35)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes, forecast in zip(panels.flat, shown, strict=False):
        _draw(axes, forecast)
    for index, axes in enumerate(panels.flat):
        axes.set_visible(index < len(shown))
        axes.set_ylabel(short(ylabel, 24) if index % columns == 0 else "")
    handles, labels = style.legend_entries(panels.flat[: len(shown)])
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


@style.house_style
def error_by_step(errors: Mapping[str, Float[Array, " step"]], *, ylabel: str = "MASE", step: str = "step") -> Figure:
    """A line for each forecaster over the steps of the horizon, on a logarithmic axis."""
    style.require_some(errors, "a picture of errors needs at least one forecaster")
    figure, axes = style.one_panel(2.9)
    for index, (name, values) in enumerate(errors.items()):
        height = numbers(values)
        marker = {"marker": "o", "markersize": 3} if len(height) <= 40 else {}
        axes.plot(np.arange(1, len(height) + 1), height, label=name, **style.line(index), **marker)
    axes.set(xlabel=f"{step}s ahead", ylabel=ylabel)
    if min(float(numbers(values).min()) for values in errors.values()) > 0:
        # the worst is many times worse than the best, between which the reader wants to tell
        style.make_logarithmic(axes)
    style.show_whole_numbers(axes)
    figure.legend(loc="outside upper right", ncols=2 if max(map(len, errors)) > 20 else min(4, len(errors)))
    return figure


@style.house_style
def coverage_by_step(coverage: Mapping[float, Float[Array, " horizon"]], *, step: str = "step") -> Figure:
    """The empirical coverage of each band over the steps of the horizon, beside its nominal coverage."""
    style.require_some(coverage, "a picture of coverage needs at least one band")
    figure, axes = style.one_panel(2.7)
    for index, (share, values) in enumerate(coverage.items()):
        height, look = numbers(values), style.line(index)
        axes.plot(np.arange(1, len(height) + 1), 100 * height, label=f"band of {100 * share:g} %", **look)
        axes.axhline(100 * share, color=look["color"], linewidth=0.8, alpha=0.6)
    axes.set(xlabel=f"{step}s ahead", ylabel="truth inside, %", ylim=(0, 101))
    style.show_whole_numbers(axes)
    figure.legend(loc="outside upper right", ncols=len(coverage))
    return figure


def _draw(axes: Axes, forecast: Forecast) -> None:
    history, median = numbers(forecast.history), numbers(forecast.median)
    past, ahead = forecast.x[: len(history)], forecast.x[len(history) :]
    # The forecast sets out from the last value that is known.
    known = np.flatnonzero(~np.isnan(history))
    start = ([past[known[-1]]], [history[known[-1]]]) if len(known) else ([], [])
    for shade, (name, (low, high)) in reversed(list(zip(SHADES, forecast.bands.items(), strict=False))):
        ends = ((start[0], ahead), (start[1], low), (start[1], high))
        x, below, above = (np.concatenate([part, numbers(values)]) for part, values in ends)
        axes.fill_between(x, below, above, color=PALETTE[0], alpha=shade, linewidth=0, label=name)
    axes.plot(past, history, color=MUTED, linewidth=1.1, label="history")
    x, y = np.concatenate([start[0], ahead]), np.concatenate([start[1], median])
    axes.plot(x, y, color=PALETTE[0], linewidth=1.7, label="forecast")
    if forecast.truth is not None:
        dots = {"color": INK, "markersize": 2.6, "markeredgewidth": 0}
        axes.plot(ahead, numbers(forecast.truth), "o", label="what happened", **dots)
    if len(ahead):
        axes.axvline(ahead[0], color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_title(forecast.title)
    if np.issubdtype(np.asarray(forecast.x).dtype, np.datetime64):
        _date_axis(axes)


def _date_axis(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
