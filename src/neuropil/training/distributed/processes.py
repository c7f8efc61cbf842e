"""Processes that train one model together, as `torchrun` starts them, on one host or on many.

    torchrun --nproc-per-node 2 -m neuropil train gpt2        each process is told its rank and how many there are

Every process builds the same experiment. Rank 0 alone writes the run folder, evaluates and speaks; the others need not
even see its disk. Small messages are JSON and tensors: nothing is unpickled. Without torchrun there is a world of one,
in which nothing is sent and torch.distributed is not imported.
"""

import atexit
import functools
import json
import os
import shlex
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuropil.errors import InputError, LostProcessError
from neuropil.training.distributed.attempts import name_attempt

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

PATIENCE = timedelta(days=1)
"""For the others: rank 0 may evaluate for hours. A process that dies is noticed at once all the same."""
WAIT_FOR_FIRST = timedelta(seconds=10)
ENDED = "neuropil/ended"
WHOLE_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass(frozen=True)
class World:
    """The place of this process among those that train together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Among the processes of this host, which is the number of its GPU."""
    group: "ProcessGroup | None" = field(default=None, compare=False)
    """Those of this world, where they are not all that were started."""

    @property
    def first(self) -> bool:
        """Whether it is the process that writes, evaluates and speaks."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.size == 1

    # --- what all do at the same place, in the same order -------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until all have come here."""
        self.sum([0.0])

    def sum(self, values: Sequence[float]) -> list[float]:
        """Of each number over all processes."""
        if self.alone:
            return list(values)
        import torch
        import torch.distributed as dist

        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total, group=self.group)
        return total.tolist()

    def broadcast(self, value: Any) -> Any:
        """What rank 0 has, as plain JSON values."""
        if self.alone:
            return value
        return json.loads(self._broadcast_bytes(json.dumps(value).encode() if self.first else b""))

    def broadcast_tensors(self, tensors: "Sequence[Tensor]") -> None:
        """Those of rank 0 take the place of all others'."""
        if self.alone:
            return
        import torch.distributed as dist

        for tensor in tensors:
            whole = tensor.detach().contiguous()
            dist.broadcast(whole, src=0)
            if whole.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(whole)

    @contextmanager
    def copy_of(self, path: Path) -> Iterator[Path | None]:
        """A file of rank 0, to be read; None where it is not there."""
        if not self.broadcast(path.exists()):
            yield None
            return
        content = b"" if self.alone else self._broadcast_bytes(path.read_bytes() if self.first else b"")
        if self.first:
            yield path
            return
        with tempfile.NamedTemporaryFile(suffix=path.suffix) as file:
            file.write(content)
            file.flush()
            yield Path(file.name)

    def gather_rows(self, rows: "Tensor") -> "Tensor":
        """The rows of all processes, in the order of their ranks."""
        if self.alone:
            return rows
        import torch
        import torch.distributed as dist

        begin, end, total = self.places_of(len(rows))
        sent = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
        whole = sent.new_zeros(total, *rows.shape[1:])
        whole[begin:end] = sent
        dist.all_reduce(whole, group=self.group)  # to each row, all others add zeros
        return whole.to(rows.dtype)

    def places_of(self, num_rows: int) -> tuple[int, int, int]:
        """Where this process's rows begin and end among those of all, and how many there are."""
        counts = [int(count) for count in self.sum([num_rows * (rank == self.rank) for rank in range(self.size)])]
        begin = sum(counts[: self.rank])
        return begin, begin + num_rows, sum(counts)

    def _broadcast_bytes(self, content: bytes) -> bytes:
        import numpy as np
        import torch
        import torch.distributed as dist

        length = torch.tensor([len(content)])
        dist.broadcast(length, src=0)
        sent = torch.zeros(int(length), dtype=torch.uint8)
        if self.first:
            sent.numpy()[:] = np.frombuffer(content, dtype=np.uint8)
        dist.broadcast(sent, src=0)
        return sent.numpy().tobytes()

    @contextmanager
    def watching(self, folder: Path | None = None) -> Iterator[None]:
        """Around what all do together: where another process has ended, one sentence takes the place of what the
        connection says, with the `folder` of the run where there is one already."""
        try:
            yield
        except RuntimeError as error:
            if self.alone or not _is_of_connection(error):
                raise
            way_on = "start again" if folder is None else f"go on with `{resume_command(folder, os.environ)}`"
            fix = f"see what it said, and {way_on}"
            raise LostProcessError("a run needs all of its processes", got="one that ended", fix=fix) from error


