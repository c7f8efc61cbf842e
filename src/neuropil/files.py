"""Files that are whole or not there: written beside their name, flushed to disk, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; on leaving without an error it takes the place of `path` at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """What was being written below the folder when a process was killed."""
    for part in folder.rglob(".*.????????.part"):
        part.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Of the user, for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuropil"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time, of those that name the same file; others wait. A process that ends, in whatever way, lets
    go of it."""
    import fcntl  # which Windows has not

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_text(path: Path, text: str) -> None:
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def _umask() -> int:
    """mkstemp makes files that only the owner may read; a report should have the rights of any other new file."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
