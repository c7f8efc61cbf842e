"""Threads that run one function together, each as one member of the team; `neuropil.parts.barrier` is what they do inside it."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class Member(NamedTuple):
    member: int
    members: int
    arrived: np.ndarray
    """How often a member has come to a meeting, counted by all of them."""


class Team:
    """Threads that run the same function at the same time. The caller's is none of them: an interrupt from the keyboard can end it at any
    point, and the others would wait for it in vain."""

    def __init__(self, members: int):
        arrived = np.zeros(1, np.int64)
        self.members = [Member(member, members, arrived) for member in range(members)]
        self.leader, self.others = ThreadPoolExecutor(1), ThreadPoolExecutor(max(members - 1, 1))

    def run(self, function: Callable[..., None], *arguments: Any) -> None:
        if len(self.members) == 1:
            function(*arguments, self.members[0])
        else:
            self.leader.submit(self._lead, function, *arguments).result()

    def _lead(self, function: Callable[..., None], *arguments: Any) -> None:
        others = [self.others.submit(function, *arguments, member) for member in self.members[1:]]
        function(*arguments, self.members[0])
        for other in others:
            other.result()


@cache
def team_of(threads: int) -> Team:
    return Team(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=team_of.cache_clear)  # threads do not live on in a forked process
