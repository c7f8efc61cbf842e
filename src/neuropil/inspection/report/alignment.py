"""The alignment viewer: attention between tokens, for every head of every layer, in one self-contained piece of a page.

    tape = …                                            # batch × head × query × key for each attention of the model
    maps = [AttentionMap(name, weights[0], queries=output, keys=source) for name, weights in tape.attention.items()]
    Alignment(maps, "Sunday, 15 November 2026").write(Path("attention.html"))

It is a block of a report (`Html(alignment.html())`), the last line of a notebook's cell, or a page of its own. Several
on one page know nothing of each other. A head is decoded only when it is shown, so that 512 × 512 tokens × 12 layers ×
12 heads open at once.
"""

import base64
import functools
import itertools
import json
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from neuropil.errors import InputError
from neuropil.inspection.report.page import Html, Report, Section, write_report

CAVEAT = "Attention weights show where information may flow from; by themselves they do not explain a prediction."

THUMBNAIL = 24
"""Rows and columns of a head's small picture; a larger head is pooled, by its largest weights."""

_ROUNDING = 1e-4
"""How far a weight may lie outside of [0, 1]: what a softmax in single or half precision may miss by."""


@dataclass(frozen=True)
class AttentionMap:
    """The heads of one attention for one example. Labels are the tokens themselves, with the spaces that they hold."""

    name: str
    weights: Float[Tensor, "..."] | Float[np.ndarray, "..."]
    """head × query × key, each in [0, 1]"""
    queries: Sequence[str]
    """one label per row"""
    keys: Sequence[str]
    """one label per column"""

    def __post_init__(self) -> None:
        owner = f"the attention map {self.name!r}"
        weights = self.weights.detach() if isinstance(self.weights, Tensor) else self.weights
        if weights.ndim != 3 or 0 in weights.shape:
            rule = f"{owner} needs weights of shape head × query × key, with at least one of each"
            fix = "choose one example of a batch, as in weights[0]" if weights.ndim == 4 else None
            raise InputError(rule, got=f"the shape {_shape(weights)}", fix=fix)
        for kind, labels, count in (("query", self.queries, weights.shape[1]), ("key", self.keys, weights.shape[2])):
            if len(labels) != count:
                got = f"{len(labels)} labels for weights of shape {_shape(weights)}"
                raise InputError(f"{owner} needs one label per {kind}", got=got)
        low, high = float(weights.min()), float(weights.max())
        # A NaN is neither within nor beyond the bounds, so that the question must be whether all lies within.
        if not (low >= -_ROUNDING and high <= 1 + _ROUNDING):
            finite = np.isfinite([low, high]).all()
            got = f"values from {low:g} to {high:g}" if finite else "values that are not finite"
            fix = "pass what the softmax gives, not the scores" if finite else None
            raise InputError(f"{owner} needs weights between 0 and 1", got=got, fix=fix)


@dataclass(frozen=True)
class Alignment:
    """One example: the maps of as many layers as there are, in the order in which they are listed."""

    maps: Sequence[AttentionMap]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.maps:
            raise InputError("an alignment needs at least one attention map", got="none")

    def html(self) -> str:
        """Markup with its style, data and script, for a report (`inspection.report.Html`) or any other page."""
        title = f'<p class="title" dir="auto">{escape(self.title)}</p>\n' if self.title else ""
        tokens = {token for each in self.maps for token in (*each.queries, *each.keys)}
        signs = "".join(f" {sign} is a {name}." for letter, (sign, name) in _JOINERS.items() if letter in tokens)
        return (
            f"<neuropil-alignment>\n<style>{_resource('alignment.css')}</style>\n{title}"
            f'<p class="caveat">{CAVEAT}{signs}</p>\n{_strongest_links(self.maps[-1])}\n'
            f"{_data(self.maps)}\n<script>{_resource('alignment.js')}</script>\n</neuropil-alignment>"
        )

    def _repr_html_(self) -> str:
        return self.html()

    def write(self, path: Path) -> None:
        """A page of its own."""
        write_alignments(path, [replace(self, title="")], self.title or "Attention")


def write_alignments(path: Path, alignments: Sequence[Alignment], title: str) -> None:
    """Several examples on one page, each under its title."""
    sections = [Section(each.title or "Attention", [Html(replace(each, title="").html())]) for each in alignments]
    summary = "Point at a token or a cell to see its links; a click or the Enter key keeps it, Escape lets it go."
    write_report(path, Report(title, summary, sections))


@functools.cache
def _resource(name: str) -> str:
    return resources.files("neuropil.inspection.report").joinpath(name).read_text(encoding="utf-8")


def _shape(weights: Tensor | np.ndarray) -> str:
    return " × ".join(map(str, weights.shape)) or "()"


