"""Teams of threads that run a function together; most are compiled, and meet at barriers.

This file needs Numba, and is imported only where it is used."""

import itertools
import os
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from neuropil.parts.threads.barrier import awaited

LOOKS = 1_000
"""How often a thread looks for its next work before it sleeps: for some tenths of a millisecond, within which a decoder
has its next token. To be woken takes some tens of microseconds."""


class TeamMember(NamedTuple):
    """What a compiled function knows of its thread; `neuropil.parts.threads.barrier` has what it can do with it."""

    member: int
    members: int
    arrived: np.ndarray
    """Counts the arrivals of all members at barriers."""
    left: np.ndarray
    """Whether one has failed, for whom nobody is to wait."""


def members_of_team(count: int) -> list[TeamMember]:
    arrived, left = np.zeros(1, np.int64), np.zeros(1, np.int64)
    return [TeamMember(member, count, arrived, left) for member in range(count)]


class ThreadTeam:
    """Threads that run the same function at the same time. The caller's is the first of them; where an interrupt from
    the keyboard ends it, the others wait for it no longer."""

    def __init__(self, members: int):
        self.members = members_of_team(members)
        self._turn, self._awake = threading.Lock(), threading.Event()
        self._calls, self._finished = np.zeros(1, np.int64), np.zeros(members, np.int64)
        """How many there were, and the last that each member has come to the end of."""
        self._work: Callable[[TeamMember], None] = rest
        self._failures: list[BaseException] = []
        awaited(self._calls, 0, 1)  # compiles, or loads what was compiled
        for member in self.members[1:]:
            threading.Thread(target=self._serve, args=(member,), daemon=True).start()

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        if len(self.members) == 1:
            function(*arguments, self.members[0])
            return
        with self._turn:
            self._finish()  # if an interrupt from the keyboard came as it waited
            self.members[0].arrived[0] = self.members[0].left[0] = 0
            self._work, self._failures = partial(function, *arguments), []
            try:
                self._awake.set()
                self._calls[0] += 1
                self._work(self.members[0])
            except BaseException:
                self.members[0].left[0] = 1
                raise
            finally:
                try:
                    self._finish()
                finally:
                    self._awake.clear()  # not before all have seen the call: one may have been about to sleep
                failures, self._failures = self._failures, []  # with which all that they worked with would be kept
            if failures:
                raise failures[0]

    def _finish(self) -> None:
        for member in range(1, len(self.members)):
            while not awaited(self._finished[member:], self._calls[0], LOOKS):
                pass
        self._work = rest  # what it worked with may be freed

    def _serve(self, member: TeamMember) -> None:
        for call in itertools.count(1):
            while not awaited(self._calls, call, LOOKS):
                self._awake.wait()
            self._do(member)
            self._finished[member.member] = call

    def _do(self, member: TeamMember) -> None:
        try:
            self._work(member)
        except BaseException as failure:
            self._failures.append(failure)
            member.left[0] = 1


def rest(member: TeamMember) -> None:
    """What a team does between calls."""


@cache
def team_of(threads: int) -> ThreadTeam:
    return ThreadTeam(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=team_of.cache_clear)  # threads do not live on in a forked process
