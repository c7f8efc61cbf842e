"""Runs that views are looking at: opened once, asked by one at a time, opened anew when their files change."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING

from neuropil.errors import InputError

if TYPE_CHECKING:
    from neuropil.runs.run import Run

MOST_OPENED = 6


class OpenRuns:
    def __init__(self, folder: Path):
        self.folder, self.lock = folder, Lock()
        self.opened: OrderedDict[Path, _OpenRun] = OrderedDict()

    def path(self, name: str) -> Path:
        """Of a run below the folder of runs, and nowhere else."""
        hidden = any(part.startswith(".") for part in Path(name).parts)
        try:
            path = (self.folder / name).resolve()
            found = bool(name) and not hidden and path.is_relative_to(self.folder.resolve()) and path.is_dir()
        except (OSError, ValueError):  # no name that a file could have
            path, found = self.folder, False
        if not found:
            raise InputError(f"a run must be a folder in {self.folder}", got=f"{name[:100]!r}")
        return path

    @contextmanager
    def borrowed(self, name: str) -> Iterator["Run"]:
        path = self.path(name)
        with self.lock:
            opened = self.opened.setdefault(path, _OpenRun(path))
            self.opened.move_to_end(path)
            while len(self.opened) > MOST_OPENED:
                self.opened.popitem(last=False)
        with opened.alone:
            yield opened.as_it_is()


class _OpenRun:
    """Whoever holds `alone` may load and ask it; others wait for this run only."""

    def __init__(self, path: Path):
        self.path, self.alone = path, RLock()
        self.loaded: tuple[tuple[int, ...], Run] | None = None

    def as_it_is(self) -> "Run":
        files = [self.path / "config.json", self.path / "model.safetensors"]
        changed = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
        if self.loaded is None or self.loaded[0] != changed:
            from neuropil.runs.run import load

            self.loaded = changed, load(self.path)
        return self.loaded[1]
