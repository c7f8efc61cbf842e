"""Texts with a tag for each token in three parts: the fields of the embedded dates, or a file of the user's.

    one token a line        The      DET          the first column is the token, the last its tag, with tabs or spaces
                            cat      NOUN         between them, and an empty line ends a text, as in CoNLL's files
    CoNLL-U                 1  The  the  DET …    of its ten columns the second is the token, the fourth its tag
    one text a line         The cat    DET NOUN   a TSV or CSV with as many tags as tokens, spaces between them

Which of them a file is, is found out from what it holds.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from neuropil.config import option
from neuropil.data.formats.columns import ColumnRole, choose_columns, is_header, unclear_columns
from neuropil.data.formats.delimited import DelimitedFile, Record, read_records
from neuropil.data.formats.lines import count_copies, read_lines
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.formats.paths import require_file, suffix_of
from neuropil.data.splits import SplitConfig, Splits, split
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.tagged_texts.embedded import make_date_fields
from neuropil.errors import InputError, counted

TOKENS = ColumnRole("texts", "--text-column", "text texts tokens token words word sentence sentences form")
TAGS = ColumnRole("tags", "--tags-column", "tags tag labels label pos upos ner ner_tags pos_tags")
CONLL_U = 10
"""Columns."""
LOOKED_AT = 1_000
"""Lines by which the layout of a file is known."""
DOCUMENT = "-DOCSTART-"
"""What CoNLL writes where a document begins."""
NUM_DATES = 10_000


class TagColumns(NamedTuple):
    """Names or numbers of the columns of a file with one text a line, as far as the user gave them."""

    text: str | None = None
    tags: str | None = None


class TaggedTextConfig(SplitConfig):
    data: Path | InMemory | None = option(
        None, "a token and its tag a line, or a TSV or CSV of texts and tags; default dates"
    )
    text_column: str | None = option(None, "the column of a TSV or CSV that holds the texts, where it is not clear")
    tags_column: str | None = option(None, "the column of a TSV or CSV that holds their tags, where it is not clear")

    @property
    def columns(self) -> TagColumns:
        return TagColumns(self.text_column, self.tags_column)


def prepare_tagged_texts(config: TaggedTextConfig, seed: int) -> Splits[TaggedTexts]:
    """The same for the same seed; each part is in the order of the data."""
    if config.data is None:
        return _embedded(config, seed)
    source, own = training_part(config.data)
    texts, notes = read_tagged_texts(source, config.columns)
    tags = {tag for text in texts.tags for tag in text}
    if len(tags) < 2:
        raise InputError(f"{config.data.name} must have at least 2 tags", got=f"only {tags.pop()!r}")
    parts = {name: read_tagged_texts(part, config.columns) for name, part in own.items()}
    splits = split(texts, config, seed, notes=notes, own=parts)
    if not len(splits.train) or not len(splits.test):
        rule = f"{config.data.name} must hold at least 2 different texts, one to learn from and one to score"
        raise InputError(rule, got=f"{len(set(texts.keys))}", fix="separate texts by empty lines")
    return splits


def _embedded(config: TaggedTextConfig, seed: int) -> Splits[TaggedTexts]:
    if config.text_column is not None or config.tags_column is not None:
        raise InputError("columns are named in a TSV or CSV", got="names for the embedded dates", fix="leave them out")
    num_test = round(config.test * NUM_DATES)
    num_validation = round(config.validation * (NUM_DATES - num_test))
    return make_date_fields(NUM_DATES - num_validation - num_test, num_validation, num_test, seed)


class ReadText(NamedTuple):
    line: int
    """On which it begins."""
    tokens: list[str]
    tags: list[str]


def read_tagged_texts(source: Path | InMemory, columns: TagColumns) -> tuple[TaggedTexts, list[str]]:
    """All texts in their order, and notes on what is odd about them."""
    notes: list[str] = []
    if isinstance(source, InMemory):
        rows, texts = True, list(_of_memory(source, columns))
    else:
        rows = any(columns) or has_one_text_a_line(source)
        texts = list(_one_a_line(source, columns, notes) if rows else _one_token_a_line(source))
    if not texts:
        raise InputError(f"{source.name} must hold texts with tags", got="an empty file")
    copies, seen = count_copies(), set()
    for text in texts:
        key = (*text.tokens, *text.tags)
        if key in seen:
            copies.add(text.line)
        seen.add(key)
    notes += [copies.note(len(texts), "texts", "row" if rows else "line")] if copies.count else []
    num_tags = len({tag for text in texts for tag in text.tags})
    phrase = f"{counted(len(texts), 'text')} with {counted(num_tags, 'tag')} ({source.name})"
    return TaggedTexts([text.tokens for text in texts], [text.tags for text in texts], (), "words", phrase), notes


def has_one_text_a_line(path: Path) -> bool:
    """A CSV has; another file if its rows have two cells, with spaces in both of some row."""
    if suffix_of(require_file(path)) == ".csv":
        return True
    rows = [line.split("\t") for line in islice(read_lines(path), LOOKED_AT) if line.strip()]
    return any(len(cells) == 2 and all(" " in cell.strip() for cell in cells) for cells in rows)


# --- one token a line -------------------------------------------------------------------------------------------------


def _one_token_a_line(path: Path) -> Iterator[ReadText]:
    text = ReadText(0, [], [])
    for number, pair in chain(_token_lines(path), [(0, None)]):
        if pair is not None:
            text = text if text.tokens else ReadText(number, [], [])
            text.tokens.append(pair[0])
            text.tags.append(pair[1])
        elif text.tokens:
            yield text
            text = ReadText(0, [], [])


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
    rule = f"each line of {path.name} must hold a token and its tag, with a tab between them"
    raise InputError(rule, got=f"{missing} in line {number:,}")


# --- one text a line --------------------------------------------------------------------------------------------------


def _one_a_line(path: Path, wanted: TagColumns, notes: list[str]) -> Iterator[ReadText]:
    records = read_records(DelimitedFile(require_file(path), texts=True), "texts with tags")
    names = [cell.strip() for cell in records[0][1]]
    text, tags = choose_columns(names, wanted, (TOKENS, TAGS), path.name)
    if text is None or tags is None:
        if len(names) != 2:
            raise unclear_columns(names, (TOKENS, TAGS), path.name)
        tags = _with_fewer_words(records)
        text = 1 - tags
    named = any(name in wanted for name in names) or is_header(names, {*TOKENS.words, *TAGS.words}.__contains__)
    if named and None in wanted:
        taken = f"The first row of {path.name} is taken for the names of its columns"
        notes.append(f"{taken}: {names[text]!r} is tagged with {names[tags]!r}.")
    for number, cells in records[named:]:
        yield _require_equally_many(ReadText(number, cells[text].split(), cells[tags].split()), path.name)


def _require_equally_many(text: ReadText, name: str) -> ReadText:
    if len(text.tokens) != len(text.tags):
        rule = f"each row of {name} must have as many tags as tokens, with spaces between them"
        got = f"{counted(len(text.tags), 'tag')} for {counted(len(text.tokens), 'token')} in row {text.line:,}"
        raise InputError(rule, got=got)
    return text


def _of_memory(memory: InMemory, wanted: TagColumns) -> Iterator[ReadText]:
    """Lists of tokens and of tags, or texts that spaces divide; rows are counted from 0."""
    sides = [_divided(memory, name) for name in memory.two_columns(wanted, (TOKENS, TAGS))]
    for number, (tokens, tags) in enumerate(zip(*sides, strict=True)):
        if tokens or tags:
            yield _require_equally_many(ReadText(number, tokens, tags), memory.name)


def _divided(memory: InMemory, name: str) -> list[list[str]]:
    values = memory.column(name)
    return values if isinstance(values, list) and isinstance(values[0], list) else [*map(str.split, memory.texts(name))]


def _with_fewer_words(records: Sequence[Record]) -> int:
    """Of two columns: there are fewer tags than words."""
    words = [{word for _, cells in records for word in cells[place].split()} for place in (0, 1)]
    return int(len(words[1]) <= len(words[0]))
