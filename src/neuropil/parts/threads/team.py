"""Threads: PyTorch on one, and teams that run a compiled function together."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread() -> AbstractContextManager[None]:
    """PyTorch computes on the caller's thread alone. Several gain nothing where tensors are small, and lose ten times
    over where another program or team of threads wants their cores: after each piece of work they spin for
    milliseconds."""
    return torch_threads(1)


class TeamMember(NamedTuple):
    """What a compiled function knows of its thread; `neuropil.parts.threads.barrier` has what it can do with it."""

    member: int
    members: int
    arrived: np.ndarray
    """Counts the arrivals of all members at barriers."""


class ThreadTeam:
    """Threads that run the same function at the same time. The caller's is none of them: an interrupt from the keyboard
    can end it at any point, and the others would wait for it in vain."""

    def __init__(self, members: int):
        arrived = np.zeros(1, np.int64)
        self.members = [TeamMember(member, members, arrived) for member in range(members)]
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
def team_of(threads: int) -> ThreadTeam:
    return ThreadTeam(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=team_of.cache_clear)  # threads do not live on in a forked process
