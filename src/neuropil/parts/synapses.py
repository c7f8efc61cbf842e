"""Synapses: what a spike becomes on its way to the next neuron; and rates of spike trains.

    h(t) = tⁿ e^{−t/τ} / (n! τ^{n+1})        for t ≥ 0; its area is one
    s(t) = Σ_p h(t − t_p − delay)            a train of spikes at the times t_p, filtered

A filter of order n is a chain of n + 1 leaks, each of which feeds the next: τ dx₀/dt = −x₀ and τ dxᵢ/dt = xᵢ₋₁ − xᵢ,
where a spike adds 1/τ to x₀, and s = xₙ. Over a time t the chain goes on without error,

    xᵢ(t + dt) = Σ_j g_{i−j}(dt/τ) xⱼ(t)     g_m(r) = e^{−r} r^m / m!

so s at every step follows from the state at the step before, and no spike has to be kept. Times are in ms, h in
1/ms."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.parts.scan import scan

HIGHEST_ORDER = 20
ROUNDING = 1e-9
"""Of a step: what two times may differ by and still be the same."""


@dataclass(frozen=True)
class Synapse:
    """`tau` and `delay` in ms."""

    tau: float
    order: int = 0
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.tau < math.inf:
            raise InputError("a synapse must have a time constant above 0 ms", got=f"tau={self.tau:g}")
        if not 0 <= self.order <= HIGHEST_ORDER:
            raise InputError(f"a synapse must be of an order from 0 to {HIGHEST_ORDER}", got=f"order={self.order}")
        if not 0 <= self.delay < math.inf:
            raise InputError("a synapse must have a delay of 0 ms or more", got=f"delay={self.delay:g}")

    def response(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """h(t − delay), 0 before."""
        t = t - self.delay
        ratio = t.clamp(min=0) / self.tau
        # h(t) = (t/τ)ⁿ e^{−t/τ} / (n! τ)
        return torch.where(t >= 0, ratio**self.order * torch.exp(-ratio) / (math.factorial(self.order) * self.tau), 0.0)

    def filter(self, spikes: Float[Tensor, "*shape"], dt: float, dim: int = -1) -> Float[Tensor, "*shape"]:
        """s at every step, of spikes at the steps (their number, or weight): s_k = Σ_j h((k − j) dt − delay) a_j."""
        late, age = self._felt(np.zeros(1), dt)
        return self._run(spikes, self._arrival(age)[0], dt, int(late[0]), dim)

    def filter_times(self, times: Float[Tensor, " spike"], num_steps: int, dt: float) -> Float[Tensor, " step"]:
        """s at the end of every step of spikes at any `times` (ms) since the first step began; double precision."""
        late, age = self._felt(times.detach().cpu().double().numpy(), dt)
        felt = (late >= 1) & (late <= num_steps)
        driven = torch.zeros(num_steps, self.order + 1, dtype=torch.double)
        driven.index_add_(0, torch.from_numpy(late[felt] - 1), torch.from_numpy(self._arrival(age[felt])))
        return self._chain(driven.unsqueeze(0), dt)[0].to(times.device)

    def smooth(self, signal: Float[Tensor, "*shape"], dt: float, dim: int = -1) -> Float[Tensor, "*shape"]:
        """(h * u) at the end of every step, of a signal that is held during each step; a constant one is unchanged."""
        late, age = self._felt(np.zeros(1), dt)
        if age[0]:
            got = f"delay={self.delay:g} ms in steps of {dt:g} ms"
            raise InputError("the delay of a signal must be a whole number of steps", got=got)
        return self._run(signal, held_input(dt / self.tau, self.order), dt, int(late[0]), dim)

    def _felt(self, times: Float[np.ndarray, " spike"], dt: float) -> tuple[np.ndarray, np.ndarray]:
        """The first step (a multiple of dt) at which each spike has arrived, and for how long (ms) it has then."""
        if not 0 < dt < math.inf:
            raise InputError("dt must be a time above 0 ms", got=f"{dt:g}")
        arrives = times + self.delay
        steps = np.ceil(arrives / dt - ROUNDING).astype(np.int64)
        age = steps * dt - arrives
        return steps, np.where(age > ROUNDING * dt, age, 0.0)

    def _arrival(self, age: Float[np.ndarray, " spike"]) -> Float[np.ndarray, "spike link"]:
        """What a spike leaves in each link of the chain when it is that old (ms)."""
        return coefficients(age / self.tau, self.order) / self.tau

    def _run(self, x: Tensor, arrival: Float[np.ndarray, " link"], dt: float, late: int, dim: int) -> Tensor:
        given = x.movedim(dim, -1)
        time = given.shape[-1]
        late = min(late, time)
        shifted = torch.cat([given.new_zeros(*given.shape[:-1], late), given[..., : time - late]], -1)
        kick = torch.as_tensor(arrival, dtype=x.dtype, device=x.device)
        driven = rearrange(shifted, "... time -> (...) time 1") * kick
        return self._chain(driven, dt).reshape(given.shape).movedim(-1, dim)

    def _chain(self, driven: Float[Tensor, "batch time link"], dt: float) -> Float[Tensor, "batch time"]:
        """xₙ at every step: one recurrence after another, driven from outside and by the links before."""
        transition = coefficients(dt / self.tau, self.order).tolist()
        links: list[Tensor] = []
        for i, own in enumerate(driven.unbind(-1)):
            for j, link in enumerate(links):
                own = own + transition[i - j] * F.pad(link[:, :-1], (1, 0))
            decay = torch.full_like(own, transition[0])
            links.append(scan(decay.unsqueeze(-1), own.unsqueeze(-1), own.new_zeros(len(own), 1)).squeeze(-1))
        return links[-1]


def coefficients(ratio: float | Float[np.ndarray, "*shape"], order: int) -> Float[np.ndarray, "*shape link"]:
    """g_m(r) = e^{−r} r^m / m! for m = 0 … n: how a chain goes on over a time of r τ."""
    r = np.asarray(ratio, dtype=np.float64)[..., None]
    factorials = np.array([float(math.factorial(m)) for m in range(order + 1)])
    return np.exp(-r) * r ** np.arange(order + 1) / factorials


def held_input(ratio: float, order: int) -> Float[np.ndarray, " link"]:
    """What an input of 1, held for a time of r τ, leaves in each link of a chain: 1 − Σ_{m≤i} g_m(r)."""
    if ratio > 1:
        return 1 - np.cumsum(coefficients(ratio, order))
    # the same as Σ_{m>i} g_m, which loses no digits where r is small
    terms = coefficients(ratio, order + 20)
    return np.cumsum(terms[::-1])[::-1][1 : order + 2].copy()


def latencies(
    times: Float[Tensor, " spike"], neurons: Int[Tensor, " spike"], num_neurons: int
) -> Float[Tensor, " neuron"]:
    """When each neuron fires first; NaN if it never does."""
    return times.new_full((num_neurons,), torch.nan).scatter_reduce(0, neurons, times, "amin", include_self=False)


def interval_rates(
    times: Float[Tensor, " spike"], neurons: Int[Tensor, " spike"], num_neurons: int
) -> Float[Tensor, " neuron"]:
    """Hz, from the intervals between the first spike of a neuron and its last; 0 for fewer than two."""
    counts = torch.bincount(neurons, minlength=num_neurons)
    none = times.new_zeros(num_neurons)
    first, last = (none.scatter_reduce(0, neurons, times, end, include_self=False) for end in ("amin", "amax"))
    return torch.where(counts > 1, 1000 * (counts - 1) / (last - first), 0.0)
