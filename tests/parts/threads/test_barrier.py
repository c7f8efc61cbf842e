"""Members of a team see what all others did before the last meeting."""

import numpy as np
import pytest

from neuropil.parts.compilation import compiled
from neuropil.parts.threads.barrier import barrier, thread_range
from neuropil.parts.threads.team import ThreadTeam


@compiled
def sum_in_turns(values, totals, rounds, team):
    """In each round every member adds to its share the sum of all values of the round before."""
    for number in range(rounds):
        total = 0
        for value in values[number % 2]:
            total += value
        for index in thread_range(values.shape[1], team):
            values[(number + 1) % 2, index] = (values[number % 2, index] + total) % 1009
        barrier(team)
        if team.member == 0:
            totals[number] = total


def outcome(members: int, rounds: int = 2_000) -> np.ndarray:
    values, totals = np.arange(14).reshape(2, 7), np.zeros(rounds, np.int64)
    team = ThreadTeam(members)
    team.run(sum_in_turns, values, totals, rounds)
    assert team.members[0].arrived[0] == (rounds * members if members > 1 else 0)
    return totals


@pytest.mark.parametrize("members", [2, 3, 9])
def test_a_team_of_any_size_does_what_one_does(members: int):
    np.testing.assert_array_equal(outcome(members), outcome(1))
