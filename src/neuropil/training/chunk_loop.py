"""The loop around learners that make their own updates, in compiled code, a chunk of the data at a time.

    rate of a chunk = r₀ + (r₁ − r₀) · share of the run that is done

An update of word2vec takes less than a microsecond; the loop of `loop.py` needs tens of them for each. This one calls
for as many chunks as take about half a second, and between the calls does what that one does: it shows progress, writes
`metrics.jsonl` and checkpoints, and listens for Ctrl-C. What a chunk learns depends on its number and on the seed, not
on how many are taken in one call, so that a resumed run with one thread has the weights of an unbroken one.
"""

import math
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from neuropil.config import Config, from_data, option
from neuropil.errors import DivergedError
from neuropil.progress import Display
from neuropil.protocols import ChunkLearner, ChunkLosses
from neuropil.ranges import around
from neuropil.training import checkpoint
from neuropil.training.divergence import finite
from neuropil.training.history import History, Row, Watch
from neuropil.training.interruption import Interrupted, StopRequest
from neuropil.training.weights import load_model, require_readable, save_model

SECONDS_PER_CALL = 0.5
MEASURED_SECONDS = 0.5
"""Of a call that is long enough to tell the speed by, on all threads."""


class ChunkTrainingConfig(Config):
    epochs: int = option(5, "passes over the training data", low=1)
    minutes: float | None = option(None, "time limit in minutes, in place of epochs: passes follow it", low=0.001)
    chunks: int | None = from_data(None, "chunks of the data that the time limit leaves for training, of all passes")
    fitted: str = from_data("", "what was chosen for the time limit, in a sentence")
    learning_rate: float = option(
        0.025, "learning rate at the start, from which it falls linearly", above=0, tune=around(4)
    )
    final_learning_rate: float = option(0.0001, "learning rate at the end", low=0)
    threads: int | None = option(
        None, "threads, by default one for each core; only one thread gives the same bits for the same seed", low=1
    )
    checkpoint_seconds: float = option(20.0, "seconds between checkpoints", low=0)
    tensorboard: bool = option(False, "write TensorBoard events into the run folder")


class ChunkSpeed(NamedTuple):
    seconds: float
    """Of a chunk."""
    read: float
    """Words or rows a second."""


def measure_chunks(learner: ChunkLearner, *, most_seconds: float) -> ChunkSpeed:
    """After a first chunk, which compiles. At a rate of 0 nothing is learned."""
    learner.learn(0, 0, [0.0])
    opened, count = time.monotonic(), 1
    while True:
        began = time.monotonic()
        read = learner.learn(0, 0, [0.0] * count).read
        took = max(1e-9, time.monotonic() - began)
        long_enough = took >= MEASURED_SECONDS or time.monotonic() - opened + 2 * took > most_seconds
        if count == len(learner) or long_enough:
            return ChunkSpeed(took / count, read / took)
        count = min(2 * count, len(learner))


@dataclass
class ChunkState:
    """Where a run stands: `step` chunks are done, and `total` is the loss of the `examples` of this pass so far."""

    step: int = 0
    elapsed: float = 0.0
    total: float = 0.0
    examples: int = 0
    rows: int | None = None
    """Of `metrics.jsonl`."""
    finished: bool = False


def fit_chunks(
    learner: ChunkLearner,
    config: ChunkTrainingConfig,
    *,
    folder: Path,
    title: str,
    show_progress: bool = True,
    watch: Watch | None = None,
) -> list[Row]:
    """Train in `folder` until the epochs, or the chunks of a time limit, are over; go on from its checkpoint if there
    is one. Leaves what `fit` leaves: `model.safetensors`, `checkpoint.safetensors` and `metrics.jsonl`, whose rows are
    returned."""
    loop = _ChunkLoop(learner, config, folder, watch)
    with closing(loop.history), Display(title, show=show_progress) as display, StopRequest() as stop:
        loop.run(display, stop)
    return loop.history.rows


