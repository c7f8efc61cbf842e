"""Barriers of a thread team inside compiled functions.

    for step in range(num_steps):
        work(thread_range(size, team))    each its own part
        barrier(team)                     nobody goes on before all have arrived

`team` is a `neuropil.parts.threads.team.TeamMember`. A barrier takes some tenths of a microsecond on free cores, and
nobody waits at one for a member that has failed."""

import sys
from typing import Any

from numba import types
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled

SPINS = 10_000
"""How often a waiting member looks at the counter before it yields its core: for some microseconds."""


def counter_pointer(context, builder, signature, arguments):
    return context.make_array(signature.args[0])(context, builder, arguments[0]).data


def fetch_add_one(typing, counter):
    """The number in the array, which is one more afterwards; no two threads get the same."""

    def code(context, builder, signature, arguments):
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", counter_pointer(context, builder, signature, arguments), one, "seq_cst")

    return types.int64(counter), code


def load(typing, counter):
    """The number in the array now, whichever thread has written it."""

    def code(context, builder, signature, arguments):
        return builder.load_atomic(counter_pointer(context, builder, signature, arguments), "acquire", 8)

    return types.int64(counter), code


atomic_increment: Any = intrinsic(fetch_add_one)
atomic_load: Any = intrinsic(load)
yield_thread = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@compiled
def barrier(team):
    """Every barrier adds as many to the counter as there are members."""
    if team.members > 1:
        full = (atomic_increment(team.arrived) // team.members + 1) * team.members
        spins = 0
        while atomic_load(team.arrived) < full:
            spins += 1
            if spins > SPINS:
                if atomic_load(team.left):
                    return
                yield_thread()


@compiled
def awaited(counter, count, looks):
    """Whether the counter gets so far while this thread looks so many times; in between, others may have its core."""
    for _ in range(looks):
        if atomic_load(counter) >= count:
            return True
        yield_thread()
    return False


@compiled
def range_start(size, member, team):
    """Where this member's range of `size` items begins, and the range before it ends."""
    return size * member // team.members


@compiled
def own_bounds(size, team):
    return range_start(size, team.member, team), range_start(size, team.member + 1, team)


@compiled
def thread_range(size, team):
    low, high = own_bounds(size, team)
    return range(low, high)
