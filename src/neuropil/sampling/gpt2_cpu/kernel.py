"""One token through GPT-2, compiled: every weight is read once, in the order in which it lies in memory.

    x ← x + W_O Attention(W_QKV N(x))
    x ← x + W₂ φ(W₁ N(x))                              for every layer
    logits = E N(x)

For one token every product is one of a matrix and a vector, which takes as long as it takes to read the matrix. So its
rows are dealt out to a team of threads, each of which streams through its own, and a weight is widened to single
precision in the register where it is used. All members run the same function and meet after each product. An output is
computed by one member, in one order: the number of threads changes no bit.

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
from neuropil.parts.compilation import compiled_in_any_order
from neuropil.parts.threads.barrier import barrier, thread_range

ERRORS = (NumbaError, OSError, RuntimeError)
"""What Numba raises where it cannot compile."""
NOTHING, ADDED, GELU_TANH, GELU, RELU, QUICK_GELU = range(6)
ACTIVATIONS: dict[HiddenName, int] = {"gelu_tanh": GELU_TANH, "gelu": GELU, "relu": RELU, "quick_gelu": QUICK_GELU}

STREAMS = 4
"""Places of a matrix that a member reads at the same time: one alone leaves the memory waiting wherever a page ends."""


# --- the pieces of the model ------------------------------------------------------------------------------------------


def widened(number):
    """A weight in single precision; bfloat16, which Numba does not know, comes as the upper half of the bits of one."""
    raise NotImplementedError


@overload(widened)
def widened_by_type(number):
    if number == types.uint16:
        return lambda number: np.uint32(np.uint32(number) << np.uint32(16)).view(np.float32)
    return lambda number: np.float32(number)


@compiled_in_any_order
def dot(weights, x):
    total = np.float32(0)
    for column in range(weights.shape[0]):
        total += widened(weights[column]) * x[column]
    return total


@compiled_in_any_order
def activated(z, activation):
    if activation == GELU_TANH:
        # ½ z (1 + tanh u) = z σ(2u),   u = √(2/π) (z + 0.044715 z³)
        return z / (1 + math.exp(np.float32(-1.5957691216057308) * (z + np.float32(0.044715) * z * z * z)))
    if activation == GELU:
        # z Φ(z)
        return z * np.float32(0.5) * (1 + math.erf(z * np.float32(math.sqrt(0.5))))
    if activation == RELU:
        return max(z, np.float32(0))
    if activation == QUICK_GELU:
        # z σ(1.702 z)
        return z / (1 + math.exp(np.float32(-1.702) * z))
    return z


@compiled_in_any_order
def dots(weights, rows, x):
    """Of four rows at once, each from its own place in memory."""
    a, b, c, d = weights[rows[0]], weights[rows[1]], weights[rows[2]], weights[rows[3]]
    of_a = of_b = of_c = of_d = np.float32(0)
    for column in range(weights.shape[1]):
        of_a += widened(a[column]) * x[column]
        of_b += widened(b[column]) * x[column]
        of_c += widened(c[column]) * x[column]
        of_d += widened(d[column]) * x[column]
    return of_a, of_b, of_c, of_d


@compiled_in_any_order
def linear(y, matrix, x, activation, team):
    mine = thread_range(matrix.weights.shape[0], team)
    apart = (len(mine) + STREAMS - 1) // STREAMS
    for row in range(mine.start, mine.start + apart):
        # The last stream may be shorter than the others; what it would read behind its end is not used.
        rows = (
            row,
            min(row + apart, mine.stop - 1),
            min(row + 2 * apart, mine.stop - 1),
            min(row + 3 * apart, mine.stop - 1),
        )
        sums = dots(matrix.weights, rows, x)
        for stream in range(STREAMS):
            place = row + stream * apart
            if place < mine.stop:
                # y_i = φ(s_i Σ_j W_ij x_j + b_i)
                value = activated(sums[stream] * matrix.scale[place] + matrix.bias[place], activation)
                y[place] = y[place] + value if activation == ADDED else value
    barrier(team)


@compiled_in_any_order
def normalised(x, norm):
    # N(x) = g ∘ (x − μ) / √(σ² + ε) + b
    width = np.float32(x.shape[0])
    centred = x - x.sum() / width
    return norm.weight * centred / np.sqrt(dot(centred, centred) / width + norm.epsilon) + norm.bias


@compiled_in_any_order
def attend(mixed, projected, cache, length, team):
    """What each head takes from `length` tokens and from this one, whose key and value join the cache."""
    keys, values = cache
    heads, _, width = keys.shape
    queries_keys_values = projected[: 3 * heads * width].reshape((3, heads, width))
    for head in thread_range(heads, team):
        query = queries_keys_values[0, head]
        keys[head, length], values[head, length] = queries_keys_values[1, head], queries_keys_values[2, head]
        # a_t ∝ exp(q·k_t / √d)
        weights = np.empty(length + 1, np.float32)
        for time in range(length + 1):
            weights[time] = dot(keys[head, time], query) / np.float32(math.sqrt(width))
        weights = np.exp(weights - weights.max())
        weights /= weights.sum()
        # o = Σ_t a_t v_t
        out = mixed[head * width : (head + 1) * width]
        out[:] = 0
        for time in range(length + 1):
            for column in range(width):
                out[column] += weights[time] * values[head, time, column]
    barrier(team)


@compiled_in_any_order
def step(x, layers, caches, norm, embedding, room, length, activation, team):
    """From the embedding x of a token, which becomes the end of the last block, to `room.logits`."""
    for number in range(len(layers)):
        layer = layers[number]
        linear(room.projected, layer.projection, normalised(x, layer.attention_norm), NOTHING, team)
        attend(room.mixed, room.projected, caches[number], length, team)
        linear(x, layer.output, room.mixed, ADDED, team)
        linear(room.hidden, layer.inner, normalised(x, layer.feed_forward_norm), activation, team)
        linear(x, layer.outer, room.hidden, ADDED, team)
    linear(room.logits, embedding, normalised(x, norm), NOTHING, team)


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
