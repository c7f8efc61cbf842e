"""The one loop that trains every model. It knows learners and batches, and no model by name.

    for each update:  for each phase of the learner:  ∇ ← gradient of the phase's loss;  clip;  step

A run is a function of its seed: batches come from (seed, epoch), and the random numbers of an update from (seed, update). So a run that
was killed goes on from its last checkpoint to the very weights that it would have had.
"""

import math
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from neuropil.config import Config, option
from neuropil.errors import InputError, nearest
from neuropil.protocols import Batch, Batches, Learner, Phase, Remembering
from neuropil.randomness import mix
from neuropil.training import checkpoint
from neuropil.training.averages import WeightAverage
from neuropil.training.divergence import diverged, finite
from neuropil.training.evaluation import evaluate
from neuropil.training.history import History, Row
from neuropil.training.interruption import Interrupted, StopRequest
from neuropil.training.optimizers import OptimizerName, build_optimizer
from neuropil.training.precision import prepare_bfloat16
from neuropil.training.progress import Display
from neuropil.training.schedules import ScheduleName, rate_share
from neuropil.training.weights import load_model, save_model

UPDATES_BETWEEN_ROWS = 50
LEAST_EPOCHS = 10


class TrainingConfig(Config):
    epochs: int | None = option(
        None, "passes over the training data; without it, as many as make `updates` updates, ten at the least", low=1
    )
    updates: int = option(
        1000, "updates to make where epochs are not given: a small data set is passed over more often", low=1
    )
    minutes: float | None = option(None, "train for so long, in place of a number of epochs", low=0.001)
    batch_size: int = option(64, "examples in a batch", low=1)
    optimizer: OptimizerName = option("adamw", "update rule")
    learning_rate: float = option(1e-3, "peak learning rate", low=0)
    momentum: float = option(0.9, "β of the momentum optimiser", low=0, high=1)
    weight_decay: float = option(0.01, "pull of the weights towards zero; biases and normalisations are spared", low=0)
    schedule: ScheduleName = option("cosine", "how the learning rate moves after the warm-up")
    warmup: float = option(0.05, "share of the run in which the learning rate rises", low=0, high=1)
    clip: float | None = option(None, "largest gradient norm; a longer gradient is shortened to it", low=0)
    accumulate: int = option(1, "batches whose gradients are added up before an update", low=1)
    precision: Literal["float32", "bfloat16"] = option("float32", "number format of the forward pass")
    compile: bool = option(False, "compile the model with torch.compile")
    average: float = option(
        0.0, "decay of the moving average of the weights that is kept and evaluated; 0 for none", low=0, high=0.99999
    )
    monitor: str = option(
        "loss", "validation metric that picks the best weights; names with loss or error should fall, others rise"
    )
    keep: Literal["best", "last"] = option("best", "which weights the finished run holds")
    patience: int | None = option(None, "stop after so many validations without a better monitored metric", low=1)
    checkpoint_seconds: float = option(20.0, "time between two checkpoints", low=0)
    device: str = option("auto", "where to compute: auto, cpu, cuda, cuda:1, mps")
    tensorboard: bool = option(False, "also write TensorBoard events into the run folder")


