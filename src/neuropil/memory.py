"""What would not fit into memory is refused before any of it is allocated, with an estimate in the sentence."""

import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from neuropil.errors import InputError, written

FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
BYTES_TO_TRAIN = 16
"""For each number of a model: itself, its gradient, and the two moments of Adam, in float32."""
BYTES_TO_USE = 4
MOST_TENSORS = 5_000
"""Of one model: more would take minutes to make, however small they are."""
MOST_SMALL = 30_000_000
"""Numbers of a model that is made as soon as it is counted."""
M = TypeVar("M", bound=nn.Module)
PROCESS = Path("/proc/self/statm")
MACHINE, CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
WHAT = {BYTES_TO_TRAIN: "a model, its gradients and Adam's moments", BYTES_TO_USE: "a model"}
FIX = "choose smaller sizes"
ASKED, UNITS = re.compile(r"allocate ([0-9.]+) (bytes|[KMGTPE]iB)"), ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
"""As PyTorch and NumPy tell what they asked for."""


def available_memory() -> int:
    """Bytes that can be had without swapping, by what Linux says of the machine, of a container and of this process
    (`ulimit -v`); no limit elsewhere, where what cannot be allocated is refused later."""
    facts = MACHINE.read_text(encoding="utf-8").splitlines() if MACHINE.exists() else []
    bounds = [1024 * int(line.split()[1]) for line in facts if line.startswith("MemAvailable:")]
    limit = CONTAINER.read_text(encoding="utf-8").strip() if CONTAINER.exists() else "max"
    bounds += [int(limit)] if limit.isdigit() else []
    bounds += [_address_space()] if PROCESS.exists() else []
    return min(bounds, default=sys.maxsize)


def _address_space() -> int:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = int(PROCESS.read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(0, limit - used)


def require_room(what: str, needed: float, fix: str = FIX) -> None:
    if needed > (free := available_memory()):
        got = f"at least {written(needed)}, of {written(free)} free"
        raise InputError(f"{what} must fit into memory", got=got, fix=fix)


def bytes_of(text: str, what: str) -> float:
    """Of what a person writes: "80GB", or "80G" for the same."""
    units = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    units |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", text)
    unit = found[2].upper() if found else ""
    size = float(found[1]) * units.get(unit, units.get(f"{unit}B", 0) if unit else 0) if found else 0
    if size <= 0:
        raise InputError(f"{what} must be a size above 0 with its unit", got=f"{text!r}", fix="write for instance 80GB")
    return size


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
    """What `build` makes, if it can be trained here. One that is not small is built without numbers first. What several
    processes build, as torchrun starts them, may be divided among them before it is trained."""
    bytes_each = BYTES_TO_TRAIN if os.environ.get("WORLD_SIZE", "1") == "1" else BYTES_TO_USE
    try:
        with BoundedModel(bytes_each, only_small=True):
            return build()
    except _LargeModel:
        with torch.device("meta"), BoundedModel(bytes_each):
            build()
        return build()


@contextmanager
def refused_memory() -> Iterator[None]:
    """What could not be allocated after all, as a sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if (refused := memory_error(error)) is None:
            raise
        raise refused from error


def memory_error(error: BaseException) -> InputError | None:
    """The sentence for what an allocator said, of the processor or of an accelerator; none for any other error."""
    refused = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
    if not refused:
        return None
    free, found = written(available_memory()), ASKED.search(str(error))
    got = f"more than the {free} that are free"
    if found is not None:
        where = "on the accelerator" if isinstance(error, torch.OutOfMemoryError) else f"of {free} free"
        got = f"{written(float(found[1]) * 1024 ** UNITS.index(found[2]))} asked for at once, {where}"
    return InputError("a run must fit into memory", got=got, fix="choose smaller batches or a smaller model")
