"""A run in one file, to be sent: a zip of its folder without the checkpoint, which only a run that goes on needs, and
without the folders of the sender's machine: of paths the names are left."""

import html
import json
import shlex
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from neuropil.errors import InputError, NeuropilError, RunError, counted
from neuropil.files import LOCK, is_part, replacing, storing
from neuropil.training.checkpoint import checkpoints_below

if TYPE_CHECKING:
    from neuropil.runs.run import Run

LARGEST, MOST_FILES = 16 * 2**30, 10_000
"""Bytes and files that are unpacked of one archive."""
LARGEST_SETTINGS = 64 * 2**20
"""Bytes of `config.json`, which is read whole."""
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What everyone writes; a few bytes of the others unpack to any number."""
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, ValueError)
"""What reading a damaged archive raises, or one that was made to do harm."""


def pack(run: "Run", path: Path) -> Path:
    if path.suffix.lower() != ".zip":
        raise InputError("a run is saved as a .zip file", got=f"{str(path)!r}", fix=f"name it {path.name}.zip")
    left_out = set(checkpoints_below(run.folder))
    found = (file for file in sorted(run.folder.rglob("*")) if file.is_file())
    files = [file for file in found if not left_out & {file, *file.parents}]
    files = [file for file in files if file.name != LOCK and not is_part(file)]  # of a process that is at work
    folder = run.folder.absolute()
    # A machine whose clock stood at 1970 has files from before the first year that a zip knows.
    packed = {"compression": zipfile.ZIP_DEFLATED, "strict_timestamps": False}
    with replacing(path) as part, zipfile.ZipFile(part, "w", **packed) as archive:
        for file in files:
            name = Path(folder.name) / file.absolute().relative_to(folder)
            if file == run.folder / "config.json" or file.suffix == ".html":
                archive.writestr(name.as_posix(), _with_names(file, run.settings))
            else:
                archive.write(file, name)
    return path


def _with_names(file: Path, settings: Mapping[str, Any]) -> str:
    """A settings file or a page, with the names of what options and the command have the paths of."""
    text, command = file.read_text(encoding="utf-8"), settings["command"]
    words = shlex.split(command) if command.startswith("neuropil ") else []  # a call of Python is none of words
    paths = {word: Path(word).name for word in (*words, *_strings(settings["options"])) if Path(word).is_absolute()}
    named = command
    for path in sorted(paths, key=len, reverse=True):
        named = named.replace(shlex.quote(path), shlex.quote(paths[path])).replace(path, paths[path])
    if file.suffix == ".html":
        return text.replace(html.escape(command), html.escape(named))
    written = json.loads(text)
    written["neuropil"]["command"] = named
    written["neuropil"].pop("launch", None)  # by which its own machines find it again
    written["neuropil"]["options"] = _replaced(settings["options"], paths)
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def _strings(values: Any) -> Iterator[str]:
    """All texts in a tree of JSON."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | list):
        yield from chain.from_iterable(map(_strings, values.values() if isinstance(values, Mapping) else values))


def _replaced(values: Any, names: Mapping[str, str]) -> Any:
    if isinstance(values, Mapping):
        return {key: _replaced(value, names) for key, value in values.items()}
    if isinstance(values, list):
        return [_replaced(value, names) for value in values]
    return names.get(values, values) if isinstance(values, str) else values


def unpacked(path: Path) -> Path:
    """Of a .zip file, the folder of its name beside it, which is made whole or not at all, and used again if it holds
    the same run; any other path as it is."""
    if path.suffix.lower() != ".zip" or not path.is_file():
        return path
    folder = path.with_suffix("")
    rule, fix = f"{path} must be a zip of one run, as run.save writes it", "save it again"
    try:
        with zipfile.ZipFile(path) as archive:
            files = files_in(archive)
            wrong = _wrong(files)
            if wrong:
                raise RunError(rule, got=wrong, fix=fix)
            root = PurePosixPath(files[0].filename).parts[0]
            if archive.getinfo(f"{root}/config.json").file_size > LARGEST_SETTINGS:
                raise RunError(rule, got=f"a config.json of more than {LARGEST_SETTINGS:,} bytes", fix=fix)
            if folder.exists():
                if _is_unpacked(files, folder):
                    return folder
                raise RunError(f"{path} is unpacked to {folder}", got="another one there", fix="move one of the two")
            needed = sum(each.file_size for each in files)
            with (
                storing(folder, needed),
                tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=path.parent) as part,
            ):
                archive.extractall(part)
                shutil.move(Path(part) / root, folder)
    except NeuropilError:
        raise
    except DAMAGE as error:
        raise RunError(rule, got=f"a file that is none ({error})", fix=fix) from error
    return folder


def _is_unpacked(files: Sequence[zipfile.ZipInfo], folder: Path) -> bool:
    """Whether the folder has the settings and the weights of an archive; other files may have been written since."""
    for each in files:
        there = folder.joinpath(*PurePosixPath(each.filename).parts[1:])
        if there.name != "config.json" and there.suffix != ".safetensors":
            continue
        if not there.is_file() or there.stat().st_size != each.file_size or _checksum(there) != each.CRC:
            return False
    return True


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found = zlib.crc32(block, found)
    return found


def _wrong(files: list[zipfile.ZipInfo]) -> str:
    if reason := unsafe(files, LARGEST, MOST_FILES):
        return reason
    return "" if len({PurePosixPath(each.filename).parts[0] for each in files}) == 1 else "several folders"


def files_in(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Without folders; what has no name at all is no folder either."""
    return [each for each in archive.infolist() if not each.filename.endswith("/")]


def unsafe(files: Sequence[zipfile.ZipInfo], largest: int, most: int) -> str:
    """Why an archive is not unpacked, if it is not: of a file no more is ever written than it says that it holds."""
    size = sum(each.file_size for each in files)
    if not files:
        return "an empty one"
    if size > largest or len(files) > most:
        return f"{counted(len(files), 'file')} of {size:,} bytes"
    seen = set[PurePosixPath]()
    for each in files:
        path = PurePosixPath(each.filename)
        if path in seen:
            return f"two files called {each.filename!r}"
        seen.add(path)
        if each.compress_type not in PACKINGS:
            return f"{each.filename!r}, packed by another method than DEFLATE"
        leaves = (
            path.is_absolute() or not path.parts or ".." in path.parts or "\\" in each.filename or ":" in each.filename
        )
        if leaves or stat.S_ISLNK(each.external_attr >> 16):
            return f"a file that would leave the folder: {each.filename!r}"
    return ""
