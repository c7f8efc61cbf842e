"""What takes time to get ready is made ahead of its use, in another thread, a bounded number of steps before."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
AHEAD = 2


def prefetched(tasks: Iterable[Callable[[], T]], ahead: int = AHEAD) -> Iterator[T]:
    """What the tasks return, in their order; what one raises is raised when its turn comes."""
    waiting = deque[Future[T]]()
    with ThreadPoolExecutor(1) as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(task))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
