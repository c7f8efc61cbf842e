"""A run in one file, to be sent: a zip of its folder without the checkpoint, which only a run that goes on needs, and
without the folders of the sender's machine: of paths the names are left."""

import html
import json
import shlex
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from neuropil.errors import InputError, RunError
from neuropil.files import replacing

if TYPE_CHECKING:
    from neuropil.runs.run import Run

LARGEST, MOST_FILES = 16 * 2**30, 10_000
"""Bytes and files that are unpacked of one archive."""


def pack(run: "Run", path: Path) -> Path:
    if path.suffix.lower() != ".zip":
        raise InputError("a run is saved as a .zip file", got=f"{str(path)!r}", fix=f"name it {path.name}.zip")
    files = [file for file in sorted(run.folder.rglob("*")) if file.is_file() and file.name != "checkpoint.safetensors"]
    folder = run.folder.absolute()
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
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
            files = [each for each in archive.infolist() if not each.is_dir()]
            wrong = _wrong(files)
            if wrong:
                raise RunError(rule, got=wrong, fix=fix)
            root = PurePosixPath(files[0].filename).parts[0]
            config = archive.read(f"{root}/config.json")
            if folder.exists():
                there = folder / "config.json"
                if there.is_file() and there.read_bytes() == config:
                    return folder
                raise RunError(f"{path} is unpacked to {folder}", got="another one there", fix="move one of the two")
            with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=path.parent) as part:
                archive.extractall(part)
                shutil.move(Path(part) / root, folder)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
        raise RunError(rule, got=f"a file that is none ({error})", fix=fix) from error
    return folder


def _wrong(files: list[zipfile.ZipInfo]) -> str:
    if reason := unsafe(files, LARGEST, MOST_FILES):
        return reason
    return "" if len({PurePosixPath(each.filename).parts[0] for each in files}) == 1 else "several folders"


def unsafe(files: Sequence[zipfile.ZipInfo], largest: int, most: int) -> str:
    """Why an archive is not unpacked, if it is not: of a file no more is ever written than it says that it holds."""
    size = sum(each.file_size for each in files)
    if not files:
        return "an empty one"
    if size > largest or len(files) > most:
        return f"{len(files):,} files of {size:,} bytes"
    for each in files:
        path = PurePosixPath(each.filename)
        leaves = (
            path.is_absolute() or not path.parts or ".." in path.parts or "\\" in each.filename or ":" in each.filename
        )
        if leaves or stat.S_ISLNK(each.external_attr >> 16):
            return f"a file that would leave the folder: {each.filename!r}"
    return ""
