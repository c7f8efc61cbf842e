"""Dot products of four rows of whole numbers with one vector or several, by the processor's integer instructions.

    x_j ≈ a_g p_j            a_g = max_{j∈g} |x_j| / 127,  p_j from −127 to 127: an error of at most a_g / 2
    s_ir = Σ_g c_ig a_gr Σ_{j∈g} q_ij p_jr               c_ig = 1 where a row has one scale, that is applied afterwards

Four products of 8-bit numbers and their sum are one instruction (`vpdpbusd`), if the first of each two has no sign.
Hence weights are held as q + z, with z = 128 in 8 bits and 8 in 4 bits:

    Σ q_j p_j = Σ (q_j + z) p_j − z Σ p_j

Where there is no such instruction, both are widened to 16 bits, two of which are multiplied and added at once. Sums
within a group are exact, so their order is nobody's concern; what they are multiplied with is added up in an order that
depends on the number of columns alone, as in `tile.py`.

A register of weights has `REGISTER` neighbouring columns, and lane l sums the columns 4l to 4l + 3 of all registers of
a block. These are a group: at the end of a block, one multiplication scales sixteen of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled
from neuropil.sampling.gpt2_cpu.matrix import BLOCK, LARGEST, QUADS, REGISTER, TINY
from neuropil.sampling.gpt2_cpu.tile import (
    FEATURES,
    FLOAT,
    INT32,
    INT64,
    LANES,
    WEIGHTS,
    add_product,
    added_in_pairs,
    as_tile,
    ask,
    loaded,
    of_lanes,
    put,
    row_pointer,
    tile_of,
    widened,
)

QUADS_ADDED = bool(FEATURES.get("avx512vnni" if LANES == 16 else "avxvnni"))
"""Whether four products are added by one instruction; elsewhere two."""
HALVES = 1 if QUADS_ADDED else 2
COLUMNS = 4 * LANES // HALVES
"""That are multiplied at once."""
PARTS = REGISTER // (4 * LANES)
"""Of a register that is wider than the processor's: each has a group for each lane."""
WHOLE, UNPACKED = (np.int8, np.uint8) if QUADS_ADDED else (np.int16, np.int16)
"""How what is rounded is held, and weights that several are multiplied with."""
AHEAD = 4096
"""Bytes by which memory is asked for weights of 4 bits before they are used: by itself it brings as few bytes at once
as for larger ones, but these last longer."""
INT8, INT16, PACKED = ir.IntType(8), ir.IntType(16), types.uint16
"""The last is the type of factors of groups, which weights of 4 bits have."""


@compiled
def num_groups(columns):
    return (columns + BLOCK - 1) // BLOCK * QUADS  # the last may be shorter


@compiled
def round_rows(whole, scale, offset, x, columns, zero):
    """So many columns of x as whole numbers, filled up with zeros, what each group is to be multiplied with, and what
    its sum starts from, as weights are held `zero` too large."""
    filled_up = np.zeros((1, whole.shape[1]), np.float32)
    for row in range(x.shape[0]):
        filled_up[0, :columns] = x[row, :columns]
        for start in range(0, whole.shape[1], BLOCK):
            round_block(whole, scale, offset, filled_up, row, start, zero)


