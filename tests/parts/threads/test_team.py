"""A team runs one function in as many threads as it has members."""

import threading

import numpy as np
import pytest

from neuropil.parts.threads.team import TeamMember, ThreadTeam, team_of


@pytest.mark.parametrize("members", [1, 2, 3])
def test_every_member_is_called_once_with_its_own_number(members: int):
    seen: list[tuple[int, int]] = []
    ThreadTeam(members).run(lambda word, member: seen.append((member.member, member.members)), "word")
    assert sorted(seen) == [(number, members) for number in range(members)]


def test_members_of_a_team_are_at_work_at_the_same_time_and_the_caller_is_none_of_them():
    together, threads = threading.Barrier(3, timeout=30), set()

    def come(member: TeamMember) -> None:
        together.wait()
        threads.add(threading.get_ident())

    ThreadTeam(3).run(come)
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def test_what_a_member_raises_reaches_the_caller():
    def fail(member: TeamMember) -> None:
        if member.member == 1:
            raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        ThreadTeam(2).run(fail)


def test_a_team_is_kept_for_the_next_time():
    assert team_of(2) is team_of(2)
    assert np.array_equal(team_of(2).members[0].arrived, team_of(2).members[1].arrived)
