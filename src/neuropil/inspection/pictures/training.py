"""Training: learning curves, regularisation against overfitting, optimisers on one loss surface, learning rules."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Num

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import (
    GRID,
    INK,
    MUTED,
    PALETTE,
    TRAIN,
    VALIDATION,
    WIDTH,
    Array,
    Axes,
    Figure,
    numbers,
)
from neuropil.metrics import PHASE_RATE, find_metric

History: TypeAlias = Sequence[Mapping[str, Any]]
"""Rows of metrics.jsonl: `step`, `kind` ("train" or "validation"), and numbers by name."""

_NOT_METRICS = frozenset({"step", "epoch", "kind", "learning_rate", "seconds", "examples_per_second"})


@style.house_style
def learning_curve(history: History, *, best_step: int | None = None) -> Figure:
    """Loss and other metrics over the steps; `best_step` is marked, by default that of the lowest validation loss."""
    names = metric_names(history)
    rate, validation = _curve(history, "train", "learning_rate"), _curve(history, "validation", "loss")
    if best_step is None and len(validation.steps):
        best_step, _ = validation.lowest()
    (rows, columns), has_rate = style.rows_of(len(names), 2), len(rate.steps) > 1
    figure = style.new_figure(WIDTH, 2.8 * rows + 0.7 * has_rate)
    grid = figure.add_gridspec(rows + has_rate, columns, height_ratios=[1] * rows + [0.22] * has_rate)
    panels = [figure.add_subplot(grid[index // columns, index % columns]) for index in range(len(names))]
    for axes, name in zip(panels, names, strict=True):
        _draw_metric(axes, history, name, best_step)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    if has_rate:
        _draw_rate(figure.add_subplot(grid[rows, :]), rate)
    return figure


def metric_names(history: History) -> list[str]:
    """Loss first, then what validation measured (without validation: what training did), in the order of the rows."""
    for kind in ("validation", "train"):
        rows = [row for row in history if row["kind"] == kind]
        found = [name for row in rows for name, value in row.items() if isinstance(value, int | float)]
        names = dict.fromkeys(name for name in found if name not in _NOT_METRICS and not name.endswith(PHASE_RATE))
        if names:
            return sorted(names, key=lambda name: name != "loss")
    raise InputError("a learning curve needs rows with a metric such as a loss", got=f"{len(history)} rows without one")


@style.house_style
def learning_curves(histories: Mapping[str, History], metric: str) -> Figure:
    """One validation metric of several networks against the epoch; each history is the rows of a metrics.jsonl."""
    scored = {name: [row for row in rows if row["kind"] == "validation"] for name, rows in histories.items()}
    curves = {n: np.array([(row["epoch"], row[metric]) for row in rows], dtype=float) for n, rows in scored.items()}
    if not curves or not all(map(len, curves.values())):
        lacking = ", ".join(name for name, curve in curves.items() if not len(curve)) or "no history"
        raise InputError("learning curves need at least one validation of each network", got=f"none for {lacking}")
    figure, axes = style.one_panel(3.2)
    for index, (name, curve) in enumerate(curves.items()):
        axes.plot(*curve.T, label=name, **style.line(index))
    axes.set(xlabel="epoch", ylabel=f"validation {find_metric(metric).title}")
    if find_metric(metric).format == "percent":
        style.show_percent(axes)
    elif style.spans_decades(np.concatenate([curve[:, 1] for curve in curves.values()])):
        style.make_logarithmic(axes)
    lines, names = axes.get_legend_handles_labels()
    from_top = sorted(range(len(names)), key=lambda index: -curves[names[index]][-1, 1])  # as the curves end
    beside = max(map(len, names)) <= 16
    figure.legend(
        [lines[index] for index in from_top],
        [names[index] for index in from_top],
        loc="outside right upper" if beside else "outside upper center",
        ncols=1 if beside else min(len(names), 3),
    )
    return figure


@style.house_style
def regularization_curves(histories: Mapping[str, History]) -> Figure:
    """Training and validation loss with each regularisation; the first history is the baseline without any."""
    for name, history in histories.items():
        if not all(len(_curve(history, kind, "loss").steps) for kind in ("train", "validation")):
            rule = "a picture of regularisation needs a training and a validation loss for each"
            raise InputError(rule, got=f"a history of {name!r} without one")
    rows, columns = style.rows_of(len(histories), 3)
    figure = style.new_figure(WIDTH, 2.15 * rows + 0.5)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    baseline = _curve(next(iter(histories.values())), "validation", "loss")
    for index, (axes, (name, history)) in enumerate(zip(panels.flat, histories.items(), strict=False)):
        if index:
            label = "validation without regularisation"
            axes.plot(baseline.steps, baseline.values, color="#c3c8d0", linewidth=1.4, label=label)
        _draw_losses(axes, name, history)
    panels[0, 0].set_ylim(0, _worth_seeing(histories))
    style.label_outer(panels, len(histories), xlabel="step", ylabel="loss")
    figure.legend(*panels.flat[len(histories) - 1].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    return figure


@style.house_style
def optimizer_paths(
    x: Float[Array, " column"],
    y: Float[Array, " row"],
    surface: Float[Array, "row column"],
    paths: Mapping[str, Float[Array, "_ 2"]],
    losses: Mapping[str, Num[Array, " _"] | Sequence[float]],
    *,
    loss_label: str = "loss",
) -> Figure:
    """Optimisers on one loss surface: their paths over its contours, and each one's loss against the step."""
    figure = style.new_figure(WIDTH, 3.7)
    above, beside = figure.subplots(1, 2, width_ratios=[1.15, 1])
    x, y, surface = numbers(x), numbers(y), numbers(surface)
    _draw_contours(above, x, y, surface)
    for index, path in enumerate(paths.values()):
        _draw_path(above, _finite(numbers(path)), index)
    above.set(xlim=(x.min(), x.max()), ylim=(y.min(), y.max()), xlabel="first weight", ylabel="second weight")
    start = numbers(next(iter(paths.values())))[0]
    above.plot(*start, "o", color="white", markeredgecolor=INK, markersize=6, zorder=5)
    above.annotate("start", start, xytext=(6, 6), textcoords="offset points", fontsize=8.5, zorder=6)
    for index, (name, values) in enumerate(losses.items()):
        beside.plot(_finite(numbers(values)), label=name, **style.line(index))
    beside.set(xlabel="step", ylabel=loss_label)
    if style.spans_decades(np.concatenate([_finite(numbers(values)) for values in losses.values()])):
        style.make_logarithmic(beside)
    figure.legend(*beside.get_legend_handles_labels(), loc="outside upper center", ncols=min(len(losses), 6))
    return figure


