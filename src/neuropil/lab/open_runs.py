"""Runs that views are looking at: opened once, asked by one at a time, opened anew when their files change."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any

from neuropil.errors import InputError

if TYPE_CHECKING:
    from neuropil.runs.run import Run

MOST_OPENED = 6


class OpenRuns:
    def __init__(self, folder: Path):
        self.folder, self.lock = folder, Lock()
        self.opened: OrderedDict[Path, tuple[tuple[int, ...], Run, Any]] = OrderedDict()

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
            run, alone = self._opened(path)
        with alone:
            yield run

    def _opened(self, path: Path) -> tuple["Run", Any]:
        files = [path / "config.json", path / "model.safetensors"]
        changed = tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
        if path not in self.opened or self.opened[path][0] != changed:
            from neuropil.runs.run import load

            self.opened[path] = changed, load(path), RLock()
        self.opened.move_to_end(path)
        while len(self.opened) > MOST_OPENED:
            self.opened.popitem(last=False)
        _, run, alone = self.opened[path]
        return run, alone
