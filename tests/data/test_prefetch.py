"""What is made ahead comes in order, and no more of it than was asked for."""

import threading
from functools import partial

import pytest

from neuropil.data.prefetch import prefetched


def test_results_come_in_order_and_are_bounded():
    begun: list[int] = []

    def make(number: int) -> int:
        begun.append(number)
        return number * number

    found = prefetched((partial(make, number) for number in range(100)), ahead=3)
    assert next(found) == 0
    assert next(found) == 1
    assert len(begun) <= 2 + 3
    assert [*found] == [number * number for number in range(2, 100)]


def test_an_error_is_raised_in_its_turn_and_nothing_is_left_running():
    def make(number: int) -> int:
        return 1 // (3 - number)

    found = prefetched(partial(make, number) for number in range(9))
    assert [next(found) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)
    before = threading.active_count()
    other = prefetched(partial(make, number) for number in range(9))
    next(other)
    other.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
