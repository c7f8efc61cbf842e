"""The matrices of a model as the kernel reads them, in as many bytes as their precision says.

    float32     the model's own, in the model's own memory
    bfloat16    the upper half of their bits, 8 of the 24 binary digits: a relative error of at most 2⁻⁸
    int8        W_ij ≈ s_i · q_ij,  s_i = max_j |W_ij| / 127,  q_ij from −127 to 127: an error of at most s_i / 2
    int4        W_ij ≈ s_ig · q_ij,  q_ij from −8 to 7,  s_ig in bfloat16 and of the scales tried that with the least
                squared error, for every group of 32 columns

Columns are grouped as the kernel sums them: in a block of 512, those with the same quarter of their place among 64.
Whole numbers are held without a sign, q + 128 and q + 8.
"""

from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

QUADS = 16
"""Groups in a block: each has four neighbouring columns of every register."""
REGISTER, BLOCK = 4 * QUADS, 512
PACKED = 2 * REGISTER
"""Columns of a register of numbers of four bits: the byte at place i holds the columns i, in its lower half, and
i + 64."""
PAIRS = 32
"""Columns of a register of numbers in bfloat16, of which the processor multiplies and adds two at once."""
ZERO_OF_BYTES, ZERO_OF_NIBBLES = 128, 8
"""What zero is held as."""
BY_GROUP = "row (block register lane quad) -> row (block lane) (register quad)"
FROM_GROUPS = "row (block lane) (register quad) -> row (block register lane quad)"
TO_COLUMNS = "row (block lane) -> row (block register lane quad)"
IN_BLOCK = {"lane": QUADS, "quad": 4}
LARGEST, TINY = 127, 1e-30
"""Of numbers in 8 bits; and where a group of single ones is too small to be told from zero."""
ROWS_AT_ONCE = 256
"""Of a matrix that is rounded: what is made of them stays in the processor's cache."""
LEVELS = (-8.5, -8.0, -7.5, -7.0)
"""Where the largest weight of a group may come to lie among −8 … 7."""


