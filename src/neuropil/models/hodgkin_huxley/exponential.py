"""exp x and B(x) = x / (eˣ − 1), of tensors and of numbers in compiled loops, and the step of exponential Euler."""

import math
from typing import Any

import numpy as np
import torch
from numba.extending import overload, register_jitable

NEAR_ZERO = 1e-3
"""Where B(x) is computed by its series, because eˣ − 1 has too few digits left."""
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
ROUNDER = 1.5 * 2.0**52
"""So large that what is added to it is rounded to a whole number, which then stands in its lowest bits."""
F3, F4, F5, F6, F7, F8, F9, F10, F11, F12 = (1 / math.factorial(k) for k in range(3, 13))
COMPILED: Any = {"error_model": "numpy", "forceinline": True, "fastmath": {"contract", "arcp"}}
"""All in one piece, or a loop around it would take one number at a time; a product and a sum may be rounded once, and a
division by a constant may be a product."""
both: Any = register_jitable(**COMPILED)
"""A function that Python calls with tensors and compiled code with numbers."""


def exp(x):
    return torch.exp(x)


def bernoulli(x):
    near = x.abs() < NEAR_ZERO
    apart = torch.where(near, 1.0, x)  # what is not chosen must be finite, or its gradient would be no number
    return torch.where(near, 1 - x / 2 + x * x / 12, apart / torch.expm1(apart))


@overload(exp, jit_options=COMPILED)
def exp_of_number(x):
    """By arithmetic alone, of which a processor takes as many numbers at once as its registers hold; the exponential
    function of the C library takes one."""

    def compute(x):
        x = min(max(x, -700.0), 700.0)  # beyond, it would be nothing or infinite
        # eˣ = 2ᵏ eʳ with |r| ≤ ½ ln 2, and eʳ by its series to r¹²
        shifted = x * LOG2_E + ROUNDER
        k = shifted - ROUNDER
        r = x - k * LN2_HIGH - k * LN2_LOW
        r2 = r * r
        r4 = r2 * r2
        first = 1 + r + r2 * (0.5 + r * F3)
        second = F4 + r * F5 + r2 * (F6 + r * F7)
        third = F8 + r * F9 + r2 * (F10 + r * F11) + r4 * F12
        series = first + r4 * (second + r4 * third)
        # k is added to the exponent
        return np.int64(np.float64(series).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)).view(np.float64)

    return compute


@overload(bernoulli, jit_options=COMPILED)
def bernoulli_of_number(x):
    return lambda x: 1 - x / 2 + x * x / 12 if abs(x) < NEAR_ZERO else x / (exp(x) - 1)


@both
def relax(x, gain, loss, dt):
    """Solves dx/dt = gain − loss x for a time dt: x_∞ = gain / loss and τ = 1 / loss."""
    target = gain / loss
    return target + (x - target) * exp(-dt * loss)
