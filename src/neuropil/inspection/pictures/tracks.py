"""An object followed through a film: frames with where it is and where it is said to be, the paths, and the error while it is hidden."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from neuropil.errors import InputError
from neuropil.inspection.pictures.style import INK, PALETTE, WIDTH, Array, house_style, line, new_figure, numbers

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

FRAMES, COLUMNS = 12, 6
"""Of a film that are drawn, at most, and in one row of them."""
TRUTH, SAID = "#35c4f0", "#f58a1f"
"""Seen on black and on white."""


class Track(NamedTuple):
    """A film and the positions in it, in pixels of the frames that are drawn: x to the right, y down; NaN where nobody knows."""

    frames: Shaped[Array, "time height width"] | Shaped[Array, "time height width 3"]
    truth: Float[Array, "time 2"]
    said: Float[Array, "time 2"]
    hidden: Bool[Array, " time"]


@house_style
def film_strips(tracks: Sequence[Track]) -> "matplotlib.figure.Figure":
    """Some frames of each film, evenly spaced, in two rows; a ring is where the object is, a cross where it is said to be. Frames in which
    it cannot be seen have a coloured border."""
    if not tracks:
        raise InputError("a picture of film strips needs at least one film", got="none")
    tallest = max(numbers(track.frames).shape[1] / numbers(track.frames).shape[2] for track in tracks)
    figure = new_figure(WIDTH, len(tracks) * (2 * (WIDTH / COLUMNS * tallest + 0.16) + 0.1))
    for axes, track in zip(figure.subplots(len(tracks), 1, squeeze=False)[:, 0], tracks, strict=True):
        _draw_strip(axes, track)
    return figure


@house_style
def film_paths(tracks: Sequence[Track]) -> "matplotlib.figure.Figure":
    """The way of the object through each film and the way that is told of it; where it was hidden, the points are open."""
    if not tracks:
        raise InputError("a picture of paths needs at least one film", got="none")
    columns = max(3, len(tracks))
    figure = new_figure(WIDTH, WIDTH / columns + 0.35)
    panels = figure.subplots(1, columns, squeeze=False, sharey=True)[0]
    for axes in panels[len(tracks) :]:
        axes.set_visible(False)
    for axes, track in zip(panels, tracks, strict=False):
        height, width = numbers(track.frames).shape[1:3]
        hidden = numbers(track.hidden)
        for name, points, colour in (("true", numbers(track.truth), INK), ("told", numbers(track.said), PALETTE[1])):
            axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=1, alpha=0.8)
            axes.plot(
                points[~hidden, 0], points[~hidden, 1], "o", color=colour, markersize=3, markeredgewidth=0, label=name
            )
            axes.plot(
                points[hidden, 0],
                points[hidden, 1],
                "o",
                color=colour,
                markersize=3.6,
                markerfacecolor="white",
                label=f"{name}, hidden",
            )
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal", xlabel="x")
    panels[0].set_ylabel("y")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


@house_style
def error_since_hidden(
    errors: Mapping[str, Float[Array, " step"]], counts: Sequence[int]
) -> "matplotlib.figure.Figure":
    """Mean distance, in pixels, against how many frames the object has been hidden; step 0 is every frame in which it is seen."""
    if not errors:
        raise InputError("a picture of errors needs at least one tracker", got="none")
    figure = new_figure(WIDTH, 2.9)
    axes = figure.subplots()
    for index, (name, values) in enumerate(errors.items()):
        axes.plot(range(len(numbers(values))), numbers(values), marker="o", markersize=3.5, label=name, **line(index))
    axes.set_xticks(range(len(counts)), ["seen", *(f"{step}" for step in range(1, len(counts)))])
    axes.set(xlabel="frames since it was seen last", ylabel="mean distance in pixels")
    axes.set_ylim(bottom=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _draw_strip(axes: "matplotlib.axes.Axes", track: Track) -> None:
    """One picture for the whole strip: many small ones would take long to lay out."""
    from matplotlib.patches import Rectangle

    frames = numbers(track.frames)
    height, width = frames.shape[1:3]
    down, right = height + max(2, height // 6), width + max(1, width // 14)
    shown = np.unique(np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int))
    board = np.zeros((2 * down, COLUMNS * right, 4))
    for place, time in enumerate(shown):
        top, left = down * (place // COLUMNS), right * (place % COLUMNS)
        colours = frames[time] if frames.ndim == 4 else np.repeat(frames[time][..., None], 3, axis=-1)
        board[top : top + height, left : left + width] = np.concatenate(
            [colours / 255, np.ones((height, width, 1))], -1
        )
        corner = (left - 0.5, top - 0.5)
        axes.plot(
            *(numbers(track.truth)[time] + (left, top)),
            "o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor=TRUTH,
        )
        axes.plot(*(numbers(track.said)[time] + (left, top)), "x", markersize=6, color=SAID, markeredgewidth=1.8)
        axes.annotate(
            f"{time + 1}",
            (left + width / 2 - 0.5, top - 0.5),
            (0, 1.5),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
        )
        if numbers(track.hidden)[time]:
            axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=SAID, linewidth=2.2))
    axes.imshow(board, interpolation="none")
    axes.set(xlim=(-1, COLUMNS * right - 1), ylim=(2 * down - 2, -1))
    axes.set_axis_off()