@dataclass
class State:
    """Where a run stands; with the weights and the optimisers' memories it is all that `resume` needs."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    elapsed: float = 0.0
    best: float | None = None
    validations_since_best: int = 0
    loss_sums: dict[str, float] = field(default_factory=dict)
    loss_count: int = 0
    finished: bool = False


def fit(
    learner: Learner,
    train: Batches,
    validation: Batches | None,
    config: TrainingConfig,
    *,
    seed: int,
    folder: Path,
    title: str = "training",
    show_progress: bool = True,
) -> list[Row]:
    """Train `learner` in `folder` until the epochs or minutes are over; go on from the folder's checkpoint if there is one.

    Leaves `model.safetensors` (the weights to use, which the learner's model then holds), `checkpoint.safetensors` and
    `metrics.jsonl`; returns the rows of the latter.
    """
    prepare_precision(config)
    with (
        torch.random.fork_rng(devices=_cuda_devices(learner)),
        _Loop(learner, train, validation, config, seed, folder) as loop,
    ):
        with Display(title, show=show_progress) as display:
            loop.run(display)
        return loop.history.rows


def pick_device(name: str) -> torch.device:
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InputError("device must be one that this machine has", got=f"{name!r}", fix="use auto or cpu") from error


def prepare_precision(config: TrainingConfig) -> None:
    """Whoever computes before `fit` calls this first: a limit that a processor needs for bfloat16 comes too late after."""
    if config.precision == "bfloat16" and pick_device(config.device).type == "cpu":
        prepare_bfloat16()


def require_monitor(config: TrainingConfig, metrics: Iterable[str]) -> None:
    if config.monitor not in metrics:
        raise InputError(
            "monitor must name a validation metric", got=f"{config.monitor!r}", fix=nearest(config.monitor, metrics)
        )


class _Loop:
    def __init__(
        self,
        learner: Learner,
        train: Batches,
        validation: Batches | None,
        config: TrainingConfig,
        seed: int,
        folder: Path,
    ):
        self.learner, self.model, self.config, self.seed, self.folder = learner, learner.model, config, seed, folder
        self.train, self.validation = train, validation
        self.phases = learner.phases()
        self.optimizers = {phase.name: self._optimizer(phase) for phase in self.phases}
        self.average = WeightAverage(self.model, config.average) if config.average else None
        self.device = next(self.model.parameters()).device
        self.state = State()
        self.weights_path, self.checkpoint_path = folder / "model.safetensors", folder / "checkpoint.safetensors"
        if self.checkpoint_path.exists():
            state, memory = checkpoint.load(
                self.checkpoint_path, self.model, self.optimizers, self.phases, self.average
            )
            self.state = State(**state)
            if isinstance(learner, Remembering):
                learner.recall(memory)
        self.history = History(folder, step=self.state.step, tensorboard=config.tensorboard)
        self.started = time.monotonic() - self.state.elapsed
        self.saved_at = time.monotonic()
        self.examples = 0
        self.opened = time.monotonic()
        updates_per_epoch = math.ceil(len(train) / config.accumulate)
        self.epochs = config.epochs or max(LEAST_EPOCHS, math.ceil(config.updates / updates_per_epoch))
        self.updates = self.epochs * updates_per_epoch
        if config.compile:
            _require_compiler()
            self.model.compile()

    def __enter__(self) -> "_Loop":
        return self

    def __exit__(self, *exception: object) -> None:
        self.history.close()

    # --- the run -------------------------------------------------------------------------------------------------------

    def run(self, display: Display) -> None:
        with StopRequest() as stop:
            self.model.train()
            while not self._over():
                self._epoch(display, stop)
            if not self.state.finished:
                self._finish()
        load_model(self.weights_path, self.model)
        self.model.eval()

    def _epoch(self, display: Display, stop: StopRequest) -> None:
        batches = self.train.epoch(self.state.epoch, start=self.state.batch)
        for group in _groups(batches, self.config.accumulate):
            self._update(group)
            self.state.batch += len(group)
            self.examples += sum(len(next(iter(batch.values()))) for batch in group)
            if display.due():
                display.update(self._share_done(), self._figures())
            epoch_over = self.state.batch >= len(self.train)
            if epoch_over or self.state.step % UPDATES_BETWEEN_ROWS == 0:
                self._log_training()
            if epoch_over:
                self.state.epoch, self.state.batch = self.state.epoch + 1, 0
                self._validate()
            if stop.requested:
                self._save_checkpoint()
                raise Interrupted(self.folder, self.state.step)
            if time.monotonic() - self.saved_at >= self.config.checkpoint_seconds:
                self._save_checkpoint()
            if self._over():
                return

    def _update(self, group: Sequence[Batch]) -> None:
        _seed_random_numbers(self.seed, self.state.step, self.device)
        rate = self._learning_rate()
        for phase in self.phases:
            optimizer = self.optimizers[phase.name]
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate
            # The gradients of the update before are kept until the loss is known to be finite: they explain one that is not.
            value = 0.0
            for index, batch in enumerate(group):
                with self._precision():
                    loss = phase.loss(batch) / len(group)
                value += loss.item()
                if not math.isfinite(value):
                    self._stop_diverged(phase, batch, value)
                if index == 0:
                    optimizer.zero_grad(set_to_none=True)
                loss.backward()
            if self.config.clip is not None:
                clip_grad_norm_(list(phase.parameters.values()), self.config.clip)
            optimizer.step()
            name = "loss" if len(self.phases) == 1 else f"{phase.name}_loss"
            self.state.loss_sums[name] = self.state.loss_sums.get(name, 0.0) + value
        self.state.step += 1
        self.state.loss_count += 1
        if self.average is not None:
            self.average.update(self.state.step)

    def _finish(self) -> None:
        """A run that ends inside an epoch is validated once more, so that its last weights are judged too."""
        if self.state.batch:
            self._log_training()
            self._validate()
        if self.config.keep == "last" or self.validation is None:
            with self._averaged():
                save_model(self.weights_path, self.model)
        self.state.finished = True
        self._save_checkpoint()

    # --- what is measured ----------------------------------------------------------------------------------------------

    def _log_training(self) -> None:
        if not self.state.loss_count:
            return
        means = {name: total / self.state.loss_count for name, total in self.state.loss_sums.items()}
        self.history.add(self._row("train") | means | {"learning_rate": self._learning_rate()})
        self.state.loss_sums, self.state.loss_count = {}, 0

    def _validate(self) -> None:
        if self.validation is None:
            return
        with self._averaged(), self._precision():
            metrics = evaluate(self.learner, self.validation)
            require_monitor(self.config, metrics)
            self.history.add(self._row("validation") | metrics)
            value = metrics[self.config.monitor]
            if self.state.best is None or _better(self.config.monitor, value, self.state.best):
                self.state.best, self.state.validations_since_best = value, 0
                if self.config.keep == "best":
                    save_model(self.weights_path, self.model)
            else:
                self.state.validations_since_best += 1

    def _row(self, kind: str) -> Row:
        return {
            "kind": kind,
            "step": self.state.step,
            "epoch": self._epochs_done(),
            "seconds": round(self._elapsed(), 3),
        }

    def _figures(self) -> str:
        state = self.state
        parts = [f"epoch {state.epoch + 1}" + ("" if self.config.minutes else f"/{self.epochs}")]
        if state.loss_count:
            parts += [f"{name} {total / state.loss_count:.4f}" for name, total in state.loss_sums.items()]
        latest = next((row for row in reversed(self.history.rows) if row["kind"] == "validation"), {})
        parts += [
            f"val {name} {value:.4f}"
            for name, value in latest.items()
            if name not in ("kind", "step", "epoch", "seconds")
        ]
        parts.append(f"{self.examples / (time.monotonic() - self.opened):,.0f} examples/s")
        return "  ".join(parts)

    # --- where the run stands ------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        stopped = self.config.patience is not None and self.state.validations_since_best >= self.config.patience
        return self.state.finished or stopped or self._share_done() >= 1

    def _share_done(self) -> float:
        if self.config.minutes is not None:
            return self._elapsed() / (60 * self.config.minutes)
        return self.state.step / self.updates

    def _epochs_done(self) -> float:
        return round(self.state.epoch + self.state.batch / len(self.train), 4)

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _learning_rate(self) -> float:
        total = float(self.updates)
        if self.config.minutes is not None:  # as many as there will be if the rest goes on as it went
            total = max(1, self.state.step) / max(1e-9, self._share_done())
        share = rate_share(self.config.schedule, self.state.step, total, self.config.warmup * total)
        return self.config.learning_rate * share

    # --- what is kept --------------------------------------------------------------------------------------------------

    def _save_checkpoint(self) -> None:
        if not finite(self.model):
            return  # the next loss will not be finite either, and will say why; the checkpoint before is good
        self.state.elapsed = self._elapsed()
        memory = self.learner.memory() if isinstance(self.learner, Remembering) else {}
        checkpoint.save(
            self.checkpoint_path, vars(self.state), self.model, self.optimizers, self.phases, self.average, memory
        )
        self.saved_at = time.monotonic()

    def _stop_diverged(self, phase: Phase, batch: Batch, value: float) -> None:
        kept = (
            f"the last good checkpoint is in {self.folder}"
            if self.checkpoint_path.exists()
            else "no checkpoint had been written yet"
        )
        raise diverged(
            model=self.model,
            loss=lambda: phase.loss(batch),
            phase=phase.name,
            value=value,
            step=self.state.step,
            learning_rate=self._learning_rate(),
            kept=kept,
        )

    # --- small matters -------------------------------------------------------------------------------------------------

    def _optimizer(self, phase: Phase) -> Optimizer:
        config = self.config
        return build_optimizer(
            config.optimizer,
            phase.parameters,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
        )

    def _precision(self) -> AbstractContextManager[object]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _averaged(self) -> AbstractContextManager[None]:
        return self.average.in_place() if self.average is not None else nullcontext()


def _require_compiler() -> None:
    """torch.compile writes C++ for a CPU; without a compiler it would fail in the middle of the first step."""
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++", "cl")):
        raise InputError(
            "compile=True needs a C++ compiler", got="a machine without one", fix="install g++ or train without compile"
        )


def _groups(batches: Iterator[Batch], size: int) -> Iterator[list[Batch]]:
    """Batches that make one update together; the last group of an epoch may be smaller."""
    group: list[Batch] = []
    for batch in batches:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _better(name: str, value: float, best: float) -> bool:
    falls = "loss" in name or "error" in name
    return value < best if falls else value > best


def _seed_random_numbers(seed: int, step: int, device: torch.device) -> None:
    key = mix(seed, "update", step)
    torch.default_generator.manual_seed(
        key
    )  # torch.manual_seed would visit every backend and cost a hundred times more
    if device.type == "cuda":
        torch.cuda.manual_seed(key)


def _cuda_devices(learner: Learner) -> list[int]:
    device = next(learner.model.parameters()).device
    return [device.index or 0] if device.type == "cuda" else []
