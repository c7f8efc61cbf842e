"""Dot products of four rows in bfloat16 with one vector or several, by processors that have an instruction for it.

    s_ir = Σ_j W_ij x_rj

The vectors are rounded to bfloat16 too, and lane l of a register sums the columns 2l and 2l + 1, 2l + 32 and 2l + 33 …
in single precision, two products at once; then lanes are added in pairs. As in `tile.py`, the order depends on the
number of columns alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from neuropil.parts.compilation import compiled
from neuropil.sampling.gpt2_cpu.matrix import PAIRS
from neuropil.sampling.gpt2_cpu.tile import (
    FEATURES,
    FLOAT,
    INT64,
    LANES,
    WEIGHTS,
    added_in_pairs,
    as_tile,
    ask,
    loaded,
    of_lanes,
    put,
    row_pointer,
    tile_of,
    tile_rows,
)

PAIRS_ADDED = bool(FEATURES.get("avx512bf16"))


class BFloat16(ir.Type):
    """Which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat16)

    def __hash__(self) -> int:
        return hash(BFloat16)


BFLOAT16 = BFloat16()


@compiled
def in_bfloat16(x, columns):
    """So many columns, filled up with zeros."""
    filled = (columns + PAIRS - 1) // PAIRS * PAIRS
    made, row_of_x = np.empty((x.shape[0], filled), np.uint16), np.zeros((1, filled), np.float32)
    for row in range(x.shape[0]):
        row_of_x[0, :columns] = x[row, :columns]
        round_row(made, row, row_of_x)
    return made


def round_one_row(typing, made, row, x):
    """The only row of x, as this one of the others."""

    def code(context, builder, signature, arguments):
        rounded, wide = (context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2))
        target, columns = row_pointer(builder, rounded, arguments[1]), builder.extract_value(wide.shape, 1)
        with cgutils.for_range_slice(builder, INT64(0), columns, INT64(LANES), INT64) as (column, _):
            narrow = builder.fptrunc(loaded(builder, wide.data, column, LANES), of_lanes(BFLOAT16, LANES))
            put(builder, target, column, narrow)
        return context.get_dummy_value()

    return types.void(made, row, x), code


round_row: Any = intrinsic(round_one_row)


def bfloat16_dots_with(vectors: int) -> Callable[..., Any]:
    """`dots(weights, rows, x, first)`: of four rows of a matrix with this many rows of x from `first` on. With several,
    memory is asked for the next row behind each of the four."""

    def dots(typing, weights, rows, x, first):
        def code(context, builder, signature, arguments):
            weight_rows, coming, vector_rows, columns = tile_rows(context, builder, signature, arguments, vectors)
            lanes, pairs = of_lanes(FLOAT, LANES), of_lanes(BFLOAT16, 2 * LANES)
            sums = [cgutils.alloca_once_value(builder, lanes(None)) for _ in range(WEIGHTS * vectors)]
            kind = ir.FunctionType(lanes, [lanes, pairs, pairs])
            name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * LANES}"
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            with cgutils.for_range_slice(builder, INT64(0), columns, INT64(2 * LANES), INT64) as (column, _):
                for row in coming:
                    ask(builder, builder.gep(row, [column]))
                w, of_vectors = (
                    [builder.bitcast(loaded(builder, row, column, 2 * LANES), pairs) for row in each]
                    for each in (weight_rows, vector_rows)
                )
                for number, total in enumerate(sums):
                    i, r = divmod(number, vectors)
                    builder.store(builder.call(function, [builder.load(total), w[i], of_vectors[r]]), total)
            values = [added_in_pairs(builder, builder.load(total)) for total in sums]
            return as_tile(context, builder, signature.return_type, values)

        return tile_of(vectors)(weights, rows, x, first), code

    return intrinsic(dots)
