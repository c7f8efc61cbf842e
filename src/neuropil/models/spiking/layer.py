"""A layer of leaky integrate-and-fire neurons that a gradient can pass.

    v_k = v_∞ + (v_{k−1} − v_∞) λ              v_∞ = v_rest + I;  but v_k = v_reset in a refractory step
    s_k = 1 if v_k > θ, else 0
    v_k ← v_reset where s_k = 1,               v_k ← v_k + kick_k elsewhere, unless the step is refractory

Backwards the threshold is a smooth step, as in `parts/activations.py`, and a reset is a fact: v is v_reset after a
spike whatever it was before, so that nothing is handed back through it, nor through the decision to reset.

    ∂s_k/∂z_k ≈ (α/2) / (1 + (π α z_k/2)²)     z_k = (v_k − θ)/(θ − v_reset)
    ∂v_k/∂v_{k−1} = λ (1 − s_{k−1})            and 0 in refractory steps

`step` is the definition, in PyTorch, and autograd goes through it. `fire` and `fire_sum` are the same for all steps at
once, forwards and backwards, in compiled loops; a test compares spikes bit by bit and gradients in double precision."""

import math
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.lif import Constants, leak
from neuropil.models.spiking.torch_team import claim, on_torch_threads, torch_team
from neuropil.parts.activations import SURROGATE_SLOPE, threshold
from neuropil.parts.compilation import compiled

# --- step by step: the definition -------------------------------------------------------------------------------------


Drive: TypeAlias = Tensor | float


class SpikingLayerConfig(NamedTuple):
    """Which neurons, for how many steps, and the α of the smooth step that stands in for their threshold."""

    neuron: Constants
    steps: int
    slope: float

    @property
    def size(self) -> float:
        """Of the way from reset to threshold, in which weights and currents are measured."""
        return self.neuron.threshold - self.neuron.reset


class LayerActivity(NamedTuple):
    """One layer at every step: its voltages are those that were compared with the threshold."""

    spikes: Float[Tensor, "time batch unit"]
    voltages: Float[Tensor, "time batch unit"]


class LIFState(NamedTuple):
    v: Float[Tensor, "batch unit"]
    held: Int[Tensor, "batch unit"]
    """Refractory steps that are left."""


def step(current: Drive, kick: Drive, state: LIFState, firing: SpikingLayerConfig) -> tuple[Tensor, Tensor, LIFState]:
    """Spikes, the voltages that were compared with the threshold, and the state after the step."""
    neuron = firing.neuron
    # v_k = v_∞ + (v_{k−1} − v_∞) λ
    target = neuron.rest + current
    v = torch.where(state.held > 0, neuron.reset, target + (state.v - target) * neuron.decay)
    # s_k = 1 if v_k > θ
    spikes = above(v, neuron.threshold, firing.slope / firing.size)
    fired = spikes.detach() > 0
    # v_k ← v_reset, or v_k + W s'_k
    after = torch.where(fired | (state.held > 0), neuron.reset, v + kick)
    held = torch.where(fired, neuron.refractory_steps, (state.held - 1).clamp(min=0))
    return spikes, v, LIFState(after, held)


def in_steps(drive: Float[Tensor, "*time batch unit"], firing: SpikingLayerConfig) -> LayerActivity:
    """A layer from rest on: `drive` is a current for all steps, or kicks for each, in units of `firing.size`."""
    drive = firing.size * drive
    here = drive if drive.ndim == 2 else drive[0]
    state = LIFState(torch.full_like(here, firing.neuron.rest), torch.zeros_like(here, dtype=torch.int32))
    spikes, voltages = [], []
    for k in range(firing.steps):
        s, v, state = step(drive, 0.0, state, firing) if drive.ndim == 2 else step(0.0, drive[k], state, firing)
        spikes.append(s)
        voltages.append(v)
    return LayerActivity(torch.stack(spikes), torch.stack(voltages))


def above(x: Float[Tensor, "*any"], limit: float | Tensor, slope: float = SURROGATE_SLOPE) -> Float[Tensor, "*other"]:
    """1 where x > limit, else 0; backwards the slope of a smooth step."""
    return 1 - threshold(limit - x, slope)  # `threshold` is 1 at equality, too


# --- the same, all steps in one go ------------------------------------------------------------------------------------

