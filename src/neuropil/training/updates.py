"""One update of a learner: each phase that is due follows the gradient of its loss.

∇ ← gradient of the phase's loss over all batches and processes;  clip;  step
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from neuropil.errors import DivergedError
from neuropil.metrics import PHASE_LOSS, PHASE_RATE
from neuropil.protocols import Batch, Learner, Phase
from neuropil.randomness import mix
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.agreement import Agreement
from neuropil.training.distributed.dtensor import clip_gradients
from neuropil.training.distributed.gradients import GradientSum
from neuropil.training.distributed.placement import Placement
from neuropil.training.distributed.shares import Share, shares
from neuropil.training.distributed.whole_batch import WholeBatch
from neuropil.training.divergence import diverged
from neuropil.training.optimizers import Optimizer, build_optimizer


class _Played(NamedTuple):
    """A phase, on what it was played last, with which learning rate."""

    phase: Phase
    share: Share | None
    rate: float


class Updates:
    def __init__(self, learner: Learner, config: TrainingConfig, seed: int, placement: Placement, agreement: Agreement):
        self.learner, self.model, self.config, self.seed = learner, learner.model, config, seed
        self.device, self.agreement = next(self.model.parameters()).device, agreement
        self.world, self.placement = placement.data, placement
        self.phases = learner.phases()
        self.optimizers = {phase.name: self._optimizer(phase) for phase in self.phases}
        self.gradients, self.whole_batch = GradientSum(self.phases, placement.summed), WholeBatch(self.world)
        self.latest = _Played(self.phases[0], None, 0.0)

    def make(
        self, group: Sequence[Batch], step: int, rate_share: float, *, kept: Callable[[], str]
    ) -> dict[str, float]:
        """Update `step` by a group of batches; returns the losses by their names. `kept` says what is left of a run
        that diverges."""
        self._seed_random_numbers(step)
        due = [phase for phase in self.phases if (step + 1) % phase.every == 0]
        return {
            self._loss_name(phase): self._play(phase, group, step, self.peak_rate(phase) * rate_share, kept)
            for phase in due
        }

    def _play(self, phase: Phase, group: Sequence[Batch], step: int, rate: float, kept: Callable[[], str]) -> float:
        optimizer, value = self.optimizers[phase.name], 0.0
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate
        parts = shares(phase, group, self.world.rank, self.world.size)
        for index, share in enumerate(parts):
            self.latest = _Played(phase, share, rate)
            with self.precision():
                loss = self._loss(phase, share)
                loss = loss if share.factor == 1 else loss * share.factor
            value += self.agreement.total(loss.item() if share.factor else 0.0)  # the mean over nothing is no number
            # The gradients of the update before are kept until the loss is known to be finite: they explain one that
            # is not.
            if not math.isfinite(value):
                raise self.diverged(step, kept(), value)
            if index == 0:
                optimizer.zero_grad()
            with self.gradients.of(phase, last=index == len(parts) - 1):
                loss.backward()
        if self.config.clip is not None:
            clip_gradients(list(phase.parameters.values()), self.config.clip)
        optimizer.step()
        return value

    def diverged(self, step: int, kept: str, value: float | None = None) -> DivergedError:
        """What the latest loss shows; without its value, that of the weights as they are now."""
        phase, share, rate = self.latest
        loss = partial(self._loss, phase, cast(Share, share))
        if value is None:
            with torch.no_grad():
                value = loss().item()
        where = {"phase": phase.name, "value": value, "step": step, "learning_rate": rate}
        return diverged(self.model, loss, kept=kept, **where)

    def close(self) -> None:
        self.gradients.close()

    # --- learning rates and losses by their names ---------------------------------------------------------------------

    def peak_rate(self, phase: Phase) -> float:
        return self.config.learning_rate if phase.learning_rate is None else phase.learning_rate

    def rates(self, rate_share: float) -> dict[str, float]:
        peaks = {phase.name: self.peak_rate(phase) for phase in self.phases}
        if len(set(peaks.values())) == 1:
            return {"learning_rate": next(iter(peaks.values())) * rate_share}
        return {f"{name}{PHASE_RATE}": peak * rate_share for name, peak in peaks.items()}

    def _loss_name(self, phase: Phase) -> str:
        return "loss" if len(self.phases) == 1 else f"{phase.name}{PHASE_LOSS}"

    # --- how it is done -----------------------------------------------------------------------------------------------

    def _loss(self, phase: Phase, share: Share) -> Tensor:
        with self.whole_batch.divided(share.divided):
            return phase.loss(share.batch)

    def precision(self) -> AbstractContextManager[object]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def _seed_random_numbers(self, step: int) -> None:
        """Other ones for each share of a batch."""
        key = mix(self.seed, "update", step, *(() if self.world.first else (self.world.rank,)))
        torch.default_generator.manual_seed(key)  # torch.manual_seed visits every backend, at a hundred times the cost
        if self.device.type == "cuda":
            torch.cuda.manual_seed(key)

    def _optimizer(self, phase: Phase) -> Optimizer:
        name, decay, momentum = phase.optimizer or self.config.optimizer, self.config.weight_decay, self.config.momentum
        rates = {"learning_rate": self.peak_rate(phase), "weight_decay": decay, "momentum": momentum}
        tables = (module for module in self.model.modules() if isinstance(module, nn.Embedding))
        shapes = {"embeddings": [table.weight for table in tables], "matrices": self.placement.matrices()}
        return build_optimizer(name, phase.parameters, **rates, **shapes)
