"""Properties of each token of a text: its position, whether it is inside quotes, whether it ends a word."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

OPENING, CLOSING = "([{", ")]}"
QUOTES = {'"': '"', "“": "”", "«": "»"}
MOST_QUOTED = 300
"""Characters after which a quotation that nobody closed is taken for none."""


def properties_of(tokens: Sequence[str]) -> dict[str, Float[Tensor, " token"]]:
    """A number for each token, by the name of the property; of a token of several characters its last one counts."""
    text = "".join(tokens)
    ends = [end - 1 for end in accumulate(map(len, tokens))]
    found = {
        "position in the text": range(len(text)),
        "position in the line": _position_in_line(text),
        "inside quotes": _inside_quotes(text),
        "inside brackets": _inside_brackets(text),
        "first letter of a word": _word_edges(text, -1),
        "end of a word": _word_edges(text, 1),
        "space": (letter == " " for letter in text),
        "end of a line": (letter == "\n" for letter in text),
        "upper case": map(str.isupper, text),
        "digit": map(str.isdigit, text),
        "punctuation": (not letter.isalnum() and not letter.isspace() for letter in text),
    }
    return {name: _chosen(values, ends) for name, values in found.items()}


def _chosen(values: Iterable[float], ends: Sequence[int]) -> Float[Tensor, " token"]:
    numbers = list(values)
    return torch.tensor([float(numbers[max(end, 0)]) for end in ends])


def _position_in_line(text: str) -> list[int]:
    places, begin = [], 0
    for place, letter in enumerate(text):
        places.append(place - begin)
        if letter == "\n":
            begin = place + 1
    return places


def _inside_quotes(text: str) -> list[bool]:
    """From the opening quote on, until the closing one has been read."""
    inside, place = [False] * len(text), 0
    while place < len(text):
        closing = QUOTES.get(text[place])
        end = -1 if closing is None else text.find(closing, place + 1, place + MOST_QUOTED)
        if end > 0:
            inside[place:end] = [True] * (end - place)
            place = end
        place += 1
    return inside


def _inside_brackets(text: str) -> list[bool]:
    depth, inside = 0, []
    for letter in text:
        depth = max(depth + (letter in OPENING) - (letter in CLOSING), 0)
        inside.append(depth > 0)
    return inside


def _word_edges(text: str, step: int) -> list[bool]:
    """Letters with nothing of a word beside them, before (−1) or behind (1)."""
    beside = [text[place + step] if 0 <= place + step < len(text) else " " for place in range(len(text))]
    return [letter.isalnum() and not other.isalnum() for letter, other in zip(text, beside, strict=True)]
