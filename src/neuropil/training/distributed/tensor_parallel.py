"""Tensor parallel: every process computes a part of each layer, by DTensor's plan of columns and rows."""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from neuropil.errors import InputError
from neuropil.protocols import ParallelPlan


def divide(model: nn.Module, plan: ParallelPlan, mesh: DeviceMesh) -> None:
    """Over the processes of a mesh of one axis, which must be given the same batches."""
    columns = {name: ColwiseParallel() for name in plan.columns}
    parallelize_module(model, mesh, {**columns, **{name: RowwiseParallel() for name in plan.rows}})


def require_divisible(plan: ParallelPlan, number: int) -> None:
    """Each process computes as many heads, and as many hidden units, as every other."""
    for kind, sizes in (("heads", plan.heads), ("hidden units", plan.hidden)):
        for name, size in sizes.items():
            if size % number:
                rule = f"--tensor-parallel {number} must divide the {kind} of every layer"
                raise InputError(rule, got=f"{size} {kind} in {name}", fix="choose another number of processes")
