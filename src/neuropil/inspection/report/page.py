"""A report is one HTML file that holds everything it shows: it opens offline, on a phone, in the dark and on paper.

    write_report(path, Report("CNN on digits", "What was trained.", [
        Section("Result", [Numbers([Number("test accuracy", "99.2 %", good=True)]), Picture.of(figure, alt="…")]),
    ]))

Everything is escaped except `Html`, which is for drawings of our own.
"""

import base64
import hashlib
import io
import itertools
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from jaxtyping import UInt8

from neuropil import files
from neuropil.errors import InputError
from neuropil.inspection.report.svg import figure_svg, with_own_ids

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Text:
    """Paragraphs, parted by blank lines; `backticks` make code."""

    text: str


@dataclass(frozen=True)
class Number:
    """One big figure; `good` marks it as a success or a failure, None as neither."""

    label: str
    value: str
    note: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class Numbers:
    items: Sequence[Number]


@dataclass(frozen=True)
class Table:
    """Columns of numbers are aligned on the right, with the digits that they need; all column names may be empty."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | float | int]]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                rule = f"every row of this table must have {len(self.header)} cells"
                raise InputError(rule, got=f"{len(row)} in {tuple(row)!r}")


@dataclass(frozen=True)
class Picture:
    """An SVG drawing (text) or a PNG image (bytes); `alt` says in words what it shows."""

    image: str | bytes
    alt: str
    caption: str = ""

    @classmethod
    def of(cls, figure: "matplotlib.figure.Figure", alt: str, caption: str = "") -> Self:
        return cls(figure_svg(figure), alt, caption)


@dataclass(frozen=True)
class Thumbnail:
    """A small picture: grey (height, width) or colour (height, width, 3)."""

    image: UInt8[np.ndarray, "height width"] | UInt8[np.ndarray, "height width 3"]
    caption: str
    sub: str = ""


@dataclass(frozen=True)
class Gallery:
    items: Sequence[Thumbnail]


@dataclass(frozen=True)
class Code:
    """Lines to copy, such as the command that repeats a run."""

    text: str


@dataclass(frozen=True)
class Html:
    """Markup that goes into the page as it is: only from our own viewers, never from a user's data."""

    markup: str


Block: TypeAlias = Text | Numbers | Table | Picture | Gallery | Code | Html


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]

    @classmethod
    def of(cls, title: str, words: str, *blocks: Block) -> Self:
        """A text, then what it speaks of."""
        return cls(title, [Text(words), *blocks])

    @classmethod
    def illustrated(cls, title: str, words: str, figure: "matplotlib.figure.Figure", alt: str, *blocks: Block) -> Self:
        """A text with its picture, and what follows them."""
        return cls.of(title, words, Picture.of(figure, alt), *blocks)


@dataclass(frozen=True)
class Report:
    title: str
    summary: str
    sections: Sequence[Section]


def percent(share: float, decimals: int = 1) -> str:
    return f"{100 * share:.{decimals}f} %"


def write_report(path: Path, report: Report) -> None:
    files.write_text(path, render(report))


def render(report: Report) -> str:
    anchors = _anchors([section.title for section in report.sections])
    script = _resource("page.js")
    return string.Template(_resource("page.html")).substitute(
        policy=_content_policy([script, *_scripts_of(report)]),
        title=escape(report.title),
        style=_resource("page.css"),
        summary=_paragraphs(report.summary),
        contents="\n".join(
            f'<li><a href="#{anchor}" dir="auto">{escape(section.title)}</a></li>'
            for anchor, section in zip(anchors, report.sections, strict=True)
        ),
        sections="\n".join(_section(section, anchor) for anchor, section in zip(anchors, report.sections, strict=True)),
        script=script,
    )


def _resource(name: str) -> str:
    return resources.files("neuropil.inspection.report").joinpath(name).read_text(encoding="utf-8")


