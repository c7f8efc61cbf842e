"""Group normalisation (Wu and He 2018) of a picture's features and SiLU after it, as one function.

    z = γ x̂ + β,   x̂ = r (x + s − μ),   r = 1 / √(σ² + ε)      μ, σ² over all places and channels of a group
    y = z σ(z)                                               s is what a time or a class adds to a channel

A convolution is fastest on a CPU where the channels of a place lie side by side (channels last); there PyTorch's own
function takes ten times as long as elsewhere, and adding, normalising and SiLU are three ways through the memory. A
kernel takes one picture at a time, which stays in the cache meanwhile. It computes in single precision, also where
autocast gives it features in bfloat16.
"""

from typing import Any, TypeAlias

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from neuropil.parts.compilation import compiled_in_any_order

Places: TypeAlias = Float[Tensor, "batch place channel"]
PerChannel: TypeAlias = Float[Tensor, "batch channel"]
FEW_THREADS = 4
"""The kernel runs on one. PyTorch's own function runs on all of them, and is faster on more than these."""


class GroupNormSiLU(nn.GroupNorm):
    """Its weights are those of `nn.GroupNorm`."""

    def forward(
        self, input: Float[Tensor, "batch channel height width"], shift: PerChannel | None = None
    ) -> Float[Tensor, "batch channel height width"]:
        if not self._suits_kernel(input):
            moved = input if shift is None else input + rearrange(shift, "batch channel -> batch channel 1 1")
            return F.silu(super().forward(moved))
        x = rearrange(input.float(), "batch channel height width -> batch (height width) channel")
        shift = torch.zeros(1).expand(len(x), x.shape[2]) if shift is None else shift.float()
        y = _NormSiLU.apply(x, shift, self.weight, self.bias, self.num_groups, self.eps).to(input.dtype)
        return rearrange(y, "batch (height width) channel -> batch channel height width", height=input.shape[2])

    def _suits_kernel(self, x: Tensor) -> bool:
        precise = self.weight.dtype == torch.float32 and x.dtype in (torch.float32, torch.bfloat16)  # of autocast
        plain = precise and x.device.type == "cpu" and not torch.compiler.is_compiling()
        last = x.is_contiguous(memory_format=torch.channels_last)
        return plain and last and torch.get_num_threads() <= FEW_THREADS


class _NormSiLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Places, shift: PerChannel, weight: Tensor, bias: Tensor, groups: int, epsilon: float
    ) -> Places:
        y, center, r = torch.empty_like(x), torch.empty(len(x), x.shape[2]), torch.empty(len(x), groups)
        arrays = (each.detach().numpy() for each in (x, shift, weight, bias, center, r, y))
        norm_silu(*arrays, np.float32(epsilon))
        ctx.save_for_backward(x, weight, bias, center, r)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # type: ignore[override]  # once_differentiable names no ctx
        x, weight, bias, center, r = ctx.saved_tensors
        of_x, of_shift = torch.empty_like(x), torch.zeros(len(x), x.shape[2])
        of_weight, of_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        read = (each.detach().numpy() for each in (gradients[0].contiguous(), x, weight, bias, center, r))
        norm_silu_backward(*read, *(each.numpy() for each in (of_x, of_shift, of_weight, of_bias)))
        return of_x, of_shift, of_weight, of_bias, None, None


@compiled_in_any_order
def logistic(z):
    """½ + ½ tanh(z/2), by the rational function that Eigen and TensorFlow use: many at once, as no call of exp is."""
    t = min(max(np.float32(0.5) * z, np.float32(-7.905311)), np.float32(7.905311))
    u = t * t
    p = np.float32(-2.76076847742355e-16)
    p = p * u + np.float32(2.00018790482477e-13)
    p = p * u + np.float32(-8.60467152213735e-11)
    p = p * u + np.float32(5.12229709037114e-08)
    p = p * u + np.float32(1.48572235717979e-05)
    p = p * u + np.float32(6.37261928875436e-04)
    p = p * u + np.float32(4.89352455891786e-03)
    q = np.float32(1.19825839466702e-06)
    q = q * u + np.float32(1.18534705686654e-04)
    q = q * u + np.float32(2.26843463243900e-03)
    q = q * u + np.float32(4.89352518554385e-03)
    return np.float32(0.5) + np.float32(0.5) * (t * p / q)


