"""Dot products of four rows of a matrix with one vector or several, whose sums stay in the processor's registers.

    s_ir = Σ_j W_ij x_rj              i: 4 rows of W;  r: 1 or `VECTORS` rows of x

A weight is loaded and widened once for all vectors, and a vector's element once for four weights, so that arithmetic is
what takes the time as soon as there are a few vectors. Lane l of a register sums the columns l, l + `LANES`,
l + 2 `LANES` …; then the lanes are added in pairs, and the columns left over one by one. So the order of a sum depends
on the number of columns alone, and a vector's products have the same bits whatever else is in the tile.

Numba's own loops leave the order to LLVM, which chooses another for another number of vectors: hence the instructions
are written out here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic


def target_features() -> dict[str, bool]:
    """Of the processor for which Numba compiles: this one, unless NUMBA_CPU_NAME or _FEATURES say otherwise."""
    if config.CPU_NAME is None and config.CPU_FEATURES is None:  # pyright: ignore[reportAttributeAccessIssue]
        return get_host_cpu_features()
    named = (config.CPU_FEATURES or "").split(",")  # pyright: ignore[reportAttributeAccessIssue]
    return {feature[1:]: feature.startswith("+") for feature in named if feature}


FEATURES = target_features()
LANES, VECTORS = (16, 4) if FEATURES.get("avx512f") else (8, 2) if FEATURES.get("avx") else (4, 4)
"""Numbers in a register, and vectors at once: four times as many sums, with what they are made from, fill the
registers."""
WEIGHTS = 4

INT32, INT64, FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
CONTRACT = ("contract",)
"""A product and its sum may be one instruction; nothing may change places. Where nothing is said, a function that is
compiled in any order would let it."""


def dots_with(vectors: int) -> Callable[..., Any]:
    """`dots(weights, rows, x, first)`: of four rows of a matrix with this many rows of x from `first` on.

    With several, memory is asked for the next row behind each of the four, which it delivers while these are multiplied
    with other vectors. With one there is no time to fill, and asking only stands in the way."""

    def dots(typing, weights, rows, x, first):
        def code(context, builder, signature, arguments):
            weight_rows, coming, vector_rows, columns = tile_rows(context, builder, signature, arguments, vectors)
            whole = builder.and_(columns, INT64(-LANES))
            sums = [cgutils.alloca_once(builder, of_lanes(FLOAT, LANES)) for _ in range(WEIGHTS * vectors)]
            for total in sums:
                builder.store(of_lanes(FLOAT, LANES)(None), total)
            with cgutils.for_range_slice(builder, INT64(0), whole, INT64(LANES), INT64) as (column, _):
                for row in coming:
                    ask(builder, builder.gep(row, [column]))
                add_products(builder, sums, weight_rows, vector_rows, column, LANES)
            totals = [cgutils.alloca_once(builder, FLOAT) for _ in sums]
            for total, lanes in zip(totals, sums, strict=True):
                builder.store(added_in_pairs(builder, builder.load(lanes)), total)
            with cgutils.for_range_slice(builder, whole, columns, INT64(1), INT64) as (column, _):
                add_products(builder, totals, weight_rows, vector_rows, column, 1)
            values = [builder.load(total) for total in totals]
            return as_tile(context, builder, signature.return_type, values)

        return tile_of(vectors)(weights, rows, x, first), code

    return intrinsic(dots)


def tile_of(vectors: int) -> Any:
    """The type of the sums [row of weights][vector]."""
    return types.UniTuple(types.UniTuple(types.float32, vectors), WEIGHTS)


def as_tile(context: Any, builder: Any, kind: Any, values: Sequence[Any]) -> Any:
    vectors = kind.dtype.count
    of_weights = [values[first : first + vectors] for first in range(0, len(values), vectors)]
    return context.make_tuple(builder, kind, [context.make_tuple(builder, kind.dtype, each) for each in of_weights])


def tile_rows(context: Any, builder: Any, signature: Any, arguments: Any, vectors: int) -> tuple[Any, ...]:
    """Of `dots(weights, rows, x, first)`, where rows of weights begin, with several vectors the next behind each too,
    and where the vectors begin; and how many columns there are."""
    matrix, many = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2))
    now = cgutils.unpack_tuple(builder, arguments[1])
    weight_rows = [row_pointer(builder, matrix, row) for row in now]
    coming = [row_pointer(builder, matrix, builder.add(row, INT64(1))) for row in now if vectors > 1]
    firsts = [builder.add(arguments[3], INT64(number)) for number in range(vectors)]
    vector_rows = [row_pointer(builder, many, row) for row in firsts]
    return weight_rows, coming, vector_rows, builder.extract_value(matrix.shape, 1)


def add_products(
    builder: Any, sums: Sequence[Any], weight_rows: Sequence[Any], vector_rows: Sequence[Any], column: Any, lanes: int
) -> None:
    weights = [widened(builder, loaded(builder, row, column, lanes), lanes) for row in weight_rows]
    for r, row in enumerate(vector_rows):
        x = loaded(builder, row, column, lanes)
        for i, weight in enumerate(weights):
            add_product(builder, sums[i * len(vector_rows) + r], weight, x)


def dots_by_columns(typing, out, columns, x, stop):
    """Of so many rows of a matrix, whose columns these are, with `VECTORS` rows of x, to the rows of `out`: in lane l
    those of one row with the others' l-th, so that no lanes need to be added. Filled up to a multiple of `LANES`."""

    def code(context, builder, signature, arguments):
        made, matrix, many = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(3))
        targets, vector_rows = (
            [row_pointer(builder, array, INT64(number)) for number in range(VECTORS)] for array in (made, many)
        )
        width = builder.extract_value(matrix.shape, 0)
        whole = builder.and_(width, INT64(-LANES))
        sums = [[cgutils.alloca_once(builder, of_lanes(FLOAT, LANES)) for _ in range(VECTORS)] for _ in range(LANES)]

        def add_columns(totals: Sequence[Any], start: Any, end: Any, step: int, first: Any) -> None:
            with cgutils.for_range_slice(builder, start, end, INT64(step), INT64) as (column, _):
                values = loaded(builder, row_pointer(builder, matrix, column), first, LANES)
                for total, row in zip(totals, vector_rows, strict=True):
                    add_product(builder, total, values, in_all_lanes(builder, loaded(builder, row, column, 1), LANES))

        def summed(lane: int, apart: int, first: Any) -> list[Any]:
            """As `added_in_pairs` does, of what a lane of a register of columns sums there."""
            if apart < LANES:
                pairs = zip(summed(lane, 2 * apart, first), summed(lane + apart, 2 * apart, first), strict=True)
                return [builder.fadd(*pair) for pair in pairs]
            for total in sums[lane]:
                builder.store(of_lanes(FLOAT, LANES)(None), total)
            add_columns(sums[lane], INT64(lane), whole, LANES, first)
            return [builder.load(total) for total in sums[lane]]

        with cgutils.for_range_slice(builder, INT64(0), arguments[3], INT64(LANES), INT64) as (first, _):
            for total, value in zip(sums[0], summed(0, 1, first), strict=True):
                builder.store(value, total)
            add_columns(sums[0], whole, width, 1, first)
            for total, target in zip(sums[0], targets, strict=True):
                put(builder, target, first, builder.load(total))
        return context.get_dummy_value()

    return types.void(out, columns, x, stop), code


