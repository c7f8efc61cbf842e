"""The one loop that trains every model. It knows learners and batches, and no model by name.

    for each update:  for each phase that is due:  ∇ ← gradient of the phase's loss;  clip;  step

A run is a function of its seed: batches come from (seed, epoch), random numbers of an update from (seed, update). So a
run that was killed goes on from its last checkpoint to the very weights that it would have had.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from neuropil.errors import DivergedError
from neuropil.metrics import PHASE_LOSS, PHASE_RATE, find_metric
from neuropil.progress import Display
from neuropil.protocols import (
    WEIGHT,
    Batch,
    Batches,
    FittedLearner,
    Learner,
    Phase,
    ScheduledLearner,
    StatefulLearner,
    WatchfulLearner,
)
from neuropil.randomness import mix
from neuropil.training import checkpoint
from neuropil.training.averages import WeightAverage
from neuropil.training.config import (
    TrainingConfig,
    planned_length,
    prepare_precision,
    require_compilable,
    require_monitor,
)
from neuropil.training.divergence import diverged, finite
from neuropil.training.evaluation import evaluate, evaluation_seconds
from neuropil.training.history import History, Row, Watch
from neuropil.training.interruption import Interrupted, StopRequest
from neuropil.training.optimizers import Optimizer, build_optimizer
from neuropil.training.previews import Preview, Previews
from neuropil.training.schedules import rate_share
from neuropil.training.weights import load_model, save_model

UPDATES_BETWEEN_ROWS = 50
WATCHED_FROM = 0.25
"""Share of the run."""
MOST_VALIDATIONS = 20
"""Of a run with a time limit: at most so many, and as take a twentieth of it."""
MEASURED_UPDATES = 10


@dataclass
class State:
    """Where a run stands; with the weights and the optimisers' states it is all that `resume` needs."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    elapsed: float = 0.0
    best: float | None = None
    validation_at: float = 0.0
    """The share of a time limit at which to validate next."""
    validations_since_best: int = 0
    loss_sums: dict[str, float] = field(default_factory=dict)
    loss_counts: dict[str, int] = field(default_factory=dict)
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
    watch: Watch | None = None,
    preview: Callable[[], Preview | None] | None = None,
) -> list[Row]:
    """Train `learner` in `folder` until the epochs or minutes are over; go on from its checkpoint if there is one.

    Leaves `model.safetensors` (the weights to use, which the learner's model then holds), `checkpoint.safetensors` and
    `metrics.jsonl`; returns the rows of the latter. `preview` tells what the model makes of a fixed set, for those who
    ask for previews.
    """
    prepare_precision(config)
    device = next(learner.model.parameters()).device
    require_compilable(config, learner.model)
    if config.compile:
        learner.model.compile()
    with torch.random.fork_rng(devices=[device.index or 0] if device.type == "cuda" else []):
        loop = _Loop(learner, train, validation, config, seed, folder, device, watch, preview)
        with closing(loop.history), Display(title, show=show_progress) as display:
            loop.run(display)
    return loop.history.rows


def seconds_per_update(learner: Learner, train: Batches, config: TrainingConfig, *, most_seconds: float) -> float:
    """Measured, as the median of a few updates after the first, which prepares what the others use. The learner is
    changed by them."""
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        loop = _Loop(learner, train, None, config, 0, Path(folder), next(learner.model.parameters()).device)
        with closing(loop.history):
            return loop.measure(most_seconds)


