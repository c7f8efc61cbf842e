"""Captions from a table of the user's: one column names a picture, another says what is on it.

A picture that is named in several rows has several captions. Paths are relative to the table, or to a folder that the user names.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.formats.delimited import Cells, DelimitedFile, is_delimited
from neuropil.data.formats.images import common_shape, read_pictures
from neuropil.data.formats.lines import require_file
from neuropil.data.messages import describe_inputs, did_you_mean, listed
from neuropil.errors import InputError

PICTURE_WORDS = ("picture", "image", "file", "filename", "file_name", "path", "photo", "img")
ELSEWHERE = "paths are relative to the table, or to the folder given by --pictures"
CAPTION_WORDS = ("caption", "captions", "text", "description", "sentence", "comment", "label")


def read_captions(
    path: Path,
    *,
    picture_column: str | None = None,
    caption_column: str | None = None,
    folder: Path | None = None,
    shape: tuple[int, ...] | None = None,
) -> tuple[CaptionedPictures, Sequence[str]]:
    """Each picture once, in the order of the table, with all that is said of it; all are brought to `shape`, or to one that suits them.

    The second part are notes for the report.
    """
    table = _table(path)
    columns = choose_columns(table, picture_column, caption_column)
    captions = collect(table, columns, folder or path.parent)
    files = list(captions)
    note = ""
    if shape is None:
        shape, note = common_shape(files)
    pictures = read_pictures(files, shape).values
    count = sum(map(len, captions.values()))
    source = (
        f"{len(files):,} {describe_inputs(shape)} with {count:,} captions ({path.name}{', ' if note else ''}{note})"
    )
    named = picture_column is not None and caption_column is not None
    notes = (
        [] if named else [f"In {path.name}, {columns[0]!r} names the pictures and {columns[1]!r} says what is on them."]
    )
    return CaptionedPictures(pictures, list(captions.values()), (), source), notes


def choose_columns(table: DelimitedFile, picture: str | None, caption: str | None) -> tuple[str, str]:
    """The columns that the user names; those that he does not are known by their names, or by being the only other one of two."""
    for name in (picture, caption):
        if name is not None:
            table.require_column(name)
    if picture is not None and picture == caption:
        raise InputError("pictures and captions must be different columns", got=f"{picture!r} for both")
    left = [name for name in table.header if name not in (picture, caption)]
    picture = picture or _only(left, PICTURE_WORDS)
    caption = caption or _only([name for name in left if name != picture], CAPTION_WORDS)
    if len(table.header) == 2 and (picture is None) != (caption is None):
        other = next(name for name in table.header if name not in (picture, caption))
        picture, caption = picture or other, caption or other
    if picture is None or caption is None:
        raise InputError(
            f"{table.path.name} must have one column of pictures and one of captions, such as image and caption",
            got=listed(table.header),
            fix="name them with --picture-column and --caption-column",
        )
    return picture, caption


def collect(table: DelimitedFile, columns: tuple[str, str], folder: Path) -> dict[Path, list[str]]:
    """All captions of each picture."""
    found: dict[Path, list[str]] = {}
    missing: dict[Path, InputError] = {}
    for block in table.blocks():
        pictures, captions = (block[name] for name in columns)
        for index, (name, text) in enumerate(zip(pictures.texts, captions.texts, strict=True)):
            if not text.strip():
                raise InputError(
                    f"{captions.where(index)} must say something",
                    got="an empty cell",
                    fix="fill it in or remove the row",
                )
            path = folder / name.strip()
            if path not in found and not path.is_file():
                missing.setdefault(path, _no_picture(path, pictures, index, folder))
            found.setdefault(path, []).append(" ".join(text.split()))
    _require_none_missing(table, missing, len(found), folder)
    return found


def _table(path: Path) -> DelimitedFile:
    if path.is_dir():
        tables = sorted(inner.name for inner in path.iterdir() if is_delimited(inner))
        fix = f"give {path / tables[0]}" if len(tables) == 1 else None
        raise InputError("captions are read from a CSV or TSV", got=f"the folder {path.as_posix()!r}", fix=fix)
    if not is_delimited(require_file(path)):
        raise InputError("captions are read from a CSV or TSV", got=path.name, fix="rename it if it is one of these")
    return DelimitedFile(path)


def _only(names: Sequence[str], words: Sequence[str]) -> str | None:
    """The one name that is among the usual words, the first of them if there are several; None if there is none."""
    lowered = {name.lower(): name for name in reversed(names)}
    return next((lowered[word] for word in words if word in lowered), None)


def _no_picture(path: Path, cells: Cells, index: int, folder: Path) -> InputError:
    name = cells.texts[index].strip()
    if not name:
        raise InputError(
            f"{cells.where(index)} must name a picture", got="an empty cell", fix="fill it in or remove the row"
        )
    beside = [inner.name for inner in path.parent.iterdir()] if path.parent.is_dir() else []
    fix = did_you_mean(path.name, beside) or ELSEWHERE
    return InputError(f"{cells.where(index)} must name a picture in {folder.as_posix()}", got=repr(name), fix=fix)


def _require_none_missing(table: DelimitedFile, missing: Mapping[Path, InputError], total: int, folder: Path) -> None:
    """All are listed, so that they can be mended at once; but where there are none at all, the folder is the mistake."""
    if len(missing) == 1:
        raise next(iter(missing.values()))
    names = [
        path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix() for path in missing
    ]
    if names and len(names) == total:
        rule = f"{table.path.name} must name pictures in {folder.as_posix()}"
        raise InputError(rule, got=f"{total:,} names of which none is there, such as {names[0]!r}", fix=ELSEWHERE)
    if names:
        rule = f"{table.path.name} must name pictures in {folder.as_posix()}"
        raise InputError(
            rule,
            got=f"{len(names):,} of {total:,} that are not there: {', '.join(names)}",
            fix="add them or remove their rows",
        )