dots_with_columns: Any = intrinsic(dots_by_columns)


def weighted_sum_of(vectors: int) -> Callable[..., Any]:
    """`add(out, weights, rows, start, stop)`: to so many rows of `out`, the rows from `start` to `stop` in their order,
    each times its weight for the row of `out`. Memory is asked for a few rows ahead."""

    def add(typing, out, weights, rows, start, stop):
        def code(context, builder, signature, arguments):
            sums, factors, many = (
                context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(3)
            )
            targets, weight_rows = (
                [row_pointer(builder, array, INT64(number)) for number in range(vectors)] for array in (sums, factors)
            )
            columns = builder.extract_value(sums.shape, 1)
            twice, whole = (builder.and_(columns, INT64(-lanes)) for lanes in (2 * LANES, LANES))
            pieces = (INT64(0), twice, LANES, 2), (twice, whole, LANES, 1), (whole, columns, 1, 1)
            for first, last, lanes, count in pieces:
                with cgutils.for_range_slice(builder, first, last, INT64(lanes * count), INT64) as (column, _):
                    places = [builder.add(column, INT64(lanes * number)) for number in range(count)]
                    add_weighted(builder, targets, weight_rows, many, arguments[3:], places, lanes)
            return context.get_dummy_value()

        return types.void(out, weights, rows, start, stop), code

    return intrinsic(add)


def add_weighted(
    builder: Any,
    targets: Sequence[Any],
    weight_rows: Sequence[Any],
    many: Any,
    bounds: Sequence[Any],
    places: Sequence[Any],
    lanes: int,
) -> None:
    """To so many columns of all targets, from each of these places on."""
    sums = [
        [cgutils.alloca_once_value(builder, loaded(builder, target, place, lanes)) for place in places]
        for target in targets
    ]
    with cgutils.for_range_slice(builder, bounds[0], bounds[1], INT64(1), INT64) as (number, _):
        row, coming = (row_pointer(builder, many, builder.add(number, INT64(ahead))) for ahead in (0, WEIGHTS))
        ask(builder, builder.gep(coming, [places[0]]))
        values = [loaded(builder, row, place, lanes) for place in places]
        for own, weight_row in zip(sums, weight_rows, strict=True):
            weight = in_all_lanes(builder, loaded(builder, weight_row, number, 1), lanes)
            for total, value in zip(own, values, strict=True):
                add_product(builder, total, weight, value)
    for own, target in zip(sums, targets, strict=True):
        for total, place in zip(own, places, strict=True):
            put(builder, target, place, builder.load(total))


