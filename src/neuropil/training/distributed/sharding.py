"""Fully sharded data parallel (FSDP2): each process keeps 1/N of every weight, gradient and moment.

    forward     gather the weights of a block from all processes, compute, drop those of the others
    backward    gather them again, compute, drop them; sum the gradients, of which each process keeps its share

So no process holds more than its share of the model and one whole block. What belongs to no block (embeddings, the last
norm) is gathered for the whole update.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from neuropil.protocols import ParallelPlan
from neuropil.training.config import Precision


def shard(model: nn.Module, plan: ParallelPlan, mesh: DeviceMesh, precision: Precision = "float32") -> None:
    """Over the processes of a mesh of one axis, whose losses add up to that of all. Weights move to its device block by
    block: before, they may be where there is room for all of them."""
    policy, single = mixed_precision(precision), {weight for weight in model.parameters() if weight.ndim == 0}
    for module in (*map(model.get_submodule, plan.blocks), model):
        sharded = fully_shard(module, mesh=mesh, mp_policy=policy, ignored_params=single)
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)  # or it would be a product by 1, which gloo has not
    for weight in single:  # a number cannot be divided: every process has it
        weight.register_hook(partial(_sum_over, mesh))
    # A forward pass without a backward pass leaves the weights outside the blocks gathered, since a loss may use them
    # once more; the next pass would miss whatever has changed since
    model.register_forward_pre_hook(_gather_anew, prepend=True)


def mixed_precision(precision: Precision) -> MixedPrecisionPolicy:
    """In bfloat16, weights are gathered in it and gradients summed in float32. Inputs are left to autocast, which keeps
    sums in float32."""
    if precision == "float32":
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)


def _sum_over(mesh: DeviceMesh, gradient: Tensor) -> Tensor:
    total = gradient.clone()
    distributed.all_reduce(total, group=mesh.get_group())
    return total


def _gather_anew(model: nn.Module, inputs: Any) -> None:
    if isinstance(model, FSDPModule):
        model.reshard()
