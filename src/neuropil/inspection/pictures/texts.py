"""Texts: attention matrices, gates, the logit lens, class probabilities by token, accuracy by length."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from neuropil.errors import InputError, counted
from neuropil.inspection.gates import GATES_BETWEEN_0_AND_1
from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.style import INK, MUTED, PALETTE, WIDTH, Array, Axes, Figure, numbers, short
from neuropil.inspection.report.alignment import shown

MOST_LABELS = 110
"""Tokens that have room below a picture of gates."""
CELL, LETTERS = 0.56, 9
"""Inches of a cell of the logit lens, and the letters of a token that fit into it."""
MOST_LINES = 3
MOST_TOKENS = 60
"""With more, their names would overlap."""
SURE = 1.96
"""Standard errors to either side: a confidence interval of 95 %."""


@style.house_style
def attention_matrix(weights: Float[Array, "query key"], queries: Sequence[str], keys: Sequence[str]) -> Figure:
    """A row for each query token, a column for each key token, darker for a larger weight."""
    cell = min(0.28, (WIDTH - 1.6) / len(keys))
    figure, axes = style.one_panel(0.5 + cell * len(queries), min(WIDTH, 1.8 + cell * len(keys)))
    image = axes.imshow(numbers(weights), cmap="Blues", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(keys)), [shown(token) for token in keys])
    axes.set_yticks(range(len(queries)), [shown(token) for token in queries])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(visible=False)
    figure.colorbar(image, label="weight", shrink=0.7)
    return figure


@style.house_style
def gate_maps(
    gates: Mapping[str, Float[Array, "time unit"]], tokens: Sequence[str], rows: Mapping[str, Sequence[tuple[int, str]]]
) -> Figure:
    """A heat map for each gate: a row for each chosen unit and its label, a column for each token.

    Closed gates are white and open ones dark; candidates and states are blue below zero, red above.
    """
    if not gates or any(not rows.get(name) for name in gates):
        raise InputError("a picture of gates needs a gate and units to show", got=f"{len(gates)} gates")
    count, heights = len(tokens), [len(rows[name]) for name in gates]
    figure = style.new_figure(WIDTH, 0.135 * sum(heights) + 0.36 * len(gates) + 0.4)
    panels = figure.subplots(len(gates), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, values) in zip(panels, gates.items(), strict=True):
        chosen = numbers(values)[:, [unit for unit, _ in rows[name]]].T
        is_gate = name in GATES_BETWEEN_0_AND_1
        high = 1.0 if is_gate else max(1.0, float(np.abs(chosen).max()))
        ticks = [0, 1] if is_gate else [-high, 0, high]
        colours = {"cmap": "Blues" if is_gate else "RdBu_r", "vmin": ticks[0], "vmax": high}
        image = style.draw_matrix(axes, chosen, aspect="auto", **colours)
        title = f"{name} gate" if is_gate else {"h": "hidden state h", "c": "cell state c"}.get(name, name)
        axes.set_title(title, fontsize=9, pad=3)
        axes.set_yticks(range(len(rows[name])), [f"{label}  {unit}".strip() for unit, label in rows[name]], fontsize=6)
        axes.set_xticks([])
        axes.tick_params(length=0)
        bar = style.draw_colour_bar(figure, image, axes, fraction=0.02, pad=0.01, ticks=ticks)
        bar.ax.set_yticklabels([f"{tick:.2g}" for tick in ticks], fontsize=6)
    if count <= MOST_LABELS:
        panels[-1].set_xticks(range(count), map(shown, tokens), fontsize=max(4.5, min(8.0, 560 / count)))
    else:
        panels[-1].set_xlabel("token")
    return figure


@style.house_style
def logit_lens(shares: Float[Array, "layer time"], likeliest: Sequence[Sequence[str]], tokens: Sequence[str]) -> Figure:
    """A column for each token that was read, a row for each layer, the last on top: in each cell the likeliest next
    token and its probability. The same token as in the top row is bold."""
    values = numbers(shares)
    style.require_some(values.flat, "a picture of layers needs at least one token")
    layers, time = values.shape
    figure, axes = style.one_panel(0.9 + 0.36 * layers, min(WIDTH, 1.8 + CELL * time))
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    size = 7.5 if time <= 10 else 6.5
    for layer, row in enumerate(likeliest):
        for place, token in enumerate(row):
            share, weight = float(values[layer, place]), "bold" if token == likeliest[-1][place] else "normal"
            cell = {"color": "white" if share > 0.55 else INK, "fontsize": size, "linespacing": 1.2}
            label = f"{short(shown(token), LETTERS)}\n{100 * share:.0f} %"
            axes.text(place, layer, label, ha="center", va="center", fontweight=weight, **cell)
    axes.set_xticks(range(time), [short(shown(token), LETTERS) for token in tokens])
    axes.set_yticks(range(layers), ["embedding", *(f"block {layer}" for layer in range(1, layers))])
    axes.set_xlabel("after this token")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    figure.colorbar(image, label="probability of the likeliest", shrink=0.8, pad=0.01)
    return figure


class Development(NamedTuple):
    """The class probabilities of a text after each of its tokens."""

    title: str
    tokens: Sequence[str]
    probabilities: Float[Array, "time class"]


@style.house_style
def class_by_word(developments: Sequence[Development], classes: Sequence[str]) -> Figure:
    """A panel for each text: the probabilities of the classes that were likeliest at some time, over its words; long
    texts from their end, where the answer is given."""
    style.require_some(developments, "a picture of how an answer develops needs at least one text")
    figure = style.new_figure(WIDTH, 2.15 * len(developments))
    panels = figure.subplots(len(developments), 1, squeeze=False)[:, 0]
    for axes, development in zip(panels, developments, strict=True):
        _draw_development(axes, development, classes)
    return figure


@style.house_style
def accuracy_by_length(lengths: Int[Array, " text"], correct: Bool[Array, " text"], *, groups: int = 6) -> Figure:
    """The accuracy on texts of similar length, equally many in each group, with confidence intervals."""
    lengths, correct = numbers(lengths), numbers(correct).astype(float)
    style.require_some(lengths, "a picture of accuracy by length needs at least one text")
    order = np.argsort(lengths, kind="stable")
    parts = [part for part in np.array_split(order, min(groups, len(order))) if len(part)]
    shares = np.array([correct[part].mean() for part in parts])
    errors = np.array([_margin(share, len(part)) for share, part in zip(shares, parts, strict=True)])
    figure, axes = style.one_panel(2.6)
    places = np.arange(len(parts))
    margins = 100 * np.stack([np.minimum(errors, shares), np.minimum(errors, 1 - shares)])
    axes.errorbar(places, 100 * shares, margins, fmt="o", color=PALETTE[0], capsize=3, elinewidth=1)
    axes.axhline(100 * correct.mean(), color=MUTED, linewidth=0.9, linestyle="--")
    axes.text(len(parts) - 0.55, 100 * correct.mean(), "all", color=MUTED, fontsize=8.5, va="bottom", ha="right")
    ranges = [(lengths[part].min(), lengths[part].max(), counted(len(part), "text")) for part in parts]
    axes.set_xticks(places, [f"{low}–{high}\n{n}" if low < high else f"{low}\n{n}" for low, high, n in ranges])
    axes.set(xlabel="tokens", ylabel="accuracy, %", xlim=(-0.5, len(parts) - 0.5))
    return figure


def _margin(share: float, count: int) -> float:
    """With one text more of either kind, so that a group without mistakes is not taken for certain."""
    share = (share * count + 1) / (count + 2)
    return SURE * math.sqrt(share * (1 - share) / count)


def _draw_development(axes: Axes, development: Development, classes: Sequence[str]) -> None:
    values = numbers(development.probabilities)
    likeliest = np.argsort(-values.max(0), kind="stable")[:MOST_LINES]
    values, tokens = values[-MOST_TOKENS:], development.tokens[-MOST_TOKENS:]
    places = np.arange(len(tokens))
    for index, number in enumerate(sorted(map(int, likeliest), key=lambda number: -values[-1, number])):
        label = short(classes[number])
        axes.plot(places, 100 * values[:, number], **style.line(index), marker="o", markersize=2.5, label=label)
    names = [short(shown(token), 14) for token in tokens]
    axes.set_xticks(places, names, rotation=90, fontsize=min(8.0, 330 / max(len(tokens), 1)))
    axes.set(ylabel="%", ylim=(-3, 103), xlim=(-0.5, max(len(tokens) - 0.5, 0.5)))
    axes.set_title(short(development.title, 90), color=INK)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.grid(visible=False, axis="x")
