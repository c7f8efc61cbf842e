"""Lists of the numbers in an array that lie between two bounds. Eight are compared at once, and their list is looked up
in a table by the eight bits that come out, without a branch that would have to be foreseen."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled_inside

LANES = 8
BYTE, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
NUMBERS = ir.VectorType(ir.DoubleType(), LANES)
LISTS = [[lane for lane in range(LANES) if mask >> lane & 1] for mask in range(2**LANES)]
"""The lanes whose bits are set, for each mask."""


@compiled_inside
def places_between(values, low, high, places):
    """Where low < value ≤ high, in order, at the beginning of `places`, which has room for all; how many."""
    count, whole = 0, len(values) // LANES * LANES
    for first in range(0, whole, LANES):
        count += eight_between(values, first, low, high, places, count)
    for place in range(whole, len(values)):
        places[count] = place
        count += low < values[place] <= high
    return count


def list_eight(typing, values, first, low, high, places, count):
    """How many of eight values from `first` on lie between the bounds; eight places are written, and as many count."""

    def code(context, builder, signature, arguments):
        source, target = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 4))
        integers = ir.VectorType(target.data.type.pointee, LANES)
        numbers = load_lanes(builder, source.data, arguments[1], NUMBERS)
        above = builder.fcmp_ordered(">", numbers, in_all_lanes(builder, arguments[2], NUMBERS))
        below = builder.fcmp_ordered("<=", numbers, in_all_lanes(builder, arguments[3], NUMBERS))
        mask = builder.bitcast(builder.and_(above, below), BYTE)
        lanes = load_lanes(builder, table(builder), builder.zext(mask, INT64), ir.VectorType(BYTE, LANES))
        first = builder.trunc(arguments[1], integers.element) if integers.element.width < 64 else arguments[1]
        found = builder.add(builder.zext(lanes, integers), in_all_lanes(builder, first, integers))
        pointer = builder.bitcast(builder.gep(target.data, [arguments[5]]), integers.as_pointer())
        builder.store(found, pointer, align=integers.element.width // 8)
        return builder.zext(builder.ctpop(mask), INT64)

    return types.int64(values, first, low, high, places, count), code


def table(builder: Any) -> Any:
    """A pointer to `LISTS`."""
    rows = [lanes + [0] * (LANES - len(lanes)) for lanes in LISTS]
    kind = ir.ArrayType(ir.VectorType(BYTE, LANES), len(rows))
    constant = ir.Constant(kind, [ir.Constant(kind.element, row) for row in rows])
    return builder.bitcast(cgutils.global_constant(builder, "lanes_of_masks", constant), kind.element.as_pointer())


def load_lanes(builder: Any, pointer: Any, place: Any, kind: Any) -> Any:
    pointer = builder.gep(pointer, [place])
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=1)


def in_all_lanes(builder: Any, number: Any, kind: Any) -> Any:
    none = ir.Constant(kind, ir.Undefined)
    first = ir.Constant(ir.VectorType(INT32, LANES), None)
    return builder.shuffle_vector(builder.insert_element(none, number, INT32(0)), none, first)


eight_between: Any = intrinsic(list_eight)