class _Loop:
    def __init__(
        self,
        learner: Learner,
        train: Batches,
        validation: Batches | None,
        config: TrainingConfig,
        seed: int,
        folder: Path,
        device: torch.device,
        watch: Watch | None = None,
        preview: Callable[[], Preview | None] | None = None,
    ):
        self.learner, self.model, self.config, self.seed, self.folder = learner, learner.model, config, seed, folder
        self.train, self.validation, self.device, self.watch = train, validation, device, watch
        self.phases = learner.phases()
        self.scheduled = learner if isinstance(learner, ScheduledLearner) else None
        self.optimizers = {phase.name: self._optimizer(phase) for phase in self.phases}
        self.average = WeightAverage(self.model, config.average) if config.average else None
        self.trained = self.model, self.optimizers, self.phases, self.average
        self.state = State()
        self.weights_path, self.checkpoint_path = folder / "model.safetensors", folder / "checkpoint.safetensors"
        if self.checkpoint_path.exists():
            state, learner_state = checkpoint.load(self.checkpoint_path, *self.trained)
            self.state = State(**state)
            if isinstance(learner, StatefulLearner):
                learner.load_state_dict(learner_state)
        self.history = History(folder, step=self.state.step, tensorboard=config.tensorboard)
        self.previews = None
        if config.previews and preview is not None:
            self.previews = Previews(folder, preview, step=self.state.step)
        self.warned = set[str]()
        self.examples, self.opened = 0, time.monotonic()
        self.started, self.saved_at = self.opened - self.state.elapsed, self.opened
        self.time_limit = config.time_limit
        self.epochs, self.updates = planned_length(config, train)

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self, display: Display) -> None:
        self.display = display
        display.begin(self._share_done())
        with StopRequest() as stop:
            if self.state.step == 0 and isinstance(self.learner, FittedLearner):
                self._validate()
            self._preview()
            self.model.train()
            if self.time_limit is not None and self.validation is not None and not self.state.step:
                self._validate_next(evaluation_seconds(self.learner, self.validation) / self.time_limit)
            while not self._over():
                self._epoch(display, stop)
            if not self.state.finished:
                self._finish()
        load_model(self.weights_path, self.model)
        self.model.eval()

    def measure(self, most_seconds: float) -> float:
        self.model.train()
        batches, took = self.train.epoch(0), list[float]()
        while len(took) <= MEASURED_UPDATES and sum(took) < most_seconds and (group := self._group(batches)):
            began = time.monotonic()
            self._update(group)
            took.append(time.monotonic() - began)
        return statistics.median(took[1:] or took)

    def _group(self, batches: Iterator[Batch]) -> list[Batch]:
        return list(islice(batches, self.config.accumulate))

    def _epoch(self, display: Display, stop: StopRequest) -> None:
        batches, num_batches = self.train.epoch(self.state.epoch, start=self.state.batch), len(self.train)
        for group in iter(lambda: self._group(batches), []):
            self._update(group)
            self.state.batch += len(group)
            self.examples += sum(map(_num_examples, group))
            if display.due():
                display.update(self._share_done(), *self._figures(), **self._numbers())
            epoch_over = self.state.batch >= num_batches
            if epoch_over or self.state.step % UPDATES_BETWEEN_ROWS == 0:
                self._log_training()
            if epoch_over:
                self.state.epoch, self.state.batch = self.state.epoch + 1, 0
            if epoch_over if self.time_limit is None else self._share_done() >= self.state.validation_at:
                self._log_training()
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
        share = self._rate_share()
        if self.scheduled is not None:
            self.scheduled.begin_update(min(1.0, self._share_done()))
        for phase in self.phases:
            if (self.state.step + 1) % phase.every == 0:
                self._play(phase, group, self._peak_rate(phase) * share)
        self.state.step += 1
        if self.average is not None:
            self.average.update(self.state.step)

    def _play(self, phase: Phase, group: Sequence[Batch], rate: float) -> None:
        optimizer, value = self.optimizers[phase.name], 0.0
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate
        # The gradients of the update before are kept until the loss is known to be finite: they explain one that is not
        self.latest = phase, group[-1], rate
        for index, batch in enumerate(group):
            with self._precision():
                loss = phase.loss(batch)
                if len(group) > 1:  # each example counts once, or by its weight, in whichever batch
                    loss = loss * (_total_weight(batch) / (sum(map(_total_weight, group)) or 1.0))
            value += loss.item()
            if not math.isfinite(value):
                raise self._diverged(phase, batch, value, rate)
            if index == 0:
                optimizer.zero_grad()
            loss.backward()
        if self.config.clip is not None:
            clip_grad_norm_(list(phase.parameters.values()), self.config.clip)
        optimizer.step()
        name = "loss" if len(self.phases) == 1 else f"{phase.name}{PHASE_LOSS}"
        self.state.loss_sums[name] = self.state.loss_sums.get(name, 0.0) + value
        self.state.loss_counts[name] = self.state.loss_counts.get(name, 0) + 1

    def _finish(self) -> None:
        """A run that ends inside an epoch is validated once more, so that its last weights are evaluated too."""
        if not finite(self.model):  # by the last update, which no loss after it has shown
            phase, batch, rate = self.latest
            with torch.no_grad():
                raise self._diverged(phase, batch, phase.loss(batch).item(), rate)
        self._log_training()
        if self.state.step not in (row["step"] for row in self.history.rows if row["kind"] == "validation"):
            self._validate()
        if not self.config.keeps_best or self.validation is None:
            with self._averaged():
                save_model(self.weights_path, self.model)
        elif self.state.best is None:
            rule, fix = f"the validation metric {self.config.monitor!r} must be a number", "monitor another metric"
            raise DivergedError(rule, got="nan in every validation", fix=f"{fix} or lower the learning rate")
        self.state.finished = True
        self._save_checkpoint()

    # --- what is measured ---------------------------------------------------------------------------------------------

    def _log_training(self) -> None:
        if losses := self._mean_losses():
            self.history.add(self._row("train") | losses | self._rates())
            self.state.loss_sums, self.state.loss_counts = {}, {}

    def _rates(self) -> dict[str, float]:
        share, peaks = self._rate_share(), {phase.name: self._peak_rate(phase) for phase in self.phases}
        if len(set(peaks.values())) == 1:
            return {"learning_rate": next(iter(peaks.values())) * share}
        return {f"{name}{PHASE_RATE}": peak * share for name, peak in peaks.items()}

    def _mean_losses(self) -> dict[str, float]:
        return {name: total / self.state.loss_counts[name] for name, total in self.state.loss_sums.items()}

    def _validate(self) -> None:
        if self.validation is None:
            self._preview()
            return
        began = self._share_done()
        with self._averaged(), self._precision():
            metrics = evaluate(self.learner, self.validation)
            require_monitor(self.config, metrics)
            self.history.add(self._row("validation") | metrics)
            value = metrics[self.config.monitor]
            if find_metric(self.config.monitor).improves(value, self.state.best):
                self.state.best, self.state.validations_since_best = value, 0
                if self.config.keeps_best:
                    save_model(self.weights_path, self.model)
            else:
                self.state.validations_since_best += 1
        self._warn(metrics)
        self._validate_next(self._share_done() - began)
        self._preview()
        if self.watch is not None:
            self.watch(self.history.rows, min(1.0, self._share_done()))

    def _preview(self) -> None:
        step, last = self.state.step, self._share_done() >= 1
        if self.previews is None or not self.previews.due(step, self._elapsed(), last=last):
            return
        was_training, devices = self.model.training, [self.device.index or 0] if self.device.type == "cuda" else []
        self.model.eval()
        with self._averaged(), torch.no_grad(), torch.random.fork_rng(devices=devices):
            self.previews.add(step, self._row("validation")["epoch"])
        self.model.train(was_training)

    def _warn(self, metrics: Mapping[str, float]) -> None:
        """At first no learner is any good. A fault is named once, by its first words: its numbers change."""
        if not isinstance(self.learner, WatchfulLearner) or self._share_done() < WATCHED_FROM:
            return
        sentence = self.learner.warning(metrics)
        if sentence is not None and sentence.partition(":")[0] not in self.warned:
            self.warned.add(sentence.partition(":")[0])
            self.display.say(sentence)

    def _validate_next(self, cost: float) -> None:
        """After a pause, given the share of the time limit that a validation takes."""
        # Four are worth a fifth of the time; where they would take more, there are fewer.
        pause = min(max(1 / MOST_VALIDATIONS, 20 * cost), max(1 / 4, 5 * cost))
        self.state.validation_at = self._share_done() + pause

    def _row(self, kind: str) -> Row:
        epoch = round(self.state.epoch + self.state.batch / len(self.train), 4)
        return {"kind": kind, "step": self.state.step, "epoch": epoch, "seconds": round(self._elapsed(), 3)}

    def _figures(self) -> list[str]:
        """The most important first."""
        parts = [f"{name} {value:.4f}" for name, value in self._mean_losses().items()]
        latest = next((row for row in reversed(self.history.rows) if row["kind"] == "validation"), {})
        measured = {name: value for name, value in latest.items() if name not in self._row("validation")}
        parts += [f"val {name} {value:.4f}" for name, value in measured.items()]
        parts.append(f"epoch {self.state.epoch + 1}" + ("" if self.time_limit else f"/{self.epochs}"))
        return [*parts, f"{self._speed():,.0f} examples/s"]

    def _numbers(self) -> dict[str, float]:
        epoch = self.state.epoch + self.state.batch / len(self.train)
        return {"step": self.state.step, "epoch": epoch, "examples_per_second": self._speed()} | self._mean_losses()

    def _speed(self) -> float:
        return self.examples / max(1e-9, time.monotonic() - self.opened)

    # --- where the run stands -----------------------------------------------------------------------------------------

    def _over(self) -> bool:
        stopped = self.config.patience is not None and self.state.validations_since_best >= self.config.patience
        return self.state.finished or stopped or self._share_done() >= 1

    def _share_done(self) -> float:
        if self.time_limit is not None:
            return self._elapsed() / self.time_limit
        return self.state.step / self.updates

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _rate_share(self) -> float:
        """The factor on the peak learning rate."""
        total = float(self.updates)
        if self.time_limit is not None:  # as many as there will be if the rest goes on as it went
            total = max(1, self.state.step) / max(1e-9, self._share_done())
        return rate_share(self.config.schedule, self.state.step, total, self.config.warmup * total)

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _save_checkpoint(self) -> None:
        if not finite(self.model):
            return  # the next loss will not be finite either, and will say why; the checkpoint before is good
        self.state.elapsed = self._elapsed()
        learner_state = self.learner.state_dict() if isinstance(self.learner, StatefulLearner) else {}
        checkpoint.save(self.checkpoint_path, vars(self.state), *self.trained, learner_state)
        self.saved_at = time.monotonic()

    def _diverged(self, phase: Phase, batch: Batch, value: float, rate: float) -> DivergedError:
        saved = self.checkpoint_path.exists()
        kept = f"the last good checkpoint is in {self.folder}" if saved else "no checkpoint had been written yet"
        where = {"phase": phase.name, "value": value, "step": self.state.step, "learning_rate": rate}
        return diverged(self.model, partial(phase.loss, batch), kept=kept, **where)

    # --- how it is set up ---------------------------------------------------------------------------------------------

    def _optimizer(self, phase: Phase) -> Optimizer:
        name, decay, momentum = phase.optimizer or self.config.optimizer, self.config.weight_decay, self.config.momentum
        rates = {"learning_rate": self._peak_rate(phase), "weight_decay": decay, "momentum": momentum}
        tables = (module for module in self.model.modules() if isinstance(module, nn.Embedding))
        return build_optimizer(name, phase.parameters, **rates, embeddings=[table.weight for table in tables])

    def _peak_rate(self, phase: Phase) -> float:
        return self.config.learning_rate if phase.learning_rate is None else phase.learning_rate

    def _precision(self) -> AbstractContextManager[object]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _averaged(self) -> AbstractContextManager[None]:
        return self.average.in_place() if self.average is not None else nullcontext()


def _num_examples(batch: Batch) -> int:
    return next(iter(batch.values())).shape[0]


def _total_weight(batch: Batch) -> float:
    """Σ α, which the loss of a batch was divided by: the number of examples where they have no weights."""
    return float(batch[WEIGHT].sum()) if WEIGHT in batch else _num_examples(batch)


def _seed_random_numbers(seed: int, step: int, device: torch.device) -> None:
    key = mix(seed, "update", step)
    torch.default_generator.manual_seed(key)  # torch.manual_seed visits every backend, at a hundred times the cost
    if device.type == "cuda":
        torch.cuda.manual_seed(key)
