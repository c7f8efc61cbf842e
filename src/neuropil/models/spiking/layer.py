"""A layer of leaky integrate-and-fire neurons that a gradient can pass.

    v_k = v_∞ + (v_{k−1} − v_∞) λ              v_∞ = v_rest + I;  but v_k = v_reset in a refractory step
    s_k = 1 if v_k > θ, else 0
    v_k ← v_reset where s_k = 1,               v_k ← v_k + kick_k elsewhere, unless the step is refractory

Backwards the threshold is a smooth step, as in `parts/activations.py`, and a reset is a fact: v is v_reset after a
spike whatever it was before, so that nothing is handed back through it, nor through the decision to reset.

    ∂s_k/∂z_k ≈ (α/2) / (1 + (π α z_k/2)²)     z_k = (v_k − θ)/(θ − v_reset)
    ∂v_k/∂v_{k−1} = λ (1 − s_{k−1})            and 0 in refractory steps

`step` is the definition, in PyTorch, and autograd goes through it. `fire` is the same for all steps at once, forwards
and backwards, in compiled loops; a test compares spikes bit by bit and gradients in double precision."""

import math
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.lif import Constants, leak
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


def fire(drive: Float[Tensor, "*time batch unit"], firing: SpikingLayerConfig) -> Float[Tensor, "steps batch unit"]:
    """The spikes of `in_steps`, bit by bit, and their gradient; by compiled loops on a CPU, which an exported graph
    cannot hold."""
    if drive.dtype not in (torch.float32, torch.float64):
        drive = drive.float()  # autocast: what is added up over time keeps its digits
    if drive.device.type != "cpu" or torch.compiler.is_exporting():
        return in_steps(drive, firing).spikes
    run = torch.compiler.disable(SurrogateSpikes.apply) if torch.compiler.is_compiling() else SurrogateSpikes.apply
    return cast(Any, run)(drive, firing)


class SurrogateSpikes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, drive: Tensor, firing: SpikingLayerConfig) -> Tensor:
        """Keeps the slopes ∂s/∂v for the way back: 0 in refractory steps, and nowhere else."""
        spikes = drive.new_empty(firing.steps, *drive.shape[-2:])
        slopes = torch.empty_like(spikes) if ctx.needs_input_grad[0] else spikes[:0]
        current, kicks = current_and_kicks(drive)
        number = current.dtype.type  # a constant of more digits would turn every number of the loops into one of more
        neuron = Constants(*(number(each) if isinstance(each, float) else each for each in firing.neuron))
        slope = firing.slope / firing.size
        steepest, narrowness = number(slope / 2), number(math.pi * slope / 2)
        forwards(current, kicks, number(firing.size), neuron, steepest, narrowness, rows(spikes), rows(slopes))
        ctx.save_for_backward(spikes, slopes)
        ctx.firing, ctx.shape = firing, drive.shape
        return spikes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            rule = "a surrogate gradient has no gradient itself"
            raise InputError(rule, got="create_graph=True", fix="leave it out")
        spikes, slopes = ctx.saved_tensors
        by_drive, decay = spikes.new_zeros(ctx.shape), ctx.firing.neuron.decay
        current, kicks = current_and_kicks(by_drive)
        number = current.dtype.type
        constants = number(ctx.firing.size), number(decay), number(1 - decay)
        backwards(rows(gradients[0]), rows(spikes), rows(slopes), *constants, current, kicks)
        return by_drive, None


def current_and_kicks(drive: Float[Tensor, "*time batch unit"]) -> tuple[Any, Any]:
    """[neuron] and [time, neuron]; of what the drive is not there is none."""
    lying = rows(drive)
    return (lying[0], lying[:0]) if drive.ndim == 2 else (np.zeros_like(lying[0]), lying)


def rows(x: Float[Tensor, "*time batch unit"]) -> Any:
    """[time, neuron], in the memory of `x` if that lies in order."""
    return x.detach().contiguous().numpy().reshape(math.prod(x.shape[:-2]), math.prod(x.shape[-2:]))


@compiled
def forwards(current, kicks, size, neuron, steepest, narrowness, spikes, slopes):
    """The innermost loop has numbers of one type and no branches, so that it is vectorised."""
    num_steps, num_neurons = spikes.shape
    number = spikes.dtype.type
    zero, one = number(0), number(1)
    v, free, target = np.empty(AT_ONCE, spikes.dtype), np.empty(AT_ONCE, spikes.dtype), np.empty(AT_ONCE, spikes.dtype)
    nothing, unwanted = np.zeros(AT_ONCE, spikes.dtype), np.empty(AT_ONCE, spikes.dtype)
    for first in range(0, num_neurons, AT_ONCE):
        here = slice(first, min(first + AT_ONCE, num_neurons))
        for i, each in enumerate(current[here]):
            v[i], free[i], target[i] = neuron.rest, zero, neuron.rest + size * each
        for k in range(num_steps):
            now, release = number(k), number(k + 1 + neuron.refractory_steps)
            kick = kicks[k, here] if len(kicks) else nothing
            slope = slopes[k, here] if len(slopes) else unwanted
            spike = spikes[k, here]
            for i in range(len(spike)):
                held = now < free[i]
                leaked = leak(v[i], target[i], neuron.decay)
                u = neuron.reset if held else leaked
                fired = u > neuron.threshold
                kicked = neuron.reset if fired else u + size * kick[i]
                z = narrowness * (u - neuron.threshold)
                # (α/2) / (1 + (π α z/2)²)
                steep = steepest / (one + z * z)
                spike[i] = one if fired else zero
                slope[i] = zero if held else steep
                v[i] = neuron.reset if held else kicked
                free[i] = release if fired else free[i]


@compiled
def backwards(gradient, spikes, slopes, size, decay, share, current, kicks):
    num_steps, num_neurons = spikes.shape
    zero, one = spikes.dtype.type(0), spikes.dtype.type(1)
    later, unwanted = np.empty(AT_ONCE, spikes.dtype), np.empty(AT_ONCE, spikes.dtype)  # later: λ ∂/∂v_{k+1}
    for first in range(0, num_neurons, AT_ONCE):
        here = slice(first, min(first + AT_ONCE, num_neurons))
        by_current = current[here]
        later[:] = zero
        for k in range(num_steps - 1, -1, -1):
            arriving, spike, slope = gradient[k, here], spikes[k, here], slopes[k, here]
            by_kick = kicks[k, here] if len(kicks) else unwanted
            for i in range(len(spike)):
                held = slope[i] == zero
                # ∂/∂v_k = ∂/∂s_k ∂s_k/∂v_k + λ (1 − s_k) ∂/∂v_{k+1}
                kept = zero if held else (one - spike[i]) * later[i]
                g = arriving[i] * slope[i] + kept
                by_kick[i] = size * kept
                by_current[i] += size * share * g
                later[i] = decay * g
