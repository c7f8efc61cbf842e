"""What was added to a file of JSON lines since it was read last, also where it was written anew meanwhile."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from neuropil.http.json_values import finite


class Added(NamedTuple):
    """`anew` where the file no longer begins with what was read before: then `rows` are all that it has."""

    rows: list[dict[str, Any]]
    anew: bool


class Tail:
    def __init__(self, path: Path):
        self.path, self.offset, self.stamp = path, 0, (0, 0, 0)
        self.digest = hashlib.blake2b()

    def added(self) -> Added:
        """A line that is not finished yet is left for the next time."""
        try:
            found = self.path.stat()
        except OSError:
            return Added([], False)
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp == self.stamp:
            return Added([], False)
        same_file, self.stamp = stamp[0] == self.stamp[0] and stamp[1] >= self.offset, stamp
        with self.path.open("rb") as file:
            anew = not same_file and hashlib.blake2b(file.read(self.offset)).digest() != self.digest.digest()
            if anew:
                self.offset, self.digest = 0, hashlib.blake2b()
            file.seek(self.offset)
            lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        for line in lines:
            self.offset += len(line)
            self.digest.update(line)
        return Added([row for row in map(_row, lines) if row is not None], anew)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return finite(row) if isinstance(row, dict) else None
