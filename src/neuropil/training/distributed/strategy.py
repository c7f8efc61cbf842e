"""How the processes of a run share a model: each has all of it (DDP), or a part (FSDP2, tensor parallel)."""

import math
import os
from dataclasses import dataclass

import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.memory import available_memory, written
from neuropil.protocols import OptimizerName, ParallelModel
from neuropil.training.config import TrainingConfig

MOMENTS: dict[OptimizerName, int] = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2, "muon": 1}
"""Numbers that an optimiser keeps for each weight; Muon for those of its matrices, and Adam's two for the others."""
SHARE = 0.8
"""Of a device's memory, for what a model and its training keep; the rest is for activations."""


@dataclass(frozen=True)
class Strategy:
    fsdp: bool = False
    tensor: int = 1
    """Processes that compute each layer together."""
    why: str = ""
    """In one line; nothing for a process by itself."""

    @property
    def divides(self) -> bool:
        return self.fsdp or self.tensor > 1


def choose(
    config: TrainingConfig, model: nn.Module, processes: int, device: torch.device, *, resumed: bool = False
) -> Strategy:
    """As a run was asked for, or as its memory needs. One that goes on may have other processes than it was begun with:
    as many of them compute each layer together as they can."""
    if not resumed:
        require_processes(config, processes)
    if processes == 1:
        return Strategy()
    tensor = math.gcd(config.tensor_parallel, processes)
    needed, memory = state_bytes(model, config), device_memory(device)
    room = SHARE * memory
    fits = config.parallel == "ddp" or (config.parallel == "auto" and needed / tensor <= room)
    fsdp = processes > tensor and not fits and (config.parallel == "fsdp" or isinstance(model, ParallelModel))
    if fsdp or tensor > 1:
        require_divisible_run(config, model)
    kept = needed / (processes if fsdp else tensor)
    require_memory(kept, memory)
    ways = [f"tensor parallel over {tensor} processes"] if tensor > 1 else []
    if processes > tensor:
        ways.append(f"{'FSDP2' if fsdp else 'DDP'} over {processes // tensor} processes")
    state = f"weights, gradients and moments take {written(needed)}"
    each = f", of which a process keeps about {written(kept)}"
    there = f", and a process has room for {written(room)}" if config.parallel == "auto" else ""
    return Strategy(fsdp, tensor, f"{' × '.join(ways)}: {state}{each if fsdp or tensor > 1 else ''}{there}")


def state_bytes(model: nn.Module, config: TrainingConfig) -> int:
    """Of weights, gradients, the optimiser's moments and a moving average: what a process by itself keeps between
    updates."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    total = 0
    for weight in model.parameters():
        own = weight.numel() * weight.element_size()
        matrix = weight.ndim == 2 and id(weight) not in tables
        moments = MOMENTS["adamw" if config.optimizer == "muon" and not matrix else config.optimizer]
        total += own * (1 + bool(config.average) + (1 + moments) * weight.requires_grad)
    return total


def device_memory(device: torch.device) -> float:
    """Bytes for this process."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return available_memory() / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def require_processes(config: TrainingConfig, processes: int) -> None:
    asked = (
        f"--tensor-parallel {config.tensor_parallel}" if config.tensor_parallel > 1 else f"--parallel {config.parallel}"
    )
    if processes == 1 and asked != "--parallel auto":
        fix = "start them with: torchrun --nproc-per-node 2 -m neuropil train …"
        raise InputError(f"{asked} needs several processes", got="one", fix=fix)
    if processes % config.tensor_parallel:
        raise InputError(f"{asked} must divide the number of processes", got=f"{processes} processes")


def require_memory(kept: float, memory: float) -> None:
    if kept > memory:
        rule = "the weights, gradients and moments that a process keeps must fit into its memory"
        got = f"{written(kept)}, of {written(memory)}"
        raise InputError(rule, got=got, fix="start more processes with --parallel fsdp, or choose smaller sizes")


def require_divisible_run(config: TrainingConfig, model: nn.Module) -> None:
    require_parallel_model(model)
    for option, given in (("--compile", config.compile), ("--previews", config.previews)):
        if given:
            rule, fix = f"{option} needs a model that is whole in every process", f"leave {option} out"
            raise InputError(rule, got="one that is divided", fix=fix)


def require_parallel_model(model: nn.Module) -> ParallelModel:
    if isinstance(model, ParallelModel):
        return model
    rule = "--parallel fsdp and --tensor-parallel need a model of attention blocks"
    raise InputError(rule, got=type(model).__name__, fix="train it with --parallel ddp")
