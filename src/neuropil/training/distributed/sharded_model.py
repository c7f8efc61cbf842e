"""A model that is divided over the processes of a mesh: data parallel along one axis, tensor parallel along the other.

data × tensor = number of processes        each row of the mesh holds the model once; each column sees one batch
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from neuropil.training import checkpoint
from neuropil.training.checkpoint import Trained, under
from neuropil.training.config import Precision
from neuropil.training.distributed import activation_checkpointing, sharding, tensor_parallel
from neuropil.training.distributed.dtensor import divided_as, local
from neuropil.training.distributed.strategy import require_parallel_model
from neuropil.training.distributed.undivided import Undivided


class ShardedModel:
    """Divides a model in place; `undivided.restore` makes it whole again."""

    def __init__(
        self,
        model: nn.Module,
        mesh: DeviceMesh,
        *,
        fsdp: bool,
        precision: Precision = "float32",
        recompute: bool = False,
    ):
        """With `fsdp` along the axis "data" too, else every process along it has the same weights."""
        whole = require_parallel_model(model)
        self.model, self.mesh, self.fsdp, self.plan = model, mesh, fsdp, whole.parallel_plan()
        if mesh["tensor"].size() > 1:
            tensor_parallel.require_divisible(self.plan, mesh["tensor"].size())
        self.undivided = Undivided(model, self.plan.parts)
        whole.split_projections()
        if recompute:
            activation_checkpointing.recompute(model, self.plan.blocks)
        if mesh["tensor"].size() > 1:
            tensor_parallel.divide(model, self.plan, mesh["tensor"])
        if fsdp:
            sharding.shard(model, self.plan, mesh["data"], precision)

    def matrices(self) -> list[list[Tensor]]:
        """Weights that are one matrix in the whole model."""
        parameters = dict(self.model.named_parameters())
        parts = (list[Tensor](parameters[name] for name in names) for names in self.plan.parts.values())
        return [weights for weights in parts if weights[0].ndim == 2]

    def load_whole(self, path: Path, trained: Trained) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Fill what is trained from a checkpoint of whole tensors, as `checkpoint.load` does."""
        tensors, state = checkpoint.read(path)
        model, optimizers, phases, average = trained
        weights = self.undivided.whole_weights(under("model/", tensors), path)
        _fill(model.state_dict(), dict(self._divided(weights)))
        if average is not None:
            _fill(average.average, dict(self._divided(under("average/", tensors))))
        for phase in phases:
            saved, moments = under(f"optimizer/{phase.name}/", tensors), optimizers[phase.name].state
            for key in {name.rpartition("/")[2] for name in saved}:
                of_key = {name.removesuffix(f"/{key}"): x for name, x in saved.items() if name.endswith(f"/{key}")}
                for name, value in self._divided(of_key):
                    weight = phase.parameters[name]
                    value = value.to(weight.device)
                    moments.setdefault(weight, {})[key] = divided_as(value, weight) if value.ndim else value.clone()
        return state, under("learner/", tensors)

    def _divided(self, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """By the names of the divided model, still whole."""
        for name, tensor in tensors.items():
            names = self.plan.parts.get(name, (name,))
            pieces = tensor.chunk(len(names)) if tensor.ndim else [tensor] * len(names)
            yield from zip(names, pieces, strict=True)


def mesh_of(device: torch.device, data: int, tensor: int) -> DeviceMesh:
    """Neighbours, which are on one host, compute each layer together."""
    return init_device_mesh(device.type, (data, tensor), mesh_dim_names=("data", "tensor"))


@torch.no_grad()
def _fill(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in own.items():
        local(tensor).copy_(local(divided_as(tensors[name].to(tensor.device), tensor)))
