"""What a training is asked for, and whether its model, its data and this machine can do it."""

import math
import os
import shutil
from collections.abc import Iterable, Sized
from typing import Literal, TypeAlias

import torch
from torch.nn import Module

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError, nearest
from neuropil.metrics import find_metric
from neuropil.protocols import Batches, OptimizerName, Uncompilable
from neuropil.ranges import around, times
from neuropil.training.precision import prepare_bfloat16
from neuropil.training.schedules import ScheduleName

LEAST_EPOCHS = 10
Precision: TypeAlias = Literal["float32", "bfloat16"]


class TrainingConfig(Config):
    epochs: int | None = option(
        None, "passes over the training data; by default enough for `updates`, at least ten", low=1
    )
    updates: int = option(1000, "least number of updates, in whole passes, where epochs are not given", low=1)
    minutes: float | None = option(
        None, "time limit in minutes, in place of epochs; with --data, sizes that were not given follow it", low=0.001
    )
    seconds: float | None = from_data(None, "what the time limit leaves for training")
    ablation_seconds: float | None = from_data(None, "what it leaves for a model that is trained beside")
    fitted: str = from_data("", "what was chosen for the time limit, in a sentence")
    batch_size: int = option(64, "batch size", low=1, tune=times(1 / 2, 1, 2))
    optimizer: OptimizerName = option("adamw", "optimiser")
    learning_rate: float = option(1e-3, "peak learning rate", low=0, tune=around(10))
    momentum: float = option(0.9, "momentum β of the momentum optimiser", low=0, high=1)
    weight_decay: float = option(
        0.01, "weight decay of matrices and kernels; biases and normalisations have none", low=0, tune=around(10)
    )
    schedule: ScheduleName = option("cosine", "learning-rate schedule after the warm-up")
    warmup: float = option(0.05, "fraction of the run with linear learning-rate warm-up", low=0, high=1)
    clip: float | None = option(None, "gradient clipping: maximum norm", above=0)
    accumulate: int = option(1, "gradient accumulation: batches per update", low=1)
    precision: Precision = option("float32", "precision of the forward pass (autocast)")
    compile: bool = option(False, "compile the model with torch.compile")
    recompute: bool = option(False, "activation checkpointing: recompute each block in the backward pass")
    parallel: Literal["auto", "ddp", "fsdp"] = option(
        "auto", "under torchrun: DDP (a whole model in each process), FSDP2 (a share), or by memory"
    )
    tensor_parallel: int = option(1, "tensor parallel: processes that compute each layer together", low=1)
    average: float = option(0.0, "exponential moving average of the weights: decay; 0 for none", low=0, high=0.99999)
    monitor: str = option("loss", "validation metric that picks the best weights")
    keep: Literal["best", "last"] = option("best", "weights that the finished run holds")
    patience: int | None = option(
        None, "early stopping: validations without a better monitored metric; the best weights are kept", low=1
    )
    checkpoint_seconds: float = option(20.0, "seconds between checkpoints", low=0)
    device: str = option("auto", "device: auto, cpu, cuda, cuda:1, mps")
    tensorboard: bool = option(False, "write TensorBoard events into the run folder")
    previews: bool = option(False, "write previews.jsonl: what the model makes of a fixed set at each validation")

    @property
    def time_limit(self) -> float | None:
        """In seconds of training."""
        return self.seconds if self.seconds is not None or self.minutes is None else 60 * self.minutes

    @property
    def keeps_best(self) -> bool:
        """Early stopping waits for weights that get no better, and so leaves the best."""
        return self.keep == "best" or self.patience is not None


def planned_length(config: TrainingConfig, train: Batches) -> tuple[int, int]:
    """Passes and updates of a run that no time limit ends."""
    updates_per_epoch = math.ceil(len(train) / config.accumulate)
    epochs = config.epochs or max(LEAST_EPOCHS, math.ceil(config.updates / updates_per_epoch))
    return epochs, epochs * updates_per_epoch


def pick_device(name: str) -> torch.device:
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError("device must be one that this machine has", got=f"{name!r}", fix="use auto or cpu") from error


def prepare_precision(config: TrainingConfig) -> None:
    """Whoever computes before `fit` calls this first: a limit that a processor needs for bfloat16 comes too late
    after."""
    if config.precision == "bfloat16" and pick_device(config.device).type == "cpu":
        prepare_bfloat16()


def require_monitor(config: TrainingConfig, metrics: Iterable[str]) -> None:
    if config.monitor not in metrics:
        fix = nearest(config.monitor, metrics)
        raise InputError("monitor must name a validation metric", got=f"{config.monitor!r}", fix=fix)
    if find_metric(config.monitor).better is None:
        raise InputError("monitor must name a metric of which more or less is better", got=f"{config.monitor!r}")


def require_validation(config: TrainingConfig, validation: Sized) -> None:
    if config.patience is not None and not len(validation):
        fix = "give --validation 0.1, or leave --patience out"
        raise InputError("early stopping (--patience) needs a validation part", got="one without examples", fix=fix)


def require_compilable(config: TrainingConfig, model: Module) -> None:
    if not config.compile:
        return
    if isinstance(model, Uncompilable) and model.cannot_compile:
        what = f"{type(model).__name__}: {model.cannot_compile}"
        raise InputError("compile=True needs a model that torch.compile can speed up", got=what, fix="train without it")
    # torch.compile writes C++ for a CPU; without a compiler it would fail in the middle of the first step.
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++", "cl")):
        fix = "install g++ or train without compile"
        raise InputError("compile=True needs a C++ compiler", got="a machine without one", fix=fix)
