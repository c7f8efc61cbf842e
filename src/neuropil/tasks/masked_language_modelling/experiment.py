"""Masked language modelling: a model that predicts the tokens that were masked in a text."""

from pathlib import Path

import torch

from neuropil.config import Config, option
from neuropil.data.corpus.dataset import Corpus
from neuropil.data.corpus.masking import MaskingName
from neuropil.data.corpus.token_file import count_tokens
from neuropil.inspection.report.attention import attention_section
from neuropil.inspection.report.page import Section
from neuropil.protocols import Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result
from neuropil.tasks.language_modelling.experiment import CorpusExperiment
from neuropil.tasks.masked_language_modelling import report
from neuropil.tasks.masked_language_modelling.predictor import MaskedBatches, TextFiller, scorer_for
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview

SHOWN_CHARACTERS = 400


class MaskingConfig(Config):
    vocabulary_size: int = option(4_000, "maximum vocabulary size (WordPiece)", low=100)
    mask_probability: float = option(0.15, "share of the tokens that are chosen, to be predicted", low=0.01, high=0.9)
    masking: MaskingName = option(
        "80/10/10", "of the chosen tokens, 80 % masked, 10 % random and 10 % unchanged, or all of them masked"
    )


class MaskedLanguageModellingExperiment(CorpusExperiment[dict[str, float]]):
    """`predictions` are the mean metrics over the masked tokens of the test part."""

    def __init__(
        self,
        filler: TextFiller,
        corpus: Corpus,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        masking: MaskingConfig,
    ):
        self.filler, tokenizer = filler, filler.tokenizer
        context, probability = filler.model.config.context, masking.mask_probability
        cut = MaskedBatches.of(tokenizer, context, probability, masking.masking)
        learner = scorer_for(filler.model)
        super().__init__(corpus, tokenizer, cut, training, seed=seed, name=name, learner=learner, save=self._save_to)

    def _save_to(self, folder: Path) -> None:
        self.filler.tokenizer.save(folder)

    def predict_test(self, learner: Learner) -> dict[str, float]:
        return evaluate(learner, self.batches("test"))

    def preview(self) -> Preview:
        """The most probable words for masked ones, beside these."""
        rows = [
            [shown, ", ".join(f"{each.word} {100 * each.share:.0f} %" for each in found), word]
            for shown, word, found in report.filled_lines(self.filler, self.watched_text, preview.SHOWN)
        ]
        return preview.pairs(["text", "most probable", "masked"], rows)

    def score(self, learner: Learner, predictions: dict[str, float]) -> dict[str, float]:
        return predictions

    def baselines(self) -> list[Result]:
        """What is known without reading: how often each token occurs."""
        counts = count_tokens(self.tokens["train"], len(self.tokenizer)).double() + 1
        batches = self.batches("test").epoch(0)
        masked = torch.cat([batch["target"][batch["scored"]] for batch in batches]).cpu()
        loss, right = -(counts / counts.sum()).log()[masked], masked == counts.argmax()
        return [Result("unigram", {"loss": float(loss.mean()), "accuracy": float(right.double().mean())})]

    def own_sections(self) -> list[Section]:
        attention = attention_section(self.filler, self.held_out_text(SHOWN_CHARACTERS))
        return [report.filling_section(self.filler, self.corpus.test), attention]
