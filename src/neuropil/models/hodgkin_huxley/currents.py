"""Currents into neurons, in µA/cm²."""

import math
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.errors import InputError

Time: TypeAlias = float | Float[Tensor, " neuron"]


def pulse(
    amplitude: Float[Tensor, " neuron"], *, start: Time, stop: Time = math.inf, duration: float, dt: float
) -> Float[Tensor, "step neuron"]:
    """A current of `amplitude` µA/cm² from `start` to `stop` ms, none before and after. Pulses can be added."""
    begins = dt * torch.arange(round(duration / dt), dtype=torch.double, device=amplitude.device)[:, None]
    return ((begins > start - dt / 2) & (begins < stop - dt / 2)) * amplitude


def checked_currents(current: Tensor) -> Float[Tensor, "row neuron"]:
    if not (current.numel() and torch.isfinite(current).all()):
        got = "some that are not" if current.numel() else "none"
        raise InputError("currents must be finite, and of one neuron at least", got=got)
    return current.detach().to("cpu", torch.double).reshape(-1, current.shape[-1]).contiguous()


def require_steps(current: Tensor, num_steps: int) -> None:
    """Of one that is not constant."""
    if current.ndim == 2 and len(current) != num_steps:
        got = f"{len(current):,}"
        raise InputError(f"a current that changes must have a value for each of the {num_steps:,} steps", got=got)
