"""A model that is divided over the processes of a mesh: data parallel along one axis, tensor parallel along the other.

data × tensor = number of processes        each row of the mesh holds the model once; each column sees one batch
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from neuropil.training.config import Precision
from neuropil.training.distributed import sharded_checkpoint, sharding, tensor_parallel
from neuropil.training.distributed.sharded_checkpoint import Trained
from neuropil.training.distributed.strategy import require_parallel_model
from neuropil.training.distributed.undivided import Undivided


class ShardedModel:
    """Divides a model in place; `restore` makes it whole again."""

    def __init__(self, model: nn.Module, mesh: DeviceMesh, *, fsdp: bool, precision: Precision = "float32"):
        """With `fsdp` along the axis "data" too, else every process along it has the same weights."""
        whole = require_parallel_model(model)
        self.model, self.plan = model, whole.parallel_plan()
        if mesh["tensor"].size() > 1:
            tensor_parallel.require_divisible(self.plan, mesh["tensor"].size())
        self.undivided = Undivided(model, self.plan.parts)
        whole.split_projections()
        if mesh["tensor"].size() > 1:
            tensor_parallel.divide(model, self.plan, mesh["tensor"])
        if fsdp:
            sharding.shard(model, self.plan, mesh["data"], precision)

    def matrices(self) -> list[list[Tensor]]:
        """Weights that are one matrix in the whole model."""
        parameters = dict(self.model.named_parameters())
        parts = ([parameters[name] for name in names] for names in self.plan.parts.values())
        return [weights for weights in parts if weights[0].ndim == 2]

    def write(self, path: Path) -> None:
        """The weights as `save_model` writes those of a whole model; called by all processes."""
        self.undivided.write(path)

    def restore(self, device: torch.device | str = "cpu") -> None:
        """A whole model again, whose weights are still to be loaded."""
        self.undivided.restore(device)

    def save_checkpoint(self, run: Path, state: Mapping[str, Any], trained: Trained) -> None:
        sharded_checkpoint.save(run, state, trained, {})

    def load_checkpoint(self, folder: Path, trained: Trained) -> dict[str, Any]:
        return sharded_checkpoint.load(folder, trained, {})


def mesh_of(device: torch.device, data: int, tensor: int) -> DeviceMesh:
    """Neighbours, which are on one host, compute each layer together."""
    return init_device_mesh(device.type, (data, tensor), mesh_dim_names=("data", "tensor"))
