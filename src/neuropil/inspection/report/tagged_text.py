"""Texts whose tokens are coloured by their tags, as markup for a report: in whatever direction they are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from neuropil.errors import InputError

COLOURS = (
    "22,103,183", "216,87,10", "31,158,138", "122,42,120", "190,150,0", "221,102,184", "70,120,40", "180,30,40",
    "90,100,120",
)  # fmt: skip
WRONG = "text-decoration:underline wavy #b3261e;text-decoration-skip-ink:none;"


@dataclass(frozen=True)
class TaggedTokens:
    """The predicted tag of each token, and, where it is known, the true one."""

    tokens: Sequence[str]
    tags: Sequence[str]
    truth: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for what in (self.tags, self.truth):
            if what is not None and len(what) != len(self.tokens):
                got = f"{len(what)} tags for {len(self.tokens)} tokens"
                raise InputError("a tagged text needs one tag for each token", got=got)


def tagged_texts(
    texts: Sequence[TaggedTokens], tags: Sequence[str], *, plain: str | None = None, between: str = " "
) -> str:
    """A paragraph for each text, below a legend. Tokens with the tag `plain` have no colour; wrong ones are underlined,
    with the right tag as their tooltip. `between` stands between tokens: nothing, where they are letters."""
    coloured = [tag for tag in tags if tag != plain]
    colour_of = {tag: COLOURS[place % len(COLOURS)] for place, tag in enumerate(coloured)}
    legend = " ".join(f'<span style="{_background(colour_of[tag])}">{escape(tag)}</span>' for tag in coloured)
    body = "\n".join(f'<p dir="auto" style="margin:.35rem 0">{_spans(text, colour_of, between)}</p>' for text in texts)
    legend = f'<p dir="auto" style="margin:0 0 .6rem;font-size:.875rem">{legend}</p>'
    return f'<div style="line-height:1.9">{legend}\n{body}</div>'


def _spans(text: TaggedTokens, colour_of: Mapping[str, str], between: str) -> str:
    """Neighbours with the same tag are one span, so that letters of one word stay joined."""
    truth = text.tags if text.truth is None else text.truth
    rows = zip(text.tokens, text.tags, truth, strict=True)
    return between.join(
        _span(between.join(token for token, _, _ in run), tag, right, colour_of.get(tag))
        for (tag, right), run in groupby(rows, key=lambda row: (row[1], row[2]))
    )


def _span(words: str, tag: str, right: str, colour: str | None) -> str:
    said = tag if tag == right else f"{tag}, but it is {right}"
    style = (_background(colour) if colour else "") + (WRONG if tag != right else "")
    return f'<span title="{escape(said)}" style="white-space:pre-wrap;{style}">{escape(words)}</span>'


def _background(colour: str) -> str:
    return f"background:rgba({colour},.22);box-shadow:inset 0 -2px rgba({colour},.9);border-radius:3px;"
