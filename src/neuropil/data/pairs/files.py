"""All pairs of texts in the user's files, with notes on what is odd about them: nothing is dropped in silence."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from neuropil.data.formats.jsonl import find_objects
from neuropil.data.formats.lines import read_lines, require_file
from neuropil.data.formats.notes import Tally
from neuropil.data.formats.pair_tables import find_table
from neuropil.data.formats.text_tables import suffix_of
from neuropil.data.pairs.columns import FoundPairs, Names, Row
from neuropil.data.pairs.dataset import Pairs
from neuropil.errors import InputError

TABLES = frozenset((".csv", ".tsv", ".tab"))
OBJECTS = frozenset((".jsonl", ".ndjson", ".json"))
LONG = 2_000


def read_pairs(
    paths: Sequence[Path], *, source_column: str | None = None, target_column: str | None = None, reverse: bool = False
) -> tuple[Pairs, Sequence[str]]:
    """The pairs of one file, or of two parallel ones, in their order; those with an empty side are left out, and the notes say so."""
    found = find_pairs(paths, (source_column, target_column))
    rows = ((number, target, source) for number, source, target in found.rows) if reverse else found.rows
    sources, targets, notes = _collect(rows)
    if found.named:
        first, second = reversed(found.names) if reverse else found.names
        notes.insert(0, f"{found.named}: {first!r} is translated to {second!r}.")
    return Pairs(sources, targets, (), f"{len(sources):,} pairs of texts ({names_of(paths)})"), notes


def names_of(paths: Sequence[Path]) -> str:
    return " and ".join(path.name for path in paths)


def find_pairs(paths: Sequence[Path], wanted: Names) -> FoundPairs:
    if len(paths) not in (1, 2):
        raise InputError("pairs of texts come in one file, or in two with a line each", got=f"{len(paths)} files")
    for path in paths:
        require_file(path)
    if wanted[0] is not None and wanted[0] == wanted[1]:
        raise InputError("source and target must be different columns", got=f"{wanted[0]!r} for both")
    if len(paths) == 1:
        return find_objects(paths[0], wanted) if suffix_of(paths[0]) in OBJECTS else find_table(paths[0], wanted)
    if any(suffix_of(path) in TABLES | OBJECTS for path in paths):
        raise InputError(
            "two files of pairs must be plain texts, a line each",
            got=names_of(paths),
            fix="give one file with both sides",
        )
    if any(wanted):
        raise InputError(
            "columns are named in a TSV, CSV or JSONL",
            got=f"two plain files, {names_of(paths)}",
            fix="leave the names out",
        )
    return FoundPairs(_parallel(paths[0], paths[1]))


def _parallel(first: Path, second: Path) -> Iterator[Row]:
    sides = read_lines(first, progress=True), read_lines(second)
    for number, (source, target) in enumerate(zip_longest(*sides), 1):
        if source is None or target is None:
            shorter, longer = number - 1, number + sum(1 for _ in chain(*sides))
            got = f"{shorter:,} and {longer:,}" if source is None else f"{longer:,} and {shorter:,}"
            raise InputError(f"{first.name} and {second.name} must have equally many lines", got=got)
        yield number, source, target


def _collect(rows: Iterable[Row]) -> tuple[list[str], list[str], list[str]]:
    """Sources, targets and notes."""
    empty = Tally("has an empty side and is left out", "have an empty side and are left out")
    long = Tally(f"has more than {LONG:,} characters on a side", f"have more than {LONG:,} characters on a side")
    copies = Tally("is an exact copy of an earlier one", "are exact copies of earlier ones")
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
    return (
        sources,
        targets,
        [tally.note(len(sources) + empty.count, "pairs") for tally in (empty, long, copies) if tally.count],
    )