class _ChunkLoop:
    def __init__(self, learner: ChunkLearner, config: ChunkTrainingConfig, folder: Path, watch: Watch | None):
        self.learner, self.model, self.config, self.folder = learner, learner.model, config, folder
        self.watch = watch
        self.weights_path, self.checkpoint_path = folder / "model.safetensors", folder / "checkpoint.safetensors"
        self.state = ChunkState()
        if self.checkpoint_path.exists():
            state, _ = checkpoint.load(self.checkpoint_path, self.model, {}, (), None)
            self.state = checkpoint.restored(ChunkState, state, self.checkpoint_path)
            if self.state.finished:
                require_readable(self.weights_path, self.checkpoint_path)
        self.history = History(folder, step=self.state.step, rows=self.state.rows, tensorboard=config.tensorboard)
        self.chunks = config.chunks or config.epochs * len(learner)
        self.read, self.opened = 0, time.monotonic()
        self.started, self.saved_at = self.opened - self.state.elapsed, self.opened
        self.seconds_per_chunk = SECONDS_PER_CALL  # at first one chunk is taken

    def run(self, display: Display, stop: StopRequest) -> None:
        display.begin(self.state.step / self.chunks)
        while self.state.step < self.chunks:
            self._call()
            if display.due():
                display.update(self.state.step / self.chunks, *self._figures(), numbers=self._numbers())
            if self.state.step % len(self.learner) == 0 or self.state.step == self.chunks:
                self._end_epoch()
            if stop.requested:
                self._save_checkpoint()
                raise Interrupted(self.folder, self.state.step)
            if time.monotonic() - self.saved_at >= self.config.checkpoint_seconds:
                self._save_checkpoint()
        if not self.state.finished:
            save_model(self.weights_path, self.model)
            self.state.finished = True
            self._save_checkpoint()
        load_model(self.weights_path, self.model)
        self.model.eval()

    def _call(self) -> None:
        epoch, first = divmod(self.state.step, len(self.learner))
        left = min(len(self.learner) - first, self.chunks - self.state.step)
        count = min(max(1, round(SECONDS_PER_CALL / self.seconds_per_chunk)), left)
        began = time.monotonic()
        losses: ChunkLosses = self.learner.learn(
            epoch, first, [self._rate(self.state.step + chunk) for chunk in range(count)]
        )
        self.seconds_per_chunk = max(1e-9, time.monotonic() - began) / count
        self.state.step += count
        for total in losses.totals:  # one by one, so that no bit depends on how many chunks a call has
            self.state.total += total
        self.state.examples += losses.examples
        self.read += losses.read
        if not math.isfinite(self.state.total):
            kept = (
                "the last good checkpoint is kept" if self.checkpoint_path.exists() else "no checkpoint was written yet"
            )
            fix = f"lower the learning rate ({self._rate(self.state.step):g} at that step); {kept}"
            raise DivergedError(
                "the loss must stay finite", got=f"{self.state.total} at step {self.state.step}", fix=fix
            )

    def _rate(self, step: int) -> float:
        # r₀ + (r₁ − r₀) · share
        start, end = self.config.learning_rate, self.config.final_learning_rate
        return start + (end - start) * step / self.chunks

    def _end_epoch(self) -> None:
        """The loss of a pass is the mean over all its examples, each as it was before the update that it led to."""
        rate = {"learning_rate": self._rate(self.state.step)}
        self.history.add(self._row("train") | {"loss": self._mean_loss()} | rate)
        if metrics := self.learner.metrics():
            self.history.add(self._row("validation") | dict(metrics))
        self.state.total, self.state.examples = 0.0, 0
        if metrics and self.watch is not None:
            self.watch(self.history.rows, self.state.step / self.chunks)

    def _row(self, kind: str) -> Row:
        epoch = round(self.state.step / len(self.learner), 4)
        return {"kind": kind, "step": self.state.step, "epoch": epoch, "seconds": round(self._elapsed(), 3)}

    def _mean_loss(self) -> float:
        return self.state.total / max(1, self.state.examples)

    def _figures(self) -> list[str]:
        """The most important first."""
        epoch = self.state.step // len(self.learner) + 1
        latest = next((row for row in reversed(self.history.rows) if row["kind"] == "validation"), {})
        held_out = [f"val loss {latest['loss']:.4f}"] if "loss" in latest else []
        loss = [f"loss {self._mean_loss():.4f}"] if self.state.examples else []
        return [
            *loss,
            f"{self._speed():,.0f} words/s",
            *held_out,
            f"epoch {min(epoch, self.config.epochs)}/{self.config.epochs}",
        ]

    def _numbers(self) -> dict[str, float]:
        loss = {"loss": self._mean_loss()} if self.state.examples else {}
        epoch = self.state.step / len(self.learner)
        return {"step": self.state.step, "epoch": epoch, "words_per_second": self._speed(), **loss}

    def _speed(self) -> float:
        return self.read / max(1e-9, time.monotonic() - self.opened)

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _save_checkpoint(self) -> None:
        if not finite(self.model):
            return  # the next loss will not be finite either; the checkpoint before is good
        self.state.elapsed, self.state.rows = self._elapsed(), self.history.sync()
        checkpoint.save(self.checkpoint_path, vars(self.state), self.model, {}, (), None, {})
        self.saved_at = time.monotonic()
