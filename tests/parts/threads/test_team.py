"""A team runs one function in as many threads as it has members."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest

from neuropil.parts.compilation import compiled
from neuropil.parts.threads.barrier import barrier
from neuropil.parts.threads.team import TeamMember, ThreadTeam, team_of


@pytest.mark.parametrize("members", [1, 2, 3])
def test_every_member_is_called_once_with_its_own_number(members: int):
    seen: list[tuple[int, int]] = []
    ThreadTeam(members).run(lambda word, member: seen.append((member.member, member.members)), "word")
    assert sorted(seen) == [(number, members) for number in range(members)]


def test_members_of_a_team_are_at_work_at_the_same_time_and_the_caller_is_one_of_them():
    together, threads = threading.Barrier(3, timeout=30), set()

    def come(member: TeamMember) -> None:
        together.wait()
        threads.add(threading.get_ident())

    ThreadTeam(3).run(come)
    assert len(threads) == 3
    assert threading.get_ident() in threads


def test_what_a_member_raises_reaches_the_caller():
    def fail(member: TeamMember) -> None:
        if member.member == 1:
            raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        ThreadTeam(2).run(fail)


@compiled
def meet(failing, met, team):
    if team.member != failing:
        barrier(team)
        met[team.member] += 1


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_nobody_waits_for_a_member_that_fails_and_the_team_works_on(failing: int, failure: type[BaseException]):
    team, met = ThreadTeam(2), np.zeros(2, np.int64)

    def come(member: TeamMember) -> None:
        meet(failing, met, member)
        if member.member == failing:
            raise failure

    with pytest.raises(failure):
        team.run(come)
    assert met[1 - failing] == 1
    team.run(meet, 2, met)
    assert met.sum() == 3


def test_a_call_may_end_before_the_others_have_seen_it(monkeypatch: pytest.MonkeyPatch):
    """While a member that is about to sleep waits for Python's lock."""
    monkeypatch.setattr("neuropil.parts.threads.team.LOOKS", 1)
    team, seen = ThreadTeam(2), list[int]()
    for number in range(5_000):
        team.run(lambda member, number=number: seen.append(number))
    assert seen == [number for number in range(5_000) for _ in range(2)]


def test_a_sleeping_team_is_woken():
    team, met = ThreadTeam(2), np.zeros(2, np.int64)
    for pause in (0, 0.05, 0, 0.05):
        time.sleep(pause)
        team.run(meet, 2, met)
    assert met.tolist() == [4, 4]


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_worked_with_is_not_kept(fails: bool):
    team, worked_with = ThreadTeam(2), np.zeros(2, np.int64)
    kept = weakref.ref(worked_with)

    def work(met: np.ndarray, member: TeamMember) -> None:
        if fails and member.member == 1:
            raise ValueError("no")
        meet(2, met, member)

    with pytest.raises(ValueError, match=r"^no$") if fails else nullcontext():
        team.run(work, worked_with)
    del worked_with
    gc.collect()
    assert kept() is None


def test_callers_at_the_same_time_take_turns():
    team, met = ThreadTeam(2), np.zeros(2, np.int64)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: team.run(meet, 2, met), range(400)))
    assert met.tolist() == [400, 400]


def test_a_team_is_kept_for_the_next_time():
    assert team_of(2) is team_of(2)
    assert np.array_equal(team_of(2).members[0].arrived, team_of(2).members[1].arrived)