def round_one_block(typing, whole, scale, offset, x, row, start, zero):
    """Of the only row of x, as this row of the others, from a column on."""
    single, integers = of_lanes(FLOAT, REGISTER), of_lanes(INT32, REGISTER)

    def code(context, builder, signature, arguments):
        arrays = [context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(4)]
        at, begin = arguments[4:6]
        whole_row, scale_row, offset_row = (row_pointer(builder, array, at) for array in arrays[:3])
        end, columns = builder.add(begin, INT64(BLOCK)), builder.extract_value(arrays[0].shape, 1)
        stop = builder.select(builder.icmp_signed("<", end, columns), end, columns)
        group = builder.udiv(begin, INT64(BLOCK // QUADS))
        largest, total = (cgutils.alloca_once_value(builder, integers(None)) for _ in range(2))
        with cgutils.for_range_slice(builder, begin, stop, INT64(REGISTER), INT64) as (column, _):
            # Without their sign, numbers are in the order of their bits, and what is no number is behind them all.
            x_j = loaded(builder, arrays[3].data, column, REGISTER)
            bits = builder.and_(builder.bitcast(x_j, integers), integers([0x7FFFFFFF] * REGISTER))
            builder.store(larger(builder, bits, builder.load(largest)), largest)
        size = builder.bitcast(over_quads(builder, larger, builder.load(largest)), single)
        put_first_of_quads(builder, scale_row, group, builder.fdiv(size, single([LARGEST] * REGISTER)))
        above = builder.fcmp_ordered(">", size, single([TINY] * REGISTER))
        fits = builder.and_(above, builder.fcmp_ordered("<", size, single([float("inf")] * REGISTER)))
        inverse = builder.fdiv(single([LARGEST] * REGISTER), size)
        rint = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(single, [single]), f"llvm.rint.v{REGISTER}f32"
        )
        with cgutils.for_range_slice(builder, begin, stop, INT64(REGISTER), INT64) as (column, _):
            product = builder.fmul(loaded(builder, arrays[3].data, column, REGISTER), inverse)
            within = builder.select(fits, product, single(None))  # what is no number is in its group's scale
            p_j = builder.fptosi(builder.call(rint, [within]), integers)
            builder.store(builder.add(builder.load(total), p_j), total)
            narrow = builder.trunc(p_j, of_lanes(whole_row.type.pointee, REGISTER))
            put(builder, whole_row, column, narrow)
        sums = over_quads(builder, lambda _, a, b: builder.add(a, b), builder.load(total))
        minus = builder.sub(INT32(0), builder.trunc(arguments[6], INT32))
        one = builder.insert_element(integers(ir.Undefined), minus, INT32(0))
        in_all = builder.shuffle_vector(one, one, integers(None))
        put_first_of_quads(builder, offset_row, group, builder.mul(sums, in_all))
        return context.get_dummy_value()

    return types.void(whole, scale, offset, x, row, start, zero), code


round_block: Any = intrinsic(round_one_block)


def larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def over_quads(builder: Any, combine: Callable[..., Any], values: Any) -> Any:
    """Of each four neighbouring lanes, in all four."""
    for distance in (1, 2):
        partners = ir.Constant(of_lanes(INT32, REGISTER), [INT32(lane ^ distance) for lane in range(REGISTER)])
        values = combine(builder, values, builder.shuffle_vector(values, values, partners))
    return values


def put_first_of_quads(builder: Any, row: Any, group: Any, values: Any) -> None:
    firsts = ir.Constant(of_lanes(INT32, QUADS), [INT32(4 * lane) for lane in range(QUADS)])
    put(builder, row, group, builder.shuffle_vector(values, values, firsts))


def integer_dots_with(vectors: int) -> Callable[..., Any]:
    """`dots(weights, rows, groups, scaled, whole, scale, offset, first)`: of these four rows of weights, whose groups
    are multiplied with the rows `scaled` of `groups`, with this many rows of whole numbers from `first` on. With
    several, weights of 4 bits have been unpacked."""

    def dots(typing, weights, rows, groups, scaled, whole, scale, offset, first):
        has_factors = groups.dtype == PACKED
        registers = 2 if has_factors and vectors == 1 else 1
        """That come out of one of weights."""

        def code(context, builder, signature, arguments):
            matrix, factors, many, scales, offsets = (
                context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 4, 5, 6)
            )
            at, scaled_by = (cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 3))
            firsts = [builder.add(arguments[7], INT64(number)) for number in range(vectors)]
            weight_rows = [row_pointer(builder, matrix, row) for row in at]
            factor_rows = [row_pointer(builder, factors, row) for row in scaled_by if has_factors]
            vector_rows, scale_rows, offset_rows = (
                [row_pointer(builder, array, row) for row in firsts] for array in (many, scales, offsets)
            )
            columns, count = builder.extract_value(many.shape, 1), WEIGHTS * vectors
            integers = [
                [cgutils.alloca_once(builder, of_lanes(INT32, LANES)) for _ in range(HALVES)] for _ in range(count)
            ]
            no_sum = of_lanes(FLOAT, LANES)(None)
            sums = [[cgutils.alloca_once_value(builder, no_sum) for _ in range(count)] for _ in range(PARTS)]
            with cgutils.for_range_slice(builder, INT64(0), columns, INT64(BLOCK), INT64) as (start, _):
                end = builder.add(start, INT64(BLOCK))
                stop = builder.select(builder.icmp_signed("<", end, columns), end, columns)
                for part in range(PARTS):
                    for half in range(HALVES):
                        own = [halves[half] for halves in integers]
                        for total in own:
                            builder.store(of_lanes(INT32, LANES)(None), total)
                        place, step = COLUMNS * (HALVES * part + half), INT64(REGISTER * registers)
                        with cgutils.for_range_slice(builder, start, stop, step, INT64) as (j, _):
                            for row in weight_rows if registers > 1 else ():
                                ask(builder, builder.gep(row, [builder.add(builder.udiv(j, INT64(2)), INT64(AHEAD))]))
                            add_integer_products(builder, own, weight_rows, vector_rows, j, place, registers)
                    group = builder.add(builder.udiv(start, INT64(BLOCK // QUADS)), INT64(part * LANES))
                    of_weights = [widened(builder, loaded(builder, row, group, LANES), LANES) for row in factor_rows]
                    of_vectors = [loaded(builder, row, group, LANES) for row in scale_rows]
                    for number, (halves, total) in enumerate(zip(integers, sums[part], strict=True)):
                        i, r = divmod(number, vectors)
                        from_zero = loaded(builder, offset_rows[r], group, LANES)
                        exact = builder.add(of_groups(builder, [builder.load(half) for half in halves]), from_zero)
                        value = builder.sitofp(exact, of_lanes(FLOAT, LANES))
                        value = builder.fmul(value, of_weights[i]) if has_factors else value
                        add_product(builder, total, value, of_vectors[r])
            values = [added_parts(builder, [builder.load(part[number]) for part in sums]) for number in range(count)]
            return as_tile(context, builder, signature.return_type, values)

        return tile_of(vectors)(weights, rows, groups, scaled, whole, scale, offset, first), code

    return intrinsic(dots)


def add_integer_products(
    builder: Any,
    sums: Sequence[Any],
    weights: Sequence[Any],
    vectors: Sequence[Any],
    column: Any,
    place: int,
    registers: int,
) -> None:
    """Of the columns that follow this place in the registers from this column on."""
    of_rows = [without_sign(builder, row, column, place, registers, COLUMNS) for row in weights]
    for number in range(registers):
        first = builder.add(column, INT64(REGISTER * number + place))
        for r, row in enumerate(vectors):
            x = loaded(builder, row, first, COLUMNS)
            for i, row_registers in enumerate(of_rows):
                total = sums[i * len(vectors) + r]
                builder.store(added_products(builder, builder.load(total), row_registers[number], x), total)


def without_sign(builder: Any, row: Any, column: Any, first: int, registers: int, lanes: int) -> list[Any]:
    """Weights of so many lanes as they are held; or of two registers whose 4 bits share a byte."""
    if registers == 1:
        return [loaded(builder, row, builder.add(column, INT64(first)), lanes)]
    both = loaded(builder, row, builder.add(builder.udiv(column, INT64(2)), INT64(first)), lanes)
    bytes_, words = of_lanes(INT8, lanes), of_lanes(INT16, lanes // 2)
    upper = builder.lshr(builder.bitcast(both, words), words([4] * (lanes // 2)))  # of bytes there is no shift
    return [builder.and_(half, bytes_([15] * lanes)) for half in (both, builder.bitcast(upper, bytes_))]


def added_products(builder: Any, total: Any, weights: Any, x: Any) -> Any:
    lanes = of_lanes(INT32, LANES)
    if QUADS_ADDED:
        kind = ir.FunctionType(lanes, [lanes] * 3)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * LANES}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [total, builder.bitcast(weights, lanes), builder.bitcast(x, lanes)])
    # a_2l b_2l + a_2l+1 b_2l+1 in lane l: LLVM knows the instruction by this.
    wide = of_lanes(INT32, COLUMNS)
    signed = weights if weights.type.element == INT16 else builder.zext(weights, of_lanes(INT16, COLUMNS))
    products = builder.mul(builder.sext(signed, wide), builder.sext(x, wide))
    return builder.add(total, neighbours_added(builder, products, products, LANES))


def of_groups(builder: Any, halves: Sequence[Any]) -> Any:
    return halves[0] if QUADS_ADDED else neighbours_added(builder, halves[0], halves[1], LANES)


def neighbours_added(builder: Any, first: Any, second: Any, count: int) -> Any:
    """So many pairs of the lanes of both."""
    even, odd = (ir.Constant(of_lanes(INT32, count), list(range(which, 2 * count, 2))) for which in (0, 1))
    return builder.add(*(builder.shuffle_vector(first, second, which) for which in (even, odd)))


def added_parts(builder: Any, lanes: list[Any]) -> Any:
    """Lane l and lane l + n of 2n, as if they were in one register."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [builder.fadd(lanes[n], lanes[n + half]) for n in range(half)]
    return added_in_pairs(builder, lanes[0])


def unpack_rows(typing, out, weights, rows, groups):
    """Four rows of weights as those of `out`, each by itself; memory is asked for the next behind each."""
    registers = 2 if groups.dtype == PACKED else 1

    def code(context, builder, signature, arguments):
        made, matrix = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 1))
        for number, row in enumerate(cgutils.unpack_tuple(builder, arguments[2])):
            source, target = row_pointer(builder, matrix, row), row_pointer(builder, made, INT64(number))
            coming, together = row_pointer(builder, matrix, builder.add(row, INT64(1))), INT64(REGISTER * registers)
            columns = builder.extract_value(made.shape, 1)
            with cgutils.for_range_slice(builder, INT64(0), columns, together, INT64) as (column, _):
                ask(builder, builder.gep(coming, [builder.udiv(column, INT64(registers))]))
                found = without_sign(builder, source, column, 0, registers, REGISTER)
                for register, values in enumerate(found):
                    held = of_lanes(target.type.pointee, REGISTER)
                    values = values if QUADS_ADDED else builder.zext(values, held)
                    put(builder, target, builder.add(column, INT64(REGISTER * register)), values)
        return context.get_dummy_value()

    return types.void(out, weights, rows, groups), code


unpack: Any = intrinsic(unpack_rows)
