"""Object tracking: frames with the true and predicted position, the paths, and the error while it is hidden."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped

from neuropil.inspection.pictures import style
from neuropil.inspection.pictures.images import rgb
from neuropil.inspection.pictures.style import INK, PALETTE, WIDTH, Array, Axes, Figure, numbers

FRAMES, COLUMNS = 12, 6
"""Of a film that are drawn, at most, and in one row of them."""
TRUE, PREDICTED = "#35c4f0", "#f58a1f"
"""Seen on black and on white."""


class Track(NamedTuple):
    """A film and the positions in it, in pixels of the frames drawn: x to the right, y down; NaN where unknown."""

    frames: Shaped[Array, "time height width"] | Shaped[Array, "time height width 3"]
    truth: Float[Array, "time 2"]
    predicted: Float[Array, "time 2"]
    hidden: Bool[Array, " time"]


@style.house_style
def film_strips(tracks: Sequence[Track]) -> Figure:
    """Some frames of each film in two rows; a ring is the true position, a cross the predicted one. Frames in which the
    object is hidden have a coloured border."""
    style.require_some(tracks, "a picture of film strips needs at least one film")
    tallest = max(numbers(track.frames).shape[1] / numbers(track.frames).shape[2] for track in tracks)
    figure = style.new_figure(WIDTH, len(tracks) * (2 * (WIDTH / COLUMNS * tallest + 0.16) + 0.1))
    for axes, track in zip(figure.subplots(len(tracks), 1, squeeze=False)[:, 0], tracks, strict=True):
        _draw_strip(axes, track)
    return figure


@style.house_style
def film_paths(tracks: Sequence[Track]) -> Figure:
    """The true and the predicted path of the object through each film; where it was hidden, the points are open."""
    style.require_some(tracks, "a picture of paths needs at least one film")
    columns = max(3, len(tracks))
    figure = style.new_figure(WIDTH, WIDTH / columns + 0.35)
    panels = figure.subplots(1, columns, squeeze=False, sharey=True)[0]
    for axes in panels[len(tracks) :]:
        axes.set_visible(False)
    for axes, track in zip(panels, tracks, strict=False):
        height, width = numbers(track.frames).shape[1:3]
        hidden = numbers(track.hidden)
        for name, positions, colour in (("true", track.truth, INK), ("predicted", track.predicted, PALETTE[1])):
            points = numbers(positions)
            axes.plot(*points.T, color=colour, linewidth=1, alpha=0.8)
            axes.plot(*points[~hidden].T, "o", color=colour, markersize=3, markeredgewidth=0, label=name)
            open_points = {"markersize": 3.6, "markerfacecolor": "white", "label": f"{name}, hidden"}
            axes.plot(*points[hidden].T, "o", color=colour, **open_points)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), aspect="equal", xlabel="x")
    panels[0].set_ylabel("y")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


@style.house_style
def error_since_hidden(errors: Mapping[str, Float[Array, " step"]], counts: Sequence[int]) -> Figure:
    """Mean distance, in pixels, against the frames for which the object has been hidden; step 0 is when it is seen."""
    style.require_some(errors, "a picture of errors needs at least one tracker")
    figure, axes = style.one_panel(2.9)
    for index, (name, values) in enumerate(errors.items()):
        axes.plot(numbers(values), marker="o", markersize=3.5, label=name, **style.line(index))
    axes.set_xticks(range(len(counts)), ["seen", *(f"{step}" for step in range(1, len(counts)))])
    axes.set(xlabel="frames since it was seen last", ylabel="mean distance in pixels")
    axes.set_ylim(bottom=0)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _draw_strip(axes: Axes, track: Track) -> None:
    """One picture for the whole strip: many small ones would take long to lay out."""
    from matplotlib.patches import Rectangle

    frames = numbers(track.frames)
    height, width = frames.shape[1:3]
    down, right = height + max(2, height // 6), width + max(1, width // 14)
    shown = np.unique(np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int))
    board = np.zeros((2 * down, COLUMNS * right, 4))
    for place, time in enumerate(shown):
        top, left = down * (place // COLUMNS), right * (place % COLUMNS)
        board[top : top + height, left : left + width] = np.dstack([rgb(frames[time]), np.ones((height, width))])
        ring = {"markersize": 10, "markerfacecolor": "none", "markeredgecolor": TRUE}
        axes.plot(*(numbers(track.truth)[time] + (left, top)), "o", **ring)
        cross = {"markersize": 6, "color": PREDICTED, "markeredgewidth": 1.8}
        axes.plot(*(numbers(track.predicted)[time] + (left, top)), "x", **cross)
        style.write_above(axes, f"{time + 1}", left + width / 2 - 0.5, top - 0.5, rise=1.5, fontsize=7.5)
        if numbers(track.hidden)[time]:
            border = {"fill": False, "edgecolor": PREDICTED, "linewidth": 2.2}
            axes.add_patch(Rectangle((left - 0.5, top - 0.5), width, height, **border))
    axes.imshow(board, interpolation="none")
    axes.set(xlim=(-1, COLUMNS * right - 1), ylim=(2 * down - 2, -1))
    axes.set_axis_off()
