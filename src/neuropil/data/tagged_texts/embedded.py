"""Dates of many languages whose letters are tagged with their field: weekday, day, month, year or other.

    Sonntag, 15. November 2026
    wwwwwww··dd··mmmmmmmm·yyyy

The tags are those of the pattern that wrote the date, so nobody had to guess. A month that is called by its number and
a sign, as in 11月, is the number alone: the same sign belongs to no field where the pattern
has it. No two parts share a date.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from neuropil.data.pairs.embedded import LANGUAGES, DrawnDate, draw_dates
from neuropil.data.splits import Splits
from neuropil.data.tagged_texts.dataset import TaggedTexts

FIELDS = {"y": "year", "M": "month", "d": "day", "E": "weekday"}
"""What the letters of a pattern stand for."""
OTHER = "other"


def make_date_fields(num_train: int, num_validation: int, num_test: int, seed: int = 0) -> Splits[TaggedTexts]:
    source = f"{num_train + num_validation + num_test:,} dates in {len(LANGUAGES)} languages (Babel)"
    return draw_dates(num_train, num_validation, num_test, seed).map(lambda part: _tagged(part, source))


def tag_letters(drawn: DrawnDate) -> list[tuple[str, str]]:
    """Each letter of the date as it is written, with its field."""
    pieces = re.split(r"(%\(\w+\)s)", drawn.way.template)
    return [pair for piece in pieces for pair in _tag_piece(piece, replace(drawn.way, template=piece).write(drawn.day))]


def _tag_piece(piece: str, text: str) -> Iterator[tuple[str, str]]:
    tag = FIELDS[piece[2]] if piece.startswith("%(") else OTHER
    numbered = any(map(str.isdigit, text))
    return ((letter, OTHER if numbered and not letter.isdigit() else tag) for letter in text)


def _tagged(part: Sequence[DrawnDate], source: str) -> TaggedTexts:
    texts = [tag_letters(drawn) for drawn in part]
    tokens, tags = ([[pair[side] for pair in text] for text in texts] for side in (0, 1))
    return TaggedTexts(tokens, tags, [drawn.language for drawn in part], "characters", source)
