"""Translation: a model that reads a text and writes another."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.pairs.batches import PairBatches, encode_pairs
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.pairs.files import PairDataConfig
from neuropil.data.splits import PartName, Splits
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.extras import require_extra
from neuropil.inspection.recording import attention_modules
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import SequenceToSequence
from neuropil.protocols import Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.texts import too_long_note
from neuropil.tasks.translation import report
from neuropil.tasks.translation.predictor import PairColumns, PairVocabulary, Translator
from neuropil.tasks.translation.scores import nearest_pair, score_translations
from neuropil.training.config import TrainingConfig
from neuropil.training.previews import Preview

LOOKED_AT = 50
"""Pairs among which there are some that the model can read, for previews."""


class PairTokensConfig(Config):
    tokens: Literal["bpe", "characters", "words"] = option(
        "bpe", "tokens: words, characters, or bpe (byte-pair encoding)"
    )
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=8)
    shared_vocabulary: bool = option(True, "one vocabulary for both sides")
    max_tokens: int = option(256, "longer texts are left out of training, and counted in the report", low=2)

    def learn(self, pairs: Pairs) -> PairVocabulary:
        if self.shared_vocabulary:
            both = Tokenizer.train([*pairs.sources, *pairs.targets], self.tokens, self.vocabulary_size)
            return PairVocabulary(both, both)
        sides = (pairs.sources, pairs.targets)
        return PairVocabulary(*(Tokenizer.train(list(texts), self.tokens, self.vocabulary_size) for texts in sides))


class TranslationObjective(Config):
    label_smoothing: float = option(0.1, "label smoothing of the training loss", low=0, high=0.9)


def columns_of(data: PairDataConfig) -> PairColumns:
    return PairColumns(source_column=data.source_column, target_column=data.target_column, reverse=data.reverse)


class TranslationExperiment(TrainableExperiment[list[str]]):
    """`predictions` are translations of the test part."""

    def __init__(
        self,
        translator: Translator,
        splits: Splits[Pairs],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        label_smoothing: float,
        max_tokens: int,
    ):
        self.splits, self.translator, self.vocabulary = splits, translator, translator.vocabulary
        self.pairs = splits.parts
        source, target = self.vocabulary.source, self.vocabulary.target
        self.encoded = {
            part: encode_pairs(pairs, source, target, max_tokens if part == "train" else translator.longest)
            for part, pairs in self.pairs.items()
        }
        if not len(self.encoded["train"]):
            fix = "give shorter texts or a larger --max-tokens"
            raise InputError(f"training needs pairs of at most {max_tokens} tokens", got="none", fix=fix)
        too_long = self.encoded["train"].too_long
        cut = too_long_note(
            too_long, len(splits.train), "pair", max_tokens, " on one side, and are left out of training"
        )
        learner = SequenceToSequence(translator.model, label_smoothing)
        super().__init__(learner, self.encoded, training, seed, name, splits.train.source, [*splits.notes, *cut])

    def own_facts(self) -> dict[str, Any]:
        sizes = {"source": len(self.vocabulary.source), "target": len(self.vocabulary.target)}
        columns, longest = dict(self.translator.columns), self.translator.longest
        shared = self.vocabulary.shared
        return {"vocabulary_size": sizes, "shared_vocabulary": shared, "columns": columns, "longest": longest}

    def training_keys(self) -> list[str]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        sides = (side for part in self.encoded.values() for side in (part.sources, part.targets))
        return (tensor for side in sides for tensor in side.tensors)

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder)

    def require_scorable(self) -> None:
        require_extra("translation", "scoring translations")

    def batches(self, part: PartName) -> PairBatches:
        size, shuffle = self.training.batch_size, part == "train"
        return PairBatches(self.encoded[part], size, self.seed, shuffle=shuffle, device=self.device)

    def predict_test(self, learner: Learner) -> list[str]:
        """Texts that are longer than learned positions have no translation, and count as wrong."""
        sources, translator = self.splits.test.sources, self.translator
        lengths = translator.lengths(sources)
        readable = [text if translator.can_read(length) else "" for text, length in zip(sources, lengths, strict=True)]
        return translator.translate(readable).texts

    def preview(self) -> Preview:
        """Greedy translations beside the references."""
        part = self.pairs[self.watched_part]
        lengths = self.translator.lengths(part.sources[:LOOKED_AT])
        fit = [place for place, length in enumerate(lengths) if self.translator.can_read(length)][: preview.SHOWN]
        found = self.translator.translate([part.sources[place] for place in fit]).texts
        rows = [[part.sources[place], text, part.targets[place]] for place, text in zip(fit, found, strict=True)]
        return preview.pairs(["source", "translation", "reference"], rows)

    def score(self, learner: Learner, predictions: list[str]) -> dict[str, float]:
        return score_translations(predictions, self.splits.test.targets)

    def baselines(self) -> list[Result]:
        sources, targets = self.splits.test.sources, self.splits.test.targets
        nearest = nearest_pair(self.splits.train, sources)
        return [
            Result("the most similar training pair", score_translations(nearest, targets)),
            Result("the source unchanged", score_translations(sources, targets)),
        ]

    def own_sections(self) -> list[Section]:
        sections = [report.translations_section(self.splits.test, self.predictions)]
        if attention_modules(self.model):
            chosen = report.worth_aligning(self.splits.test, self.predictions)
            texts = [(self.splits.test.sources[index], self.predictions[index]) for index in chosen]
            sections.append(report.attention_section([self.translator.align(*each) for each in texts]))
        return sections

    def data_section(self) -> Section:
        return report.data_section(self.pairs, self.vocabulary, self.notes)
