"""The map of a vocabulary: words in the plane, to be searched and pointed at, in one self-contained piece of a page.

Html(word_map_html([MappedWord("king", (0.2, 0.7), 1_204, [("queen", 0.71), …]), …]))
"""

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

WIDTH, HEIGHT, MARGIN = 760, 560, 34
"""Pixels of the drawing, as in word_map.js."""
NAMED_WITHOUT_SCRIPT = 60
SMALLEST, LARGEST = 2.2, 6.0
"""Radius of a dot: by the logarithm of the count."""


@dataclass(frozen=True)
class MappedWord:
    word: str
    point: tuple[float, float]
    """From 0 to 1 on both axes."""
    count: int | None
    near: Sequence[tuple[str, float]]
    """Its neighbours, on the map or not, and their cosines."""


def word_map_html(words: Sequence[MappedWord]) -> str:
    """Markup with its style, data and script. `words` are the most frequent first: where labels would overlap, theirs
    are shown."""
    data = [
        {
            "word": each.word,
            "point": [round(float(place), 4) for place in each.point],
            "count": each.count,
            "near": [[word, round(cosine, 3)] for word, cosine in each.near],
        }
        for each in words
    ]
    # Inside a script element "<" alone could end it or open a comment.
    described = json.dumps({"words": data}, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    marks = "\n".join(
        _mark(number, each, radius) for number, (each, radius) in enumerate(zip(words, _radii(words), strict=True))
    )
    label = f"map of the {len(words):,} most frequent words"
    return (
        f"<neuropil-word-map>\n<style>{_resource('word_map.css')}</style>\n"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n{marks}\n</svg>\n'
        f'<script type="application/json">{described}</script>\n'
        f"<script>{_resource('word_map.js')}</script>\n</neuropil-word-map>"
    )


def _mark(number: int, mapped: MappedWord, radius: float) -> str:
    x, y = (MARGIN + place * (size - 2 * MARGIN) for place, size in zip(mapped.point, (WIDTH, HEIGHT), strict=True))
    named = ' class="named"' if number < NAMED_WITHOUT_SCRIPT else ""
    return (
        f'<g data-word="{number}"{named} transform="translate({x:.1f} {y:.1f})"><circle class="around" r="9"/>'
        f'<circle r="{radius:.1f}"/><text y="-8">{escape(mapped.word)}</text></g>'
    )


def _radii(words: Sequence[MappedWord]) -> list[float]:
    """By the count, where that is known; else by the rank, as Zipf's law has it."""
    sizes = [math.log(each.count or 1 / rank) for rank, each in enumerate(words, 1)]
    low, high = min(sizes, default=0.0), max(sizes, default=0.0)
    return [SMALLEST + (LARGEST - SMALLEST) * (size - low) / ((high - low) or 1) for size in sizes]


@functools.cache
def _resource(name: str) -> str:
    return resources.files("neuropil.inspection.report").joinpath(name).read_text(encoding="utf-8")
