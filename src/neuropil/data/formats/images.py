"""Pictures from files, and folders that hold one folder of pictures per class."""

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Num, UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Inputs, LabelledInputs, LabelledParts, Labels
from neuropil.data.formats.picture_files import PictureFiles, as_names
from neuropil.data.splits import PART_OF_WORD, PartName
from neuropil.errors import InputError, counted, listed, written
from neuropil.memory import require_room
from neuropil.progress import tracked

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
GREY_MODES = frozenset(("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "F"))
LARGEST_KEPT, LARGEST_RESIZED = 256, 64
"""Pixels a side: larger pictures of one size are reduced; pictures of many sizes meet at the second at most."""
MOST_NAMED = 20
MOST_IN_MEMORY = 2**30
"""Bytes of the images of a folder that are all read before training, where a system can do without."""
LOOKED_AT = 20_000
"""Of a folder of more images, those whose sizes are looked at, at even distances."""
MEND = "mend or remove {}"
FORMATS = ("PNG", "JPEG", "BMP", "DIB", "GIF", "WEBP", "TIFF", "PPM")
"""Of PIL, whatever a file is called: some of its others start programs (EPS), or are in no use."""
MOST_PIXELS, MANY_PIXELS, BYTES_PER_PIXEL = 1 << 26, 1 << 20, 20
"""Of a picture when it is decoded; so many that memory is asked about; and for each of them four bytes, in up to five
copies."""
LONGEST_SIDE = 1 << 18
"""Each row takes a few bytes more, in every copy."""
EXIF_ORIENTATION, SIDEWAYS = 0x0112, frozenset((5, 6, 7, 8))


def is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def images_below(folder: Path) -> list[Path]:
    return [folder / name for name in image_names(folder)]


def image_names(folder: Path) -> list[str]:
    """Of those at any depth, except in hidden folders such as .ipynb_checkpoints. Millions of names are no burden,
    where paths would be."""
    found, folders = list[str](), [""]
    while folders:
        above = folders.pop()
        with os.scandir(folder / above) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    folders.append(f"{above}{entry.name}/")
                elif os.path.splitext(entry.name)[1].lower() in SUFFIXES and is_image(Path(entry.name)):
                    found += [f"{above}{entry.name}"] if entry.is_file() else []
    return sorted(found, key=lambda name: name.split("/"))


def read_image_folder(
    root: Path,
    shape: tuple[int, ...] | None = None,
    *,
    size: int | None = None,
    skip_unreadable: bool = False,
    lazily: bool = False,
) -> LabelledParts:
    """root/class/…, or root/train/class/… beside root/test/class/…; all get `shape`, or one that suits them, or squares
    of `size` pixels a side. Where it is allowed to read them `lazily`, many stay in their files."""
    folders = part_folders(root)
    names = {part: names_by_class(folder) for part, folder in folders.items()}
    if lazily and shape is None and (found := _lazily(root, folders, names, size, skip_unreadable)):
        return found
    files = {
        part: {label: [folders[part] / name for name in inside] for label, inside in classes.items()}
        for part, classes in names.items()
    }
    everything = [path for classes in files.values() for paths in classes.values() for path in paths]
    bad: dict[Path, InputError] = {}
    note, learning = "", shape is None
    if shape is None:
        shape, note = common_shape(everything, bad, size)
    parts: dict[PartName, LabelledInputs] = {}
    for part, classes in files.items():
        paths = [path for paths in classes.values() for path in paths]
        inputs = read_images(paths, shape, root, bad)
        positions = np.repeat(np.arange(len(classes)), [len(paths) for paths in classes.values()])
        good = np.array([path not in bad for path in paths])
        parts[part] = LabelledInputs(inputs, Labels(positions[good], tuple(classes)))
    if not learning:
        require_readable(bad)
    return LabelledParts(parts, note=note, notes=unreadable_notes(bad, len(everything), root, skip_unreadable))


def _lazily(
    root: Path,
    folders: Mapping[PartName, Path],
    names: Mapping[PartName, Mapping[str, Sequence[str]]],
    size: int | None,
    skip_unreadable: bool,
) -> LabelledParts | None:
    """None where all would fit into memory well."""
    below = {part: folder.relative_to(root).as_posix() for part, folder in folders.items()}
    everything = as_names(
        [f"{below[part]}/{name}" for part, classes in names.items() for inside in classes.values() for name in inside]
    )
    count, bad = len(everything), dict[Path, InputError]()
    looked_at = np.unique(np.linspace(0, count - 1, min(count, LOOKED_AT)).astype(int))
    shape, note = common_shape([root / os.fsdecode(name) for name in everything[looked_at]], bad, size)
    if count * math.prod(shape) <= MOST_IN_MEMORY:
        return None
    if skip_unreadable:
        for path in tracked([root / os.fsdecode(name) for name in everything], "Checking images"):
            try:
                read_picture(path, shape)
            except InputError as error:
                bad[path] = error
    notes = unreadable_notes(bad, count, root, skip_unreadable)
    parts, begin = dict[PartName, LabelledInputs](), 0
    for part, classes in names.items():
        end = begin + sum(map(len, classes.values()))
        positions = np.repeat(np.arange(len(classes)), [len(inside) for inside in classes.values()])
        own = everything[begin:end]
        good = np.array([root / os.fsdecode(name) not in bad for name in own]) if bad else np.ones(len(own), bool)
        pictures = PictureFiles(root, own[good], shape, read_picture)
        named = Inputs(pictures, lambda index, own=own[good]: Path(os.fsdecode(own[index])).as_posix())
        parts[part] = LabelledInputs(named, Labels(positions[good], tuple(classes)))
        begin = end
    sentence = f"The images would take {written(count * math.prod(shape))} and are read from their files when needed"
    sampled = f"; {len(looked_at):,} of them tell the common size" if len(looked_at) < count else ""
    return LabelledParts(parts, note=note, notes=(*notes, f"{sentence}{sampled}."))


def unreadable_notes(bad: Mapping[Path, InputError], count: int, root: Path, skip: bool) -> tuple[str, ...]:
    """On images that are left out; they are refused where that was not asked for."""
    if not skip:
        require_readable(bad, fix="mend or remove {}, or add --skip-unreadable")
    names = listed([path.relative_to(root).as_posix() for path in bad], MOST_NAMED)
    are = "is" if len(bad) == 1 else "are"
    return (f"{len(bad):,} of {count:,} images cannot be read and {are} left out: {names}.",) if bad else ()


def read_loose_images(
    root: Path, size: int | None = None, *, skip_unreadable: bool = False
) -> tuple[dict[PartName, Inputs], list[str]]:
    """Images without classes: root/…, or root/train/… beside root/test/…, and what there is to say of them."""
    inner = {folder.name.lower(): folder for folder in visible_folders(root)}
    named = {PART_OF_WORD[name]: folder for name, folder in inner.items() if name in PART_OF_WORD}
    folders = named if named and not any(map(is_image, root.iterdir())) else {"train": root}
    files = {part: images_below(folder) for part, folder in folders.items()}
    everything = [path for paths in files.values() for path in paths]
    if not everything:
        got = listed(contents(root)) or "an empty folder"
        raise InputError(f"the folder {root.name} must hold images", got=got)
    bad: dict[Path, InputError] = {}
    shape, note = common_shape(everything, bad, size)
    parts = {part: read_images(paths, shape, root, bad) for part, paths in files.items()}
    notes = [f"Images are {note}."] if note else []
    return parts, [*notes, *unreadable_notes(bad, len(everything), root, skip_unreadable)]


def loose_images(root: Path) -> bool:
    """Whether images stand in the folder itself, or in folders of parts that hold no folders of classes."""
    parts = [folder for folder in visible_folders(root) if folder.name.lower() in PART_OF_WORD]
    return any(map(is_image, root.iterdir())) or (bool(parts) and not any(map(visible_folders, parts)))


def part_folders(root: Path) -> dict[PartName, Path]:
    """The folders of the parts, or the root alone if it holds the classes. "train" may be a class."""
    folders = [folder for folder in visible_folders(root) if visible_folders(folder)]
    return {PART_OF_WORD[folder.name.lower()]: folder for folder in folders if folder.name.lower() in PART_OF_WORD} or {
        "train": root
    }


def names_by_class(folder: Path) -> dict[str, list[str]]:
    """Names of images below the folder."""
    classes = {inner.name: [f"{inner.name}/{name}" for name in image_names(inner)] for inner in visible_folders(folder)}
    if not classes:
        loose = [path.name for path in sorted(folder.iterdir()) if is_image(path)]
        found = listed(contents(folder)) or "an empty folder"
        found = f"{counted(len(loose), 'image')} with no class, such as {loose[0]}" if loose else found
        fix = "sort the images into folders named after their classes, or give the path of a file"
        raise InputError(f"the folder {folder.name} must hold one folder of images for each class", got=found, fix=fix)
    for name, paths in classes.items():
        if not paths:
            rule = f"each folder in {folder.name} must hold the images of one class"
            got = f"{name!r} with none"
            raise InputError(rule, got=got, fix=f"add images ({', '.join(sorted(SUFFIXES))}) or remove it")
    return classes


def visible_folders(folder: Path) -> list[Path]:
    return sorted(inner for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith((".", "__")))


def contents(folder: Path) -> list[str]:
    return sorted(inner.name for inner in folder.iterdir() if not inner.name.startswith("."))


def common_shape(
    paths: Sequence[Path], bad: dict[Path, InputError] | None = None, size: int | None = None
) -> tuple[tuple[int, int, int], str]:
    """(channel, height, width) that suits all the pictures, or that `size` gives them, and a note if some must change
    for it. Those that cannot be read are refused, all at once, or added to `bad` and left out."""
    unreadable: dict[Path, InputError] = {}
    sizes = [*_sizes(paths, unreadable)]
    if bad is None or not sizes:
        require_readable(unreadable)
    else:
        bad.update(unreadable)
    (channels, height, width), note = _common_shape(sizes)
    if size is None or (not note and (height, width) == (size, size)):
        return (channels, height, width), note
    return (channels, size, size), f"resized to {size}×{size}"


def _sizes(paths: Sequence[Path], bad: dict[Path, InputError]) -> Iterator[tuple[int, int, bool]]:
    for path in tracked(paths, "Looking at images"):
        try:
            with open_image(path) as image:
                yield _size(image)
        except InputError as error:
            bad[path] = error


def _size(image: "Image") -> tuple[int, int, bool]:
    """Height and width of the upright picture, and whether it is grey."""
    width, height = image.size
    sideways = "exif" in image.info and image.getexif().get(EXIF_ORIENTATION) in SIDEWAYS
    return *((width, height) if sideways else (height, width)), image.mode in GREY_MODES


def suitable_shape(images: Iterable["Image"]) -> tuple[tuple[int, int, int], str]:
    """The same for pictures that are open."""
    return _common_shape([_size(image) for image in images])


def _common_shape(found: Sequence[tuple[int, int, bool]]) -> tuple[tuple[int, int, int], str]:
    sizes, grey = [each[:2] for each in found], all(each[2] for each in found)
    channels = 1 if grey else 3
    height, width = (int(side) for side in np.median(sizes, axis=0))
    one_size = len(set(sizes)) == 1
    if one_size and max(height, width) <= LARGEST_KEPT:
        return (channels, height, width), ""
    scale = min(1.0, LARGEST_RESIZED / max(height, width))
    note = f"resized from {height}×{width}" if one_size else "resized from several sizes"
    return (channels, max(1, int(height * scale)), max(1, int(width * scale))), note


def read_images(
    paths: Sequence[Path], shape: tuple[int, ...], root: Path | None = None, bad: dict[Path, InputError] | None = None
) -> Inputs:
    """Pictures brought to one shape, named by their path below `root`, or by their file name if there is none. Those
    that cannot be read are refused, all at once, or added to `bad` and left out."""
    unreadable = {} if bad is None else bad
    require_room(f"{len(paths):,} images of {shape[1]}×{shape[2]}", len(paths) * math.prod(shape))
    images = torch.empty(len(paths), *shape, dtype=torch.uint8)
    good: list[Path] = []
    for path in tracked(paths, "Reading images"):
        if path not in unreadable:
            try:
                images[len(good)] = read_picture(path, shape)
                good.append(path)
            except InputError as error:
                unreadable[path] = error
    if bad is None:
        require_readable(unreadable)
    return Inputs(images[: len(good)], lambda index: good[index].relative_to(root or good[index].parent).as_posix())


def require_readable(bad: Mapping[Path, InputError], fix: str = MEND) -> None:
    """`fix` has a place for it or them."""
    if len(bad) > 1:
        got = f"{len(bad):,} that are damaged or no images ({listed([path.as_posix() for path in bad], MOST_NAMED)})"
        raise InputError("each image must be readable", got=got, fix=fix.format("them"))
    for error in bad.values():
        raise InputError(error.rule, got=error.got, fix=error.fix if fix == MEND else fix.format("it"))


def read_picture(path: Path, shape: tuple[int, ...]) -> UInt8[Tensor, "channel height width"]:
    with open_image(path) as image:
        # A JPEG can be decoded at a half, a quarter or an eighth of its size, which is many times as fast.
        image.draft(image.mode, (2 * max(shape[1:]), 2 * max(shape[1:])))
        return fit_picture(image, shape, path.name)


def fit_picture(image: "Image", shape: tuple[int, ...], name: str) -> UInt8[Tensor, "channel height width"]:
    """Upright, in grey or colour, and of the size."""
    from PIL import Image, ImageOps

    require_pixels(image, name)
    channels, height, width = shape
    if channels not in MODES:
        raise InputError(f"a model of {channels} channels must get its images as arrays", got=name)
    upright = convert(ImageOps.exif_transpose(image), MODES[channels], name)
    if upright.size != (width, height):
        upright = upright.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=3)
    pixels = np.array(upright).reshape(height, width, channels)
    return torch.from_numpy(rearrange(pixels, "height width channel -> channel height width").copy())


def require_pixels(image: "Image", name: str) -> None:
    """Before any is decoded: a file of a few bytes may say that it has as many as it likes."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        got, fix = f"{width:,}×{height:,} in {name}", "reduce its size"
        raise InputError(f"a picture may have {MOST_PIXELS:,} pixels", got=got, fix=fix)
    if max(width, height) > LONGEST_SIDE:
        got, fix = f"{width:,}×{height:,} in {name}", "cut it into pieces"
        raise InputError(f"a side of a picture may have {LONGEST_SIDE:,} pixels", got=got, fix=fix)
    if width * height > MANY_PIXELS:
        require_room(f"the picture {name}", BYTES_PER_PIXEL * width * height)


def is_picture(thing: object) -> bool:
    """Whether it is an image of PIL, which is not imported for that."""
    return "PIL.Image" in sys.modules and isinstance(thing, sys.modules["PIL.Image"].Image)


def convert(image: "Image", mode: str, name: str) -> "Image":
    """To 8 bits in grey or colour. Transparent pictures are laid on white, as a viewer shows them."""
    from PIL import Image

    if image.mode[0] in "IF":  # PIL itself would cut all values above 255 instead of scaling them
        image = Image.fromarray(_eight_bits(np.asarray(image), image.mode, name))
    if image.has_transparency_data and mode != "RGBA":
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(values: Num[np.ndarray, "height width"], mode: str, name: str) -> UInt8[np.ndarray, "height width"]:
    """Grey values of 16 bits, whole numbers of 32 or fractions, by the smallest usual range that holds them all."""
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 65_535):  # NaN is neither
        rule = f"{name} must have grey values 0 to 1, 0 to 255 or 0 to 65535"
        raise InputError(rule, got=f"{low:g} to {high:g}", fix="scale them")
    most = 65_535 if mode.startswith("I;16") or high > 255 else 1 if mode == "F" and high <= 1 else 255
    return (values * (255 / most)).round().astype(np.uint8)


@contextmanager
def open_image(path: Path) -> Iterator["Image"]:
    """The picture. A damaged file can lead its decoder to any kind of error; all of them become one sentence."""
    from PIL import Image

    try:
        with Image.open(path, formats=FORMATS) as image:
            yield image
    except InputError:
        raise
    except Exception as cause:
        rule = "each image must be readable"
        raise InputError(rule, got=f"{path}, which is damaged or no image", fix=MEND.format("it")) from cause
