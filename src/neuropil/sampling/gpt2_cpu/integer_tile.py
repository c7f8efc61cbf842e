"""Dot products of four rows of whole numbers with one vector or several, by the processor's integer instructions.

    x_j ≈ a_g p_j            a_g = max_{j∈g} |x_j| / 32767,  p_j from −32767 to 32767: an error of at most a_g / 2
    s_ir = Σ_g c_ig a_gr Σ_{j∈g} q_ij p_jr               c_ig = 1 where a row has one scale, that is applied afterwards

A product of 16-bit numbers and the sum of two such is one instruction (`vpdpwssd`, elsewhere `vpmaddwd` and an
addition), which does the work of two in single precision, and a weight of 8 bits or 4 is widened by one or two. Sums
within a group are exact, so their order is nobody's concern; what they are multiplied with is added up in an order that
depends on the number of columns alone, as in `tile.py`.

A register of `PAIRS` · 32 bits holds 2 · `PAIRS` neighbouring columns, and lane l sums the columns 2l and 2l + 1 of all
registers of a block. These are a group: at the end of a block, one multiplication scales sixteen of them.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled, compiled_in_any_order
from neuropil.sampling.gpt2_cpu.matrix import BLOCK, LARGEST, NIBBLES, PAIRS, REGISTER, TINY
from neuropil.sampling.gpt2_cpu.tile import (
    CONTRACT,
    FLOAT,
    INT32,
    INT64,
    LANES,
    WEIGHTS,
    added_in_pairs,
    ask,
    loaded,
    of_lanes,
    row_pointer,
    widened,
)

PARTS = PAIRS // LANES
INT16, BFLOAT16 = ir.IntType(16), types.uint16


@compiled
def num_groups(columns):
    return (columns + BLOCK - 1) // BLOCK * PAIRS  # the last may be shorter


@compiled_in_any_order
def round_rows(whole, scale, x, columns):
    """So many columns of x as whole numbers, filled up with zeros, and what each group is to be multiplied with."""
    bits, largest, inverse = x.view(np.int32), np.empty(REGISTER, np.int32), np.empty(REGISTER, np.float32)
    for row in range(x.shape[0]):
        whole[row, columns:] = 0
        for start in range(0, columns, BLOCK):
            # Without their sign, numbers are in the order of their bits, and what is no number is behind them all.
            largest[:] = 0
            for register in range(start, min(start + BLOCK, columns), REGISTER):
                for place in range(min(REGISTER, columns - register)):
                    largest[place] = max(largest[place], bits[row, register + place] & np.int32(0x7FFFFFFF))
            for group in range(PAIRS):
                size = np.int32(max(largest[2 * group], largest[2 * group + 1])).view(np.float32)
                scale[row, start // BLOCK * PAIRS + group] = size / np.float32(LARGEST)
                fits = np.float32(TINY) < size < np.float32(np.inf)  # what is no number makes its group's scale so
                inverse[2 * group] = inverse[2 * group + 1] = np.float32(LARGEST) / size if fits else np.float32(0)
            for register in range(start, min(start + BLOCK, columns), REGISTER):
                for place in range(min(REGISTER, columns - register)):
                    value = x[row, register + place] * inverse[place]
                    whole[row, register + place] = np.int32(np.rint(value if inverse[place] > 0 else np.float32(0)))


def integer_dots_with(vectors: int) -> Callable[..., Any]:
    """`dots(weights, rows, groups, scaled, whole, scale, first)`: of these four rows of weights, whose groups are
    multiplied with the rows `scaled` of `groups`, with this many rows of whole numbers from `first` on."""

    def dots(typing, weights, rows, groups, scaled, whole, scale, first):
        def code(context, builder, signature, arguments):
            matrix, factors, many, scales = (
                context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 4, 5)
            )
            at, scaled_by = (cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 3))
            firsts = [builder.add(arguments[6], INT64(number)) for number in range(vectors)]
            weight_rows = [row_pointer(builder, matrix, row) for row in at]
            factor_rows = [row_pointer(builder, factors, row) for row in scaled_by if groups.dtype == BFLOAT16]
            vector_rows, scale_rows = ([row_pointer(builder, array, row) for row in firsts] for array in (many, scales))
            columns, count = builder.extract_value(many.shape, 1), WEIGHTS * vectors
            integers = [cgutils.alloca_once(builder, of_lanes(INT32, LANES)) for _ in range(count)]
            sums = [[cgutils.alloca_once(builder, of_lanes(FLOAT, LANES)) for _ in integers] for _ in range(PARTS)]
            for total in chain(*sums):
                builder.store(of_lanes(FLOAT, LANES)(None), total)
            with cgutils.for_range_slice(builder, INT64(0), columns, INT64(BLOCK), INT64) as (start, _):
                end = builder.add(start, INT64(BLOCK))
                stop = builder.select(builder.icmp_signed("<", end, columns), end, columns)
                for part in range(PARTS):
                    for total in integers:
                        builder.store(of_lanes(INT32, LANES)(None), total)
                    together = INT64(REGISTER * packing(weights))
                    with cgutils.for_range_slice(builder, start, stop, together, INT64) as (column, _):
                        add_integer_products(builder, integers, weight_rows, vector_rows, column, part, weights)
                    group = builder.add(builder.udiv(start, INT64(BLOCK // PAIRS)), INT64(part * LANES))
                    of_weights = [widened(builder, loaded(builder, row, group, LANES), LANES) for row in factor_rows]
                    of_vectors = [loaded(builder, row, group, LANES) for row in scale_rows]
                    for number, (integer, total) in enumerate(zip(integers, sums[part], strict=True)):
                        i, r = divmod(number, vectors)
                        factor = builder.fmul(of_weights[i], of_vectors[r]) if of_weights else of_vectors[r]
                        exact = builder.sitofp(builder.load(integer), of_lanes(FLOAT, LANES))
                        product = builder.fmul(exact, factor, flags=CONTRACT)
                        builder.store(builder.fadd(builder.load(total), product, flags=CONTRACT), total)
            values = [added_parts(builder, [builder.load(part[number]) for part in sums]) for number in range(count)]
            made = [
                context.make_tuple(builder, of_weight, values[i * vectors : (i + 1) * vectors]) for i in range(WEIGHTS)
            ]
            return context.make_tuple(builder, signature.return_type, made)

        of_weight = types.UniTuple(types.float32, vectors)
        return types.UniTuple(of_weight, WEIGHTS)(weights, rows, groups, scaled, whole, scale, first), code

    return intrinsic(dots)


def packing(weights: Any) -> int:
    """How many registers of numbers come out of one."""
    return NIBBLES if weights.dtype == types.uint8 else 1


def add_integer_products(
    builder: Any, sums: Sequence[Any], weights: Sequence[Any], vectors: Sequence[Any], column: Any, part: int, kind: Any
) -> None:
    unpacked = [numbers(builder, row, column, part, kind) for row in weights]
    for register in range(packing(kind)):
        place = builder.add(column, INT64(REGISTER * register + 2 * LANES * part))
        for r, row in enumerate(vectors):
            x = loaded(builder, row, place, 2 * LANES)
            for i, registers in enumerate(unpacked):
                total = sums[i * len(vectors) + r]
                builder.store(builder.add(builder.load(total), added_pairs(builder, registers[register], x)), total)


def numbers(builder: Any, row: Any, column: Any, part: int, kind: Any) -> list[Any]:
    """Of the columns from this one on, or this part of their registers, as whole numbers of 16 bits."""
    wide, first = of_lanes(INT16, 2 * LANES), INT64(2 * LANES * part)
    if kind.dtype != types.uint8:
        narrow = loaded(builder, row, builder.add(column, first), 2 * LANES)
        return [narrow if kind.dtype == types.int16 else builder.sext(narrow, wide)]
    words = builder.bitcast(builder.gep(row, [builder.udiv(column, INT64(2))]), INT16.as_pointer())
    packed = loaded(builder, words, first, 2 * LANES)
    # To the top, and down again with the sign.
    return [builder.ashr(builder.shl(packed, wide([up] * 2 * LANES)), wide([12] * 2 * LANES)) for up in (12, 8, 4, 0)]


def added_pairs(builder: Any, a: Any, b: Any) -> Any:
    """a_2l b_2l + a_2l+1 b_2l+1 in lane l: LLVM knows the instruction by this."""
    wide = of_lanes(INT32, 2 * LANES)
    products = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
    even, odd = (ir.Constant(of_lanes(INT32, LANES), list(range(which, 2 * LANES, 2))) for which in (0, 1))
    return builder.add(*(builder.shuffle_vector(products, products, which) for which in (even, odd)))


def added_parts(builder: Any, lanes: list[Any]) -> Any:
    """Lane l and lane l + n of 2n, as if they were in one register."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [builder.fadd(lanes[n], lanes[n + half]) for n in range(half)]
    return added_in_pairs(builder, lanes[0])


