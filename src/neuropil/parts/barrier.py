"""What a compiled function of a team does: its share, and to meet the others where one needs what another has done.

    for step in range(num_steps):
        work(share(number, team))         each its own part
        meet(team)                        nobody goes on before all have come

`team` is a `neuropil.parts.teams.Member`. A meeting takes some tenths of a microsecond while every member has a core of its own.
"""

import inspect
import sys
from typing import Any

from numba import types
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled

LOOKS = 10_000
"""How often a member looks whether the others have come before it lets another thread have its core: for some microseconds."""


def counter_in(context, builder, signature, arguments):
    return context.make_array(signature.args[0])(context, builder, arguments[0]).data


def count_up(typing, counter):
    """The number in the array, which is one more afterwards; no two threads get the same."""

    def code(context, builder, signature, arguments):
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", counter_in(context, builder, signature, arguments), one, "seq_cst")

    return types.int64(counter), inspect.unwrap(code)


def look_at(typing, counter):
    """The number in the array now, whichever thread has written it."""

    def code(context, builder, signature, arguments):
        return builder.load_atomic(counter_in(context, builder, signature, arguments), "acquire", 8)

    return types.int64(counter), inspect.unwrap(code)


counted_up: Any = intrinsic(inspect.unwrap(count_up))
looked_at: Any = intrinsic(inspect.unwrap(look_at))
let_others_run = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32())


@compiled
def meet(team):
    """Nobody goes on before all have come. Every meeting adds as many to the counter as there are members."""
    if team.members > 1:
        full = (counted_up(team.arrived) // team.members + 1) * team.members
        looks = 0
        while looked_at(team.arrived) < full:
            looks += 1
            if looks > LOOKS:
                let_others_run()


@compiled
def begins(number, member, team):
    """Where this member's share of `number` things begins, and the share before it ends."""
    return number * member // team.members


@compiled
def share(number, team):
    return range(begins(number, team.member, team), begins(number, team.member + 1, team))