@style.house_style
def descent_as_flow(
    x: Float[Array, " column"],
    y: Float[Array, " row"],
    surface: Float[Array, "row column"],
    flows: Mapping[str, Float[Array, "_ 2"]],
    paths: Mapping[str, Float[Array, "_ 2"]],
    distances: Mapping[str, Sequence[tuple[float, float]]],
) -> Figure:
    """Flows as lines over the contours of a surface, the descents that approximate them as points in the same colours,
    and the distance of each descent to its flow against the step size."""
    figure = style.new_figure(WIDTH, 3.7)
    above, beside = figure.subplots(1, 2, width_ratios=[1.15, 1])
    x, y = numbers(x), numbers(y)
    _draw_contours(above, x, y, numbers(surface))
    for index, (name, flow) in enumerate(flows.items()):
        above.plot(*numbers(flow).T, color=PALETTE[index], linewidth=1.4, label=name)
    for index, (name, path) in enumerate(paths.items()):
        above.plot(*_finite(numbers(path)).T, "o", color=PALETTE[index], markersize=3, alpha=0.7, label=name)
    above.set(xlim=(x.min(), x.max()), ylim=(y.min(), y.max()), xlabel="first weight", ylabel="second weight")
    for index, (name, points) in enumerate(distances.items()):
        beside.plot(*np.array(points).T, marker="o", markersize=4, label=name, **style.line(index))
    beside.set(xlabel="step size", ylabel="largest distance to the flow")
    style.make_logarithmic(beside, "x")
    style.make_logarithmic(beside)
    figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    beside.legend(loc="upper left", fontsize=7.5)
    return figure