def unpack_rows(typing, out, weights, rows):
    """Four rows of weights as those of `out`, whole numbers of 16 bits; memory is asked for the next behind each."""

    def code(context, builder, signature, arguments):
        made, matrix = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 1))
        sources = cgutils.unpack_tuple(builder, arguments[2])
        for number, row in enumerate(sources):
            source, target = row_pointer(builder, matrix, row), row_pointer(builder, made, INT64(number))
            coming, together = row_pointer(builder, matrix, builder.add(row, INT64(1))), REGISTER * packing(weights)
            columns = builder.extract_value(made.shape, 1)
            with cgutils.for_range_slice(builder, INT64(0), columns, INT64(together), INT64) as (column, _):
                ask(builder, builder.gep(coming, [builder.udiv(column, INT64(2)) if packing(weights) > 1 else column]))
                for part in range(PARTS):
                    for register, wide in enumerate(numbers(builder, source, column, part, weights)):
                        place = builder.add(column, INT64(REGISTER * register + 2 * LANES * part))
                        pointer = builder.bitcast(builder.gep(target, [place]), wide.type.as_pointer())
                        builder.store(wide, pointer, align=2)
        return context.get_dummy_value()

    return types.void(out, weights, rows), code


unpack: Any = intrinsic(unpack_rows)
