"""Pictures and their captions in three parts: the embedded scenes, or the user's own, from memory or from a table
whose one column names a picture and another says what is on it.

A picture that is named in several rows has several captions, and is in one part with all of them and with all of its
copies. Paths are relative to the table, or to a folder that the user names.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from neuropil.config import flag_of, option
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.captions.embedded import MOST_RASTER, make_scenes
from neuropil.data.examples.arrays import array_inputs
from neuropil.data.examples.dataset import describe_inputs
from neuropil.data.formats.columns import EMPTY, Cells, ColumnRole, choose_columns, require_value, unclear_columns
from neuropil.data.formats.delimited import DelimitedFile, is_delimited
from neuropil.data.formats.images import common_shape, read_images
from neuropil.data.formats.memory import InMemory, training_part
from neuropil.data.formats.paths import require_file
from neuropil.data.formats.values import holds_cells
from neuropil.data.splits import CappedSplitConfig, Splits, split
from neuropil.errors import InputError, did_you_mean

PICTURES = ColumnRole("pictures", "--picture-column", "image picture file filename file_name path photo img")
CAPTIONS = ColumnRole("captions", "--caption-column", "caption captions text description sentence comment label")
ELSEWHERE = "paths are relative to the table, or to the folder given by --pictures"


class CaptionDataConfig(CappedSplitConfig):
    for_embedded = ("scenes", "raster")
    data: Path | InMemory | None = option(
        None, "CSV or TSV of picture files and captions; without it, scenes of digits"
    )
    scenes: int = option(23_000, "scenes of digits to make where no data is given", low=20)
    raster: int = option(1, "digits of these scenes stand at multiples of so many pixels", low=1, high=MOST_RASTER)
    picture_column: str | None = option(None, "the column that names the pictures")
    caption_column: str | None = option(None, "the column that says what is on them")
    pictures: Path | None = option(None, "folder that names of pictures are relative to; default that of the table")


def prepare_captions(config: CaptionDataConfig, seed: int) -> Splits[CaptionedPictures]:
    """The same for the same seed; each part is in the order of the data."""
    source, own = training_part(config.data)
    if source is None:
        return _embedded(config, seed)
    read = partial(read_captions, picture_column=config.picture_column, caption_column=config.caption_column)
    pictures, notes = read(source, folder=config.pictures)
    if (different := len(set(pictures.keys))) < 2:
        rule = f"{source.name} must name at least 2 pictures, one to learn from and one to score"
        raise InputError(rule, got=f"{different}")
    weights = [len(captions) for captions in pictures.captions]
    parts = {name: read(part, shape=pictures.shape) for name, part in own.items()}
    return split(pictures, config, seed, weights=weights, notes=notes, own=parts)


def _embedded(config: CaptionDataConfig, seed: int) -> Splits[CaptionedPictures]:
    for name in ("picture_column", "caption_column", "pictures"):
        if getattr(config, name) is not None:
            rule = f"{flag_of(name)} belongs to captions of your own"
            raise InputError(rule, got="the embedded scenes", fix="leave it out or give --data")
    return make_scenes(*config.sizes(config.scenes), seed, raster=config.raster)


def read_captions(
    source: Path | InMemory,
    *,
    picture_column: str | None = None,
    caption_column: str | None = None,
    folder: Path | None = None,
    shape: tuple[int, ...] | None = None,
) -> tuple[CaptionedPictures, Sequence[str]]:
    """Each picture once, in the order of the table, with all of its captions; and notes for the report. Pictures are
    brought to `shape`, or to one that suits them. Of memory `folder` has no effect, and is refused."""
    wanted = picture_column, caption_column
    if isinstance(source, InMemory):
        if folder is not None:
            rule, got = "--pictures is the folder of picture files", f"{folder.as_posix()!r} for {source.name}"
            raise InputError(rule, got=got, fix="leave it out")
        return captions_in(source, wanted, shape), ()
    path, table = source, _table(source)
    chosen = choose_columns(table.header, wanted, (PICTURES, CAPTIONS), path.name)
    columns = [table.header[column] for column in chosen if column is not None]
    if len(columns) < 2:
        raise unclear_columns(table.header, (PICTURES, CAPTIONS), path.name)
    captions = collect(table, columns, folder or path.parent)
    files = list(captions)
    shape, note = common_shape(files) if shape is None else (shape, "")
    pictures = read_images(files, shape).values
    count, where = sum(map(len, captions.values())), f"{path.name}, {note}" if note else path.name
    phrase = f"{len(files):,} {describe_inputs(shape)} with {count:,} captions ({where})"
    notes = [f"In {path.name}, {columns[0]!r} names the pictures and {columns[1]!r} says what is on them."]
    if picture_column is not None and caption_column is not None:
        notes = []
    return CaptionedPictures(pictures, list(captions.values()), (), phrase), notes


def captions_in(
    memory: InMemory, wanted: Sequence[str | None], shape: tuple[int, ...] | None = None
) -> CaptionedPictures:
    """Arrays or pictures of PIL with a text each, or with a list of texts; rows are counted from 0."""
    picture, caption = memory.two_columns(wanted, (PICTURES, CAPTIONS))
    if holds_cells(memory.column(picture)):
        rule = f"column {picture!r} of the {memory.name} must hold pictures"
        raise InputError(rule, got=str(memory), fix="give arrays or images of PIL, or the path of a table of files")
    inputs, note = array_inputs(memory, picture, shape)
    if len(inputs.shape) != 3 or inputs.shape != (shape or inputs.shape):
        rule = f"column {picture!r} of the {memory.name} must hold {describe_inputs(shape) if shape else 'pictures'}"
        raise InputError(rule, got=describe_inputs(inputs.shape))
    captions: dict[bytes, list[str]] = {}
    first = list[int]()
    for row, (image, texts) in enumerate(zip(inputs.values.numpy(), _texts_of(memory, caption), strict=True)):
        for text in texts:
            require_value(Cells(memory.name, caption, [row], [text]), 0, EMPTY, "say something")
        if image.tobytes() not in captions:
            first.append(row)
        captions.setdefault(image.tobytes(), []).extend(" ".join(text.split()) for text in texts)
    count, where = sum(map(len, captions.values())), f"{memory.name}, {note}" if note else memory.name
    source = f"{len(captions):,} {describe_inputs(inputs.shape)} with {count:,} captions ({where})"
    return CaptionedPictures(inputs.values[first], list(captions.values()), (), source)


def _texts_of(memory: InMemory, name: str) -> list[list[str]]:
    values = memory.column(name)
    several = isinstance(values, list) and isinstance(values[0], list)
    return [each or [""] for each in values] if several else [[text] for text in memory.texts(name)]


def collect(table: DelimitedFile, columns: Sequence[str], folder: Path) -> dict[Path, list[str]]:
    """All captions of each picture."""
    found: dict[Path, list[str]] = {}
    missing: dict[Path, InputError] = {}
    for block in table.blocks(columns):
        pictures, captions = (block[name] for name in columns)
        for index, (name, text) in enumerate(zip(pictures.texts, captions.texts, strict=True)):
            require_value(captions, index, EMPTY, "say something")
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


def _no_picture(path: Path, cells: Cells, index: int, folder: Path) -> InputError:
    require_value(cells, index, EMPTY, "name a picture")
    name = cells.texts[index].strip()
    beside = [inner.name for inner in path.parent.iterdir()] if path.parent.is_dir() else []
    fix = did_you_mean(path.name, beside) or ELSEWHERE
    return InputError(f"{cells.where(index)} must name a picture in {folder.as_posix()}", got=repr(name), fix=fix)


def _require_none_missing(table: DelimitedFile, missing: Mapping[Path, InputError], total: int, folder: Path) -> None:
    """All are listed, so that they can be mended at once; where all are missing, the folder is the mistake."""
    if len(missing) == 1:
        raise next(iter(missing.values()))
    rule = f"{table.path.name} must name pictures in {folder.as_posix()}"
    names = [(path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix() for path in missing]
    if names and len(names) == total:
        raise InputError(rule, got=f"{total:,} names of which none is there, such as {names[0]!r}", fix=ELSEWHERE)
    if names:
        got = f"{len(names):,} of {total:,} that are not there: {', '.join(names)}"
        raise InputError(rule, got=got, fix="add them or remove their rows")
