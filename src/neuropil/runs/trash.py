"""Runs that were deleted, and can be restored for a week: they wait in `.trash` of the directory that they were in.

.trash/1763000000000/NAME     deleted at that millisecond since 1970
.trash/1763000000000.old      since when it is known to be more than a week old
.trash/.1763000000000.gone    being removed
"""

import itertools
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from neuropil.errors import InputError
from neuropil.files import require_unlocked
from neuropil.runs.listing import find_run

TRASH, DAY = ".trash", 24 * 3600.0
KEPT_SECONDS = 7 * DAY


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
    require_unlocked(folder)
    empty_trash(runs, now=time.time())
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
    (runs / TRASH / f"{id}.old").unlink(missing_ok=True)
    return free


def empty_trash(runs: Path, *, now: float) -> None:
    """Of what was found to be more than a week old a day ago already: a clock that is wrong for an hour loses
    nothing."""
    for gone in (runs / TRASH).glob(".*.gone"):  # by a process that was killed meanwhile
        shutil.rmtree(gone, ignore_errors=True)
    for old in (runs / TRASH).glob("*.old"):
        if not old.with_suffix("").exists():
            old.unlink(missing_ok=True)
    for each in _numbered(runs):
        old = each.with_name(f"{each.name}.old")
        if int(each.name) / 1000 > now - KEPT_SECONDS:
            old.unlink(missing_ok=True)
        elif not old.exists() or old.stat().st_mtime > now:
            old.touch()
            os.utime(old, (now, now))
        elif old.stat().st_mtime < now - DAY:
            gone = each.rename(each.with_name(f".{each.name}.gone"))  # at once: nobody restores half a run
            old.unlink()
            shutil.rmtree(gone, ignore_errors=True)


def _numbered(runs: Path) -> list[Path]:
    return [each for each in (runs / TRASH).glob("*") if each.name.isdecimal() and each.is_dir()]
