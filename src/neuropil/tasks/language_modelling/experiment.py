"""Learning from one long text, what comes next in it or what was hidden: what the recipes of all language models have in common."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from neuropil.config import Config
from neuropil.data.corpus.dataset import Corpus
from neuropil.data.tokenizers.encoding import AnyTokenizer, encode_text
from neuropil.inspection.report.page import Section
from neuropil.parts.parameters import ParameterRow
from neuropil.protocols import Batches, Learner
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.language_modelling import report as language_report
from neuropil.tasks.language_modelling.predictor import LanguageModel, baselines, scores
from neuropil.tasks.recipe import Result
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, require_monitor

PARTS = ("train", "validation", "test")


@runtime_checkable
class Feeding(Protocol):
    """How one long row of tokens is cut into batches."""

    def learned(
        self, tokens: Integer[Tensor, " token"], batch_size: int, seed: int, device: torch.device
    ) -> Batches: ...

    def scored(self, tokens: Integer[Tensor, " token"], device: torch.device) -> Batches: ...


class TextModelling(ABC):
    """An experiment that learns from one long text in three parts. The model is where it is to be trained."""

    def __init__(
        self,
        model: nn.Module,
        model_config: Config,
        corpus: Corpus,
        tokenizer: AnyTokenizer,
        feeding: Feeding,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        learner: Learner,
        judge: Learner,
        parameters: Sequence[ParameterRow],
        save: Callable[[Path], None],
    ):
        """`judge` scores the test part, and `save` writes the tokenizer."""
        self.model, self.model_config, self.corpus, self.tokenizer, self.feeding = (
            model,
            model_config,
            corpus,
            tokenizer,
            feeding,
        )
        self.seed, self.name, self.learner, self.judge = seed, name, learner, judge
        self.parameters, self.save = parameters, save
        self.device = next(model.parameters()).device
        self.tokens = {part: encode_text(tokenizer, getattr(corpus, part)) for part in PARTS}
        self.training = self._with_epochs(training)
        require_monitor(
            training, evaluate(judge, feeding.scored(self.tokens["train"][:2], self.device))
        )  # before a folder is made

    @abstractmethod
    def own_result(self) -> Result: ...

    @abstractmethod
    def baselines(self) -> Sequence[Result]: ...

    @abstractmethod
    def sections(self, history: Sequence[Row]) -> list[Section]: ...

    def evaluate(self) -> list[Result]:
        return [self.own_result(), *self.baselines()]

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.corpus.source,
            "vocabulary": len(self.tokenizer),
            "notes": list(self.corpus.notes),
            "fingerprint": fingerprint(self.tokens.values()),
        }

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.save(folder)
        fit(
            self.learner,
            self.training_batches,
            self.held_out("validation") if self._validates else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=self.name,
            show_progress=show_progress,
        )

    @property
    def training_batches(self) -> Batches:
        return self.feeding.learned(self.tokens["train"], self.training.batch_size, self.seed, self.device)

    @property
    def validation_batches(self) -> Batches:
        return self.held_out("validation" if self._validates else "test")

    def held_out(self, part: str) -> Batches:
        return self.feeding.scored(self.tokens[part], self.device)

    def held_out_text(self, characters: int) -> str:
        return self.corpus.test[:characters]

    @property
    def _validates(self) -> bool:
        return len(self.tokens["validation"]) > 1

    def _with_epochs(self, training: TrainingConfig) -> TrainingConfig:
        """Of a long text a part of a pass is enough, where the loop would make ten passes at the least."""
        if training.epochs is not None or training.minutes is not None:
            return training
        updates = self.feeding.learned(self.tokens["train"], training.batch_size, 0, self.device)
        return dataclasses.replace(training, epochs=math.ceil(training.updates * training.accumulate / len(updates)))


class LanguageModelling(TextModelling):
    """The experiment of a model that says what comes next."""

    def __init__(
        self,
        language_model: LanguageModel[Any],
        model_config: Config,
        corpus: Corpus,
        feeding: Feeding,
        training: TrainingConfig,
        *,
        inside: Callable[["LanguageModelling"], Sequence[Section]],
        **others: Any,
    ):
        """`inside` makes the report's sections on what is in the model; for the `others` see `TextModelling`."""
        self.language_model, self.inside = language_model, inside
        super().__init__(
            language_model.model, model_config, corpus, language_model.tokenizer, feeding, training, **others
        )

    def own_result(self) -> Result:
        """The test part is read in one go, however the model was trained."""
        return Result(self.name, scores(evaluate(self.judge, self.held_out("test")), self.corpus.test, self.tokenizer))

    def baselines(self) -> list[Result]:
        return baselines(self.corpus, self.tokens, self.tokenizer)

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return language_report.sections(self, history)
