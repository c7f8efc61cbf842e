"""Films and positions in three parts: the embedded moving digits, or a folder of pictures for each film, or NPZ.

    frames/first-film/0001.png …       frames/positions.csv     sequence,frame,x,y
    frames/second-film/0001.png …                               first-film,0001.png,31.5,12

Frames follow one another in the order of their names. x and y are pixels, to the right and down; a frame without a row,
or with both cells empty, is one whose position nobody knows. A fifth column, hidden, says where the object is there but
cannot be seen.

    np.savez("films.npz", frames=…[film time height width], positions=…[film time 2], hidden=…[film time])
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float32
from torch import Tensor

from neuropil.config import option
from neuropil.data.examples.dataset import describe_inputs
from neuropil.data.films.dataset import Films
from neuropil.data.films.embedded import make_films
from neuropil.data.formats.arrays import CHANNELS, as_bytes, describe_array, require_finite
from neuropil.data.formats.columns import Cells, read_numbers
from neuropil.data.formats.delimited import Block, DelimitedFile, is_delimited
from neuropil.data.formats.images import common_shape, contents, is_image, open_image, read_images, visible_folders
from neuropil.data.formats.npz import is_npz, open_npz
from neuropil.data.formats.paths import require_file, require_path
from neuropil.data.splits import CAPPED, CappedSplitConfig, Splits, scoring_share, split
from neuropil.errors import InputError, counted, did_you_mean, listed
from neuropil.progress import tracked

Folders: TypeAlias = Mapping[str, Sequence[Path]]
"""The frames of each film."""

COLUMNS = ("sequence", "frame", "x", "y")
EXIST = "films must be files or folders that exist"
YES, NO = frozenset(("1", "true", "yes")), frozenset(("", "0", "false", "no"))


class FilmDataConfig(CappedSplitConfig):
    for_embedded = ("films",)
    data: Path | None = option(None, "folders of frames and a table of positions, or NPZ; without it, moving digits")
    films: int = option(2_500, "films of moving digits to make where no data is given", low=20)
    positions: Path | None = option(None, "table of sequence, frame, x and y; without it, the one beside the films")
    test: float = scoring_share(0.15, f"share held out for the final score, {CAPPED}")


def prepare_films(config: FilmDataConfig, seed: int) -> Splits[Films]:
    """The same for the same seed; each part is in the order of the data. A film is in one part with all its frames."""
    if config.data is None:
        if config.positions is not None:
            fix = "leave it out or give --data"
            raise InputError("--positions belongs to films of your own", got="the embedded ones", fix=fix)
        return make_films(*config.sizes(config.films), seed)
    films = read_films(config.data, positions=config.positions)
    taught = torch.tensor([bool(known.any()) for known in films.known.split(films.lengths.tolist())])
    if int(taught.sum()) < 2:
        rule = f"{config.data.name} must hold at least 2 films with positions, one to learn from and one to score"
        raise InputError(rule, got=f"{int(taught.sum())}", fix="cut a long film into several")
    notes = []
    if not bool(taught.all()):
        untaught = int((~taught).sum())
        verbs = ("has", "is") if untaught == 1 else ("have", "are")
        which = f"{untaught:,} of {len(films):,} films"
        notes.append(f"{which} {verbs[0]} no position at all and {verbs[1]} left out.")
    films = films.take(taught.nonzero().flatten())
    known = int(films.known.sum())
    if known < len(films.known):
        which = f"The position is known in {known:,} of {len(films.known):,} frames"
        notes.append(f"{which}; the others are seen, but neither taught nor scored.")
    return split(films, config, seed, notes=notes)


def read_films(path: Path, *, positions: Path | None = None, shape: tuple[int, ...] | None = None) -> Films:
    """Films with positions in pixels of the given frames, which are brought to `shape` or to one that suits them."""
    if is_npz(require_path(path, EXIST)):
        if positions is not None:
            got = f"{positions.name} beside {path.name}"
            raise InputError("an NPZ holds its own positions", got=got, fix="leave --positions out")
        return _with_positions_of_arrays(path, shape)
    folders = film_folders(path)
    table = DelimitedFile(require_file(positions) if positions is not None else find_table(path))
    films = read_folders(folders, shape, path.name)
    where, hidden = read_positions(table, folders)
    if not bool(where.isfinite().any()):
        raise InputError(f"{table.path.name} must say where the object is in some frames", got="no position at all")
    return replace(films, positions=where, hidden=hidden)


def read_frames(paths: Sequence[Path], shape: tuple[int, ...], size: tuple[int, int]) -> tuple[Films, list[str]]:
    """Films without positions, for a trained model, and a name for each frame. Single pictures are one film."""
    if not paths:
        raise InputError("a prediction needs at least one file", got="none")
    for path in paths:
        require_path(path, EXIST)
    if all(is_npz(path) for path in paths):
        films = [_array_films(path, shape) for path in paths]
        named = [(name, length) for each in films for name, length in zip(each.names, each.lengths, strict=True)]
        names = [f"{name} frame {frame}" for name, length in named for frame in range(length)]
    else:
        loose = [path for path in paths if path.is_file()]
        folders = {path.as_posix(): files for inner in paths if inner.is_dir() for path, files in _below(inner).items()}
        folders |= {"": [require_image(path) for path in loose]} if loose else {}
        films = [read_folders(folders, shape, paths[0].name)]
        frames = [(folder, file) for folder, files in folders.items() for file in files]
        names = [f"{file.parent.name}/{file.name}" if folder else file.name for folder, file in frames]
    for each in films:
        if each.size != size:
            rule = f"this model was trained on frames of {size[0]}×{size[1]}, whose pixels it answers in"
            raise InputError(rule, got=f"frames of {each.size[0]}×{each.size[1]}")
    return join(films), names


def film_folders(root: Path) -> dict[str, list[Path]]:
    """The frames of each film, in the order of their names."""
    if not require_path(root, EXIST).is_dir():
        raise InputError("films are a folder with one folder of frames each, or NPZ arrays", got=root.name)
    films = {folder.name: images_in(folder) for folder in visible_folders(root)}
    films = {name: files for name, files in films.items() if files}
    if not films:
        rule = f"the folder {root.name} must hold one folder of frames for each film"
        got = listed(contents(root)) or "an empty folder"
        raise InputError(rule, got=got, fix="put the frames of each film into a folder of its own")
    return films


def images_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_image(path) and path.is_file())


def require_image(path: Path) -> Path:
    if not is_image(path):
        raise InputError("frames are pictures", got=path.name, fix="give folders of frames, pictures or NPZ arrays")
    return path


def find_table(root: Path) -> Path:
    """The table of positions beside the films."""
    tables = sorted(path for path in root.iterdir() if path.is_file() and is_delimited(path))
    if len(tables) != 1:
        example = f"for instance positions.csv with the columns {', '.join(COLUMNS)}"
        rule = f"the folder {root.name} must hold one table of positions, {example}"
        raise InputError(rule, got=listed([path.name for path in tables]) or "none", fix="name it with --positions")
    return tables[0]


def read_folders(folders: Folders, shape: tuple[int, ...] | None, name: str) -> Films:
    """Films whose positions nobody knows yet."""
    files = [file for each in folders.values() for file in each]
    size = one_size(files)
    shape, note = common_shape(files) if shape is None else (shape, "")
    lengths = torch.tensor([len(each) for each in folders.values()])
    source = describe(lengths, shape, f"{name}{', ' if note else ''}{note}")
    return unlabelled(read_images(files, shape).values, lengths, list(folders), size, source)


def unlabelled(frames: Tensor, lengths: Tensor, names: Sequence[str], size: tuple[int, int], source: str) -> Films:
    nowhere, seen = torch.full((len(frames), 2), torch.nan), torch.zeros(len(frames), dtype=torch.bool)
    return Films(frames, lengths, nowhere, seen, names, size, source)


def one_size(files: Sequence[Path]) -> tuple[int, int]:
    """Height and width that all of them have."""
    first: tuple[int, int] | None = None
    for path in tracked(files, "Looking at frames"):
        with open_image(path) as image:
            size = image.height, image.width
        if first is not None and size != first:
            got = f"{first[0]}×{first[1]} ({files[0].name}) and {size[0]}×{size[1]} ({path.parent.name}/{path.name})"
            raise InputError("all frames must have one size, since positions are in their pixels", got=got)
        first = first or size
    if first is None:
        raise InputError("films need frames", got="none")
    return first


def describe(lengths: Tensor, shape: Sequence[int], where: str) -> str:
    films = f"{counted(len(lengths), 'film')} with {counted(int(lengths.sum()), 'frame')}"
    return f"{films}, {describe_inputs(tuple(shape))} ({where})"


def join(films: Sequence[Films]) -> Films:
    fields = ("frames", "lengths", "positions", "hidden")
    tensors = {name: torch.cat([getattr(each, name) for each in films]) for name in fields}
    return replace(films[0], names=[name for each in films for name in each.names], **tensors)


# --- positions in a table ---------------------------------------------------------------------------------------------


def read_positions(table: DelimitedFile, folders: Folders) -> tuple[Float32[Tensor, "frame 2"], Bool[Tensor, " frame"]]:
    """Positions, NaN where nobody knows them, and where the object is hidden."""
    table.require_columns(COLUMNS)
    total = sum(map(len, folders.values()))
    positions, hidden = torch.full((total, 2), torch.nan), torch.zeros(total, dtype=torch.bool)
    places, row_of = _places(folders), dict[int, int]()
    for block in table.blocks((*COLUMNS, "hidden")):
        found = _positions(block)
        for index, row in enumerate(block["frame"].rows):
            place = _find(block, index, places)
            if place in row_of:
                got = f"it in rows {row_of[place]} and {row}"
                rule = f"each frame must stand in {table.path.name} once"
                raise InputError(rule, got=got, fix="remove one of the two")
            row_of[place] = row
            positions[place] = found[index]
            hidden[place] = "hidden" in block and _is_hidden(block["hidden"], index)
    return positions, hidden


def _places(folders: Folders) -> dict[str, dict[str, int]]:
    """For each film, the numbers of its frames among all, by file name, with and without its suffix, and by number."""
    places: dict[str, dict[str, int]] = {}
    first = 0
    for film, files in folders.items():
        names: dict[str, int] = {}
        for place, file in enumerate(files, start=first):
            digits = re.findall(r"\d+", file.stem)
            for name in (file.name, file.stem, *([str(int(digits[-1]))] if digits else [])):
                names.setdefault(name, place)
        places[film] = names
        first += len(files)
    return places


def _find(block: Block, index: int, places: Mapping[str, Mapping[str, int]]) -> int:
    films, frames = block["sequence"], block["frame"]
    film, frame = films.texts[index].strip(), frames.texts[index].strip()
    if film not in places:
        fix = did_you_mean(film, places) or f"it may be {listed(list(places))}"
        raise InputError(f"{films.where(index)} must name a folder of frames", got=repr(film), fix=fix)
    if frame not in places[film]:
        fix = did_you_mean(frame, places[film])
        raise InputError(f"{frames.where(index)} must name a frame in {film}", got=repr(frame), fix=fix)
    return places[film][frame]


def _positions(block: Block) -> Float32[Tensor, "row 2"]:
    found = np.stack([read_numbers(block[name], gaps=True) for name in ("x", "y")], axis=1)
    half = np.isnan(found[:, 0]) != np.isnan(found[:, 1])
    if half.any():
        index = int(half.argmax())
        cells = block["x"] if np.isnan(found[index, 0]) else block["y"]
        fix = "leave x and y empty where nobody knows them"
        rule = f"{cells.where(index)} must hold a number of pixels"
        raise InputError(rule, got="an empty cell beside a full one", fix=fix)
    return torch.from_numpy(found.astype(np.float32))


def _is_hidden(cells: Cells, index: int) -> bool:
    word = cells.texts[index].strip().lower()
    if word not in YES | NO:
        raise InputError(f"{cells.where(index)} must hold 1 or 0", got=repr(cells.texts[index]))
    return word in YES


# --- arrays -----------------------------------------------------------------------------------------------------------


def _with_positions_of_arrays(path: Path, shape: tuple[int, ...] | None) -> Films:
    films = _array_films(path, shape)
    time = int(films.lengths[0])
    with open_npz(path) as bundle:
        if "positions" not in bundle.files:
            raise InputError(f"{path.name} must hold positions beside frames", got=listed(bundle.files))
        positions = bundle["positions"]
        hidden = bundle["hidden"] if "hidden" in bundle.files else np.zeros((len(films), time), dtype=bool)
    shapes = {"positions": (len(films), time, 2), "hidden": (len(films), time)}
    for array, (key, expected) in zip((positions, hidden), shapes.items(), strict=True):
        if array.shape != expected or array.dtype.kind not in "biuf":
            rule = f"{key} of {path.name} must be {'×'.join(map(str, expected))} numbers, as frames has it"
            raise InputError(rule, got=describe_array(array))
    positions = rearrange(positions, "film time side -> (film time) side").astype(np.float32)
    if np.isinf(positions).any() or not np.isfinite(positions).all(-1).any():
        rule = f"positions of {path.name} must be finite numbers of pixels, or NaN where nobody knows them"
        raise InputError(rule, got="infinite ones or NaN alone")
    return replace(films, positions=torch.from_numpy(positions), hidden=torch.from_numpy(hidden.reshape(-1) != 0))


def _array_films(path: Path, shape: tuple[int, ...] | None) -> Films:
    with open_npz(path) as bundle:
        if "frames" not in bundle.files:
            rule = f"{path.name} must hold frames with the axes film, time, height and width"
            raise InputError(rule, got=listed(bundle.files) or "no arrays")
        array = bundle["frames"]
    channels = array.shape[-1] if array.ndim == 5 else 1
    if array.dtype.kind not in "biuf" or array.ndim not in (4, 5) or array.size == 0 or channels not in CHANNELS:
        axes = "the axes film, time, height and width, and channels last if there are any"
        raise InputError(f"frames of {path.name} must be pictures with {axes}", got=describe_array(array))
    require_finite(array, f"frames of {path.name}")
    count, time = array.shape[:2]
    pixels = as_bytes(array if array.ndim == 5 else array[..., None], f"frames of {path.name}")
    pixels = rearrange(pixels, "film time height width channel -> (film time) channel height width")
    frames = torch.from_numpy(np.ascontiguousarray(pixels))
    if shape is not None and tuple(frames.shape[1:]) != shape:
        rule = f"{path.name} must hold {describe_inputs(shape)}, as the training data did"
        raise InputError(rule, got=describe_inputs(tuple(frames.shape[1:])))
    lengths = torch.full((count,), time)
    names = [f"{path.name}[{index}]" for index in range(count)]
    size = (frames.shape[2], frames.shape[3])
    return unlabelled(frames, lengths, names, size, describe(lengths, frames.shape[1:], path.name))


def _below(folder: Path) -> dict[Path, list[Path]]:
    """The films in a folder that is one film, or that holds several."""
    here = images_in(folder)
    return {folder: here} if here else {folder / name: files for name, files in film_folders(folder).items()}
