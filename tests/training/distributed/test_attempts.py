"""A store that outlives attempts, as that of torchrun's agents does."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import HashStore

from neuropil.errors import LostProcessError
from neuropil.training.distributed.attempts import name_attempt

PATIENCE = timedelta(seconds=20)


def names(store: HashStore, size: int) -> set[str]:
    with ThreadPoolExecutor(size) as pool:
        return set(pool.map(lambda rank: name_attempt(store, rank, size, PATIENCE), range(size)))


def test_each_attempt_has_one_name_and_another_than_those_before():
    store = HashStore()
    found = [names(store, size) for size in (3, 3, 1, 2, 4)]
    assert [len(each) for each in found] == [1] * 5
    assert len(set.union(*found)) == 5


def test_what_the_dead_have_left_is_not_answered():
    store = HashStore()
    (old,) = names(store, 2)
    store.set("hello/1", "a word of the dead")
    with pytest.raises(LostProcessError) as error:
        name_attempt(store, 0, 2, timedelta(seconds=0.2))
    assert str(error.value) == (
        "a run needs all of its processes, but got 1 that did not come: see what it said, and start again."
    )
    with pytest.raises(LostProcessError):
        name_attempt(store, 1, 2, timedelta(seconds=0.2))
    assert names(store, 2) != {old}
