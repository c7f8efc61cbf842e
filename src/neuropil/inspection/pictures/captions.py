"""Pictures with what a captioner says of them, and where it looked for each word."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection.pictures.attention import LIGHT
from neuropil.inspection.pictures.style import WIDTH, Array, house_style, new_figure, numbers, short

if TYPE_CHECKING:
    import matplotlib.figure

MOST_WORDS = 11
"""In a line, beside the picture itself."""


@house_style
def caption_looks(
    images: Sequence[Shaped[Array, "_ _"] | Shaped[Array, "_ _ 3"]],
    weights: Sequence[Float[Array, "_ _ _"]],
    words: Sequence[Sequence[str]],
) -> "matplotlib.figure.Figure":
    """Each picture, and beside it the same picture once for each word of its caption, lit where it was looked at.

    Images are [height width] or [height width 3], weights [word row column]; each picture may have another size and other words.
    """
    if not images or not len(images) == len(weights) == len(words):
        raise InputError(
            "a picture of looks needs weights and words for each image",
            got=f"{len(images)} images, {len(weights)} weights and {len(words)} captions",
        )
    rows = [
        (image if begin == 0 else None, looks[begin : begin + MOST_WORDS], caption[begin : begin + MOST_WORDS], image)
        for image, looks, caption in zip(map(numbers, images), map(numbers, weights), words, strict=True)
        for begin in range(0, len(caption), MOST_WORDS)  # a long caption goes on in the next line
    ]
    tallest = max(image.shape[0] / image.shape[1] for *_, image in rows)
    figure = new_figure(WIDTH, len(rows) * (WIDTH / (MOST_WORDS + 1) * tallest + 0.22))
    for axes, (first, looks, caption, image) in zip(
        figure.subplots(len(rows), 1, squeeze=False)[:, 0], rows, strict=True
    ):
        pixels = shade(image)
        # One picture for the whole line: many small ones would take long to lay out.
        panels = [None if first is None else pixels, *(lit(pixels, look) for look in looks)]
        axes.imshow(side_by_side(panels, MOST_WORDS + 1, pixels.shape[:2]), interpolation="none")
        axes.set_axis_off()
        for place, word in enumerate(caption, start=1):
            middle = place * (pixels.shape[1] + gap(pixels.shape[1])) + pixels.shape[1] / 2 - 0.5
            axes.annotate(
                short(word, 10),
                (middle, -0.5),
                (0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=8,
            )
    return figure


def side_by_side(
    panels: Sequence[Float[np.ndarray, "height width 3"] | None], count: int, size: tuple[int, int]
) -> Float[np.ndarray, "height all 4"]:
    """Room for `count` panels in a row, clear where there is none."""
    height, width = size
    step = width + gap(width)
    row = np.zeros((height, count * step - gap(width), 4))
    for place, panel in enumerate(panels):
        if panel is not None:
            row[:, place * step : place * step + width, :3] = panel
            row[:, place * step : place * step + width, 3] = 1
    return row


def gap(width: int) -> int:
    """Pixels between two panels of this width."""
    return max(1, width // 12)


def shade(image: np.ndarray) -> Float[np.ndarray, "height width 3"]:
    """Grey or coloured bytes as colours from 0 to 1."""
    colours = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)
    return colours / 255.0


def lit(
    pixels: Float[np.ndarray, "height width 3"], look: Float[np.ndarray, "row column"]
) -> Float[np.ndarray, "height width 3"]:
    """The picture, covered with light where it was looked at; between the places of the grid the light fades over."""
    grid = torch.from_numpy(look)[None, None].float()
    spread = F.interpolate(grid, pixels.shape[:2], mode="bilinear", align_corners=False)[0, 0].numpy()
    cover = 0.8 * (spread / (spread.max() or 1.0))[..., None]
    return (1 - cover) * 0.8 * pixels + cover * np.array(LIGHT)
