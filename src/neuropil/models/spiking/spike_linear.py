"""A linear layer behind spikes, most of which are absent: only the weights of neurons that spike are added up.

    y_r = b + Σ_{i: s_ri ≠ 0} s_ri W_·i        a row r is a step of an example
    ∂L/∂W_·i = Σ_{r: s_ri ≠ 0} s_ri g_r        g = ∂L/∂y
    ∂L/∂s_r = g_r W                            g is dense, and so is this product

At a density of spikes of 5 % that is a twentieth of the dense product's additions, each at the speed of the cache
instead of that of the arithmetic. Which of the two computes depends on the number of spikes and on sizes, never on a
clock, so that the same seed gives the same weights. They differ by rounding."""

from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.spiking.torch_team import claim, on_torch_threads, torch_team
from neuropil.parts.compilation import compiled

DENSE, DENSE_GRADIENT = 0.2, 0.1
"""Densities of spikes from which the dense product is used, and that of the weights' gradient."""
FEWEST_ROWS, FEWEST_OUTPUTS = 256, 32
"""Below, sorting the weights and looking for spikes costs what is saved."""
TILE = 64
"""Columns of a matrix whose numbers stay in the processor's second cache while all rows go by."""


class SpikeLinear(nn.Linear):
    """`nn.Linear` for spikes over time."""

    def forward(self, input: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        large = input.numel() >= FEWEST_ROWS * self.in_features and self.out_features >= FEWEST_OUTPUTS
        known = input.device.type == "cpu" and input.dtype == self.weight.dtype == torch.float32
        if not (large and known and has_kernel()) or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
            return super().forward(input)
        spikes = find_spikes(input, DENSE)
        if spikes is None:
            return super().forward(input)
        return cast(Any, SpikeProduct.apply)(input, self.weight, self.bias, spikes)


@cache
def has_kernel() -> bool:
    """FBGEMM, which is in PyTorch for x86: without it sums of embeddings are no faster than dense products."""
    return "fbgemm" in torch.backends.quantized.supported_engines


class Spikes(NamedTuple):
    """Where a matrix is not zero: of the row r these are the places from starts[r] to starts[r + 1]."""

    starts: np.ndarray
    units: np.ndarray
    values: np.ndarray


def find_spikes(s: Float[Tensor, "*batch unit"], most: float) -> Spikes | None:
    """None if a larger share of them than `most` is not zero."""
    matrix = flat(s)
    counts = np.empty(len(matrix), np.int64)
    count(torch_team(), matrix, counts)
    starts = np.concatenate([[0], counts.cumsum()]).astype(np.int32)
    if starts[-1] > most * matrix.size:
        return None
    spikes = Spikes(starts, np.empty(starts[-1], np.int32), np.empty(starts[-1], matrix.dtype))
    list_spikes(torch_team(), matrix, spikes)
    return spikes


class SpikeProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, weight: Tensor, bias: Tensor, spikes: Spikes) -> Tensor:
        y = s.new_empty(*s.shape[:-1], len(weight))
        add_rows(weight.detach().T, spikes, y.view(-1, len(weight)))
        ctx.spikes = spikes
        ctx.save_for_backward(s, weight)
        return y.add_(bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        if torch.is_grad_enabled():
            rule = "a product over spikes has no second gradient"
            raise InputError(rule, got="create_graph=True", fix="leave it out")
        s, weight = ctx.saved_tensors
        along, by_weight = gradients[0].flatten(0, -2), None
        if ctx.needs_input_grad[1]:
            if len(ctx.spikes.units) > DENSE_GRADIENT * s.numel():
                by_weight = along.T @ s.flatten(0, -2)
            else:
                by_unit = weight.new_empty(weight.shape[::-1])
                add_rows(along, turned(ctx.spikes, len(by_unit)), by_unit)
                by_weight = by_unit.T
        by_spikes = gradients[0] @ weight if ctx.needs_input_grad[0] else None
        return by_spikes, by_weight, along.sum(0) if ctx.needs_input_grad[2] else None, None


def add_rows(matrix: Float[Tensor, "row column"], spikes: Spikes, total: Float[Tensor, "other column"]) -> None:
    """total_r = Σ of the rows of the matrix where spikes are, times their values. PyTorch's kernel of embeddings holds
    a sum in registers; it is given some columns at a time."""
    units, starts, values = (torch.from_numpy(each) for each in (spikes.units, spikes.starts[:-1], spikes.values))
    for first in range(0, matrix.shape[1], TILE):
        columns = slice(first, first + TILE)
        tile = matrix[:, columns].contiguous()
        total[:, columns] = F.embedding_bag(units, tile, starts, mode="sum", per_sample_weights=values)


def turned(spikes: Spikes, num_units: int) -> Spikes:
    """The same of the transposed matrix."""
    counts = np.bincount(spikes.units, minlength=num_units)
    starts = np.concatenate([[0], counts.cumsum()]).astype(np.int32)
    found = Spikes(starts, np.empty_like(spikes.units), np.empty_like(spikes.values))
    turn(spikes, starts[:-1].copy(), found)
    return found


def flat(x: Float[Tensor, "*batch unit"]) -> Any:
    """[row, unit], in the memory of `x` if that lies in order."""
    return x.detach().contiguous().numpy().reshape(-1, x.shape[-1])


ROWS = 64
"""What a thread takes at a time."""


@compiled
def some_rows(piece, num_rows):
    return range(piece * ROWS, min((piece + 1) * ROWS, num_rows))


@compiled
def some_counts(claimed, matrix, counts):
    pieces = (len(matrix) + ROWS - 1) // ROWS
    piece = claim(claimed, pieces)
    while piece >= 0:
        for r in some_rows(piece, len(matrix)):
            row, found = matrix[r], np.int32(0)
            for i in range(len(row)):
                found += np.int32(row[i] != 0)
            counts[r] = found
        piece = claim(claimed, pieces)


@compiled
def some_lists(claimed, matrix, spikes):
    units = np.empty(matrix.shape[1], np.int32)
    pieces = (len(matrix) + ROWS - 1) // ROWS
    piece = claim(claimed, pieces)
    while piece >= 0:
        for r in some_rows(piece, len(matrix)):
            row, found = matrix[r], 0
            for i in range(len(row)):  # without a branch, that would often be guessed wrong
                units[found] = i
                found += row[i] != 0
            start = spikes.starts[r]
            for a in range(found):
                spikes.units[start + a], spikes.values[start + a] = units[a], row[units[a]]
        piece = claim(claimed, pieces)


@compiled
def turn(spikes, free, found):
    for r in range(len(spikes.starts) - 1):
        for a in range(spikes.starts[r], spikes.starts[r + 1]):
            unit = spikes.units[a]
            found.units[free[unit]], found.values[free[unit]] = r, spikes.values[a]
            free[unit] += 1


start_counts, start_lists = on_torch_threads(some_counts), on_torch_threads(some_lists)


@compiled
def count(team, *arguments):
    start_counts(team, arguments)


@compiled
def list_spikes(team, *arguments):
    start_lists(team, arguments)
