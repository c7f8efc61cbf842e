"""What would not fit into memory is refused before any of it is allocated, with an estimate in the sentence."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from neuropil.errors import InputError

FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
BYTES_TO_TRAIN = 16
"""For each number of a model: itself, its gradient, and the two moments of Adam, in float32."""
BYTES_TO_USE = 4
MOST_TENSORS = 5_000
"""Of one model: more would take minutes to make, however small they are."""
MOST_SMALL = 30_000_000
"""Numbers of a model that is made as soon as it is counted."""
M = TypeVar("M", bound=nn.Module)
MACHINE, CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
WHAT = {BYTES_TO_TRAIN: "a model, its gradients and Adam's moments", BYTES_TO_USE: "a model"}
FIX = "choose smaller sizes"


def available_memory() -> int:
    """Bytes that can be had without swapping, by what Linux says of the machine and of a container; no limit elsewhere,
    where what cannot be allocated is refused later."""
    facts = MACHINE.read_text(encoding="utf-8").splitlines() if MACHINE.exists() else []
    bounds = [1024 * int(line.split()[1]) for line in facts if line.startswith("MemAvailable:")]
    limit = CONTAINER.read_text(encoding="utf-8").strip() if CONTAINER.exists() else "max"
    bounds += [int(limit)] if limit.isdigit() else []
    return min(bounds, default=sys.maxsize)


def require_room(what: str, needed: float) -> None:
    if needed > (free := available_memory()):
        got = f"at least {written(needed)}, of {written(free)} free"
        raise InputError(f"{what} must fit into memory", got=got, fix=FIX)


def written(size: float) -> str:
    """Bytes for a person: "37 GB"."""
    power = min(int(math.log10(max(size, 1)) // 3), 6)
    return f"{size / 1000**power:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power]}"


class _LargeModel(Exception):  # noqa: N818 (no error: it is counted then)
    pass


class BoundedModel(TorchFunctionMode):
    """While a model is built: its tensors are added up, and the one is refused that does not fit any more."""

    def __init__(self, bytes_each: int = BYTES_TO_TRAIN, *, only_small: bool = False) -> None:
        """`bytes_each` for each number; none for one that stays in the pages of its file."""
        super().__init__()
        self.bytes_each, self.only_small = bytes_each, only_small
        self.tensors, self.numbers, self.free = 0, 0, available_memory()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in FACTORIES:
            size = kwargs.get("size", args[0] if args and isinstance(args[0], list | tuple) else args)
            self._add(math.prod(size))
        in_place = func.__name__.endswith("_") and not func.__name__.endswith("__")
        if in_place and args and isinstance(args[0], Tensor) and args[0].is_meta:
            return args[0]  # nothing to fill: PyTorch would import hundreds of its modules to do it
        return func(*args, **kwargs)

    def _add(self, numbers: int) -> None:
        self.tensors += 1
        self.numbers += numbers
        if self.only_small and (self.numbers > MOST_SMALL or self.tensors > MOST_TENSORS // 10):
            raise _LargeModel
        if self.bytes_each * self.numbers > self.free:
            require_room(WHAT[self.bytes_each], self.bytes_each * self.numbers)
        if self.tensors > MOST_TENSORS:
            rule = f"a model must have at most {MOST_TENSORS:,} tensors"
            raise InputError(rule, got="more", fix="choose fewer layers")


def bounded(build: Callable[[], M]) -> M:
    """What `build` makes, if it can be trained here. One that is not small is built without numbers first."""
    try:
        with BoundedModel(only_small=True):
            return build()
    except _LargeModel:
        with torch.device("meta"), BoundedModel():
            build()
        return build()


@contextmanager
def refused_memory() -> Iterator[None]:
    """What could not be allocated after all, as a sentence."""

    def refuse(error: BaseException) -> NoReturn:
        got = f"more than the {written(available_memory())} that are free"
        raise InputError("a run must fit into memory", got=got, fix=FIX) from error

    try:
        yield
    except MemoryError as error:
        refuse(error)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):
            raise
        refuse(error)
