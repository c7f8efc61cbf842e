"""Texts and what a model makes of them: how sure it is after each word, and how often it is right about short ones and long ones."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import (
    INK,
    MUTED,
    PALETTE,
    WIDTH,
    Array,
    house_style,
    line,
    new_figure,
    numbers,
    short,
)
from neuropil.inspection.report.alignment import shown

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MOST_LINES = 3
MOST_TOKENS = 60
"""With more, their names would overlap."""
SURE = 1.96
"""Standard errors to either side that hold the truth 19 times out of 20."""


class Development(NamedTuple):
    """What a model thinks of the class of a text after each of its tokens."""

    title: str
    tokens: Sequence[str]
    probabilities: Float[Array, "time class"]


@house_style
def class_by_word(developments: Sequence[Development], classes: Sequence[str]) -> "matplotlib.figure.Figure":
    """A panel for each text: the probabilities of the classes that were likeliest at some time, over its words; long texts from their
    end, where the answer is given."""
    if not developments:
        raise InputError("a picture of how an answer develops needs at least one text", got="none")
    figure = new_figure(WIDTH, 2.15 * len(developments))
    panels = figure.subplots(len(developments), 1, squeeze=False)[:, 0]
    for axes, development in zip(panels, developments, strict=True):
        _draw_development(axes, development, classes)
    return figure


@house_style
def accuracy_by_length(
    lengths: Int[Array, " text"], correct: Bool[Array, " text"], *, groups: int = 6
) -> "matplotlib.figure.Figure":
    """The share of right answers among texts of like length, equally many in each group, with the range of what chance may add to it."""
    lengths, correct = numbers(lengths), numbers(correct).astype(float)
    if not len(lengths):
        raise InputError("a picture of accuracy by length needs at least one text", got="none")
    order = np.argsort(lengths, kind="stable")
    parts = [part for part in np.array_split(order, min(groups, len(order))) if len(part)]
    shares = np.array([correct[part].mean() for part in parts])
    errors = np.array([_margin(share, len(part)) for share, part in zip(shares, parts, strict=True)])
    figure = new_figure(WIDTH, 2.6)
    axes = figure.subplots()
    places = np.arange(len(parts))
    below = np.minimum(errors, shares)
    above = np.minimum(errors, 1 - shares)
    axes.errorbar(
        places, 100 * shares, 100 * np.stack([below, above]), fmt="o", color=PALETTE[0], capsize=3, elinewidth=1
    )
    axes.axhline(100 * correct.mean(), color=MUTED, linewidth=0.9, linestyle="--")
    axes.text(len(parts) - 0.55, 100 * correct.mean(), "all", color=MUTED, fontsize=8.5, va="bottom", ha="right")
    names = [
        f"{lengths[part].min()}–{lengths[part].max()}" if len(set(lengths[part])) > 1 else f"{lengths[part][0]}"
        for part in parts
    ]
    axes.set_xticks(places, [f"{name}\n{len(part):,} texts" for name, part in zip(names, parts, strict=True)])
    axes.set(xlabel="tokens", ylabel="right, %", xlim=(-0.5, len(parts) - 0.5))
    return figure


def _margin(share: float, count: int) -> float:
    """With one text more of either kind, so that a group without mistakes is not taken for certain."""
    share = (share * count + 1) / (count + 2)
    return SURE * math.sqrt(share * (1 - share) / count)


def _draw_development(axes: "matplotlib.axes.Axes", development: Development, classes: Sequence[str]) -> None:
    values = numbers(development.probabilities)
    likeliest = np.argsort(-values.max(0), kind="stable")[:MOST_LINES]
    values, tokens = values[-MOST_TOKENS:], development.tokens[-MOST_TOKENS:]
    places = np.arange(len(tokens))
    for index, number in enumerate(sorted(map(int, likeliest), key=lambda number: -values[-1, number])):
        axes.plot(
            places, 100 * values[:, number], **line(index), marker="o", markersize=2.5, label=short(classes[number])
        )
    axes.set_xticks(
        places, [short(shown(token), 14) for token in tokens], rotation=90, fontsize=min(8.0, 330 / max(len(tokens), 1))
    )
    axes.set(ylabel="%", ylim=(-3, 103), xlim=(-0.5, max(len(tokens) - 0.5, 0.5)))
    axes.set_title(short(development.title, 90), color=INK)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.grid(visible=False, axis="x")
