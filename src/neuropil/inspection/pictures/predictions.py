"""Predictions beside the truth: confusion matrix, predicted against actual, probabilities of labels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from neuropil.errors import InputError
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import GRID, INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, numbers, short


@style.house_style
def confusion_matrix(counts: Int[Array, "actual predicted"], classes: Sequence[str]) -> Figure:
    """How often each class (row) was predicted as each other (column); hits are pale, so that mistakes stand out."""
    counts = numbers(counts)
    if counts.shape != (len(classes), len(classes)):
        got = f"{counts.shape} for {len(classes)} classes"
        raise InputError("a confusion matrix needs one row and one column for each class", got=got)
    names = [short(name) for name in classes]
    beside = 0.09 * max(map(len, names)) + 0.5
    size = min(WIDTH - beside, max(3.2, 0.42 * len(classes)))
    cell = size / len(classes) * 72
    figure = style.new_figure(size + beside, size + 0.5)
    axes = figure.add_subplot()
    extent = (-0.5, len(classes) - 0.5, len(classes) - 0.5, -0.5)
    style.draw_matrix(axes, _cell_colours(counts), extent=extent)
    upright = _name_cells(axes, names, cell)
    figure.set_figheight(size + (beside if upright else 0.5))
    _write_counts(axes, counts, cell)
    return figure


@style.house_style
def predicted_against_actual(predicted: Float[Array, " example"], actual: Float[Array, " example"]) -> Figure:
    """Predictions of a regression over the truth, with the diagonal on which all would be right, and the residuals."""
    predicted, actual = numbers(predicted), numbers(actual)
    residuals = predicted - actual
    figure = style.new_figure(WIDTH, 3.5)
    scatter, histogram = figure.subplots(1, 2, width_ratios=[1.2, 1])
    ends = [min(actual.min(), predicted.min()), max(actual.max(), predicted.max())]
    if len(actual) > 2000:
        scatter.hexbin(actual, predicted, gridsize=48, bins="log", cmap="Blues", mincnt=1, linewidths=0.1)
    else:
        scatter.plot(actual, predicted, "o", color=PALETTE[0], alpha=0.55, markersize=3.6, markeredgewidth=0)
    scatter.plot(ends, ends, color=INK, linewidth=0.9, linestyle="--")
    title = f"R² = {_explained(residuals, actual):.3f}"
    scatter.set(xlabel="actual", ylabel="predicted", title=title, aspect="equal", box_aspect=1)
    bins = min(40, max(8, int(math.sqrt(len(residuals)))))
    histogram.hist(residuals, bins=bins, color=PALETTE[0], alpha=0.75, edgecolor="white", linewidth=0.5)
    histogram.axvline(0, color=INK, linewidth=0.9, linestyle="--")
    title = f"root mean square error {float(np.sqrt(np.square(residuals).mean())):.3g}"
    histogram.set(xlabel="predicted − actual", ylabel="examples", title=title)
    return figure


@style.house_style
def label_probabilities(
    probabilities: Float[Array, "example label"], targets: Bool[Array, "example label"], names: Sequence[str]
) -> Figure:
    """The probability of each label in examples that have it and in those that do not, a dot each; what lies on the
    wrong side of ½ is a mistake."""
    probabilities, targets = numbers(probabilities), numbers(targets).astype(bool)
    figure, axes = style.one_panel(0.9 + 0.42 * len(names))
    spread = np.random.default_rng(0).uniform(-0.13, 0.13, len(probabilities))
    for row in range(len(names)):
        for has, colour, shift in ((True, PALETTE[1], -0.17), (False, PALETTE[0], 0.17)):
            chosen = targets[:, row] == has
            shown = "examples with the label" if has else "without it"
            dots: dict[str, Any] = {"color": colour, "alpha": 0.45, "markersize": 3.2, "markeredgewidth": 0}
            places = row + shift + spread[chosen]
            axes.plot(probabilities[chosen, row], places, "o", label="" if row else shown, **dots)
    axes.axvline(0.5, color=INK, linewidth=0.9, linestyle="--")
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.set(xlabel="predicted probability of the label", xlim=(-0.02, 1.02), ylim=(len(names) - 0.5, -0.5))
    axes.grid(axis="y", visible=False)
    for marker in axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2).legend_handles:
        if marker is not None:
            marker.set_alpha(1.0)
    return figure


def _explained(residuals: np.ndarray, actual: np.ndarray) -> float:
    """R² = 1 - Σ residual² / Σ (actual - mean)²; undefined where nothing varies."""
    variation = np.square(actual - actual.mean()).sum()
    return float(1 - np.square(residuals).sum() / variation) if variation else math.nan


def _cell_colours(counts: np.ndarray) -> Float[np.ndarray, "actual predicted 3"]:
    """Each cell by its share of the row: the diagonal from white to pale grey-blue, mistakes from white to vermilion.

    The strongest mistake has the full colour, so that a model with few of them shows them as clearly as one with many.
    """
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    mistakes = shares * (1 - np.eye(len(counts)))
    strength = np.where(mistakes > 0, 0.1 + 0.9 * (mistakes / max(mistakes.max(), 1e-12)) ** 0.75, 0)
    white, wrong, right = np.array([1.0, 1.0, 1.0]), np.array([0.85, 0.34, 0.04]), np.array([0.86, 0.90, 0.95])
    colours = white + strength[..., None] * (wrong - white)
    diagonal = np.arange(len(counts))
    colours[diagonal, diagonal] = white + shares[diagonal, diagonal, None] * (right - white)
    return colours


def _name_cells(axes: Axes, names: Sequence[str], cell: float) -> bool:
    """As many names as stay legible: all, or every second, third …; returns whether column names are upright."""
    every = math.ceil(7 / cell)
    ticks = range(0, len(names), every)
    shown = [names[tick] for tick in ticks]
    size = min(9.0, max(6.0, 0.9 * cell * every))
    upright = max(map(len, shown)) * 0.62 * size > 0.95 * cell * every
    axes.set_xticks(ticks, shown, rotation=90 if upright else 0, fontsize=size)
    axes.set_yticks(ticks, shown, fontsize=size)
    axes.tick_params(length=0)
    axes.set(xlabel="predicted", ylabel="actual")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(True)
    if cell >= 5:
        for edge in np.arange(0.5, len(names) - 1):
            axes.axhline(edge, color=GRID, linewidth=0.6)
            axes.axvline(edge, color=GRID, linewidth=0.6)
    return upright


def _write_counts(axes: Axes, counts: np.ndarray, cell: float) -> None:
    """Each as large as its cell allows; what would be too small to read is left to its colour."""
    for (row, column), count in np.ndenumerate(counts):
        size = min(10.0, 1.2 * cell / max(2, len(f"{count}")))
        look: dict[str, Any] = {"color": MUTED} if row == column else {"color": INK, "fontweight": "bold"}
        if count and size >= 5:
            axes.text(column, row, f"{count}", ha="center", va="center_baseline", fontsize=size, **look)
