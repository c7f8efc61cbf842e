"""Learning from texts: what the recipes of all models that read texts, and answer without writing any, have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuropil.config import Config
from neuropil.data.batches import Change, EncodedTexts, LengthBatches
from neuropil.inspection.report.page import Section
from neuropil.parts.parameters import ParameterRow
from neuropil.protocols import Learner
from neuropil.tasks.recipe import Result
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, require_monitor

EVALUATION_BATCH = 256
FIRST_SPREAD = 0.1


class TextExperiment(ABC):
    """A model, the texts that it learns from, and how. The model is where it is to be trained."""

    def __init__(
        self,
        model: nn.Module,
        model_config: Config,
        learner: Learner,
        encoded: Mapping[str, EncodedTexts],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        parameters: Sequence[ParameterRow],
        change: Change,
    ):
        """`encoded` has the texts of each part, and `change` is what is done to batches of training texts."""
        self.model, self.model_config, self.learner, self.encoded, self.training = (
            model,
            model_config,
            learner,
            encoded,
            training,
        )
        self.seed, self.name, self.parameters, self.change = seed, name, parameters, change
        self.device = next(model.parameters()).device
        one = encoded["test"].take(torch.zeros(1, dtype=torch.int64))
        require_monitor(training, evaluate(learner, held_out_batches(one, self.device)))  # before a run folder is made

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what is needed, beside the weights and the facts, to read a text."""

    @abstractmethod
    def facts(self) -> dict[str, Any]: ...

    @abstractmethod
    def own_result(self) -> Result: ...

    @abstractmethod
    def baselines(self) -> Sequence[Result]: ...

    @abstractmethod
    def sections(self, history: Sequence[Row]) -> list[Section]: ...

    def evaluate(self) -> list[Result]:
        return [self.own_result(), *self.baselines()]

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.save(folder)
        fit(
            self.learner,
            self.training_batches,
            self.validation_batches if len(self.encoded["validation"]) else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=self.name,
            show_progress=show_progress,
        )

    @property
    def training_batches(self) -> LengthBatches:
        size = self.training.batch_size
        return LengthBatches(
            self.encoded["train"], size, self.seed, shuffle=True, change=self.change, device=self.device
        )

    @property
    def validation_batches(self) -> LengthBatches:
        return held_out_batches(self.encoded["validation" if len(self.encoded["validation"]) else "test"], self.device)


def begin_alike(embedding: nn.Embedding) -> None:
    """Shrink the vectors that tokens begin with: of a rare one little is learned, and what it began with stays, which is noise."""
    with torch.no_grad():
        embedding.weight *= FIRST_SPREAD


def held_out_batches(encoded: EncodedTexts, device: torch.device) -> LengthBatches:
    return LengthBatches(encoded, EVALUATION_BATCH, seed=0, shuffle=False, device=device)
