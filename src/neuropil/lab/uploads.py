"""Data that a page sends: files in a folder of their own, of a bounded size, and archives unpacked inside it.

    RUNS/.lab/uploads/ID/table.csv
    RUNS/.lab/uploads/ID/pictures/…         of pictures.zip

All of it is read as data later, by the readers of `neuropil.data`: nothing is run, and nothing is unpickled.
"""

import re
import secrets
import shutil
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from neuropil.errors import InputError, NeuropilError
from neuropil.files import replacing
from neuropil.lab.queue.jobs import LAB
from neuropil.runs.archive import DAMAGE, files_in, unsafe

LARGEST, LARGEST_UNPACKED, MOST_FILES = 2 * 2**30, 4 * 2**30, 200_000
"""Bytes of one upload, and bytes and files of an archive in it."""
LONGEST_NAME = 100
UNNAMED = "data"
UNSEEN = ("__MACOSX", "Thumbs.db", "desktop.ini")
"""What systems put into archives beside the files, as they do names that begin with a dot."""


class Uploads:
    def __init__(
        self,
        runs: Path,
        *,
        largest: int = LARGEST,
        largest_unpacked: int = LARGEST_UNPACKED,
        most_files: int = MOST_FILES,
    ):
        self.folder = runs.absolute() / LAB / "uploads"
        self.largest, self.largest_unpacked, self.most_files = largest, largest_unpacked, most_files

    def begin(self) -> str:
        """The name of a new folder, which files are put into."""
        id = secrets.token_hex(8)
        (self.folder / id).mkdir(parents=True)
        return id

    @contextmanager
    def writing(self, id: str, name: str, expected: int | None = None) -> Iterator["UploadedFile"]:
        """A file to `write` pieces to, as they come; it is there when the last has come, and not at all if one is
        missing or too many came. An archive is unpacked then. `expected` bytes that are too many are refused at
        once."""
        folder = self._find(id)
        free = self.largest - sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        path = folder / free_name(folder, safe_name(name))
        if expected is not None and expected > free:
            raise self._too_large()
        with replacing(path) as part, part.open("wb") as file:
            writer = UploadedFile(path, file, free, self._too_large())
            yield writer
        if path.suffix.lower() == ".zip":
            writer.path = self._unpack(path)

    def data(self, id: str) -> list[Path]:
        """What to give as data: the files of an upload, or the folder that an archive was unpacked to."""
        return sorted(path for path in self._find(id).iterdir() if not path.name.startswith("."))

    def list(self) -> list[dict[str, Any]]:
        """The newest first."""
        folders = [each for each in self.folder.glob("*") if each.is_dir()]
        folders.sort(key=lambda each: -each.stat().st_mtime)
        return [{"id": each.name, "paths": [str(path) for path in self.data(each.name)]} for each in folders]

    def remove(self, id: str) -> None:
        shutil.rmtree(self._find(id))

    def _find(self, id: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{16}", id) or not (self.folder / id).is_dir():
            raise InputError("an upload must be one that was begun", got=f"{id[:100]!r}", fix="send the data again")
        return self.folder / id

    def _too_large(self) -> InputError:
        fix = "put it on this machine and give its path instead"
        return InputError(f"an upload must be of at most {_bytes(self.largest)}", got="more", fix=fix)

    def _unpack(self, path: Path) -> Path:
        """Beside the archive, which is removed whatever comes of it; whole or not at all."""
        bounds = f"at most {self.most_files:,} files of {_bytes(self.largest_unpacked)}"
        rule = f"{path.name} must be a zip of data, of {bounds}"
        fix = "pack it again, or put the folder on this machine and give its path instead"
        target = path.with_name(free_name(path.parent, path.stem or UNNAMED))
        try:
            with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as part:
                files = [each for each in files_in(archive) if _is_data(each.filename)]
                if wrong := unsafe(files, self.largest_unpacked, self.most_files):
                    raise InputError(rule, got=wrong, fix=fix)
                archive.extractall(part, files)
                shutil.move(_root(Path(part)), target)
        except NeuropilError:
            raise
        except DAMAGE as error:
            raise InputError(rule, got=f"one that cannot be unpacked ({error})", fix=fix) from error
        finally:
            path.unlink()
        return target


class UploadedFile:
    """`path` is where the file will be or, of an archive, what it was unpacked to."""

    def __init__(self, path: Path, file: Any, free: int, too_large: InputError):
        self.path, self.file, self.free, self.too_large = path, file, free, too_large

    def write(self, piece: bytes) -> None:
        self.free -= len(piece)
        if self.free < 0:
            raise self.too_large
        try:
            self.file.write(piece)
            self.file.flush()
        except OSError as error:
            got, fix = error.strerror or str(error), "make room on the disk, or give the path of the data"
            raise InputError(f"{self.path} must have room", got=got, fix=fix) from error


def safe_name(name: str) -> str:
    """The name alone, without folders, signs that a shell or a system understands, and dots before it."""
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rpartition("/")[2]
    plain = re.sub(r"[^\w .,+=()-]", "_", last).strip(" .-")
    stem, dot, suffix = plain.rpartition(".")
    if _cut(plain, LONGEST_NAME) != plain and dot and len(suffix) <= 10:
        return f"{_cut(stem, LONGEST_NAME - len(suffix) - 1)}.{suffix}"
    return _cut(plain, LONGEST_NAME) or UNNAMED


def _cut(text: str, most: int) -> str:
    """To so many characters, and to twice as many bytes, which file systems count."""
    return text[:most].encode()[: 2 * most].decode(errors="ignore")


def free_name(folder: Path, name: str) -> str:
    """With a number where there is one of that name."""
    path, number = Path(name), 2
    while (folder / path).exists():
        path, number = Path(f"{Path(name).stem}-{number}{Path(name).suffix}"), number + 1
    return path.name


def _is_data(name: str) -> bool:
    return not any((part.startswith(".") and part != "..") or part in UNSEEN for part in PurePosixPath(name).parts)


def _root(folder: Path) -> Path:
    """Where all is in one folder, that: archives are made with and without it. A folder of a single class stays one."""
    inside = list(folder.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and any(each.is_dir() for each in inside[0].iterdir()):
        return inside[0]
    return folder


def _bytes(size: int) -> str:
    return f"{size / 2**30:.3g} GB" if size >= 2**28 else f"{size:,} bytes"
