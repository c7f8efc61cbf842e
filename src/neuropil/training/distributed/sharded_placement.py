"""A run whose model is divided: all processes evaluate, and all write their shares of a checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuropil.training.checkpoint import FILE, Trained
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed import sharded_checkpoint
from neuropil.training.distributed.placement import Placement, States
from neuropil.training.distributed.processes import World
from neuropil.training.distributed.sharded_model import ShardedModel, mesh_of
from neuropil.training.distributed.strategy import Strategy


class ShardedPlacement(Placement):
    """The run folder must be one that all processes see."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainingConfig,
        folder: Path,
        world: World,
        device: torch.device,
        chosen: Strategy,
    ):
        super().__init__(model, folder, world, chosen.why)
        mesh = mesh_of(device, world.size // chosen.tensor, chosen.tensor)
        ways = {"fsdp": chosen.fsdp, "precision": config.precision, "recompute": config.recompute}
        self.sharded, self.device, data = ShardedModel(model, mesh, **ways), device, mesh["data"]
        self.data = World(data.get_local_rank(), data.size(), world.local_rank, data.get_group())
        self.summed = World() if chosen.fsdp else self.data  # FSDP2 adds gradients by itself
        self.copies = mesh["tensor"].size()

    @property
    def evaluates(self) -> bool:
        return True

    def matrices(self) -> list[list[Tensor]]:
        return self.sharded.matrices()

    def _load_shards(self, folder: Path, trained: Trained) -> States:
        return sharded_checkpoint.load(folder, trained, {})

    def _load_whole(self, path: Path, trained: Trained) -> States:
        return self.sharded.load_whole(path, trained)

    def save(self, state: Mapping[str, Any], trained: Trained, learner_state: Mapping[str, Tensor]) -> None:
        sharded_checkpoint.save(self.folder, state, trained, {}, learner_state)
        if self.world.first:
            (self.folder / FILE).unlink(missing_ok=True)

    def write(self, path: Path) -> None:
        self.sharded.undivided.write(path)

    def finish(self, path: Path) -> None:
        self.sharded.undivided.restore(self.device)
        super().finish(path)
