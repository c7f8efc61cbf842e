"""A matplotlib figure as an SVG element that several of can stand in one HTML page, with its text as text."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.figure


def figure_svg(figure: "matplotlib.figure.Figure") -> str:
    """The figure as one `<svg>` element without fonts, style sheets or links; the page's CSS chooses the font."""
    import matplotlib

    drawn = io.StringIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "neuropil"}),
        warnings.catch_warnings(),
        _laid_out_once(figure),
    ):
        # The browser draws the letters, with fonts for every script; matplotlib only measures them with its own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return _tidy(drawn.getvalue())


@contextmanager
def _laid_out_once(figure: "matplotlib.figure.Figure") -> Iterator[None]:
    """Saving draws everything twice, the first time for the layout alone: here that does the layout and no more."""
    layout, draw = figure.get_layout_engine(), figure.draw
    if layout is None:
        yield
        return

    def first(renderer: object) -> None:
        figure.draw = draw
        layout.execute(figure)

    figure.draw = first
    try:
        yield
    finally:
        figure.draw = draw


def with_own_ids(svg: str, prefix: str) -> str:
    """The same drawing with `prefix` before every id and reference, so that drawings in one page do not clash."""
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", tag[0]), svg)


def _tidy(document: str) -> str:
    svg = document[document.index("<svg") :]
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)  # within HTML the names of its spaces are known
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Its one rule, *{stroke-linejoin: round}, would hold for the whole page; page.css gives it to drawings alone.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    # On a phone the letters would be too small at the width of the screen: page.css lets a wide picture scroll.
    svg = re.sub(r'<svg ([^>]*)width="([^"]*)"', r'<svg style="--natural: \2" \1width="\2"', svg, count=1)
    svg = re.sub(r" ?font-family: [^;\"]*;", "", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    svg = re.sub(r' d="([^"]*)"', lambda path: f' d="{_short_path(path[1])}"', svg)
    referenced = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in referenced else "", svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _short_path(commands: str) -> str:
    """A hundredth of a point is finer than any screen."""
    return re.sub(r"(\.\d\d)\d+", r"\1", commands).replace("\n", "").rstrip()