# --- how they find each other -----------------------------------------------------------------------------------------


def place_in(environment: Mapping[str, str]) -> World:
    """By the variables that torchrun sets."""
    if not {"RANK", "WORLD_SIZE"} <= set(environment):
        return World()
    try:
        rank, size, local_rank = (int(environment.get(name, "0")) for name in WHOLE_NUMBERS)
        valid = 0 <= rank < size and local_rank >= 0
    except ValueError:
        valid, rank, size, local_rank = False, 0, 1, 0
    if not valid:
        rule = "RANK, WORLD_SIZE and LOCAL_RANK must be whole numbers as torchrun sets them, the rank below the size"
        got = ", ".join(f"{name}={environment[name]}" for name in WHOLE_NUMBERS if name in environment)
        raise InputError(rule, got=got, fix="start with torchrun, or unset them")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if size > 1 and name not in environment]
    if missing:
        rule = f"{size} processes must know where to meet"
        raise InputError(rule, got=f"no {' and no '.join(missing)}", fix="start with torchrun")
    return World(rank, size, local_rank)


@functools.cache
def world() -> World:
    """Joined when it is first asked for: gloo carries what is on CPUs, NCCL what is on GPUs."""
    place = place_in(os.environ)
    if not place.alone:
        import torch
        import torch.distributed as dist

        if torch.cuda.is_available():
            if place.local_rank >= torch.cuda.device_count():
                rule, got = "each process of a host needs a GPU of its own", f"local rank {place.local_rank}"
                raise InputError(rule, got=f"{got} of {torch.cuda.device_count()}", fix="start fewer processes")
            torch.cuda.set_device(place.local_rank)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=_store(), rank=place.rank, world_size=place.size, timeout=PATIENCE)
        atexit.register(dist.destroy_process_group)
    return place


@functools.cache
def _store() -> Any:
    """Where the processes of this attempt can leave a few words."""
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    store.set_timeout(PATIENCE)
    return PrefixStore(name_attempt(store, rank, size, PATIENCE), store)


def first_to_end(exit_code: int, *, together: bool = False) -> tuple[bool, int]:
    """Whether this process is the first that ends with an error, and so the one to say why; and the exit code of the
    first, which is that of all. Where all end `together`, rank 0 is to say it, when its display is gone."""
    try:
        place = place_in(os.environ)
    except InputError:
        return True, exit_code
    if not _store.cache_info().currsize:  # they have not met yet
        return place.first, exit_code
    if together and not place.first:
        with suppress(RuntimeError):  # it was killed meanwhile
            _store().wait([ENDED], WAIT_FOR_FIRST)
    try:
        told = _store().compare_set(ENDED, "", f"{place.rank} {exit_code}").decode()
    except RuntimeError:  # it was kept by a process that has ended
        return place.first, exit_code
    rank, code = map(int, told.split())
    return rank == place.rank, code


def _is_of_connection(error: RuntimeError) -> bool:
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or "gloo/" in str(error)


# --- how they are started ---------------------------------------------------------------------------------------------


def launch_words(size: int, on_host: int) -> list[str]:
    """Before the words of a command that `size` processes run, so many on a host; the user has to say where several
    hosts meet."""
    if size == 1:
        return ["neuropil"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "HOST:29400", "--rdzv-id", "NAME"]
    hosts = ["--standalone"] if size <= on_host else ["--nnodes", str(-(-size // on_host)), *meeting]
    return ["torchrun", *hosts, "--nproc-per-node", str(min(size, on_host)), "-m", "neuropil"]


def resume_command(folder: Path, environment: Mapping[str, str]) -> str:
    """With as many processes as there are now."""
    size, on_host = place_in(environment).size, environment.get("LOCAL_WORLD_SIZE", "")
    launch = launch_words(size, int(on_host) if on_host.isdigit() and int(on_host) else size)
    return shlex.join([*launch, "resume", str(folder)])


# --- a launch that is repeated ----------------------------------------------------------------------------------------


def launch_of(environment: Mapping[str, str]) -> str | None:
    """What a launch of torchrun has in common with its restarts, which a run folder notes; None without torchrun."""
    name = environment.get("TORCHELASTIC_RUN_ID")
    if name is None or name != "none":
        return name
    return f"{socket.gethostname()}:{os.getppid()}"  # the agent, which starts all workers anew


def is_restart(environment: Mapping[str, str]) -> bool:
    """Whether torchrun has started its processes again, after one of them ended."""
    return environment.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
