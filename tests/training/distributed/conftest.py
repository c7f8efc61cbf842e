from collections.abc import Iterator

import pytest

from training.distributed.forked import ForkedGroups


@pytest.fixture(scope="session")
def groups() -> Iterator[ForkedGroups]:
    """One process that has imported everything, for all tests here: it forks the groups of processes that they need."""
    forked = ForkedGroups()
    yield forked
    forked.close()
