"""Where the weights of a run are: whole in every process, or divided. The loop asks it who evaluates, writes and reads.

A run that was begun one way can go on another way: a checkpoint of whole tensors is divided, one of shares is joined.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.protocols import Learner, ParallelModel, PenalizedLearner
from neuropil.training import checkpoint
from neuropil.training.checkpoint import FILE, SHARES, Trained
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed import activation_checkpointing
from neuropil.training.distributed.processes import World
from neuropil.training.distributed.strategy import choose
from neuropil.training.weights import load_model, save_model

States: TypeAlias = tuple[dict[str, Any], dict[str, Tensor]]
"""Of a run and of its learner."""


class Saved(NamedTuple):
    """What a checkpoint tells beside the tensors of the model: where the run stood, and the learner's own state."""

    path: Path
    """In the run folder, which rank 0 alone may see."""
    state: dict[str, Any]
    learner: dict[str, Tensor]


class Placement:
    """Of a model that is whole in every process: rank 0 evaluates and writes for all."""

    def __init__(self, model: nn.Module, folder: Path, world: World, why: str = ""):
        """`why` it is placed so, in one line."""
        self.model, self.folder, self.world, self.why = model, folder, world, why
        self.data = self.summed = world
        """Processes that have other rows of a batch, and those whose gradients are still to be added."""
        self.copies = 1
        """How many processes have the same rows."""

    @property
    def evaluates(self) -> bool:
        """Whether this process takes part in an evaluation, whose figures are those of rank 0."""
        return self.world.first

    @property
    def saved(self) -> bool:
        return checkpoint.has_checkpoint(self.folder)

    def matrices(self) -> list[list[Tensor]]:
        """Weights that are one matrix together."""
        return []

    def load(self, trained: Trained) -> Saved | None:
        """Fill what is trained from the latest checkpoint, if there is one."""
        shards = self.world.broadcast(latest_shards(self.folder) if self.world.first else None)
        if shards is not None:
            path = self.folder / SHARES / shards
            return Saved(path, *self._load_shards(path, trained))
        with self.world.copy_of(self.folder / FILE) as path:
            return None if path is None else Saved(self.folder / FILE, *self._load_whole(path, trained))

    def _load_shards(self, folder: Path, trained: Trained) -> States:
        from neuropil.training.distributed import sharded_checkpoint

        parts = self.model.parallel_plan().parts if isinstance(self.model, ParallelModel) else {}
        return sharded_checkpoint.load(folder, trained, parts)

    def _load_whole(self, path: Path, trained: Trained) -> States:
        return checkpoint.load(path, *trained)

    def save(self, state: Mapping[str, Any], trained: Trained, learner_state: Mapping[str, Tensor]) -> None:
        if self.world.first:
            checkpoint.save(self.folder / FILE, state, *trained, learner_state)
            shutil.rmtree(self.folder / SHARES, ignore_errors=True)

    def write(self, path: Path) -> None:
        """The weights as they are now, in one file."""
        if self.world.first:
            save_model(path, self.model)

    def finish(self, path: Path) -> None:
        """A whole model in every process, with the weights of a file of rank 0."""
        if isinstance(self.model, ParallelModel):
            activation_checkpointing.restore(self.model, self.model.parallel_plan().blocks)
        if self.world.first:
            load_model(path, self.model)
        self.world.broadcast_tensors(list(self.model.state_dict().values()))


def place(learner: Learner, config: TrainingConfig, folder: Path, world: World, device: torch.device) -> Placement:
    """As the run asks for, or as its memory needs; before anything takes hold of the model's weights."""
    model = learner.model
    world.broadcast_tensors(list(model.state_dict().values()))
    if config.recompute:
        activation_checkpointing.require_blocks(model)
    whole = Placement(model, folder, world)
    resumed = world.broadcast(whole.saved)
    chosen = choose(config, model, world.size, device, resumed=resumed)
    if chosen.divides:
        require_divisible_loss(learner)
        from neuropil.training.distributed.sharded_placement import ShardedPlacement

        return ShardedPlacement(model, config, folder, world, device, chosen)
    if config.recompute and isinstance(model, ParallelModel):
        activation_checkpointing.recompute(model, model.parallel_plan().blocks)
    whole.why = chosen.why
    return whole


def require_divisible_loss(learner: Learner) -> None:
    """A penalty is computed from whole weights."""
    if isinstance(learner, PenalizedLearner) and learner.l1:
        rule, fix = "--l1 needs a model that is whole in every process", "leave --l1 out, or use --parallel ddp"
        raise InputError(rule, got="one that is divided", fix=fix)


def latest_shards(folder: Path) -> str | None:
    """The name of the latest checkpoint of shares, if no whole one is later. What was not finished is removed."""
    if not (folder / SHARES).is_dir():
        return None
    from neuropil.training.distributed.sharded_checkpoint import finished, remove_unfinished

    remove_unfinished(folder)
    found = finished(folder)
    if not found:
        return None
    whole = checkpoint.read(folder / FILE)[1]["step"] if (folder / FILE).exists() else -1
    return found[-1].name if int(found[-1].name.removeprefix("step-")) >= whole else None
