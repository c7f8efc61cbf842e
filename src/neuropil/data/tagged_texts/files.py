"""Texts with a tag for each token, from files of the user's.

    one token a line        The      DET          the first column is the token, the last its tag, and an empty line ends a text;
                            cat      NOUN         tabs or spaces are between them, as in CoNLL's files
    CoNLL-U                 1  The  the  DET …    of its ten columns the second is the token, the fourth its tag
    one text a line         The cat    DET NOUN   a TSV or CSV with as many tags as tokens, spaces between them

Which of them a file is, is found out from what it holds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from neuropil.data.formats.lines import read_lines, require_file
from neuropil.data.formats.notes import Tally
from neuropil.data.formats.text_tables import Record, read_records, suffix_of
from neuropil.data.labelled_texts.files import short_names
from neuropil.data.messages import did_you_mean, listed
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.errors import InputError

TOKEN_WORDS = frozenset(("text", "texts", "tokens", "token", "words", "word", "sentence", "sentences", "form"))
TAG_WORDS = frozenset(("tags", "tag", "labels", "label", "pos", "upos", "ner", "ner_tags", "pos_tags"))
CONLL_U = 10
"""Columns."""
LOOKED_AT = 1_000
"""Lines by which the layout of a file is known."""
DOCUMENT = "-DOCSTART-"
"""What CoNLL writes where a document begins."""


class TagColumns(NamedTuple):
    """Names of the columns of a file with one text a line, as far as the user gave them."""

    text: str | None = None
    tags: str | None = None


class TaggedText(NamedTuple):
    line: int
    """On which it begins."""
    tokens: list[str]
    tags: list[str]


def read_tagged_texts(path: Path, columns: TagColumns) -> tuple[TaggedTexts, list[str]]:
    """All texts of a file in their order, and notes on what is odd about them."""
    notes: list[str] = []
    texts = list(
        _one_a_line(path, columns, notes) if any(columns) or has_one_text_a_line(path) else _one_token_a_line(path)
    )
    if not texts:
        raise InputError(f"{path.name} must hold texts with tags", got="an empty file")
    copies, seen = Tally("is an exact copy of an earlier one", "are exact copies of earlier ones"), set()
    for text in texts:
        key = (*text.tokens, *text.tags)
        if key in seen:
            copies.add(text.line)
        seen.add(key)
    notes += [copies.note(len(texts), "texts")] if copies.count else []
    num_tags = len({tag for text in texts for tag in text.tags})
    found = TaggedTexts(
        tokens=[text.tokens for text in texts],
        tags=[text.tags for text in texts],
        groups=(),
        kind="words",
        source=f"{len(texts):,} texts with {num_tags} tags ({path.name})",
    )
    return found, notes


def has_one_text_a_line(path: Path) -> bool:
    """A CSV has; another file if its rows have two cells, with spaces in both of some row."""
    if suffix_of(require_file(path)) == ".csv":
        return True
    rows = [line.split("\t") for line in islice(read_lines(path), LOOKED_AT) if line.strip()]
    return any(len(cells) == 2 and all(" " in cell.strip() for cell in cells) for cells in rows)


# --- one token a line --------------------------------------------------------------------------------------------------------------


def _one_token_a_line(path: Path) -> Iterator[TaggedText]:
    begin, tokens, tags = 0, [], []
    for number, cells in _token_lines(path):
        if cells is None:
            if tokens:
                yield TaggedText(begin, tokens, tags)
            begin, tokens, tags = 0, [], []
            continue
        begin = begin or number
        tokens.append(cells[0])
        tags.append(cells[1])
    if tokens:
        yield TaggedText(begin, tokens, tags)


def _token_lines(path: Path) -> Iterator[tuple[int, tuple[str, str] | None]]:
    """Token and tag of each line, or nothing where a text ends."""
    for number, line in enumerate(read_lines(path, progress=True), 1):
        cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
        if not line.strip() or cells[0] == DOCUMENT:
            yield number, None
        elif len(cells) == CONLL_U and not cells[0].isdecimal():
            continue  # words that CoNLL-U splits, and words that are only thought
        elif len(cells) == CONLL_U:
            yield number, _require_both(cells[1], cells[3], number, path)
        elif line.startswith("# "):
            continue
        else:
            yield number, _require_both(cells[0], cells[-1] if len(cells) > 1 else "", number, path)


def _require_both(token: str, tag: str, number: int, path: Path) -> tuple[str, str]:
    if token and tag:
        return token, tag
    missing = f"no tag for {token!r}" if token else f"no token for {tag!r}"
    raise InputError(
        f"each line of {path.name} must hold a token and its tag, with a tab between them",
        got=f"{missing} in line {number:,}",
    )


# --- one text a line ---------------------------------------------------------------------------------------------------------------


def _one_a_line(path: Path, wanted: TagColumns, notes: list[str]) -> Iterator[TaggedText]:
    records = [
        (number, cells) for number, cells in read_records(require_file(path)) if any(cell.strip() for cell in cells)
    ]
    if not records:
        return
    names = [cell.strip() for cell in records[0][1]]
    for number, cells in records:
        if len(cells) != len(names):
            raise InputError(
                f"each line of {path.name} must have {len(names)} columns, as the first has",
                got=f"{len(cells)} in line {number:,}",
            )
    text, tags, named = _columns(records, names, wanted, path)
    if named and None in wanted:
        notes.append(
            f"The first line of {path.name} is taken for the names of its columns: {names[text]!r} is tagged with {names[tags]!r}."
        )
    for number, cells in records[named:]:
        found = TaggedText(number, cells[text].split(), cells[tags].split())
        if len(found.tokens) != len(found.tags):
            raise InputError(
                f"each line of {path.name} must have as many tags as tokens, with spaces between them",
                got=f"{len(found.tags)} tags for {len(found.tokens)} tokens in line {number:,}",
            )
        yield found


def _columns(records: Sequence[Record], names: Sequence[str], wanted: TagColumns, path: Path) -> tuple[int, int, bool]:
    """The places of texts and tags, and whether the first line has their names."""
    for name in wanted:
        if name is not None and name not in names:
            raise InputError(
                f"{path.name} must have the column {name!r}",
                got=listed(short_names(names)),
                fix=did_you_mean(name, names),
            )
    if wanted.text is not None and wanted.text == wanted.tags:
        raise InputError("texts and tags must be different columns", got=f"{wanted.text!r} for both")
    lower = [name.lower() for name in names]
    text = names.index(wanted.text) if wanted.text is not None else _only(lower, TOKEN_WORDS)
    tags = names.index(wanted.tags) if wanted.tags is not None else _only(lower, TAG_WORDS)
    named = text is not None or tags is not None
    if text is not None and tags is not None:
        return text, tags, named
    if len(names) != 2:
        fix = "choose with --text-column and --tags-column, which name columns in the first line"
        raise InputError(
            f"{path.name} must have two columns, or two that you name",
            got=f"{len(names)}: {listed(short_names(names))}",
            fix=fix,
        )
    if tags is None:
        tags = 1 - text if text is not None else _with_fewer_words(records)
    return 1 - tags, tags, named


def _only(names: Sequence[str], words: frozenset[str]) -> int | None:
    places = [place for place, name in enumerate(names) if name in words]
    return places[0] if len(places) == 1 else None


def _with_fewer_words(records: Iterable[Record]) -> int:
    """Of two columns: there are fewer tags than words."""
    words: tuple[set[str], set[str]] = (set(), set())
    for _, cells in records:
        for place in (0, 1):
            words[place].update(cells[place].split())
    return int(len(words[1]) <= len(words[0]))
