"""Runs that were deleted, and can be restored for a week: they wait in `.trash` of the directory that they were in."""

import itertools
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from neuropil.errors import InputError
from neuropil.runs.listing import find_run

TRASH, KEPT_SECONDS = ".trash", 7 * 24 * 3600.0


@dataclass(frozen=True)
class DeletedRun:
    """`id` is when it was deleted, in milliseconds since 1970: the name of the folder that it waits in."""

    id: str
    name: str

    @property
    def deleted(self) -> float:
        """In seconds since 1970."""
        return int(self.id) / 1000


def delete_run(runs: Path, name: str) -> DeletedRun:
    """What was deleted more than a week ago is gone after it."""
    folder, trash = find_run(runs, name), runs / TRASH
    empty_trash(runs, before=time.time() - KEPT_SECONDS)
    number = int(time.time() * 1000)
    while (trash / str(number)).exists():  # two in one millisecond
        number += 1
    (trash / str(number)).mkdir(parents=True)
    folder.rename(trash / str(number) / name)
    return DeletedRun(str(number), name)


def deleted_runs(runs: Path) -> list[DeletedRun]:
    """The latest first."""
    numbers = sorted((each for each in _numbered(runs)), key=lambda each: -int(each.name))
    return [DeletedRun(each.name, run.name) for each in numbers for run in each.iterdir()]


def restore_run(runs: Path, id: str) -> str:
    """The name that it has again, with a number if another run has it now."""
    known = {each.id: each for each in deleted_runs(runs)}
    if id not in known:
        fix = "runs are kept for seven days after they were deleted"
        raise InputError("a run is restored from those that were deleted", got=f"{id!r}", fix=fix)
    name = known[id].name
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    free = next(each for each in itertools.chain([name], numbered) if not (runs / each).exists())
    (runs / TRASH / id / name).rename(runs / free)
    (runs / TRASH / id).rmdir()
    return free


def empty_trash(runs: Path, *, before: float) -> None:
    """Of what was deleted before that time, in seconds since 1970."""
    for each in _numbered(runs):
        if int(each.name) / 1000 < before:
            shutil.rmtree(each)


def _numbered(runs: Path) -> list[Path]:
    return [each for each in (runs / TRASH).glob("*") if each.name.isdecimal() and each.is_dir()]
