"""Which attempt of a launch a process belongs to.

The agents of torchrun keep one store for all attempts, and what processes that are dead have left in it, such as where
they listened, would be taken for what the living say. How often torchrun has started them is no common name: a host
counts the ends of its own processes alone. So rank 0 makes a name up, and each of the others makes sure that it has the
name of a living one:

    rank r    hello/r ← a word of its own, again and again, until answer/r begins with it
    rank 0    answer/r ← that word, and the name of the attempt, until seen/r is that name
"""

import time
import uuid
from datetime import timedelta
from typing import Any

from neuropil.errors import LostProcessError

SECONDS_BETWEEN_LOOKS = 0.02


def name_attempt(store: Any, rank: int, size: int, patience: timedelta) -> str:
    """The same in all processes of this attempt, and in those of no other."""
    own, until = uuid.uuid4().hex, time.monotonic() + patience.total_seconds()
    if rank:
        return _ask(store, rank, own, until)
    missing = set(range(1, size))
    while missing:
        for other in sorted(missing):
            if word := _read(store, f"hello/{other}"):
                store.set(f"answer/{other}", f"{word} {own}")
        missing = {other for other in missing if _read(store, f"seen/{other}") != own}
        _wait(until, f"{len(missing)} that did not come")
    return own


def _ask(store: Any, rank: int, own: str, until: float) -> str:
    while True:
        store.set(f"hello/{rank}", own)
        word, _, name = _read(store, f"answer/{rank}").partition(" ")
        if word == own:
            store.set(f"seen/{rank}", name)
            return name
        _wait(until, "a first one that did not come")


def _read(store: Any, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""


def _wait(until: float, missing: str) -> None:
    if time.monotonic() > until:
        fix = "see what it said, and start again"
        raise LostProcessError("a run needs all of its processes", got=missing, fix=fix)
    time.sleep(SECONDS_BETWEEN_LOOKS)