@style.house_style
def learning_speed(by_rate: Mapping[str, Mapping[float, float]], by_epoch: Mapping[str, Sequence[float]]) -> Figure:
    """Validation loss of several networks: after training, against the learning rate, and each at its best learning
    rate against the epoch. What is not finite is left out."""
    figure = style.new_figure(WIDTH, 3.3)
    rates, epochs = figure.subplots(1, 2, sharey=True)
    for index, (name, losses) in enumerate(by_rate.items()):
        points = np.array([point for point in losses.items() if math.isfinite(point[1])]).reshape(-1, 2)
        rates.plot(*points.T, marker="o", markersize=4, label=name, **style.line(index))
    for index, (name, values) in enumerate(by_epoch.items()):
        epochs.plot(np.arange(1, len(values) + 1), values, marker="o", markersize=3, label=name, **style.line(index))
    rates.set(xlabel="learning rate", ylabel="validation loss")
    epochs.set(xlabel="epoch")
    style.show_whole_numbers(epochs)
    if rates.dataLim.y1 > 0:  # else every training diverged
        style.make_logarithmic(rates, "x")
        style.make_logarithmic(rates)
    figure.legend(*epochs.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


@style.house_style
def covariate_shift(records: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> Figure:
    """Of each network, over the updates: how far the means of a layer's inputs have moved, and their spread."""
    figure = style.new_figure(WIDTH, 2.9)
    panels = figure.subplots(1, 2)
    for index, (name, series) in enumerate(records.items()):
        for axes, values in zip(panels, series, strict=True):
            axes.plot(np.arange(1, len(values) + 1), values, label=name, linewidth=1.2, color=PALETTE[index])
    panels[0].set(xlabel="update", ylabel="shift of the means\nin units of the first spread", ylim=(0, None))
    panels[1].set(xlabel="update", ylabel="spread of the inputs", ylim=(0, None))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(records))
    return figure


@style.house_style
def accuracy_over_examples_and_seconds(
    curves: Mapping[str, Float[Array, "validation 3"]], baselines: Mapping[str, float]
) -> Figure:
    """Accuracy of several learning rules: each curve has a row (examples seen, seconds, accuracy) for each validation.
    Baselines are horizontal lines. The nearer to 100 %, the wider the axis, as on a logarithmic axis of errors."""
    style.require_some(curves, "a picture of learning rules needs at least one")
    figure = style.new_figure(WIDTH, 5.2)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, label, column in zip(panels, ("examples seen", "seconds of training"), (0, 1), strict=True):
        for index, (name, curve) in enumerate(curves.items()):
            axes.plot(numbers(curve)[:, column], numbers(curve)[:, 2], label=name, **style.line(index))
        for dashes, (name, value) in zip(style.DASHES[2:], baselines.items(), strict=False):
            axes.axhline(value, color=MUTED, linewidth=1, linestyle=dashes, zorder=1, label=name)
        style.make_logarithmic(axes, "x")
        axes.set_xlabel(label)
        axes.set_yscale("function", functions=(_by_error, _by_error_inverse))
        axes.set(ylim=(0, 1), yticks=ACCURACY_TICKS)
    panels[0].set_ylabel("validation accuracy")
    style.show_percent(panels[0])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


ACCURACY_TICKS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
SMALLEST_ERROR = 0.005
"""Where 100 % is drawn, on an axis that has no place for it."""


def _by_error(accuracy: np.ndarray) -> np.ndarray:
    return -np.log(1 + SMALLEST_ERROR - np.clip(accuracy, 0, 1))


def _by_error_inverse(height: np.ndarray) -> np.ndarray:
    return 1 + SMALLEST_ERROR - np.exp(-np.asarray(height))


@dataclass(frozen=True)
class _Curve:
    steps: np.ndarray
    values: np.ndarray

    def lowest(self) -> tuple[int, float]:
        place = int(self.values.argmin())
        return int(self.steps[place]), float(self.values[place])

    def smoothed(self) -> "_Curve":
        """The moving average over a fortieth of the curve; a short one as it is."""
        window = len(self.steps) // 40
        if window < 3:
            return self
        average = np.convolve(self.values, np.full(window, 1 / window), mode="valid")
        return _Curve(self.steps[window // 2 :][: len(average)], average)


def _curve(history: History, kind: str, name: str) -> _Curve:
    """What was finite of one metric."""
    rows = [row for row in history if row["kind"] == kind and name in row]
    points = [(row["step"], row[name]) for row in rows if math.isfinite(row[name])]
    steps, values = np.array(points, dtype=float).reshape(-1, 2).T
    return _Curve(steps, values)


def _draw_metric(axes: Axes, history: History, name: str, best_step: int | None) -> None:
    train, validation = _curve(history, "train", name), _curve(history, "validation", name)
    _draw_train(axes, train)
    marker = {"marker": "o" if len(validation.steps) <= 40 else "", "markersize": 3.2}
    axes.plot(validation.steps, validation.values, color=VALIDATION, linewidth=1.8, label="validation", **marker)
    title = find_metric(name).title
    if best_step is not None and best_step in validation.steps:
        best = float(validation.values[validation.steps == best_step][0])
        title = f"{title}: {_written(name, best)} at step {best_step:,}"
        ring = {"markersize": 8, "markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.2}
        axes.plot(best_step, best, "o", label="best step", zorder=4, **ring)
        axes.axvline(best_step, color=INK, linewidth=0.7, linestyle=":", zorder=1)
    axes.set(title=title, xlabel="step")
    if find_metric(name).format == "percent":
        style.show_percent(axes)
    elif style.spans_decades(np.concatenate([train.values, validation.values])):
        style.make_logarithmic(axes)


def _draw_train(axes: Axes, train: _Curve) -> None:
    """A long curve is pale behind its moving average."""
    smooth = train.smoothed()
    if smooth is not train:
        axes.plot(train.steps, train.values, color=TRAIN, alpha=0.25, linewidth=0.7)
    axes.plot(smooth.steps, smooth.values, color=TRAIN, linewidth=1.4, label="train")


def _written(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if find_metric(name).format == "percent" else f"{value:.3g}"


def _draw_rate(axes: Axes, rate: _Curve) -> None:
    axes.fill_between(rate.steps, rate.values, color=GRID, linewidth=0)
    axes.plot(rate.steps, rate.values, color=MUTED, linewidth=1)
    axes.set_ylim(0, 1.15 * rate.values.max())
    axes.set_title("learning rate", fontsize=8.5, fontweight="normal", color=MUTED)
    axes.tick_params(labelbottom=False)
    axes.grid(visible=False, axis="x")


def _draw_losses(axes: Axes, name: str, history: History) -> None:
    train, validation = _curve(history, "train", "loss"), _curve(history, "validation", "loss")
    _draw_train(axes, train)
    axes.plot(validation.steps, validation.values, color=VALIDATION, linewidth=1.8, label="validation")
    lowest = validation.lowest()
    ring = {"markersize": 6, "markerfacecolor": "white", "markeredgecolor": VALIDATION, "markeredgewidth": 1.3}
    axes.plot(*lowest, "o", zorder=4, **ring)
    axes.set_title(f"{name}\n")
    axes.text(0, 1.03, f"lowest {lowest[1]:.3g}", transform=axes.transAxes, color=VALIDATION, fontsize=8.5)
    end, low, high = validation.steps[-1], train.smoothed().values[-1], validation.values[-1]
    arrow = {"arrowstyle": "<->", "color": INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (end, low), (end, high), arrowprops=arrow)
    axes.text(1, 1.03, f"gap {high - low:.2g}", transform=axes.transAxes, ha="right", fontsize=8.5)


def _worth_seeing(histories: Mapping[str, History]) -> float:
    """The top of a linear axis without the first fall of the loss: what matters comes after the best validation."""
    curves = [_curve(history, "validation", "loss") for history in histories.values()]
    return 1.3 * float(max(curve.values[curve.values.argmin() :].max() for curve in curves))


def _draw_contours(axes: Axes, x: np.ndarray, y: np.ndarray, surface: np.ndarray) -> None:
    """Levels by rank of height, so that a steep wall and a flat valley both show their shape."""
    levels = np.unique(np.quantile(surface, np.linspace(0, 1, 22)))
    ranks = np.interp(surface, levels, np.linspace(0, 1, len(levels)))
    extent = (x.min(), x.max(), y.min(), y.max())
    shading = {"cmap": "Greys", "vmin": -0.05, "vmax": 2.2, "interpolation": "bilinear"}
    axes.imshow(ranks, extent=extent, origin="lower", aspect="auto", **shading)
    axes.contour(x, y, ranks, levels=np.linspace(0.04, 1, 15), colors="#9aa1ad", linewidths=0.6)
    axes.grid(visible=False)


def _draw_path(axes: Axes, path: np.ndarray, index: int) -> None:
    axes.plot(path[:, 0], path[:, 1], **style.line(index))
    axes.plot(*path[-1], "o", color=style.line(index)["color"], markersize=5, markeredgecolor="white", zorder=4)


def _finite(values: np.ndarray) -> np.ndarray:
    """Up to the first value that is not finite, where an optimiser left for good."""
    lost = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return values[: int(lost.argmax())] if lost.any() else values
