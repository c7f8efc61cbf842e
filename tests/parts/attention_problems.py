"""Queries, keys and values with limits, every score of attention, and their formula, written out pair by pair in
NumPy."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from neuropil.parts.attention import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    Hard,
    Hopfield,
    ScaledDot,
    Score,
    Smoothing,
)
from neuropil.parts.kernels import Boxcar, Epanechnikov, Gaussian, Laplacian, Matern, Periodic, RationalQuadratic

DOUBLE = torch.float64
HIDDEN = 7
KERNELS = {
    "Gaussian": Gaussian(1.3),
    "Laplacian": Laplacian(0.8),
    "Matern": Matern(1.1),
    "RationalQuadratic": RationalQuadratic(0.9, alpha=0.6),
    "Periodic": Periodic(0.7, period=2.3),
    "Epanechnikov": Epanechnikov(2.5),
    "Boxcar": Boxcar(2.5),
}
KERNEL_FORMULAS: dict[str, Callable[[float], float]] = {
    "Gaussian": lambda r: math.exp(-(r**2) / (2 * 1.3**2)),
    "Laplacian": lambda r: math.exp(-r / 0.8),
    "Matern": lambda r: (1 + math.sqrt(3) * r / 1.1) * math.exp(-math.sqrt(3) * r / 1.1),
    "RationalQuadratic": lambda r: (1 + r**2 / (2 * 0.6 * 0.9**2)) ** -0.6,
    "Periodic": lambda r: math.exp(-2 * math.sin(math.pi * r / 2.3) ** 2 / 0.7**2),
    "Epanechnikov": lambda r: max(0.0, 1 - (r / 2.5) ** 2),
    "Boxcar": lambda r: float(r <= 2.5),
}
PARAMETRISED = ("General", "Additive", "Concat")
INNER_PRODUCTS = ("ScaledDot", "Dot", "Hopfield", "Cosine", "General", "Gaussian")
SOFT = ("ScaledDot", "Dot", "Hopfield", "Cosine", *PARAMETRISED, *KERNELS)
NAMES = (*SOFT, "Hard", "Hard(Additive)")
LIMITS = ("none", "padding", "causal", "padding and causal", "arbitrary", "bias", "bias and arbitrary")
LEADING = ((), (3,), (2, 3), (2, 1, 2))


def make_score(name: str, width: int) -> Score:
    if name in KERNELS:
        return Smoothing(KERNELS[name])
    makers: dict[str, Callable[[], Score]] = {
        "ScaledDot": ScaledDot,
        "Dot": Dot,
        "Hopfield": lambda: Hopfield(beta=1.7),
        "Cosine": lambda: Cosine(beta=2.3),
        "General": lambda: General(width, width).double(),
        "Additive": lambda: Additive(width, width, HIDDEN).double(),
        "Concat": lambda: Concat(width, width, HIDDEN).double(),
        "Hard": Hard,
        "Hard(Additive)": lambda: Hard(Additive(width, width, HIDDEN).double()),
    }
    return makers[name]()


def formula(score: Score, name: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """exp(score) of one query and one key, as the field writes it."""
    if name in KERNELS:
        return lambda q, k: KERNEL_FORMULAS[name](float(np.linalg.norm(q - k)))
    inner = score.score if isinstance(score, Hard) else score
    weights = (
        {key: value.detach().numpy() for key, value in inner.named_parameters()}
        if isinstance(inner, torch.nn.Module)
        else {}
    )
    return {
        "ScaledDot": lambda q, k: math.exp(q @ k / math.sqrt(len(q))),
        "Dot": lambda q, k: math.exp(q @ k),
        "Hopfield": lambda q, k: math.exp(1.7 * q @ k),
        "Cosine": lambda q, k: math.exp(2.3 * q @ k / (np.linalg.norm(q) * np.linalg.norm(k))),
        "General": lambda q, k: math.exp(q @ weights["weight"] @ k),
        "Additive": lambda q, k: math.exp(
            weights["weight"] @ np.tanh(weights["query.weight"] @ q + weights["key.weight"] @ k)
        ),
        "Concat": lambda q, k: math.exp(
            weights["weight"] @ np.tanh(weights["projection.weight"] @ np.concatenate([q, k]))
        ),
    }[{"Hard": "ScaledDot", "Hard(Additive)": "Additive"}.get(name, name)]


class Problem(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    bias: Tensor | None

    @property
    def limits(self) -> dict[str, Any]:
        return {"mask": self.mask, "causal": self.causal, "bias": self.bias}

    @property
    def pairs(self) -> tuple[int, ...]:
        return (*self.query.shape[:-1], self.key.shape[-2])


def make_problem(leading: tuple[int, ...], queries: int, keys: int, width: int, v_width: int, limit: str) -> Problem:
    query, key = torch.randn(*leading, queries, width, dtype=DOUBLE), torch.randn(*leading, keys, width, dtype=DOUBLE)
    value = torch.randn(*leading, keys, v_width, dtype=DOUBLE)
    mask = bias = None
    if "padding" in limit:
        lengths = torch.randint(0, keys + 1, leading)
        mask = (torch.arange(keys) < lengths[..., None])[..., None, :]
    if "arbitrary" in limit:
        mask = torch.rand(*leading, queries, keys) < 0.6
    if "bias" in limit:
        bias = torch.randn(*leading, queries, keys, dtype=DOUBLE)
    return Problem(query, key, value, mask, "causal" in limit, bias)


@st.composite
def problems(draw: st.DrawFn, limits: tuple[str, ...] = LIMITS) -> Problem:
    sizes = [draw(st.integers(1, 6)) for _ in range(4)]
    torch.manual_seed(draw(st.integers(0, 2**16)))
    return make_problem(draw(st.sampled_from(LEADING)), *sizes, limit=draw(st.sampled_from(limits)))


def written_out(problem: Problem, name: str, score: Score) -> np.ndarray:
    """The weights, one pair of a query and a key after the other."""
    raised = formula(score, name)
    query, key = problem.query.detach().numpy(), problem.key.detach().numpy()
    weights = np.zeros(problem.pairs)
    mask = (
        np.ones(problem.pairs, dtype=bool)
        if problem.mask is None
        else np.broadcast_to(problem.mask.numpy(), problem.pairs)
    )
    bias = np.zeros(problem.pairs) if problem.bias is None else np.broadcast_to(problem.bias.numpy(), problem.pairs)
    num_queries, num_keys = problem.pairs[-2:]
    for *batch, i in np.ndindex(*problem.pairs[:-1]):
        place = tuple(batch)
        for j in range(num_keys):
            seen = not problem.causal or j <= i + num_keys - num_queries
            if mask[(*place, i, j)] and seen:
                weights[(*place, i, j)] = raised(query[(*place, i)], key[(*place, j)]) * math.exp(bias[(*place, i, j)])
    if name.startswith("Hard"):
        weights = (weights == weights.max(-1, keepdims=True)) & (weights > 0)
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros(problem.pairs), where=total > 0)
