"""Compiled functions on the threads of PyTorch's own products.

    @compiled
    def some_work(claimed, x): ...                takes pieces of work until `claim(claimed, pieces)` gives none

    start_work = on_torch_threads(some_work)

    @compiled
    def work(team, x):                            is given `torch_team()`
        start_work(team, (x,))

After a product PyTorch's threads spin for milliseconds, and other threads would have to share cores with them. So these
functions run on the same threads: through the OpenMP library that PyTorch brings along, by the entry that compilers
use. Where there is none (it is in the wheels for Linux) the caller's thread works alone. Which thread takes which piece
must not change a result."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled
from neuropil.parts.threads.barrier import atomic_increment


class TorchTeam(NamedTuple):
    entry: int
    """The address of `GOMP_parallel(function, data, threads, flags)`; 0 if there is none."""
    threads: int
    claimed: np.ndarray
    """Counts the pieces of work that have been taken."""


def torch_team() -> TorchTeam:
    """For one call of a compiled function."""
    threads = torch.get_num_threads()
    return TorchTeam(openmp_entry() if threads > 1 else 0, threads, np.zeros(1, np.int64))


@cache
def openmp_entry() -> int:
    library = Path(torch.__file__).parent / "lib" / "libgomp.so.1"
    if not library.exists():
        return 0
    return ctypes.cast(ctypes.CDLL(str(library)).GOMP_parallel, ctypes.c_void_p).value or 0


@compiled
def claim(claimed, pieces):
    """The number of a piece that nobody has taken yet, or -1."""
    piece = atomic_increment(claimed)
    return piece if piece < pieces else -1


def on_torch_threads(work: Any) -> Any:
    """`start(team, arguments)`, for a compiled function: `work(claimed, *arguments)` on each thread of the team."""
    work_type = typeof(work)

    def start(typing, team, arguments):
        taken = (team.types[TorchTeam._fields.index("claimed")], *arguments)
        called = typing.resolve_function_type(work_type, taken, {})

        def code(context, builder, signature, values):
            result = work.get_compile_result(called)
            context.active_code_library.add_linking_library(result.library)
            entry, threads, claimed = cgutils.unpack_tuple(builder, values[0])
            packed = cgutils.pack_struct(builder, [claimed, *cgutils.unpack_tuple(builder, values[1])])
            pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)

            each = ir.FunctionType(ir.VoidType(), [pointer])  # what OpenMP calls on every thread
            function = ir.Function(builder.module, each, builder.module.get_unique_name("on_each_thread"))
            function.linkage = "internal"
            inside = ir.IRBuilder(function.append_basic_block())
            given = inside.load(inside.bitcast(function.args[0], packed.type.as_pointer()))
            unpacked = cgutils.unpack_tuple(inside, given)
            context.call_internal_no_propagate(inside, result.fndesc, result.signature, unpacked)
            inside.ret_void()

            slot = builder.bitcast(cgutils.alloca_once_value(builder, packed), pointer)
            everywhere = ir.FunctionType(ir.VoidType(), [each.as_pointer(), pointer, number, number])
            with builder.if_else(cgutils.is_null(builder, entry)) as (alone, together):
                with alone:
                    builder.call(function, [slot])
                with together:
                    address = builder.inttoptr(entry, everywhere.as_pointer())
                    builder.call(address, [function, slot, builder.trunc(threads, number), number(0)])
            return context.get_dummy_value()

        return types.none(team, arguments), code

    return intrinsic(start)
