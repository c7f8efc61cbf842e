"""Image captioning: a model that looks at a picture and writes a sentence."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.captions.batches import CaptionBatches, encode_captions
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.splits import PartName, Splits
from neuropil.errors import InputError
from neuropil.extras import require_extra
from neuropil.inspection.report.page import Section
from neuropil.models.captioner import Captioner
from neuropil.parts.objectives import SequenceToSequence
from neuropil.protocols import Learner
from neuropil.tasks import preview
from neuropil.tasks.captioning import report
from neuropil.tasks.captioning.predictor import PICTURES_AT_ONCE, TOKENIZER_FILE, CaptionWriter
from neuropil.tasks.captioning.scores import baselines, score_captions
from neuropil.tasks.experiment import Ablation, Result, TrainableExperiment
from neuropil.tasks.texts import too_long_note
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview


class CaptionTokensConfig(Config):
    tokens: Literal["words", "bpe", "characters"] = option(
        "words", "tokens: words, characters, or bpe (byte-pair encoding)"
    )
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=8)
    max_tokens: int = option(64, "longer captions are left out of training, and counted in the report", low=3)
    beam: int = option(1, "beam width; 1 is greedy", low=1)


class CaptioningExperiment(TrainableExperiment[list[str]]):
    """`predictions` are captions of the test part."""

    def __init__(
        self,
        writer: CaptionWriter,
        splits: Splits[CaptionedPictures],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        label_smoothing: float,
        augment: Augment,
        ablation: tuple[str, Captioner] | None,
    ):
        self.splits, self.writer, self.tokenizer, self.augment = splits, writer, writer.tokenizer, augment
        self.captioned = splits.parts
        limit = writer.max_tokens
        self.encoded = {
            part: encode_captions(each, self.tokenizer, limit if part == "train" else None)
            for part, each in self.captioned.items()
        }
        if not len(self.encoded["train"]):
            fix = "give shorter captions or a larger --max-tokens"
            raise InputError(f"training needs captions of at most {limit} tokens", got="none", fix=fix)
        too_long, total = self.encoded["train"].too_long, len(splits.train.texts)
        cut = too_long_note(too_long, total, "caption", limit, ", and are left out of training")
        learner = SequenceToSequence(writer.model, label_smoothing)
        super().__init__(
            learner,
            self.encoded,
            training,
            seed,
            name,
            splits.train.source,
            [*splits.notes, *cut],
            ablation=ablation and Ablation(ablation[0], SequenceToSequence(ablation[1], label_smoothing)),
        )

    def own_facts(self) -> dict[str, Any]:
        return {
            "vocabulary_size": len(self.tokenizer),
            "max_tokens": self.writer.max_tokens,
            "beam_width": self.writer.beam_width,
            "columns": dict(self.writer.columns),
        }

    def training_keys(self) -> list[bytes]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        for part in self.encoded.values():
            yield from (part.pictures, part.picture_of, *part.captions.tensors)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER_FILE)

    def require_scorable(self) -> None:
        require_extra("translation", "scoring captions")

    def batches(self, part: PartName) -> CaptionBatches:
        data, device = self.encoded[part], self.device
        if part != "train":
            return CaptionBatches(data, PICTURES_AT_ONCE, seed=0, shuffle=False, device=device)
        size = self.training.batch_size
        return CaptionBatches(data, size, self.seed, shuffle=True, augment=self.augment, device=device)

    def predict_test(self, learner: Learner) -> list[str]:
        writer = CaptionWriter(
            cast(Captioner, learner.model), self.tokenizer, self.writer.max_tokens, self.writer.beam_width
        )
        return writer.caption(self.splits.test.pictures).texts

    def preview(self) -> Preview:
        part = self.captioned[self.watched_part]
        shown = part.pictures[: preview.SHOWN]
        return preview.pictures(shown, captions=self.writer.caption(shown, beam_width=1).texts)

    def score(self, learner: Learner, predictions: list[str]) -> dict[str, float]:
        forced = evaluate(learner, self.batches("test"))["token_accuracy"]
        return {**score_captions(predictions, self.splits.test.captions), "token_accuracy": forced}

    def baselines(self) -> list[Result]:
        references = self.splits.test.captions
        return [Result(name, score_captions(texts, references)) for name, texts in baselines(self.splits).items()]

    def own_sections(self) -> list[Section]:
        sections = [report.captions_section(self.splits.test, self.predictions)]
        if self.writer.model.config.attention:
            sections.append(report.attention_section(self.splits.test, self.predictions, self.writer))
        return sections

    def data_section(self) -> Section:
        return report.data_section(self.captioned, self.tokenizer, self.augment, self.notes)