def _strongest_links(attention: AttentionMap) -> str:
    """What a page without a script shows."""
    mean = _numbers(attention.weights).mean(axis=0)
    best: list[int] = mean.argmax(axis=1).tolist()
    rows = "".join(
        f'<tr><td dir="auto">{escape(shown(query))}</td><td dir="auto">{escape(shown(attention.keys[key]))}</td>'
        f'<td class="numeric">{_weight(weight)}</td></tr>\n'
        for query, key, weight in zip(attention.queries, best, mean.max(axis=1).tolist(), strict=True)
    )
    of = "" if len(attention.weights) == 1 else f" (mean over the {len(attention.weights)} heads)"
    return (
        f"<details open><summary>Strongest links of <bdi>{escape(attention.name)}</bdi>{of}</summary>\n"
        '<div class="links" tabindex="0"><table><thead><tr><th scope="col">query</th><th scope="col">looks most at</th>'
        f'<th scope="col" class="numeric">weight</th></tr></thead>\n<tbody>{rows}</tbody></table></div></details>'
    )


def _weight(weight: float) -> str:
    """As many digits as the viewer's bytes hold, so that the table and the viewer say the same."""
    if weight < 0.0005:
        return "< 0.001"
    return f"{weight:.3f}" if weight < 0.0995 else f"{weight:.2f}"


def _data(maps: Sequence[AttentionMap]) -> str:
    """Texts and thumbnails as JSON, then each head by itself; browsers never run scripts of these types."""
    texts: dict[tuple[str, ...], int] = {}
    for text in itertools.chain.from_iterable((tuple(attention.queries), tuple(attention.keys)) for attention in maps):
        texts.setdefault(text, len(texts))
    layers, heads = [], []
    for attention in maps:
        weights = _numbers(attention.weights)
        sides = {"queries": texts[tuple(attention.queries)], "keys": texts[tuple(attention.keys)]}
        thumbnails = {"thumbnails": _packed(_thumbnails(weights))}
        layers.append({"name": attention.name, "heads": len(weights), **sides, **thumbnails})
        heads += [_packed(head) for head in quantised(weights)]
    labels = [{"tokens": [*map(shown, text)], "joined": _joined(text)} for text in texts]
    described = {"texts": labels, "layers": layers}
    # Inside a script element "<" alone could end it or open a comment.
    described_safely = json.dumps(described, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    blocks = "\n".join(f'<script type="application/octet-stream">{head}</script>' for head in heads)
    return f'<script type="application/json">{described_safely}</script>\n{blocks}'


def _numbers(weights: Tensor | np.ndarray) -> Float[np.ndarray, "head query key"]:
    numbers = weights.detach().float().cpu().numpy() if isinstance(weights, Tensor) else weights.astype(np.float32)
    return numbers.clip(0, 1)


def quantised(weights: Float[np.ndarray, "*shape"]) -> UInt8[np.ndarray, "*shape"]:
    """One byte per weight: b = round(255 √w), so that w is b²/255² within √w/255 + 4e-6.

    The square root keeps small weights apart: 0.5 ± 0.003, 0.01 ± 0.0004, 0.0001 ± 0.00004; below 4e-6 they become 0.
    """
    return np.rint(255 * np.sqrt(weights)).astype(np.uint8)


def _thumbnails(weights: Float[np.ndarray, "head query key"]) -> UInt8[np.ndarray, "view row column"]:
    """Small pictures of the mean and of the largest over heads, where there are several, and of each head."""
    together = np.stack([weights.mean(axis=0), weights.max(axis=0)]) if len(weights) > 1 else weights[:0]
    return thumbnails(np.concatenate([together, weights]))


def thumbnails(weights: Float[np.ndarray, "head query key"]) -> UInt8[np.ndarray, "head row column"]:
    """A small picture of each head, in the bytes of `quantised`."""
    rows, columns = _edges(weights.shape[1]), _edges(weights.shape[2])
    return np.maximum.reduceat(np.maximum.reduceat(quantised(weights), rows, axis=1), columns, axis=2)


def _edges(count: int) -> Int[np.ndarray, " edge"]:
    return np.arange(min(count, THUMBNAIL)) * count // min(count, THUMBNAIL)


def _packed(values: UInt8[np.ndarray, "..."]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes(), level=6)).decode()


_VISIBLE = {" ": "␣", "▁": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}
_JOINERS = {"\u200c": ("╎", "zero-width non-joiner"), "\u200d": ("‿", "zero-width joiner")}
"""Letters of a word, which are seen only where they are a token by themselves; their signs and names."""


def shown(token: str) -> str:
    """A token made visible: spaces as ␣, combining marks on ◌, what is invisible or turns text around by its code."""
    if not token:
        return "∅"
    text = "".join(_visible(letter, alone=len(token) == 1) for letter in token)
    return f"◌{text}" if unicodedata.category(token[0]).startswith("M") else text


def _visible(letter: str, *, alone: bool) -> str:
    if alone and letter in _JOINERS:
        return _JOINERS[letter][0]
    category, turns = unicodedata.category(letter), unicodedata.bidirectional(letter)
    if letter in _VISIBLE or category == "Zs":
        return _VISIBLE.get(letter, "␣")
    # Joiners belong to the words that they stand in; embeddings, overrides and isolates would turn all that follows.
    if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and (alone or turns in _TURNING)):
        return f"U+{ord(letter):04X}"
    return letter


_TURNING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def _joined(text: Sequence[str]) -> bool:
    """Whether tokens hold their spaces, or are letters: then they stand side by side as in their text."""
    letters = sum(len(token) == 1 for token in text)
    return 2 * letters > len(text) or any(token.strip(" ▁") and token.strip(" ▁") != token for token in text)