def _content_policy(scripts: Sequence[str]) -> str:
    """What the browser may do: show what is in the file, run these very scripts, fetch nothing."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    nothing_else = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return f"{nothing_else}; script-src {allowed}"


def _scripts_of(report: Report) -> list[str]:
    """A script inside a drawing stands in a CDATA section, which the browser removes before it hashes the script."""
    blocks = [block for section in report.sections for block in section.blocks if isinstance(block, Html)]
    script = re.compile(r"<script>(?:<!\[CDATA\[)?(.*?)(?:\]\]>)?</script>", flags=re.DOTALL)
    return [found for block in blocks for found in script.findall(block.markup)]


def _anchors(titles: Sequence[str]) -> list[str]:
    """Readable, distinct ids: letters of any script stay, the rest turns into hyphens."""
    anchors: list[str] = []
    for title in titles:
        word = re.sub(r"\W+", "-", title.lower()).strip("-") or "section"
        anchor, number = word, 2
        while anchor in anchors:
            anchor, number = f"{word}-{number}", number + 1
        anchors.append(anchor)
    return anchors


def _section(section: Section, anchor: str) -> str:
    blocks = "\n".join(html_of(block, f"{anchor}-{index}-") for index, block in enumerate(section.blocks))
    link = f'<a class="anchor" href="#{anchor}" aria-label="link to this section">#</a>'
    heading = f'<h2 dir="auto">{escape(section.title)} {link}</h2>'
    return f'<section id="{anchor}">\n{heading}\n{blocks}\n</section>'


def html_of(block: Block, prefix: str) -> str:
    match block:
        case Text(text):
            return _paragraphs(text)
        case Numbers(items):
            return f'<dl class="numbers">{"".join(map(_number, items))}</dl>'
        case Table():
            return _table(block)
        case Picture():
            return _picture(block, prefix)
        case Gallery(items):
            return f'<ul class="gallery">{"".join(map(_thumbnail, items))}</ul>'
        case Code(text):
            return f'<div class="code"><pre><code dir="ltr">{escape(text)}</code></pre></div>'
        case Html(markup):
            return f'<div class="card">{markup}</div>'


def _paragraphs(text: str) -> str:
    return "\n".join(f'<p dir="auto">{_inline(part)}</p>' for part in re.split(r"\n\s*\n", text.strip()) if part)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


ON_ONE_LINE = 16
"""Characters of a value that is not broken, such as "1,234.5 ms"."""


def _number(number: Number) -> str:
    kind = {True: " good", False: " bad", None: ""}[number.good]
    spoken = {True: "good: ", False: "poor: ", None: ""}[number.good]
    note = f'<dd class="note" dir="auto">{_inline(number.note)}</dd>' if number.note else ""
    whole = number.value.replace(" ", "\u00a0") if len(number.value) <= ON_ONE_LINE else number.value
    value = f'<dd class="value"><span class="spoken">{spoken}</span>{escape(whole)}</dd>'
    direction = _direction([number.label, number.note, number.value])
    label = f'<dt dir="auto">{escape(number.label)}</dt>'
    return f'<div class="number{kind}" dir="{direction}">{label}{value}{note}</div>'


def _table(table: Table) -> str:
    columns = [_column([row[index] for row in table.rows], is_first=index == 0) for index in range(len(table.header))]
    caption = f'<caption dir="auto">{_inline(table.caption)}</caption>' if table.caption else ""
    aligned = zip(table.header, map(_align, columns), strict=True)
    names = [f'<th scope="col"{align} dir="auto">{escape(name)}</th>' for name, align in aligned]
    header = f"<thead><tr>{''.join(names)}</tr></thead>" if any(table.header) else ""
    rows = "".join(f"<tr>{_cells(columns, index)}</tr>\n" for index in range(len(table.rows)))
    direction = _direction([*table.header, *itertools.chain.from_iterable(table.rows)])
    label = escape(table.caption or " ".join(table.header).strip() or "table")
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table dir="{direction}">{caption}'
        f"{header}\n<tbody>{rows}</tbody></table></div>"
    )


def _direction(texts: Iterable[object]) -> str:
    """By the first letter with a direction; browsers do not look for it beyond each cell."""
    letters = itertools.chain.from_iterable(map(str, texts))
    strong = (kind for kind in map(unicodedata.bidirectional, letters) if kind in ("L", "R", "AL"))
    return "ltr" if next(strong, "L") == "L" else "rtl"


@dataclass(frozen=True)
class _Column:
    cells: list[str]
    numeric: bool


def _cells(columns: Sequence[_Column], row: int) -> str:
    return "".join(f'<td{_align(column)} dir="auto">{_inline(column.cells[row])}</td>' for column in columns)


_NUMERIC = re.compile(r"[-–—]?|[-+−±]?[\d.,]+(e[-+]\d+)?( ?(%|m?s))?")


def _column(values: Sequence[str | float | int], *, is_first: bool) -> _Column:
    """A column is numeric when each cell is a number or, save in the first, reads as one: `1,024`, `99.2 %`, `–`."""
    decimals = _decimals([value for value in values if isinstance(value, float)])
    cells = [_cell(value, decimals) for value in values]
    reads = [not isinstance(v, str | bool) or (not is_first and _NUMERIC.fullmatch(str(v))) for v in values]
    return _Column(cells, numeric=bool(cells) and all(reads))


def _cell(value: str | float | int, decimals: int | None) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if decimals is None else f"{value:,.{decimals}f}"
    return f"{value:,}"


def _decimals(values: Sequence[float]) -> int | None:
    """The fewest decimals that show every value to four digits; None where they span too much for one format."""
    sizes = [abs(value) for value in values if np.isfinite(value) and value != 0]
    if sizes and (max(sizes) >= 1e7 or min(sizes) < 1e-4):
        return None
    return next((n for n in range(4) if all(abs(round(size, n) - size) < 1e-4 * size for size in sizes)), 4)


def _align(column: _Column) -> str:
    return ' class="numeric"' if column.numeric else ""


def _picture(picture: Picture, prefix: str) -> str:
    if isinstance(picture.image, bytes):
        image = f'<img src="{_data_url("image/png", picture.image)}" alt="{escape(picture.alt)}">'
    else:
        drawing = with_own_ids(picture.image, prefix)
        image = drawing.replace("<svg", f'<svg role="img" aria-label="{escape(picture.alt)}"', 1)
    caption = f'<figcaption dir="auto">{_inline(picture.caption)}</figcaption>' if picture.caption else ""
    return f'<figure class="picture"><div class="card" tabindex="0">{image}</div>{caption}</figure>'


def _thumbnail(thumbnail: Thumbnail) -> str:
    sub = f'<span class="sub" dir="auto">{_inline(thumbnail.sub)}</span>' if thumbnail.sub else ""
    caption = f'<figcaption><span dir="auto">{_inline(thumbnail.caption)}</span>{sub}</figcaption>'
    return f"<li><figure>{_thumbnail_image(thumbnail)}{caption}</figure></li>"


def _thumbnail_image(thumbnail: Thumbnail) -> str:
    """Small images keep every pixel, and show it (PNG); photographs are shrunk to the size on the page (JPEG)."""
    from PIL import Image

    image, encoded, alt = Image.fromarray(thumbnail.image), io.BytesIO(), escape(thumbnail.caption)
    if max(image.size) <= 64:
        image.save(encoded, "PNG", optimize=True)
        return f'<img src="{_data_url("image/png", encoded.getvalue())}" alt="{alt}">'
    image.thumbnail((240, 240))
    image.save(encoded, "JPEG", quality=85)
    return f'<img class="photograph" src="{_data_url("image/jpeg", encoded.getvalue())}" alt="{alt}">'


def _data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
