"""Differential equations that a person types, and their numerical solution.

    Equations(["y", "-x"]).solve([1.0, 0.0], duration=1000.0, dt=1.0)        dx/dt = y, dy/dt = −x, per second

Expressions are read by the project's own parser and never run as code.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from neuropil.errors import InputError
from neuropil.parts.expression import Expression

NAMES = ("x", "y", "z", "u", "v", "w")


class Solution(NamedTuple):
    """Of the equations, by a solver, with where it lies."""

    times: Float[np.ndarray, " step"]
    values: Float[np.ndarray, "step variable"]

    @property
    def middle(self) -> Float[np.ndarray, " variable"]:
        return (self.values.max(0) + self.values.min(0)) / 2

    @property
    def reach(self) -> Float[np.ndarray, " variable"]:
        """Half of its range, 1 where it stands still."""
        half = np.ptp(self.values, axis=0) / 2
        return np.where(half > 0, half, 1.0)


class Equations:
    def __init__(self, texts: Sequence[str]):
        self.texts, self.variables = texts, NAMES[: len(texts)]
        self.expressions = [Expression(text, self.variables) for text in texts]

    def __call__(self, values: np.ndarray) -> list[float]:
        return [float(expression(*map(float, values))) for expression in self.expressions]

    def solve(self, start: Sequence[float], duration: float, dt: float) -> Solution:
        from scipy.integrate import solve_ivp

        times = dt * np.arange(1, round(duration / dt) + 1)
        solved = solve_ivp(
            lambda _, values: self(values),
            (0, times[-1] / 1000),
            start,
            t_eval=times / 1000,
            method="DOP853",
            rtol=1e-8,
            atol=1e-10,
        )
        if not solved.success or len(solved.t) != len(times) or not np.isfinite(solved.y).all():
            got = f"one that ends after {solved.t[-1] if len(solved.t) else 0:.3g} s"
            fix = "change the start or the duration"
            raise InputError("the equations must have a solution for the whole duration", got=got, fix=fix)
        return Solution(times, solved.y.T)
