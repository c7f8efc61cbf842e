"""Dot products of four rows of whole numbers with one vector or several, by the processor's integer instructions.

    x_j ≈ a_g p_j            a_g = max_{j∈g} |x_j| / 32767,  p_j from −32767 to 32767: an error of at most a_g / 2
    s_ir = Σ_g c_ig a_gr Σ_{j∈g} q_ij p_jr               c_ig = 1 where a row has one scale, that is applied afterwards

A product of 16-bit numbers and the sum of two such is one instruction (`vpdpwssd`, elsewhere `vpmaddwd` and an
addition), which does the work of two in single precision, and a weight of 8 bits is widened by one. Those of 4 bits are
held as q + 8, so that they need no sign, and are multiplied where they stand in a word: those in its lower half are
singled out by one `and` each, for the others all are shifted once. What is thereby sixteen times too large is summed
apart and divided at the end of a group:

    Σ q_j p_j = Σ_once (q_j + 8) p_j + (Σ_sixteenfold 16 (q_j + 8) p_j) / 16 − 8 Σ p_j

Sums within a group are exact, so their order is nobody's concern; what they are multiplied with is added up in an order
that depends on the number of columns alone, as in `tile.py`.

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

from neuropil.parts.compilation import compiled
from neuropil.sampling.gpt2_cpu.matrix import BLOCK, LARGEST, NIBBLES, PAIRS, REGISTER, TINY, ZERO
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
AHEAD = 4096
"""Bytes by which memory is asked for weights of 4 bits before they are used: by itself it brings as few bytes at once
as for larger ones, but these last longer."""
INT16, BFLOAT16 = ir.IntType(16), types.uint16


@compiled
def num_groups(columns):
    return (columns + BLOCK - 1) // BLOCK * PAIRS  # the last may be shorter


@compiled
def round_rows(whole, scale, offset, x, columns):
    """So many columns of x as whole numbers, filled up with zeros, what each group is to be multiplied with, and what
    its sum with weights of 4 bits starts from, as each of them is held 8 too large."""
    filled_up = np.zeros((1, whole.shape[1]), np.float32)
    for row in range(x.shape[0]):
        filled_up[0, :columns] = x[row, :columns]
        for start in range(0, whole.shape[1], BLOCK):
            round_block(whole, scale, offset, filled_up, row, start)


def round_one_block(typing, whole, scale, offset, x, row, start):
    """Of the only row of x, as this row of the others, from a column on."""
    single, integers = of_lanes(FLOAT, LANES), of_lanes(INT32, LANES)
    places = range(0, REGISTER, LANES)
    partners, firsts = ([INT32(lane ^ 1) for lane in range(LANES)], [INT32(lane) for lane in range(0, LANES, 2)])
    with_partner, first_of_two = (ir.Constant(of_lanes(INT32, len(which)), which) for which in (partners, firsts))

    def code(context, builder, signature, arguments):
        arrays = [context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(4)]
        at, begin = arguments[4:]
        whole_row, scale_row, offset_row = (row_pointer(builder, array, at) for array in arrays[:3])
        end, columns = builder.add(begin, INT64(BLOCK)), builder.extract_value(arrays[0].shape, 1)
        stop = builder.select(builder.icmp_signed("<", end, columns), end, columns)
        group = builder.udiv(begin, INT64(BLOCK // PAIRS))
        largest, sums = ([cgutils.alloca_once(builder, integers) for _ in places] for _ in range(2))
        for total in (*largest, *sums):
            builder.store(integers(None), total)

        def put(row_of_groups, place, values):
            evens = builder.shuffle_vector(values, values, first_of_two)
            first = builder.add(group, INT64(place // 2))
            pointer = builder.bitcast(builder.gep(row_of_groups, [first]), evens.type.as_pointer())
            builder.store(evens, pointer, align=4)

        with cgutils.for_range_slice(builder, begin, stop, INT64(REGISTER), INT64) as (column, _):
            for place, most in zip(places, largest, strict=True):
                # Without their sign, numbers are in the order of their bits, and what is no number is behind them all.
                x_j = loaded(builder, arrays[3].data, builder.add(column, INT64(place)), LANES)
                bits = builder.and_(builder.bitcast(x_j, integers), integers([0x7FFFFFFF] * LANES))
                builder.store(larger(builder, bits, builder.load(most)), most)
        inverse, fits = [], []
        for place, most in zip(places, largest, strict=True):
            own = builder.load(most)
            size = builder.bitcast(larger(builder, own, builder.shuffle_vector(own, own, with_partner)), single)
            put(scale_row, place, builder.fdiv(size, single([LARGEST] * LANES)))  # what is no number makes it so
            above = builder.fcmp_ordered(">", size, single([TINY] * LANES))
            fits.append(builder.and_(above, builder.fcmp_ordered("<", size, single([float("inf")] * LANES))))
            inverse.append(builder.fdiv(single([LARGEST] * LANES), size))
        of_single = ir.FunctionType(single, [single])
        rint = cgutils.get_or_insert_function(builder.module, of_single, f"llvm.rint.v{LANES}f32")
        with cgutils.for_range_slice(builder, begin, stop, INT64(REGISTER), INT64) as (column, _):
            for number, place in enumerate(places):
                first = builder.add(column, INT64(place))
                product = builder.fmul(loaded(builder, arrays[3].data, first, LANES), inverse[number])
                within = builder.select(fits[number], product, single(None))
                p_j = builder.fptosi(builder.call(rint, [within]), integers)
                builder.store(builder.add(builder.load(sums[number]), p_j), sums[number])
                half = builder.trunc(p_j, of_lanes(INT16, LANES))
                builder.store(half, builder.bitcast(builder.gep(whole_row, [first]), half.type.as_pointer()), align=2)
        for place, total in zip(places, sums, strict=True):
            own = builder.load(total)
            both = builder.add(own, builder.shuffle_vector(own, own, with_partner))
            put(offset_row, place, builder.mul(both, integers([-ZERO] * LANES)))
        return context.get_dummy_value()

    return types.void(whole, scale, offset, x, row, start), code


round_block: Any = intrinsic(round_one_block)


def larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def integer_dots_with(vectors: int) -> Callable[..., Any]:
    """`dots(weights, rows, groups, scaled, whole, scale, offset, first)`: of these four rows of weights, whose groups
    are multiplied with the rows `scaled` of `groups`, with this many rows of whole numbers from `first` on."""

    def dots(typing, weights, rows, groups, scaled, whole, scale, offset, first):
        def code(context, builder, signature, arguments):
            matrix, factors, many, scales, offsets = (
                context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 4, 5, 6)
            )
            at, scaled_by = (cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 3))
            firsts = [builder.add(arguments[7], INT64(number)) for number in range(vectors)]
            weight_rows = [row_pointer(builder, matrix, row) for row in at]
            factor_rows = [row_pointer(builder, factors, row) for row in scaled_by if groups.dtype == BFLOAT16]
            vector_rows, scale_rows, offset_rows = (
                [row_pointer(builder, array, row) for row in firsts] for array in (many, scales, offsets)
            )
            columns, count = builder.extract_value(many.shape, 1), WEIGHTS * vectors
            integers, sixteenfold = (
                [cgutils.alloca_once(builder, of_lanes(INT32, LANES)) for _ in range(count)] for _ in range(2)
            )
            sums = [[cgutils.alloca_once(builder, of_lanes(FLOAT, LANES)) for _ in integers] for _ in range(PARTS)]
            for total in chain(*sums):
                builder.store(of_lanes(FLOAT, LANES)(None), total)
            with cgutils.for_range_slice(builder, INT64(0), columns, INT64(BLOCK), INT64) as (start, _):
                end = builder.add(start, INT64(BLOCK))
                stop = builder.select(builder.icmp_signed("<", end, columns), end, columns)
                for part in range(PARTS):
                    group = builder.add(builder.udiv(start, INT64(BLOCK // PAIRS)), INT64(part * LANES))
                    for number, (once, sixteen) in enumerate(zip(integers, sixteenfold, strict=True)):
                        zeros, row = of_lanes(INT32, LANES)(None), offset_rows[number % vectors]
                        builder.store(loaded(builder, row, group, LANES) if is_packed(weights) else zeros, once)
                        builder.store(zeros, sixteen)
                    together = INT64(REGISTER * packing(weights))
                    with cgutils.for_range_slice(builder, start, stop, together, INT64) as (column, _):
                        for row in weight_rows if is_packed(weights) else ():
                            ask(builder, builder.gep(row, [builder.add(builder.udiv(column, INT64(2)), INT64(AHEAD))]))
                        sums_of = (integers, sixteenfold)
                        add_integer_products(builder, sums_of, weight_rows, vector_rows, column, part, weights)
                    of_weights = [widened(builder, loaded(builder, row, group, LANES), LANES) for row in factor_rows]
                    of_vectors = [loaded(builder, row, group, LANES) for row in scale_rows]
                    for number, (integer, total) in enumerate(zip(integers, sums[part], strict=True)):
                        i, r = divmod(number, vectors)
                        factor = builder.fmul(of_weights[i], of_vectors[r]) if of_weights else of_vectors[r]
                        whole_sum = builder.load(integer)
                        if is_packed(weights):
                            four = of_lanes(INT32, LANES)([4] * LANES)
                            whole_sum = builder.add(whole_sum, builder.ashr(builder.load(sixteenfold[number]), four))
                        exact = builder.sitofp(whole_sum, of_lanes(FLOAT, LANES))
                        product = builder.fmul(exact, factor, flags=CONTRACT)
                        builder.store(builder.fadd(builder.load(total), product, flags=CONTRACT), total)
            values = [added_parts(builder, [builder.load(part[number]) for part in sums]) for number in range(count)]
            made = [
                context.make_tuple(builder, of_weight, values[i * vectors : (i + 1) * vectors]) for i in range(WEIGHTS)
            ]
            return context.make_tuple(builder, signature.return_type, made)

        of_weight = types.UniTuple(types.float32, vectors)
        return types.UniTuple(of_weight, WEIGHTS)(weights, rows, groups, scaled, whole, scale, offset, first), code

    return intrinsic(dots)


def is_packed(weights: Any) -> bool:
    return weights.dtype == types.uint8


def packing(weights: Any) -> int:
    """How many registers of numbers come out of one."""
    return NIBBLES if is_packed(weights) else 1


def add_integer_products(
    builder: Any,
    sums: tuple[Sequence[Any], Sequence[Any]],
    weights: Sequence[Any],
    vectors: Sequence[Any],
    column: Any,
    part: int,
    kind: Any,
) -> None:
    """To sums of what is as large as it is, and of what is sixteen times as large."""
    widened_rows = [in_sixteen_bits(builder, row, column, part, kind) for row in weights]
    for register in range(packing(kind)):
        place = builder.add(column, INT64(REGISTER * register + 2 * LANES * part))
        for r, row in enumerate(vectors):
            x = loaded(builder, row, place, 2 * LANES)
            for i, registers in enumerate(widened_rows):
                total = sums[register % 2][i * len(vectors) + r]
                builder.store(builder.add(builder.load(total), added_pairs(builder, registers[register], x)), total)


def in_sixteen_bits(builder: Any, row: Any, column: Any, part: int, kind: Any) -> list[Any]:
    """Of the columns from this one on, or this part of their registers. Of four bits, those that come first and third
    are 8 too large, and the others sixteen times that."""
    wide, first = of_lanes(INT16, 2 * LANES), INT64(2 * LANES * part)
    if not is_packed(kind):
        narrow = loaded(builder, row, builder.add(column, first), 2 * LANES)
        return [narrow if kind.dtype == types.int16 else builder.sext(narrow, wide)]
    words = builder.bitcast(builder.gep(row, [builder.udiv(column, INT64(2))]), INT16.as_pointer())
    lower = loaded(builder, words, first, 2 * LANES)
    upper = builder.lshr(lower, wide([8] * 2 * LANES))
    return [builder.and_(half, wide([mask] * 2 * LANES)) for half in (lower, upper) for mask in (0x0F, 0xF0)]


def as_they_are(builder: Any, registers: Sequence[Any], kind: Any) -> list[Any]:
    if not is_packed(kind):
        return list(registers)
    wide = of_lanes(INT16, 2 * LANES)
    low = [builder.lshr(each, wide([4 * (n % 2)] * 2 * LANES)) for n, each in enumerate(registers)]
    return [builder.sub(each, wide([ZERO] * 2 * LANES)) for each in low]


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
                    registers = in_sixteen_bits(builder, source, column, part, weights)
                    for register, wide in enumerate(as_they_are(builder, registers, weights)):
                        place = builder.add(column, INT64(REGISTER * register + 2 * LANES * part))
                        pointer = builder.bitcast(builder.gep(target, [place]), wide.type.as_pointer())
                        builder.store(wide, pointer, align=2)
        return context.get_dummy_value()

    return types.void(out, weights, rows), code


unpack: Any = intrinsic(unpack_rows)
