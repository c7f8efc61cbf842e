"""Retrieval: a model that embeds pictures and captions in one space, so that each finds the other."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.captions.batches import MatchingBatches, encode_matches
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.splits import PartName, Splits
from neuropil.inspection.report.page import Section
from neuropil.models.clip import ContrastiveMatching
from neuropil.protocols import Learner
from neuropil.tasks import preview
from neuropil.tasks.experiment import Result, TrainableExperiment
from neuropil.tasks.retrieval import report
from neuropil.tasks.retrieval.predictor import Retriever
from neuropil.tasks.retrieval.scores import POOL, baselines
from neuropil.tasks.texts import too_long_note
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.previews import Preview


class CaptionBatchesConfig(Config):
    vocabulary_size: int = option(8_000, "maximum vocabulary size (byte-level BPE)", low=514)
    short_first: tuple[float, ...] = option(
        (0.1, 0.5), "curriculum: share of the captions, the shortest, in each of the first epochs", low=0.001, high=1
    )
    alike: int = option(
        1, "hard negatives: regroup so many batches, captions with the same words together; 1: none", low=1
    )


class RetrievalExperiment(TrainableExperiment[list[Float[Tensor, "picture caption"]]]):
    """`predictions` are the cosine similarities among the pairs of each pool of the test part."""

    def __init__(
        self,
        retriever: Retriever,
        splits: Splits[CaptionedPictures],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        augment: Augment,
        captions: CaptionBatchesConfig,
    ):
        self.splits, self.retriever, self.tokenizer = splits, retriever, retriever.tokenizer
        self.augment, self.captions, context = augment, captions, retriever.model.config.text.context
        parts = splits.parts
        self.matches = {part: encode_matches(each, self.tokenizer, context) for part, each in parts.items()}
        train = self.matches["train"]
        cut = too_long_note(train.shortened, len(train), "caption", context, ", and are truncated")
        learner = ContrastiveMatching(retriever.model)
        super().__init__(learner, self.matches, training, seed, name, splits.train.source, [*splits.notes, *cut])

    def own_facts(self) -> dict[str, Any]:
        return {"columns": dict(self.retriever.columns)}

    def training_keys(self) -> list[bytes]:
        return self.splits.train.keys

    def fingerprinted(self) -> Iterable[Tensor]:
        parts = self.matches.values()
        return (tensor for part in parts for tensor in (part.pictures, part.picture_of, part.captions))

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)

    def batches(self, part: PartName) -> MatchingBatches:
        if part != "train":
            return MatchingBatches(self.matches[part], POOL, seed=0, shuffle=False, device=self.device)
        return MatchingBatches(
            self.matches[part],
            self.training.batch_size,
            self.seed,
            shuffle=True,
            short_first=self.captions.short_first,
            alike=self.captions.alike,
            augment=self.augment,
            device=self.device,
        )

    def predict_test(self, learner: Learner) -> list[Float[Tensor, "picture caption"]]:
        model, found = self.retriever.model.eval(), []
        with torch.no_grad():
            for batch in self.batches("test").epoch(0):
                u, v = model.embed_pictures(batch["picture"]), model.embed_texts(batch["caption"])
                found.append((u @ v.mT).cpu())
        return found

    def preview(self) -> Preview:
        """Pictures, each with the caption among theirs that is nearest to it."""
        part = self.splits.parts[self.watched_part]
        few = part.take(torch.arange(min(preview.SHOWN, len(part))))
        pictures, captions = few.pictures, [each[0] for each in few.captions]
        similarities = self.retriever.embed_images(pictures) @ self.retriever.embed_texts(captions).mT
        chosen = similarities.argmax(-1).tolist()
        own = [captions[place] == captions[index] for index, place in enumerate(chosen)]
        return preview.pictures(pictures, captions=[captions[place] for place in chosen], right=own)

    def score(self, learner: Learner, predictions: list[Float[Tensor, "picture caption"]]) -> dict[str, float]:
        return evaluate(learner, self.batches("test"))

    def baselines(self) -> list[Result]:
        return baselines(self.splits, self.matches["test"])

    def own_sections(self) -> list[Section]:
        test, matches, model = self.splits.test, self.matches["test"], self.retriever.model
        return [
            report.similarity_section(test, matches, self.predictions, model),
            report.retrieval_section(test, matches, self.predictions),
            report.rollout_section(test, model),
        ]

    def data_section(self) -> Section:
        return report.data_section(self.splits, self.matches, len(self.tokenizer), self.augment, self.notes)
