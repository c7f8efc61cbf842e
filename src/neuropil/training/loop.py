"""The one loop that trains every model. It knows learners and batches, and no model by name.

    for each update:  for each phase that is due:  ∇ ← gradient of the phase's loss;  clip;  step

A run is a function of its seed: batches come from (seed, epoch), random numbers of an update from (seed, update). So a
run that was killed goes on from its last checkpoint to the very weights that it would have had. Processes that train
together make each update as one would that has the whole batch; rank 0 alone evaluates and writes.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import torch

from neuropil.errors import DivergedError
from neuropil.metrics import find_metric
from neuropil.progress import Display
from neuropil.protocols import (
    Batch,
    Batches,
    FittedLearner,
    Learner,
    ScheduledLearner,
    StatefulLearner,
    WatchfulLearner,
)
from neuropil.training.averages import WeightAverage
from neuropil.training.checkpoint import restored
from neuropil.training.config import (
    TrainingConfig,
    planned_length,
    prepare_precision,
    require_compilable,
    require_monitor,
)
from neuropil.training.cpu.allocation import reused_memory
from neuropil.training.cpu.products import products_by_onednn
from neuropil.training.distributed.agreement import Agreement
from neuropil.training.distributed.learner_state import begin_together, gathered_state, own_state
from neuropil.training.distributed.placement import place
from neuropil.training.distributed.processes import World
from neuropil.training.distributed.shares import FirstShares, num_examples
from neuropil.training.divergence import finite
from neuropil.training.evaluation import evaluate, evaluation_seconds
from neuropil.training.history import History, Row, Watch
from neuropil.training.interruption import Interrupted, StopRequest
from neuropil.training.previews import Preview, Previews
from neuropil.training.schedules import rate_share
from neuropil.training.updates import Updates
from neuropil.training.weights import require_readable

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
    rows: int | None = None
    """Of `metrics.jsonl`."""
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
    world: World | None = None,
) -> list[Row]:
    """Train `learner` in `folder` until the epochs or minutes are over; go on from its checkpoint if there is one.

    Leaves `model.safetensors` (the weights to use, which the learner's model then holds), `checkpoint.safetensors` and
    `metrics.jsonl`; returns the rows of the latter. `preview` tells what the model makes of a fixed set, for those who
    ask for previews. The processes of a `world` all call this; rank 0 alone needs the folder, but where the model is
    divided among them, each writes its share of `checkpoint/`.
    """
    world = world or World()
    prepare_precision(config)
    device = next(learner.model.parameters()).device
    require_compilable(config, learner.model)
    if config.compile:
        learner.model.compile()
    memory = reused_memory() if device.type == "cpu" else nullcontext()
    with (
        memory,
        products_by_onednn(learner.model),
        torch.random.fork_rng(devices=[device.index or 0] if device.type == "cuda" else []),
    ):
        loop = _Loop(learner, train, validation, config, seed, folder, device, watch, preview, world)
        with closing(loop), Display(title, show=show_progress and world.first) as display:
            loop.run(display)
    return loop.history.rows


def seconds_per_update(
    learner: Learner, train: Batches, config: TrainingConfig, *, most_seconds: float, processes: int = 1
) -> float:
    """Measured, as the median of a few updates after the first, which prepares what the others use; by the share that
    each of several processes will have. The learner is changed by them."""
    train, config = FirstShares(train, processes), replace(config, parallel="auto", tensor_parallel=1)
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        loop = _Loop(learner, train, None, config, 0, Path(folder), next(learner.model.parameters()).device)
        with closing(loop), products_by_onednn(learner.model):
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
        world: World | None = None,
    ):
        self.learner, self.model, self.config, self.seed, self.folder = learner, learner.model, config, seed, folder
        self.train, self.validation, self.device, self.watch = train, validation, device, watch
        self.world = world or World()
        begin_together(learner, self.world)
        self.placement = place(learner, config, folder, self.world, device)
        self.scheduled = learner if isinstance(learner, ScheduledLearner) else None
        self.state, self.stop = State(), StopRequest()
        self.agreement = Agreement(self.world, self.stop, self.placement.copies)
        self.updates = Updates(learner, config, seed, self.placement, self.agreement)
        self.average = WeightAverage(self.model, config.average) if config.average else None
        self.trained = self.model, self.updates.optimizers, self.updates.phases, self.average
        self.weights_path = folder / "model.safetensors"
        writes = self.world.first
        if saved := self.placement.load(self.trained):
            self.state = restored(State, saved.state, saved.path)
            if isinstance(learner, StatefulLearner):
                learner.load_state_dict(own_state(learner, saved.learner, self.placement.data))
            if writes and (self.state.finished or (config.keeps_best and self.state.best is not None)):
                require_readable(self.weights_path, saved.path)
        known = {"step": self.state.step, "rows": self.state.rows}
        self.history = History(folder, **known, tensorboard=config.tensorboard, writes=writes)
        self.history.rows = self.world.broadcast(self.history.rows)
        self.previews = None
        if config.previews and preview is not None and writes:
            self.previews = Previews(folder, preview, step=self.state.step)
        self.warned = set[str]()
        self.examples, self.opened = 0, time.monotonic()
        self.agreement.begin(self.state.elapsed)
        self.saved_at, self.time_limit = self.state.elapsed, config.time_limit
        self.epochs, self.planned = planned_length(config, train)

    def close(self) -> None:
        self.history.close()
        self.updates.close()

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self, display: Display) -> None:
        self.display = display
        if self.placement.why:
            display.say(self.placement.why)
        display.begin(self._share_done())
        with self.stop, self.updates.whole_batch.joined(self.learner):
            if self.state.step == 0 and isinstance(self.learner, FittedLearner):
                self._validate()
            self._preview()
            self.model.train()
            if self.time_limit is not None and self.validation is not None and not self.state.step:
                seconds = evaluation_seconds(self.learner, self.validation) if self.placement.evaluates else 0.0
                self._validate_next(self.world.broadcast(seconds))
            while not self._over():
                self._epoch(display)
            if not self.state.finished:
                self._finish()
        self.placement.finish(self.weights_path)
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

    def _epoch(self, display: Display) -> None:
        batches, num_batches = self.train.epoch(self.state.epoch, start=self.state.batch), len(self.train)
        for group in iter(lambda: self._group(batches), []):
            self._update(group)
            self.state.batch += len(group)
            self.examples += sum(map(num_examples, group))
            if display.due():
                display.update(self._share_done(), *self._figures(), numbers=self._numbers())
            epoch_over = self.state.batch >= num_batches
            if epoch_over or self.state.step % UPDATES_BETWEEN_ROWS == 0:
                self._log_training()
            if epoch_over:
                self.state.epoch, self.state.batch = self.state.epoch + 1, 0
            if epoch_over if self.time_limit is None else self._share_done() >= self.state.validation_at:
                self._log_training()
                self._validate()
            if self.agreement.stop_requested:
                self._save_checkpoint()
                self.world.barrier()  # torchrun ends all as soon as one of them has ended
                raise Interrupted(self.folder, self.state.step)
            if self._elapsed() - self.saved_at >= self.config.checkpoint_seconds:
                self._save_checkpoint()
            if self._over():
                return

    def _update(self, group: Sequence[Batch]) -> None:
        if self.scheduled is not None:
            self.scheduled.begin_update(min(1.0, self._share_done()))
        losses = self.updates.make(group, self.state.step, self._rate_share(), kept=self._kept)
        for name, value in losses.items():
            self.state.loss_sums[name] = self.state.loss_sums.get(name, 0.0) + value
            self.state.loss_counts[name] = self.state.loss_counts.get(name, 0) + 1
        self.state.step += 1
        if self.average is not None:
            self.average.update(self.state.step)

    def _finish(self) -> None:
        """A run that ends inside an epoch is validated once more, so that its last weights are evaluated too."""
        if not finite(self.model):  # by the last update, which no loss after it has shown
            raise self.updates.diverged(self.state.step, self._kept())
        self._log_training()
        if self.state.step not in (row["step"] for row in self.history.rows if row["kind"] == "validation"):
            self._validate()
        if not self.config.keeps_best or self.validation is None:
            self._save_weights()
        elif self.state.best is None:
            rule, fix = f"the validation metric {self.config.monitor!r} must be a number", "monitor another metric"
            raise DivergedError(rule, got="nan in every validation", fix=f"{fix} or lower the learning rate")
        self.state.finished = True
        self._save_checkpoint()

    # --- what is measured ---------------------------------------------------------------------------------------------

    def _log_training(self) -> None:
        if losses := self._mean_losses():
            self.history.add(self._row("train") | losses | self.updates.rates(self._rate_share()))
            self.state.loss_sums, self.state.loss_counts = {}, {}

    def _mean_losses(self) -> dict[str, float]:
        return {name: total / self.state.loss_counts[name] for name, total in self.state.loss_sums.items()}

    def _validate(self) -> None:
        if self.validation is None:
            self._preview()
            return
        metrics, seconds = self.world.broadcast(self._evaluate(self.validation) if self.placement.evaluates else None)
        require_monitor(self.config, metrics)
        self.history.add(self._row("validation") | metrics)
        value = metrics[self.config.monitor]
        if find_metric(self.config.monitor).improves(value, self.state.best):
            self.state.best, self.state.validations_since_best = value, 0
            if self.config.keeps_best:
                self._save_weights()
        else:
            self.state.validations_since_best += 1
        self._warn(metrics)
        self.agreement.refresh()
        self._validate_next(seconds)
        self._preview()
        if self.watch is not None:
            self.watch(self.history.rows, min(1.0, self._share_done()))

    def _evaluate(self, validation: Batches) -> tuple[dict[str, float], float]:
        """Metrics, and the seconds that they took."""
        began = time.monotonic()
        with self._averaged(), self.updates.precision():
            return evaluate(self.learner, validation), time.monotonic() - began

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

    def _validate_next(self, seconds: float) -> None:
        """After a pause, given the seconds that a validation takes."""
        cost = 0.0 if self.time_limit is None else seconds / self.time_limit
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
        return self.state.step / self.planned

    def _elapsed(self) -> float:
        return self.agreement.elapsed

    def _rate_share(self) -> float:
        """The factor on the peak learning rate."""
        total = float(self.planned)
        if self.time_limit is not None:  # as many as there will be if the rest goes on as it went
            total = max(1, self.state.step) / max(1e-9, self._share_done())
        return rate_share(self.config.schedule, self.state.step, total, self.config.warmup * total)

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _save_checkpoint(self) -> None:
        if not finite(self.model):
            return  # the next loss will not be finite either, and will say why; the checkpoint before is good
        self.state.elapsed, self.state.rows = self._elapsed(), self.history.sync()
        learner_state = gathered_state(self.learner, self.updates.latest.share, self.placement.data)
        self.placement.save(vars(self.state), self.trained, learner_state)
        self.saved_at = self._elapsed()

    def _save_weights(self) -> None:
        with self._averaged():
            self.placement.write(self.weights_path)

    def _kept(self) -> str:
        saved = self.placement.saved
        return f"the last good checkpoint is in {self.folder}" if saved else "no checkpoint had been written yet"

    def _averaged(self) -> AbstractContextManager[None]:
        return self.average.in_place() if self.average is not None else nullcontext()