AT_ONCE = 1024
"""Neurons that go through all steps before the next ones do: their state stays in the processor's nearest cache."""
APART = AT_ONCE + 272
"""Between the beginnings of what is kept of them. A processor compares the last twelve bits of addresses, so that
arrays of which one begins some bytes after a multiple of 4096 of the other wait for each other."""


def fire(drive: Float[Tensor, "*time batch unit"], firing: SpikingLayerConfig) -> Float[Tensor, "steps batch unit"]:
    """The spikes of `in_steps`, bit by bit, and their gradient; by compiled loops on a CPU, which an exported graph
    cannot hold."""
    drive = with_digits(drive)
    return run(AllSpikes, drive, firing) if compiles(drive) else in_steps(drive, firing).spikes


def fire_sum(
    drive: Float[Tensor, "*time batch unit"], firing: SpikingLayerConfig, weights: Float[Tensor, " steps"]
) -> Float[Tensor, "batch unit"]:
    """Σ_k a_k s_k over these spikes, none of which is kept."""
    drive = with_digits(drive)
    if compiles(drive):
        return run(SumOfSpikes, drive, firing, weights)
    return einsum(weights.to(drive), in_steps(drive, firing).spikes, "time, time batch unit -> batch unit")


def with_digits(drive: Tensor) -> Tensor:
    """Under autocast, what is added up over time keeps its digits."""
    return drive if drive.dtype in (torch.float32, torch.float64) else drive.float()


def compiles(x: Tensor) -> bool:
    return x.device.type == "cpu" and not torch.compiler.is_exporting()


def run(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    applied = torch.compiler.disable(function.apply) if torch.compiler.is_compiling() else function.apply
    return cast(Any, applied)(*arguments)


class AllSpikes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, drive: Tensor, firing: SpikingLayerConfig) -> Tensor:
        spikes = drive.new_empty(firing.steps, *drive.shape[-2:])
        keep_slopes(ctx, drive, firing, drive.new_zeros(firing.steps), spikes, spikes[0, :0])
        return spikes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return through_slopes(ctx, gradients[0], gradients[0].new_ones(ctx.firing.steps)), None


