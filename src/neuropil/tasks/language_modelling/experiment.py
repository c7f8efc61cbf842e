"""Language modelling: a model that predicts the next token of a text."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from neuropil.data.corpus.dataset import Corpus, Passages
from neuropil.data.corpus.token_file import TokenFile, Tokens
from neuropil.data.splits import PartName
from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.inspection.report.page import Section
from neuropil.metrics import find_metric
from neuropil.protocols import Batches, Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.language_modelling import report
from neuropil.tasks.language_modelling.predictor import LanguageModel
from neuropil.tasks.language_modelling.scores import baselines, scores
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview

P = TypeVar("P")
PREVIEWED_TOKENS, TEMPERATURES = 100, (0.5, 0.8)
"""Of previews."""


@runtime_checkable
class TokenBatches(Protocol):
    """How one long row of tokens is cut into batches."""

    def training_batches(self, tokens: Tokens, batch_size: int, seed: int, device: torch.device) -> Batches: ...

    def evaluation_batches(self, tokens: Tokens, device: torch.device) -> Batches: ...


class CorpusExperiment(TrainableExperiment[P]):
    """Of a model that learns from one long text in three parts."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: AnyTokenizer,
        cut: TokenBatches,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        learner: Learner,
        save: Callable[[Path], None],
        scorer: Learner | None = None,
    ):
        """`save` writes the tokenizer."""
        self.corpus, self.tokenizer, self.cut, self._save = corpus, tokenizer, cut, save
        self.tokens = corpus.tokens(tokenizer)
        validation = self.tokens["validation"]
        parts = self.tokens | {"validation": validation if len(validation) > 1 else validation[:0]}
        epochs = self._with_epochs(training)
        super().__init__(learner, parts, epochs, seed, name, corpus.source, corpus.notes, scorer=scorer)

    def own_facts(self) -> dict[str, Any]:
        return {"vocabulary_size": len(self.tokenizer)}

    def training_keys(self) -> Iterable[str]:
        return chain.from_iterable(Passages(text).keys for text in self.corpus.learned_texts)

    def fingerprinted(self) -> Iterable[Tensor]:
        """Of tokens in a file, what they were made from."""
        for tokens in self.tokens.values():
            stored = isinstance(tokens, TokenFile)
            yield torch.tensor([*tokens.fingerprint.encode()], dtype=torch.uint8) if stored else tokens

    def save(self, folder: Path) -> None:
        self._save(folder)

    def batches(self, part: PartName) -> Batches:
        tokens, device = self.tokens[part], self.device
        if part != "train":
            return self.cut.evaluation_batches(tokens, device)
        return self.cut.training_batches(tokens, self.training.batch_size, self.seed, device)

    @property
    def watched_text(self) -> str:
        return self.corpus.validation if self.watched_part == "validation" else self.corpus.test

    def held_out_text(self, characters: int) -> str:
        return self.corpus.test[:characters]

    def data_section(self) -> Section:
        sizes = {part: (len(text), len(self.tokens[part])) for part, text in self.corpus.parts.items()}
        return report.data_section(self.source, self.tokenizer, sizes, self.notes)

    def _with_epochs(self, training: TrainingConfig) -> TrainingConfig:
        """Of a long text a part of a pass is enough, where the loop would make ten passes at the least."""
        if training.epochs is not None or training.minutes is not None:
            return training
        batches = self.cut.training_batches(self.tokens["train"], training.batch_size, 0, torch.device("cpu"))
        return dataclasses.replace(training, epochs=math.ceil(training.updates * training.accumulate / len(batches)))


class LanguageModellingExperiment(CorpusExperiment[dict[str, float]]):
    """`predictions` are the mean metrics of the test part, which is read in one go, however the model was trained."""

    def __init__(
        self,
        language_model: LanguageModel[Any],
        corpus: Corpus,
        cut: TokenBatches,
        training: TrainingConfig,
        *,
        inside: Callable[[str], Sequence[Section]],
        **others: Any,
    ):
        """`inside` makes the report's sections on the model while it reads a text; for the `others` see
        `CorpusExperiment`."""
        self.language_model, self.inside = language_model, inside
        monitor, tokenizer = training.monitor, language_model.tokenizer
        if monitor != "loss" and monitor in scores({"loss": 0.0}, " ", tokenizer, tokens=1):
            note = f"The {find_metric(monitor).title} grows with the loss, so that the loss is monitored in its place."
            corpus = dataclasses.replace(corpus, notes=[*corpus.notes, note])
            training = dataclasses.replace(training, monitor="loss")
        super().__init__(corpus, language_model.tokenizer, cut, training, **others)

    def predict_test(self, learner: Learner) -> dict[str, float]:
        return evaluate(self.scorer, self.batches("test"))

    def preview(self) -> Preview:
        """How it goes on with a held-out text, at two temperatures, always from the same random numbers."""
        model = self.language_model
        prompt = report.prompt_of(model, self.watched_text)
        found = [
            "".join(model.generate(prompt, length=PREVIEWED_TOKENS, seed=self.seed, temperature=temperature))
            for temperature in TEMPERATURES
        ]
        return preview.texts([(prompt, text) for text in found])

    def score(self, learner: Learner, predictions: dict[str, float]) -> dict[str, float]:
        return scores(predictions, self.corpus.test, self.tokenizer)

    def baselines(self) -> list[Result]:
        return baselines(self.corpus, self.tokens, self.tokenizer)

    def own_sections(self) -> list[Section]:
        text = self.corpus.test[: report.READ_CHARACTERS]
        samples = report.samples_section(self.language_model, text, self.seed)
        return [samples, report.surprise_section(self.language_model, text), *self.inside(text)]
