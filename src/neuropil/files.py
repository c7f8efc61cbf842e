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


def write_text(path: Path, text: str) -> None:
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def _umask() -> int:
    """mkstemp makes files that only the owner may read; a report should have the rights of any other new file."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
