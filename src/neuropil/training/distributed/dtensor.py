"""Tensors that are divided over processes (DTensor): the part that is here, the whole, and sums over all parts.

What is done to every number by itself is done to the parts, which are ordinary tensors. PyTorch's module of DTensor
takes a second to import, so only what meets one imports it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeGuard, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn.utils import clip_grad_norm_

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_divided(tensor: Tensor) -> "TypeGuard[DTensor]":
    return hasattr(tensor, "placements")


def local(tensor: Tensor) -> Tensor:
    """The part of this process, or a tensor that is not divided: what is written into it is in the tensor."""
    return cast("DTensor", tensor.detach()).to_local() if is_divided(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """Gathered from all processes, all of which must call this."""
    if not is_divided(tensor):
        return tensor
    from torch.distributed.tensor import Replicate

    gathered = cast("DTensor", tensor.detach())
    for axis in range(gathered.device_mesh.ndim):  # in the order in which they were divided, or PyTorch warns
        gathered = gathered.redistribute(placements=[*[Replicate()] * (axis + 1), *gathered.placements[axis + 1 :]])
    return gathered.to_local()


def divided_as(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, which every process has, in the parts in which another of its shape is divided."""
    if not is_divided(like):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    everywhere = DTensor.from_local(tensor, like.device_mesh, [Replicate()] * like.device_mesh.ndim, run_check=False)
    return everywhere.redistribute(placements=like.placements)


def assembled(part: Tensor, like: Tensor) -> Tensor:
    """The tensor of which this is the part of this process, if it is divided as another of its shape."""
    if not is_divided(like):
        return part
    from torch.distributed.tensor import DTensor

    where = {"shape": like.shape, "stride": like.stride(), "run_check": False}
    return DTensor.from_local(part, like.device_mesh, like.placements, **where)


def clip_gradients(parameters: Sequence[nn.Parameter], most: float) -> None:
    """By the norm of all of them, in all processes."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not any(map(is_divided, gradients)):
        clip_grad_norm_(parameters, most)
        return
    factor = (most / (global_norm(gradients) + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        local(gradient).mul_(factor)


def global_norm(tensors: Iterable[Tensor]) -> Tensor:
    """√Σ x² over the numbers of all tensors, each counted once in whichever process it is."""
    sums: dict[tuple[distributed.ProcessGroup, ...], list[Tensor]] = {}
    for tensor in tensors:
        sums.setdefault(_groups(tensor), []).append(_sum_of_squares(local(tensor)))
    totals = [torch.stack(squares).sum() for squares in sums.values()]
    for total, groups in zip(totals, sums, strict=True):
        for group in groups:
            distributed.all_reduce(total, group=group)
    return torch.stack(totals).sum().sqrt()


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """In all processes, if any tensor is divided."""
    tensors = list(tensors)
    here = all(bool(local(tensor).isfinite().all()) for tensor in tensors)
    divided = next(filter(is_divided, tensors), None)
    if divided is None:
        return here
    found = torch.tensor(float(here), device=divided.device)
    distributed.all_reduce(found, op=distributed.ReduceOp.MIN)
    return bool(found)


def _sum_of_squares(x: Tensor) -> Tensor:
    return (x.float() if x.dtype.itemsize < 4 else x).square().sum()


def _groups(tensor: Tensor) -> "tuple[distributed.ProcessGroup, ...]":
    """Over the processes of which a tensor is divided, an axis of its mesh after the other."""
    if not is_divided(tensor):
        return ()
    mesh = tensor.device_mesh
    return tuple(mesh.get_group(axis) for axis, kind in enumerate(tensor.placements) if not kind.is_replicate())