def add_product(builder: Any, total: Any, a: Any, b: Any) -> None:
    product = builder.fmul(a, b, flags=CONTRACT)
    builder.store(builder.fadd(builder.load(total), product, flags=CONTRACT), total)


def in_all_lanes(builder: Any, number: Any, lanes: int) -> Any:
    if lanes == 1:
        return number
    one = builder.insert_element(of_lanes(FLOAT, LANES)(ir.Undefined), number, INT32(0))
    return builder.shuffle_vector(one, one, of_lanes(INT32, LANES)(None))


def of_lanes(number: Any, lanes: int) -> Any:
    return number if lanes == 1 else ir.VectorType(number, lanes)


def row_pointer(builder: Any, array: Any, row: Any) -> Any:
    start = builder.mul(row, builder.extract_value(array.strides, 0))
    number = array.data.type
    return builder.bitcast(builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [start]), number)


def loaded(builder: Any, row: Any, column: Any, lanes: int) -> Any:
    number = row.type.pointee
    pointer = builder.bitcast(builder.gep(row, [column]), of_lanes(number, lanes).as_pointer())
    return builder.load(pointer, align=4 if number == FLOAT else number.width // 8)


def put(builder: Any, row: Any, column: Any, values: Any) -> None:
    number = row.type.pointee
    pointer = builder.bitcast(builder.gep(row, [column]), values.type.as_pointer())
    builder.store(values, pointer, align=4 if number == FLOAT else number.width // 8)


def widened(builder: Any, weights: Any, lanes: int) -> Any:
    """In single precision; bfloat16 comes as the upper half of the bits of one."""
    number = weights.type.element if lanes > 1 else weights.type
    if number == FLOAT:
        return weights
    whole = of_lanes(INT32, lanes)
    half = ir.Constant(whole, 16 if lanes == 1 else [16] * lanes)
    return builder.bitcast(builder.shl(builder.zext(weights, whole), half), of_lanes(FLOAT, lanes))


def added_in_pairs(builder: Any, lanes: Any) -> Any:
    """Of lanes 0 … 2n, lane l and lane l + n, until one is left."""
    for half in (count for count in (8, 4, 2, 1) if count < LANES):
        low, high = (ir.Constant(ir.VectorType(INT32, half), list(range(at, at + half))) for at in (0, half))
        parts = (builder.shuffle_vector(lanes, lanes, which) for which in (low, high))
        lanes = builder.fadd(*parts, flags=CONTRACT)
    return builder.extract_element(lanes, INT32(0))


def ask(builder: Any, pointer: Any) -> None:
    """Ask memory for what will be needed; an address behind the end does no harm."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, INT32, INT32, INT32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    to_read, locality, data = INT32(0), INT32(2), INT32(1)
    builder.call(function, [builder.bitcast(pointer, byte), to_read, locality, data])


def widen_rows(typing, out, weights, rows):
    """Four rows of a matrix in single precision, as the rows of `out`; memory is asked for the next behind each."""

    def code(context, builder, signature, arguments):
        made, matrix = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 1))
        now = cgutils.unpack_tuple(builder, arguments[2])
        sources = [row_pointer(builder, matrix, row) for row in now]
        coming = [row_pointer(builder, matrix, builder.add(row, INT64(1))) for row in now]
        targets = [row_pointer(builder, made, INT64(number)) for number in range(WEIGHTS)]
        columns = builder.extract_value(matrix.shape, 1)
        whole = builder.and_(columns, INT64(-LANES))
        for start, stop, lanes in ((INT64(0), whole, LANES), (whole, columns, 1)):
            with cgutils.for_range_slice(builder, start, stop, INT64(lanes), INT64) as (column, _):
                for source, after, target in zip(sources, coming, targets, strict=True):
                    ask(builder, builder.gep(after, [column]))
                    wide = widened(builder, loaded(builder, source, column, lanes), lanes)
                    put(builder, target, column, wide)
        return context.get_dummy_value()

    return types.void(out, weights, rows), code


widen: Any = intrinsic(widen_rows)


def prefetch_row(typing, matrix, row):
    """Ask memory for a row, where it is not to be multiplied."""

    def code(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        start, columns = row_pointer(builder, array, arguments[1]), builder.extract_value(array.shape, 1)
        with cgutils.for_range_slice(builder, INT64(0), columns, INT64(LANES), INT64) as (column, _):
            ask(builder, builder.gep(start, [column]))
        return context.get_dummy_value()

    return types.void(matrix, row), code


prefetch: Any = intrinsic(prefetch_row)
