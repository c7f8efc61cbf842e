"""Spikes of many neurons as two rows, times in ms and the neurons that fired then."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def interval_rates(
    times: Float[Tensor, " spike"], neurons: Int[Tensor, " spike"], num_neurons: int
) -> Float[Tensor, " neuron"]:
    """Hz, from the intervals between the first spike of a neuron and its last; 0 for fewer than two."""
    counts = torch.bincount(neurons, minlength=num_neurons)
    none = times.new_zeros(num_neurons)
    first, last = (none.scatter_reduce(0, neurons, times, end, include_self=False) for end in ("amin", "amax"))
    return torch.where(counts > 1, 1000 * (counts - 1) / (last - first), 0.0)