class SumOfSpikes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, drive: Tensor, firing: SpikingLayerConfig, weights: Tensor) -> Tensor:
        total = drive.new_empty(drive.shape[-2:])
        ctx.weights = weights.to(drive)
        keep_slopes(ctx, drive, firing, ctx.weights, drive.new_empty(0, *drive.shape[-2:]), total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return through_slopes(ctx, gradients[0][None], ctx.weights), None, None


def keep_slopes(
    ctx: Any, drive: Tensor, firing: SpikingLayerConfig, weights: Tensor, spikes: Tensor, total: Tensor
) -> None:
    """Writes the spikes and their sum, of which either may be empty. For the way back it keeps the slopes ∂s/∂v:
    negative where a neuron spikes, 0 in refractory steps, and nowhere else."""
    slopes = drive.new_empty(firing.steps if ctx.needs_input_grad[0] else 0, *drive.shape[-2:])
    current, kicks = current_and_kicks(drive)
    number = current.dtype.type  # a constant of more digits would turn every number of the loops into one of more
    neuron = Constants(*(number(each) if isinstance(each, float) else each for each in firing.neuron))
    slope = firing.slope / firing.size
    numbers = number(firing.size), number(slope / 2), number(math.pi * slope / 2)
    written = weights.detach().numpy(), rows(spikes), rows(slopes), total.numpy().reshape(-1)
    forwards(torch_team(), current, kicks, neuron, *numbers, *written)
    ctx.save_for_backward(slopes)
    ctx.firing, ctx.shape = firing, drive.shape


def through_slopes(ctx: Any, gradient: Float[Tensor, "any batch unit"], weights: Float[Tensor, " steps"]) -> Tensor:
    """The gradient by the drive, from that by the spikes, or by their weighted sum."""
    if torch.is_grad_enabled():
        rule = "a surrogate gradient has no gradient itself"
        raise InputError(rule, got="create_graph=True", fix="leave it out")
    (slopes,) = ctx.saved_tensors
    by_drive, decay = slopes.new_empty(ctx.shape), ctx.firing.neuron.decay
    current, kicks = current_and_kicks(by_drive)
    number = current.dtype.type
    numbers = number(ctx.firing.size), number(decay), number(1 - decay)
    backwards(torch_team(), rows(gradient), weights.detach().numpy(), rows(slopes), *numbers, current, kicks)
    return by_drive


def current_and_kicks(drive: Float[Tensor, "*time batch unit"]) -> tuple[Any, Any]:
    """[neuron] and [time, neuron]; of what the drive is not there is none."""
    lying = rows(drive)
    return (lying[0], lying[:0]) if drive.ndim == 2 else (np.zeros_like(lying[0]), lying)


def rows(x: Float[Tensor, "*time batch unit"]) -> Any:
    """[time, neuron], in the memory of `x` if that lies in order."""
    return x.detach().contiguous().numpy().reshape(math.prod(x.shape[:-2]), math.prod(x.shape[-2:]))


@compiled
def some_forwards(claimed, current, kicks, neuron, size, steepest, narrowness, weights, spikes, slopes, total):
    """The innermost loop has numbers of one type and no branches, so that it is vectorised."""
    num_steps, num_neurons = len(weights), len(current)
    number = current.dtype.type
    zero, one = number(0), number(1)
    kept = np.zeros((7, APART), current.dtype)
    v, free, target, nothing, sums = kept[0], kept[1], kept[2], kept[3], kept[4]
    pieces = (num_neurons + AT_ONCE - 1) // AT_ONCE
    piece = claim(claimed, pieces)
    while piece >= 0:
        here = slice(piece * AT_ONCE, min((piece + 1) * AT_ONCE, num_neurons))
        for i, each in enumerate(current[here]):
            v[i], free[i], target[i], sums[i] = neuron.rest, zero, neuron.rest + size * each, zero
        for k in range(num_steps):
            now, release, weight = number(k), number(k + 1 + neuron.refractory_steps), weights[k]
            kick = kicks[k, here] if len(kicks) else nothing
            slope = slopes[k, here] if len(slopes) else kept[5]
            spike = spikes[k, here] if len(spikes) else kept[6]
            for i in range(here.stop - here.start):
                held = now < free[i]
                leaked = leak(v[i], target[i], neuron.decay)
                u = neuron.reset if held else leaked
                fired = u > neuron.threshold
                kicked = neuron.reset if fired else u + size * kick[i]
                z = narrowness * (u - neuron.threshold)
                # (α/2) / (1 + (π α z/2)²)
                steep = steepest / (one + z * z)
                signed = -steep if fired else steep
                spike[i] = one if fired else zero
                slope[i] = zero if held else signed
                sums[i] += weight if fired else zero
                v[i] = neuron.reset if held else kicked
                free[i] = release if fired else free[i]
        if len(total):
            total[here] = sums[: here.stop - here.start]
        piece = claim(claimed, pieces)


@compiled
def some_backwards(claimed, gradient, weights, slopes, size, decay, share, current, kicks):
    num_steps, num_neurons = slopes.shape
    zero = slopes.dtype.type(0)
    kept_apart = np.empty((3, APART), slopes.dtype)
    later, by_current = kept_apart[0], kept_apart[1]  # later: λ ∂/∂v_{k+1}
    pieces = (num_neurons + AT_ONCE - 1) // AT_ONCE
    piece = claim(claimed, pieces)
    while piece >= 0:
        here = slice(piece * AT_ONCE, min((piece + 1) * AT_ONCE, num_neurons))
        later[:], by_current[:] = zero, zero
        for k in range(num_steps - 1, -1, -1):
            arriving, slope, weight = gradient[k if len(gradient) > 1 else 0, here], slopes[k, here], weights[k]
            by_kick = kicks[k, here] if len(kicks) else kept_apart[2]
            for i in range(len(slope)):
                # ∂/∂v_k = ∂/∂s_k ∂s_k/∂v_k + λ (1 − s_k) ∂/∂v_{k+1}
                kept = later[i] if slope[i] > zero else zero
                g = weight * arriving[i] * abs(slope[i]) + kept
                by_kick[i] = size * kept
                by_current[i] += size * share * g
                later[i] = decay * g
        if not len(kicks):
            current[here] = by_current[: here.stop - here.start]
        piece = claim(claimed, pieces)


start_forwards, start_backwards = on_torch_threads(some_forwards), on_torch_threads(some_backwards)


@compiled
def forwards(team, *arguments):
    start_forwards(team, arguments)


@compiled
def backwards(team, *arguments):
    start_backwards(team, arguments)