@compiled_in_any_order
def norm_silu(x, shift, weight, bias, center, r, y, epsilon):
    """Into y, with μ − s of each channel and r of each group for the way back."""
    places, groups = np.float32(x.shape[1]), r.shape[1]
    size = x.shape[2] // groups
    mean, variance = np.empty(x.shape[2], np.float32), np.empty(x.shape[2], np.float32)
    a, b = np.empty(x.shape[2], np.float32), np.empty(x.shape[2], np.float32)
    for i in range(x.shape[0]):
        # of each channel over the places: E[x],  E[(x − E[x])²]
        mean[:] = 0
        for p in range(x.shape[1]):
            for c in range(x.shape[2]):
                mean[c] += x[i, p, c]
        for c in range(x.shape[2]):
            mean[c] /= places
        variance[:] = 0
        for p in range(x.shape[1]):
            for c in range(x.shape[2]):
                d = x[i, p, c] - mean[c]
                variance[c] += d * d
        for g in range(groups):
            first, last = g * size, (g + 1) * size
            mu = np.float32(0)
            for c in range(first, last):
                mu += (mean[c] + shift[i, c]) / np.float32(size)
            sigma2 = np.float32(0)
            for c in range(first, last):
                d = mean[c] + shift[i, c] - mu
                sigma2 += (variance[c] / places + d * d) / np.float32(size)
            r[i, g] = np.float32(1) / np.sqrt(sigma2 + epsilon)
            for c in range(first, last):
                center[i, c] = mu - shift[i, c]
                # z = a x + b
                a[c] = r[i, g] * weight[c]
                b[c] = bias[c] - a[c] * center[i, c]
        for p in range(x.shape[1]):
            for c in range(x.shape[2]):
                z = a[c] * x[i, p, c] + b[c]
                y[i, p, c] = z * logistic(z)


@compiled_in_any_order
def norm_silu_backward(gradient, x, weight, bias, center, r, of_x, of_shift, of_weight, of_bias):
    """With g = ∂L/∂z, the mean E over a group, and sums over the places: ∂L/∂x = r (γ g − E[γ g] − x̂ E[γ g x̂]),
    ∂L/∂s = Σ ∂L/∂x,  ∂L/∂γ = Σ g x̂,  ∂L/∂β = Σ g. The latter two are over all pictures."""
    groups = r.shape[1]
    size = x.shape[2] // groups
    a, b = np.empty(x.shape[2], np.float32), np.empty(x.shape[2], np.float32)
    ones, units = np.empty(x.shape[2], np.float32), np.empty(x.shape[2], np.float32)
    for i in range(x.shape[0]):
        for c in range(x.shape[2]):
            a[c] = r[i, c // size] * weight[c]
            b[c] = bias[c] - a[c] * center[i, c]
        ones[:] = 0
        units[:] = 0
        for p in range(x.shape[1]):
            for c in range(x.shape[2]):
                z = a[c] * x[i, p, c] + b[c]
                s = logistic(z)
                # g = ∂L/∂y σ(z) (1 + z (1 − σ(z)))
                g = gradient[i, p, c] * s * (np.float32(1) + z * (np.float32(1) - s))
                of_x[i, p, c] = g
                ones[c] += g
                units[c] += g * (x[i, p, c] - center[i, c])
        for g in range(groups):
            first, last = g * size, (g + 1) * size
            mean_one, mean_unit, count = np.float32(0), np.float32(0), np.float32(x.shape[1] * size)
            for c in range(first, last):
                units[c] *= r[i, g]
                of_weight[c] += units[c]
                of_bias[c] += ones[c]
                mean_one += weight[c] * ones[c] / count
                mean_unit += weight[c] * units[c] / count
            for c in range(first, last):
                # ∂L/∂x = a g + b' + c' x
                ones[c] = -r[i, g] * r[i, g] * mean_unit
                b[c] = -r[i, g] * mean_one - ones[c] * center[i, c]
        units[:] = 0
        for p in range(x.shape[1]):
            for c in range(x.shape[2]):
                d = a[c] * of_x[i, p, c] + (ones[c] * x[i, p, c] + b[c])
                of_x[i, p, c] = d
                units[c] += d
        for c in range(x.shape[2]):
            of_shift[i, c] = units[c]
