"""Choices side by side: learning curves of several networks, losses and their gradients, softmax at several temperatures, weights
under several penalties."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import (
    MUTED,
    PALETTE,
    WIDTH,
    Array,
    house_style,
    line,
    make_logarithmic,
    new_figure,
    numbers,
    spans_decades,
)
from neuropil.metrics import find_metric

if TYPE_CHECKING:
    import matplotlib.figure


@house_style
def learning_curves(histories: Mapping[str, Sequence[Mapping[str, Any]]], metric: str) -> "matplotlib.figure.Figure":
    """One validation metric of several networks against the epoch; each history is the rows of a metrics.jsonl."""
    curves = {
        name: [(row["epoch"], row[metric]) for row in rows if row["kind"] == "validation"]
        for name, rows in histories.items()
    }
    if not curves or not all(curves.values()):
        lacking = ", ".join(name for name, curve in curves.items() if not curve) or "no history"
        raise InputError("learning curves need at least one validation of each network", got=f"none for {lacking}")
    figure = new_figure(WIDTH, 3.2)
    axes = figure.add_subplot()
    for index, (name, curve) in enumerate(curves.items()):
        axes.plot(*np.array(curve, dtype=float).T, label=name, **line(index))
    axes.set(xlabel="epoch", ylabel=f"validation {metric.replace('_', ' ')}")
    if find_metric(metric).format == "percent":
        from matplotlib.ticker import PercentFormatter

        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    elif spans_decades(np.concatenate([np.array(curve, dtype=float)[:, 1] for curve in curves.values()])):
        make_logarithmic(axes)
    lines, names = axes.get_legend_handles_labels()
    from_top = sorted(range(len(names)), key=lambda index: -curves[names[index]][-1][1])  # as the curves end
    beside = max(map(len, names)) <= 16
    figure.legend(
        [lines[index] for index in from_top],
        [names[index] for index in from_top],
        loc="outside right upper" if beside else "outside upper center",
        ncols=1 if beside else min(len(names), 3),
    )
    return figure


@house_style
def loss_curves(
    curves: Mapping[str, tuple[Float[Array, " point"], Float[Array, " point"], Float[Array, " point"]]],
) -> "matplotlib.figure.Figure":
    """Losses against the logit, given as (z, loss, gradient): on the left what is paid, on the right what pulls the logit."""
    if not curves:
        raise InputError("a picture of losses needs at least one", got="none")
    figure = new_figure(WIDTH, 3.2)
    paid, pull = figure.subplots(1, 2)
    for axes in (paid, pull):
        axes.axhline(0, color="#aab0ba", linewidth=0.8)
        axes.axvline(0, color="#aab0ba", linewidth=0.8)
        axes.set_xlabel("logit z")
    for index, (name, (z, loss, gradient)) in enumerate(curves.items()):
        paid.plot(numbers(z), numbers(loss), label=name, **line(index))
        pull.plot(numbers(z), numbers(gradient), **line(index))
    paid.set_title("loss")
    pull.set_title("its gradient by z")
    figure.legend(*paid.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


@house_style
def softening(units: Sequence[str], outputs: Mapping[str, Float[Array, " unit"]]) -> "matplotlib.figure.Figure":
    """What one layer of units becomes under each of several functions of the whole layer, as bars that share one scale."""
    if not outputs:
        raise InputError("a picture of softening needs at least one function", got="none")
    figure = new_figure(WIDTH, 2.1)
    panels = figure.subplots(1, len(outputs), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(panels, outputs.items(), strict=True):
        bars = axes.bar(range(len(units)), numbers(values), color=PALETTE[0], width=0.72)
        axes.bar_label(bars, fmt="%.2f", fontsize=7.5, color=MUTED, padding=1)
        axes.set_xticks(range(len(units)), list(units))
        axes.set_title(name)
        axes.grid(visible=False, axis="x")
    panels[0].set_ylim(0, 1.12)
    return figure


@house_style
def weight_spread(weights: Mapping[str, Float[Array, " weight"]]) -> "matplotlib.figure.Figure":
    """Histograms of weights on one axis: how a penalty gathers them at zero; counts are logarithmic, so that the tails show."""
    if not weights:
        raise InputError("a picture of weights needs at least one set of them", got="none")
    figure = new_figure(WIDTH, 1.25 * len(weights) + 0.5)
    panels = figure.subplots(len(weights), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    limit = max(float(np.abs(numbers(values)).max()) for values in weights.values()) or 1.0
    edges = np.linspace(-limit, limit, 82)  # an odd number of bins has one around zero
    for index, (axes, (name, values)) in enumerate(zip(panels, weights.items(), strict=True)):
        axes.hist(numbers(values), bins=edges.tolist(), color=PALETTE[index % len(PALETTE)])
        axes.set_title(name)
        axes.set_ylabel("weights")
    panels[0].set_ylim(0.7, None)
    make_logarithmic(panels[0])
    panels[-1].set_xlabel("value of a weight")
    return figure