class Matrix(NamedTuple):
    """y = scale ∘ (weights x) + bias, as the kernel reads it. bfloat16, unknown to NumPy, is kept as uint16, and int4
    two in a byte, each column of which is multiplied with its group's factor too. All but float32 are filled up with
    zeros."""

    weights: np.ndarray
    scale: np.ndarray
    bias: np.ndarray
    groups: np.ndarray
    columns: np.int64
    is_whole: np.bool_
    """Its weights are whole numbers, or were before they were widened: x is rounded too."""

    def widened(self, rows: Tensor | slice = slice(None)) -> Float[Tensor, "output input"]:
        """These rows in single precision; float32 is not copied, if all are asked for."""
        weights = torch.from_numpy(self.weights)[rows]
        if self.groups.dtype == np.uint16:
            factors = torch.from_numpy(self.groups)[rows].view(torch.bfloat16).float()
            factors = repeat(factors, TO_COLUMNS, register=BLOCK // REGISTER, **IN_BLOCK)
            return unpacked(weights)[:, : self.columns] * factors[:, : self.columns]
        if weights.dtype == torch.uint8:
            return (weights[:, : self.columns].float() - ZERO_OF_BYTES) * torch.from_numpy(self.scale)[rows, None]
        return weights if weights.dtype == torch.float32 else weights[:, : self.columns].view(torch.bfloat16).float()

    def times(self, x: Float[Tensor, "time input"]) -> Float[Tensor, "time output"]:
        """By PyTorch, once weights are wide."""
        x = in_eight_bits(x) if self.is_whole else x
        return F.linear(x, torch.from_numpy(self.weights), torch.from_numpy(self.bias))


def packed(module: nn.Linear | nn.Embedding, precision: str) -> Matrix:
    weight, bias = module.weight.detach(), getattr(module, "bias", None)
    scale, groups = torch.ones(len(weight)), torch.empty(0, 0)
    if precision == "float32":
        # By rows in the model too, should they lie otherwise there, so that there is one copy still.
        module.weight.data = held = weight.contiguous()
    elif precision == "bfloat16":
        missing = filled(weight.shape[1], PAIRS) - weight.shape[1]
        held = F.pad(weight.to(torch.bfloat16), (0, missing)).contiguous().view(torch.uint16)
    elif precision == "int8":
        held, scale = rounded(weight)
    else:
        held, groups = rounded_by_groups(weight)
    bias = torch.zeros(len(weight)) if bias is None else bias.detach().float()
    whole = np.bool_(precision in ("int8", "int4"))
    return Matrix(held.numpy(), scale.numpy(), bias.numpy(), groups.numpy(), np.int64(weight.shape[1]), whole)


def widened(matrix: Matrix) -> Matrix:
    groups = np.empty((0, 0), np.float32)
    return matrix._replace(weights=matrix.widened().numpy(), scale=np.ones_like(matrix.scale), groups=groups)


def rounded(weight: Float[Tensor, "output input"]) -> tuple[UInt8[Tensor, "output filled"], Float[Tensor, " output"]]:
    # s_i = max_j |W_ij| / 127,   q_ij = round(W_ij / s_i)
    whole = torch.full((len(weight), filled(weight.shape[1], PACKED)), ZERO_OF_BYTES, dtype=torch.uint8)
    scale = torch.ones(len(weight))
    for target, rows, s in zip(*(tensor.split(ROWS_AT_ONCE) for tensor in (whole, weight, scale)), strict=True):
        if rows.numel():
            s.copy_(rows.float().abs().amax(1).div_(127)).masked_fill_(s == 0, 1)
        target[:, : rows.shape[1]] = (rows.float() / s[:, None]).round_().add_(ZERO_OF_BYTES)
    return whole, scale


def rounded_by_groups(weight: Float[Tensor, "output input"]) -> tuple[Tensor, Tensor]:
    """Bytes with two columns each, and bfloat16, as uint16, for each group."""
    columns = weight.shape[1]
    blocks = filled(columns, BLOCK)
    held = torch.zeros(len(weight), filled(columns, PACKED) // 2, dtype=torch.uint8)
    groups = torch.zeros(len(weight), blocks // BLOCK * QUADS, dtype=torch.bfloat16)
    for target, factors, rows in zip(*(tensor.split(ROWS_AT_ONCE) for tensor in (held, groups, weight)), strict=True):
        whole, factor = nearest_scaled(by_group(rows.float()))
        factors.copy_(factor)
        target.copy_(nibbles(from_groups(whole)[:, : filled(columns, PACKED)].to(torch.int8)))
    return held, groups.view(torch.uint16)


def by_group(rows: Float[Tensor, "row column"]) -> Float[Tensor, "row group member"]:
    """Filled up with zeros."""
    blocks = F.pad(rows, (0, filled(rows.shape[1], BLOCK) - rows.shape[1]))
    return rearrange(blocks, BY_GROUP, register=BLOCK // REGISTER, **IN_BLOCK)


def from_groups(grouped: Float[Tensor, "row group member"]) -> Float[Tensor, "row filled"]:
    return rearrange(grouped, FROM_GROUPS, register=BLOCK // REGISTER, **IN_BLOCK)


def in_eight_bits(x: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """x_j ≈ a_g p_j with whole numbers p_j of 8 bits, as the kernel rounds it."""
    grouped = by_group(x)
    size = grouped.abs().amax(-1, keepdim=True)
    whole = (grouped * torch.where(size > TINY, LARGEST / size, 0)).round_()
    return from_groups(whole * (size / LARGEST))[:, : x.shape[1]]


def nearest_scaled(weight: Float[Tensor, "row group column"]) -> tuple[Tensor, Float[Tensor, "row group"]]:
    """Whole numbers from −8 to 7 and scales with the least squared error among those that are tried."""
    extreme = weight.gather(-1, weight.abs().argmax(-1, keepdim=True))
    found, scale, least = torch.zeros_like(weight), torch.zeros_like(extreme), torch.full_like(extreme, torch.inf)
    for level in LEVELS:
        s = (extreme / level).to(torch.bfloat16).float()
        q = (weight / torch.where(s == 0, 1, s)).round_().clamp_(-8, 7)
        error = (q * s - weight).square_().sum(-1, keepdim=True)
        better = error < least
        found, scale = torch.where(better, q, found), torch.where(better, s, scale)
        least = torch.minimum(error, least)
    return found, scale[..., 0]


def nibbles(whole: Tensor) -> Tensor:
    """Two numbers from −8 to 7 in each byte."""
    held = (whole + ZERO_OF_NIBBLES).to(torch.uint8)
    lower, upper = rearrange(held, "row (packed half place) -> half row (packed place)", half=2, place=REGISTER)
    return lower | upper << 4


def unpacked(held: Tensor) -> Float[Tensor, "row filled"]:
    places = rearrange(held, "row (packed place) -> row packed place", place=REGISTER)
    halves = torch.stack([places & 15, places >> 4], 2)
    return halves.flatten(1).float() - ZERO_OF_NIBBLES


def filled(columns: int, together: int) -> int:
    return (columns + together - 1) // together * together
