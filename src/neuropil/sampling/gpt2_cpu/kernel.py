"""Tokens through GPT-2, compiled: every weight is read once for all of them, in the order in which it lies in memory.

    x ← x + W_O Attention(W_QKV N(x))
    x ← x + W₂ φ(W₁ N(x))                              for every layer
    logits = E N(x)

The rows of x are the newest tokens of different texts, or a piece of one. For one row every product is one of a matrix
and a vector, which takes as long as it takes to read the matrix; and sixteen take little more than the arithmetic. The
rows of a matrix are dealt out to a team of threads, each of which streams through its own, and a weight is widened in
the register where it is used. All members run the same function and meet after each product.

An output is computed by one member, in an order that depends on its own row alone: neither the number of threads nor
what else is read in the same step changes a bit, and it is all the same to a text in which pieces it is read.

This file needs Numba, and is imported only where it is used.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import NumbaError
from numba.extending import overload
from numba.typed.typedlist import List

from neuropil.parts.blocks import HiddenName
from neuropil.parts.compilation import compiled, compiled_in_any_order
from neuropil.parts.threads.barrier import barrier, thread_range
from neuropil.parts.threads.team import team_of
from neuropil.sampling.gpt2_cpu.bfloat16_tile import PAIRS_ADDED, bfloat16_dots_with, in_bfloat16
from neuropil.sampling.gpt2_cpu.integer_tile import UNPACKED, WHOLE, integer_dots_with, num_groups, round_rows, unpack
from neuropil.sampling.gpt2_cpu.matrix import (
    BLOCK,
    PACKED,
    QUADS,
    REGISTER,
    ZERO_OF_BYTES,
    ZERO_OF_NIBBLES,
)
from neuropil.sampling.gpt2_cpu.tile import (
    LANES,
    VECTORS,
    WEIGHTS,
    dots_with,
    dots_with_columns,
    prefetch,
    weighted_sum_of,
    widen,
)

ERRORS = (NumbaError, OSError, RuntimeError)
"""What Numba raises where it cannot compile."""
GELU_TANH, GELU, RELU, QUICK_GELU = range(4)
ACTIVATIONS: dict[HiddenName, int] = {"gelu_tanh": GELU_TANH, "gelu": GELU, "relu": RELU, "quick_gelu": QUICK_GELU}

dots_with_one, dots_with_several = dots_with(1), dots_with(VECTORS)
bfloat16_dots_with_one, bfloat16_dots_with_several = bfloat16_dots_with(1), bfloat16_dots_with(VECTORS)
integer_dots_with_one, integer_dots_with_several = integer_dots_with(1), integer_dots_with(VECTORS)
add_one_weighted, add_several_weighted = weighted_sum_of(1), weighted_sum_of(VECTORS)
ALL = tuple(range(WEIGHTS))


def padded_rows(rows: int) -> int:
    """How many rows there must be room for: one, or a multiple of what a tile has."""
    return rows if rows == 1 else (rows + VECTORS - 1) // VECTORS * VECTORS


# --- the pieces of the model ------------------------------------------------------------------------------------------


def element(matrix, row, column):
    """W_ij in single precision."""


@overload(element)
def element_of(matrix, row, column):
    weights, _, _, groups, *_ = matrix.types
    if weights.dtype == types.float32:
        return lambda matrix, row, column: matrix.weights[row, column]
    if weights.dtype == types.uint16:
        return lambda matrix, row, column: from_bfloat16(matrix.weights[row, column])
    if groups.dtype != types.uint16:
        return lambda matrix, row, column: np.float32(matrix.weights[row, column] - ZERO_OF_BYTES) * matrix.scale[row]
    return lambda matrix, row, column: nibble_times_factor(matrix, row, column)


@compiled
def from_bfloat16(upper_half):
    return np.uint32(upper_half << 16).view(np.float32)


@compiled
def nibble_times_factor(matrix, row, column):
    byte = matrix.weights[row, column // PACKED * REGISTER + column % REGISTER]
    nibble = byte >> 4 if column % PACKED >= REGISTER else byte & 15
    group = column // BLOCK * QUADS + column % REGISTER // (REGISTER // QUADS)
    return np.float32(nibble - ZERO_OF_NIBBLES) * from_bfloat16(matrix.groups[row, group])


@compiled
def embed(x, numbers, places, tokens, positions, team):
    """x = E[token] + P[place]"""
    for row in range(len(numbers)):
        for column in thread_range(x.shape[1], team):
            x[row, column] = element(tokens, numbers[row], column) + positions[places[row], column]


def linear(y, matrix, x, added, team):
    """y = s ∘ (W x) + b for every row, or that added to y. A member reads its part of the matrix in four places at the
    same time: one alone leaves the memory waiting wherever a page ends."""


@overload(linear)
def linear_for(y, matrix, x, added, team):
    weights, _, _, groups, *_ = matrix.types
    if weights.dtype == types.uint8:
        zero = ZERO_OF_NIBBLES if groups.dtype == types.uint16 else ZERO_OF_BYTES
        return lambda y, matrix, x, added, team: integer_linear(y, matrix, x, added, zero, team)
    if weights.dtype == types.uint16 and PAIRS_ADDED:
        return lambda y, matrix, x, added, team: bfloat16_linear(y, matrix, x, added, team)
    return lambda y, matrix, x, added, team: float_linear(y, matrix, x, added, team)


@compiled
def float_linear(y, matrix, x, added, team):
    mine = thread_range(matrix.weights.shape[0], team)
    narrow = matrix.weights.itemsize < 4 and x.shape[0] > VECTORS
    columns = matrix.columns  # x may have more, where heads were removed
    weights = matrix.weights[:, :columns]
    wide = apart_rows(WEIGHTS if narrow else 0, columns)
    several = apart_rows(x.shape[0] if narrow else 0, columns)
    several[:] = x[: len(several), :columns]
    for first in range(mine.start, mine.start + apart(mine)):
        places, distinct = streams(first, mine)
        if narrow:  # widened once for all vectors
            widen(wide, weights, places)
            for row in range(0, x.shape[0], VECTORS):
                put(y, row, matrix, places, distinct, dots_with_several(wide, ALL, several, row), added)
        elif x.shape[0] == 1:
            put(y, 0, matrix, places, distinct, dots_with_one(weights, places, x, 0), added)
        else:
            for row in range(0, x.shape[0], VECTORS):
                sums = dots_with_several(weights, places, x, row)
                put(y, row, matrix, places, distinct, sums, added)


@compiled
def bfloat16_linear(y, matrix, x, added, team):
    mine = thread_range(matrix.weights.shape[0], team)
    rounded = in_bfloat16(x, matrix.columns)
    for first in range(mine.start, mine.start + apart(mine)):
        places, distinct = streams(first, mine)
        if x.shape[0] == 1:
            put(y, 0, matrix, places, distinct, bfloat16_dots_with_one(matrix.weights, places, rounded, 0), added)
        else:
            for row in range(0, x.shape[0], VECTORS):
                sums = bfloat16_dots_with_several(matrix.weights, places, rounded, row)
                put(y, row, matrix, places, distinct, sums, added)


@compiled
def integer_linear(y, matrix, x, added, zero, team):
    mine = thread_range(matrix.weights.shape[0], team)
    columns = (matrix.columns + PACKED - 1) // PACKED * PACKED
    whole = np.empty((x.shape[0], columns), WHOLE)
    scale = np.empty((x.shape[0], num_groups(columns)), np.float32)
    offset = np.empty(scale.shape, np.int32)
    wide = np.empty((WEIGHTS, columns if x.shape[0] > 1 else 0), UNPACKED)
    round_rows(whole, scale, offset, x, matrix.columns, zero)
    for first in range(mine.start, mine.start + apart(mine)):
        places, distinct = streams(first, mine)
        if x.shape[0] == 1:
            sums = integer_dots_with_one(matrix.weights, places, matrix.groups, places, whole, scale, offset, 0)
            put(y, 0, matrix, places, distinct, sums, added)
        else:
            unpack(wide, matrix.weights, places, matrix.groups)
            for row in range(0, x.shape[0], VECTORS):
                sums = integer_dots_with_several(wide, ALL, matrix.groups, places, whole, scale, offset, row)
                put(y, row, matrix, places, distinct, sums, added)


@compiled
def apart_rows(rows, columns):
    """Whose beginnings do not lie a whole number of pages apart, which processors of AMD take for the same place."""
    return np.empty((rows, columns + 32), np.float32)[:, :columns]


@compiled
def apart(mine):
    return (len(mine) + WEIGHTS - 1) // WEIGHTS


@compiled
def streams(first, mine):
    """The four rows that are multiplied together, and how many of them are distinct. The last stream may be shorter
    than the others; what it would read behind its end is not used."""
    between, last = apart(mine), mine.stop - 1
    places = (first, min(first + between, last), min(first + 2 * between, last), min(first + 3 * between, last))
    return places, min((last - first) // between + 1, WEIGHTS)


@compiled
def put(y, row, matrix, places, distinct, sums, added):
    for stream in range(distinct):
        place = places[stream]
        for vector in range(len(sums[stream])):
            # y_i = s_i Σ_j W_ij x_j + b_i
            value = sums[stream][vector] * matrix.scale[place] + matrix.bias[place]
            y[row + vector, place] = y[row + vector, place] + value if added else value


@compiled
def exponential(x):
    """Within 2⁻²² of eˣ from e⁻⁸⁷ to e⁸⁸, and no further; without a call, so that a loop computes sixteen at once."""
    # eˣ = 2ⁿ eʳ,   n = ⌊x / ln 2 + ½⌋,   eʳ ≈ 1 + r + r² p(r)
    within = min(max(x, np.float32(-87)), np.float32(88))
    n = np.floor(within * np.float32(1 / math.log(2)) + np.float32(0.5))
    r = within - n * np.float32(0.693359375) - n * np.float32(-2.12194440e-4)  # ln 2, whose first digits are exact
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    power = np.uint32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return x if x != x else (p * r * r + r + np.float32(1)) * power  # what is no number stays so


@compiled_in_any_order
def activate(y, units, activation):
    for row in range(y.shape[0]):
        z = y[row, units.start : units.stop]
        if activation == GELU_TANH:
            for unit in range(len(z)):
                # ½ z (1 + tanh u) = z σ(2u),   u = √(2/π) (z + 0.044715 z³)
                doubled = np.float32(1.5957691216057308) * (z[unit] + np.float32(0.044715) * z[unit] ** 3)
                z[unit] /= np.float32(1) + exponential(-doubled)
        elif activation == GELU:
            for unit in range(len(z)):
                # z Φ(z)
                z[unit] *= np.float32(0.5) * (np.float32(1) + math.erf(z[unit] * np.float32(math.sqrt(0.5))))
        elif activation == RELU:
            for unit in range(len(z)):
                z[unit] = max(z[unit], np.float32(0))
        else:
            for unit in range(len(z)):
                # z σ(1.702 z)
                z[unit] /= np.float32(1) + exponential(np.float32(-1.702) * z[unit])


@compiled_in_any_order
def normalise(out, x, norm):
    # N(x) = g ∘ (x − μ) / √(σ² + ε) + b
    width = np.float32(x.shape[1])
    for row in range(x.shape[0]):
        mean = variance = np.float32(0)
        for column in range(x.shape[1]):
            mean += x[row, column]
        mean /= width
        for column in range(x.shape[1]):
            variance += (x[row, column] - mean) ** 2
        scale = np.float32(1) / np.sqrt(variance / width + norm.epsilon)
        for column in range(x.shape[1]):
            out[row, column] = norm.weight[column] * ((x[row, column] - mean) * scale) + norm.bias[column]


@compiled_in_any_order
def attend(mixed, projected, cache, slots, places, team):
    """What each head takes from the text of each row up to this token, whose key and value join the cache."""
    keys, values = cache
    _, heads, context, width = keys.shape
    mine = thread_range(heads, team)
    weights = np.empty((VECTORS, context + LANES), np.float32)
    columns = np.empty((width, context + LANES if len(slots) >= VECTORS else 0), np.float32)
    for row in range(len(slots)):  # all of them first, as rows of one text see each other
        for head in mine:
            key, value = (heads + head) * width, (2 * heads + head) * width
            keys[slots[row], head, places[row]] = projected[row, key : key + width]
            values[slots[row], head, places[row]] = projected[row, value : value + width]
    row = 0
    while row < len(slots):
        text = rows_of_a_text(slots, row)
        whole = len(text) // VECTORS * VECTORS
        for head in mine:
            own_keys, own_values = keys[slots[row], head], values[slots[row], head]
            of_head = slice(head * width, (head + 1) * width)
            if whole:
                transpose(columns, own_keys, places[row] + whole)
            for first in range(row, row + whole, VECTORS):
                rows, length = slice(first, first + VECTORS), places[first] + 1
                attend_together(mixed[rows, of_head], projected[rows, of_head], columns, own_values, length, weights)
            for other in range(row + whole, text.stop):
                one, length = slice(other, other + 1), places[other] + 1
                attend_alone(mixed[one, of_head], projected[one, of_head], own_keys, own_values, length, weights)
        row = text.stop


@compiled
def rows_of_a_text(slots, first):
    """From this one on."""
    stop = first + 1
    while stop < len(slots) and slots[stop] == slots[first]:
        stop += 1
    return range(first, stop)


@compiled
def transpose(columns, rows, count):
    for row in range(count):
        for column in range(len(columns)):
            columns[column, row] = rows[row, column]


@compiled
def attend_together(out, queries, key_columns, values, length, weights):
    """For `VECTORS` tokens, of which each sees one more."""
    longest = length + VECTORS - 1
    dots_with_columns(weights, key_columns, queries, longest)
    for row in range(VECTORS):
        normalise_exponentials(weights[row, :longest], length + row, queries.shape[1])
    out[:] = 0
    add_several_weighted(out, weights, values, 0, longest)


@compiled
def attend_alone(out, query, keys, values, length, weights):
    # a_t ∝ exp(q·k_t / √d),   o = Σ_t a_t v_t
    for time in range(0, length, WEIGHTS):
        sums = dots_with_one(keys, four_from(time, length), query, 0)
        for number in range(WEIGHTS):
            weights[0, time + number] = sums[number][0]
            prefetch(keys, time + WEIGHTS + number)
    normalise_exponentials(weights[0, :length], length, query.shape[1])
    out[:] = 0
    add_one_weighted(out, weights, values, 0, length)


@compiled_in_any_order
def normalise_exponentials(own, length, width):
    """Those of so many times; the others are 0."""
    root = np.float32(math.sqrt(width))
    largest = own[0]
    for time in range(1, length):
        largest = max(largest, own[time])
    total = np.float32(0)
    for time in range(length):
        own[time] = exponential((own[time] - largest) / root)
        total += own[time]
    for time in range(length):
        own[time] /= total
    own[length:] = 0


@compiled
def four_from(time, length):
    """Behind the end, the last again, which is not used there."""
    last = length - 1
    return time, min(time + 1, last), min(time + 2, last), min(time + 3, last)


@compiled
def step(numbers, layers, tokens, positions, norm, output, caches, room, slots, places, first, activation, team):
    """From tokens to `room.logits`, those of the rows from `first` on. Row r is the token `numbers[r]` at place
    `places[r]` of the text in slot `slots[r]`; further rows fill the room up."""
    x, normed = room.stream, np.empty_like(room.stream)
    embed(x, numbers, places, tokens, positions, team)
    barrier(team)
    for number in range(len(layers)):
        layer = layers[number]
        normalise(normed, x, layer.attention_norm)
        linear(room.projected, layer.projection, normed, False, team)
        barrier(team)
        attend(room.mixed, room.projected, caches[number], slots, places, team)
        barrier(team)
        linear(x, layer.output, room.mixed, True, team)
        barrier(team)
        normalise(normed, x, layer.feed_forward_norm)
        linear(room.hidden, layer.inner, normed, False, team)
        activate(room.hidden, thread_range(layer.inner.weights.shape[0], team), activation)
        barrier(team)
        linear(x, layer.outer, room.hidden, True, team)
        barrier(team)
    normalise(normed, x, norm)
    linear(room.logits, output, normed[first : first + len(room.logits)], False, team)


def run_step(threads: int, *arguments: Any) -> None:
    team_of(threads).run(step, *arguments)


# --- lists for compiled functions, made by compiled functions, because Numba's own are compiled anew in every process -


@compiled_in_any_order
def list_of_one(item):
    return List([item])


@compiled_in_any_order
def append(items, item):
    items.append(item)


def listed(items: Sequence[Any]) -> Any:
    made = list_of_one(items[0])
    for item in items[1:]:
        append(made, item)
    return made
