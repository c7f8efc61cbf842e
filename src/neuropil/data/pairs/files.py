"""Pairs of texts in three parts: the embedded dates, or the user's own files.

    one file      a TSV or CSV with two columns, or JSON Lines with two texts in each object or its "translation"
    two files     parallel texts, a line each

All pairs with the same source go into the same part, so that nothing in the test part was seen in training. Notes say
what is odd about the files: nothing is dropped in silence.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from neuropil.config import option
from neuropil.data.formats.columns import ColumnRole, choose_columns, is_header, unclear_columns
from neuropil.data.formats.delimited import DelimitedFile, require_two_columns
from neuropil.data.formats.jsonl import read_objects, text_in
from neuropil.data.formats.lines import Tally, count_copies, read_lines
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.formats.paths import require_file, suffix_of
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.pairs.embedded import make_dates
from neuropil.data.splits import CappedSplitConfig, Splits, split
from neuropil.errors import InputError, counted
from neuropil.extras import require_extra

SOURCES = ColumnRole("sources", "--source-column", "source src input original text question")
TARGETS = ColumnRole("targets", "--target-column", "target tgt trg output translation answer")
NESTED = "translation"
TABLES = frozenset((".csv", ".tsv", ".tab"))
OBJECTS = frozenset((".jsonl", ".ndjson", ".json"))
LONG = 2_000
NUM_DATES = 33_000

Row: TypeAlias = tuple[int, str, str]
"""The number of a row or line and its two texts."""
Names: TypeAlias = tuple[str | None, str | None]
"""Of the source's and the target's column, as far as the user gave them."""


class PairDataConfig(CappedSplitConfig):
    data: tuple[Path, ...] | InMemory = option(
        (), "TSV, CSV or JSONL of pairs, or two files with a line each; default dates"
    )
    source_column: str | None = option(None, "the column of a TSV, CSV or JSONL to translate from")
    target_column: str | None = option(None, "the column of a TSV, CSV or JSONL to translate to")
    reverse: bool = option(False, "translate from the second column or file to the first")


def prepare_pairs(config: PairDataConfig, seed: int) -> Splits[Pairs]:
    """The same for the same seed; each part is in the order of the data."""
    if not config.data:
        return _embedded(config, seed)
    source, own = training_part(config.data)
    pairs, notes = _read(source, config)
    counts = Counter(pairs.keys)
    if len(counts) < 2:
        rule = f"{names_of(config.data)} must hold at least 2 different sources, one to learn from and one to score"
        raise InputError(rule, got=f"{len(counts)}")
    shared = sum(count for count in counts.values() if count > 1)
    if shared:
        which = f"{shared:,} of {len(pairs):,} pairs share their source with another"
        notes = [*notes, f"{which}; the same source is always in the same part."]
    parts = {name: _read(part, config) for name, part in own.items()}
    return split(pairs, config, seed, notes=notes, own=parts)


def _read(source: Sequence[Path] | InMemory, config: PairDataConfig) -> tuple[Pairs, Sequence[str]]:
    names = {"source_column": config.source_column, "target_column": config.target_column}
    return read_pairs(source, **names, reverse=config.reverse)


def _embedded(config: PairDataConfig, seed: int) -> Splits[Pairs]:
    if config.source_column is not None or config.target_column is not None:
        got = "names for the embedded dates"
        raise InputError("columns are named in a TSV, CSV or JSONL", got=got, fix="leave them out")
    if config.reverse:
        got = "reverse for the embedded dates"
        raise InputError("an ISO date can be written in many ways", got=got, fix="give pairs of your own")
    return make_dates(*config.sizes(NUM_DATES), seed)


@dataclass(frozen=True)
class FoundPairs:
    rows: Iterator[Row]
    """Read from the file as they are asked for."""
    named: str = ""
    """How the file, and not the user, named the two columns, as the beginning of a sentence. Empty if it did not."""
    names: tuple[str, str] = ("", "")
    place: str = "line"
    """What the numbers of rows count."""


def read_pairs(
    source: Sequence[Path] | InMemory,
    *,
    source_column: str | None = None,
    target_column: str | None = None,
    reverse: bool = False,
) -> tuple[Pairs, Sequence[str]]:
    """The pairs of memory, of one file or of two parallel ones, in order; those with an empty side are left out, and
    notes say so."""
    wanted = source_column, target_column
    found = pairs_in(source, wanted) if isinstance(source, InMemory) else find_pairs(source, wanted)
    rows = ((number, target, source) for number, source, target in found.rows) if reverse else found.rows
    sources, targets, notes = _collect(rows, found.place)
    if found.named:
        first, second = reversed(found.names) if reverse else found.names
        notes.insert(0, f"{found.named}: {first!r} is translated to {second!r}.")
    return Pairs(sources, targets, (), f"{counted(len(sources), 'pair')} of texts ({names_of(source)})"), notes


def names_of(source: Sequence[Path] | InMemory) -> str:
    return source.name if isinstance(source, InMemory) else " and ".join(path.name for path in source)


def pairs_in(memory: InMemory, wanted: Names) -> FoundPairs:
    """Of two columns that say nothing, the first is the source; rows are counted from 0."""
    names = memory.names
    if len(names) < 2:
        raise InputError(f"the {memory.name} must hold pairs of texts", got=str(memory))
    source, target = (0, 1) if memory.answer and not any(wanted) else _choose(names, wanted, memory.name)
    sides = memory.texts(names[source]), memory.texts(names[target])
    how = "" if memory.answer or all(wanted) else f"The columns of the {memory.name} have names"
    return FoundPairs(zip(range(memory.num_rows), *sides, strict=True), how, (names[source], names[target]), "row")


def find_pairs(paths: Sequence[Path], wanted: Names) -> FoundPairs:
    if len(paths) not in (1, 2):
        raise InputError("pairs of texts come in one file, or in two with a line each", got=f"{len(paths)} files")
    for path in paths:
        require_file(path)
    if len(paths) == 1:
        return find_objects(paths[0], wanted) if suffix_of(paths[0]) in OBJECTS else find_table(paths[0], wanted)
    if any(suffix_of(path) in TABLES | OBJECTS for path in paths):
        rule = "two files of pairs must be plain texts, a line each"
        raise InputError(rule, got=names_of(paths), fix="give one file with both sides")
    if any(wanted):
        got = f"two plain files, {names_of(paths)}"
        raise InputError("columns are named in a TSV, CSV or JSONL", got=got, fix="leave the names out")
    return FoundPairs(_parallel(paths[0], paths[1]))


def find_table(path: Path, wanted: Names) -> FoundPairs:
    """The first row names the columns if the user asks for one by name, or if cells are usual names: of two, both."""
    table = DelimitedFile(path, texts=True)
    names, rule = table.header, f"{path.name} must hold pairs of texts"
    if not any(names):
        raise InputError(rule, got="an empty first row" if path.stat().st_size else "an empty file")
    require_two_columns(table, names, "", fix="parallel texts are given as two files")
    named = any(name in wanted for name in names) or is_header(names, _is_usual, every=len(names) == 2)
    source, target = _choose(names, wanted, path.name, guess=named)
    records = islice(table.records(), int(named), None)
    rows = ((row, cells[source], cells[target]) if len(cells) > 1 else (row, "", "") for row, cells in records)
    if not named:
        return FoundPairs(rows, place="row")
    how = "" if all(wanted) else f"The first row of {path.name} is taken for the names of its columns"
    return FoundPairs(rows, how, (names[source], names[target]), "row")


def find_objects(path: Path, wanted: Names) -> FoundPairs:
    """The first line tells the names: it must have no more than two texts, unless it is clear which are meant."""
    objects = ((number, _inner(found)) for number, found in read_objects(path))
    first = next(objects, None)
    if first is None or not first[1]:
        got = "an empty file" if first is None else "an empty first line"
        raise InputError(f"{path.name} must hold pairs of texts", got=got)
    names = [name for name, value in first[1].items() if isinstance(value, str)]
    if len(names) < 2:
        raise InputError(f"each line of {path.name} must hold two texts", got=f"{len(names) or 'none'} in the first")
    source, target = (names[column] for column in _choose(names, wanted, path.name))
    every, file = chain([first], objects), path.name
    rows = ((line, text_in(found, source, line, file), text_in(found, target, line, file)) for line, found in every)
    return FoundPairs(rows, "" if all(wanted) else f"The texts of {path.name} have names", (source, target))


def _inner(found: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = found.get(NESTED)
    return nested if isinstance(nested, dict) else found


def _choose(names: Sequence[str], wanted: Names, file: str, *, guess: bool = True) -> tuple[int, int]:
    """Of two columns that say nothing, the first is the source."""
    source, target = choose_columns(names, wanted, (SOURCES, TARGETS), file, guess=guess)
    if source is not None and target is not None:
        return source, target
    if len(names) > 2:
        raise unclear_columns(names, (SOURCES, TARGETS), file)
    return 0, 1


def _parallel(first: Path, second: Path) -> Iterator[Row]:
    sides = read_lines(first, progress=True), read_lines(second)
    for number, (source, target) in enumerate(zip_longest(*sides), 1):
        if source is None or target is None:
            shorter, longer = number - 1, number + sum(1 for _ in chain(*sides))
            got = f"{shorter:,} and {longer:,}" if source is None else f"{longer:,} and {shorter:,}"
            raise InputError(f"{first.name} and {second.name} must have equally many lines", got=got)
        yield number, source, target


def _collect(rows: Iterable[Row], place: str) -> tuple[list[str], list[str], list[str]]:
    """Sources, targets and notes."""
    empty = Tally("has an empty side and is left out", "have an empty side and are left out")
    long = Tally(f"has more than {LONG:,} characters on a side", f"have more than {LONG:,} characters on a side")
    copies = count_copies()
    sources, targets, seen = [], [], set()
    for number, source, target in rows:
        if not source or not target or source.isspace() or target.isspace():
            empty.add(number)
            continue
        if len(source) > LONG or len(target) > LONG:
            long.add(number)
        if (source, target) in seen:
            copies.add(number)
        seen.add((source, target))
        sources.append(source)
        targets.append(target)
    total, found = len(sources) + empty.count, [tally for tally in (empty, long, copies) if tally.count]
    return sources, targets, [tally.note(total, "pairs", place) for tally in found]


def _is_usual(name: str) -> bool:
    return name in SOURCES.words or name in TARGETS.words or name.replace("_", "-") in _languages()


@cache
def _languages() -> frozenset[str]:
    """ "german" and "de" and "pt-br". Codes of three letters are left out: too many of them are English words."""
    require_extra("translation", "a file of pairs")
    from babel import Locale

    named = Locale("en").languages
    codes = {str(code).lower().replace("_", "-") for code in named}
    short = {code for code in codes if len(code.split("-")[0]) == 2}
    return frozenset(short | {str(name).lower() for name in named.values()})
