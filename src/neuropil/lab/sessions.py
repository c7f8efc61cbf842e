"""What a view keeps between two questions, such as a simulation that goes on: a few, the least recently used go."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from neuropil.runs.run import Run

S = TypeVar("S")


class Sessions(Generic[S]):
    def __init__(self, limit: int = 16):
        self.limit, self.lock = limit, Lock()
        self.kept: OrderedDict[str, S] = OrderedDict()

    def get(self, name: str, begin: Callable[[], S]) -> S:
        """What was kept under a name that a page made up, or a new one."""
        with self.lock:
            if name in self.kept:
                self.kept.move_to_end(name)
                return self.kept[name]
        return self.put(name, begin())

    def put(self, name: str, state: S) -> S:
        with self.lock:
            self.kept[name] = state
            self.kept.move_to_end(name)
            while len(self.kept) > self.limit:
                self.kept.popitem(last=False)
        return state


def key_of(run: "Run") -> str:
    """A name for what is kept of a run as it is: another one when its weights change."""
    return f"{run.folder.resolve()} {(run.folder / 'model.safetensors').stat().st_mtime_ns}"
