"""Pictures and texts in one space: the experiment of a model that matches them, and what it leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.captions.contrastive_batches import Matches, MatchingBatches, encode_matches, padded_captions
from neuropil.data.captions.dataset import CaptionSplits
from neuropil.data.captions.files import read_captions
from neuropil.data.formats.contents import tracked
from neuropil.data.formats.picture_inputs import pictures_of, read_pictures
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.models.clip import CLIP, Matching
from neuropil.tasks.captioning.experiment import Columns
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Predictions, Result
from neuropil.tasks.retrieval import report as matching_report
from neuropil.tasks.retrieval.scores import POOL, baselines
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

AT_ONCE = 128
PARTS = ("train", "validation", "test")


class CaptionsConfig(Config):
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=514)
    short_first: tuple[float, ...] = option(
        (0.1, 0.5), "the first passes are made of the shortest captions alone, of such shares of all", low=0.001, high=1
    )
    alike: int = option(
        1,
        "of every so many batches, captions with the same words come into one, harder to tell apart; 1 for none",
        low=1,
    )


@dataclass(frozen=True)
class Embeddings:
    vectors: Float[Tensor, "example shared"]
    """Of unit length: the product of two is their similarity, from −1 to 1."""

    def __len__(self) -> int:
        return len(self.vectors)

    def lines(self) -> list[list[str]]:
        return [[f"{value:.5f}" for value in row] for row in self.vectors.tolist()]


@dataclass(frozen=True)
class Matcher:
    """A trained CLIP and its vocabulary: pictures and texts to vectors of one space."""

    model: CLIP
    tokenizer: PublishedTokenizer
    columns: Columns = field(default_factory=Columns)

    def predict(self, inputs: Any) -> Embeddings:
        """Vectors of pictures: bytes as a tensor or an array, one or several, or the path or paths of files."""
        return Embeddings(self.see(pictures_of(inputs, self.model.config.vision.shape)))

    def read(self, paths: Sequence[Path]) -> tuple[Tensor, list[str]]:
        return read_pictures(paths, self.model.config.vision.shape)

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        if len(paths) != 1:
            raise InputError("captions are read from one table", got=f"{len(paths)}")
        data, _ = read_captions(paths[0], shape=self.model.config.vision.shape, **self.columns)
        matches = encode_matches(data, self.tokenizer, self.model.config.text.context)
        return evaluate(
            Matching(self.model), MatchingBatches(matches, POOL, seed=0, shuffle=False, device=self._device)
        )

    @torch.no_grad()
    def see(self, pictures: UInt8[Tensor, "picture channel height width"]) -> Float[Tensor, "picture shared"]:
        found = [
            self.model.embed_pictures(some.to(self._device)).cpu()
            for some in tracked(pictures.split(AT_ONCE), "Looking at pictures")
        ]
        return torch.cat(found)

    @torch.no_grad()
    def understand(self, texts: Sequence[str]) -> Float[Tensor, "text shared"]:
        if not texts or not all(text.strip() for text in texts):
            raise InputError("a text must say something", got="an empty one" if texts else "none")
        tokens, _ = padded_captions(list(texts), self.tokenizer, self.model.config.text.context)
        return torch.cat([self.model.embed_texts(some.long().to(self._device)).cpu() for some in tokens.split(AT_ONCE)])

    def classify(self, pictures: UInt8[Tensor, "picture channel height width"], texts: Sequence[str]) -> Predictions:
        """Which of the texts fits each picture best, and how surely."""
        return self.classes_of(self.see(pictures), texts)

    @torch.no_grad()
    def classes_of(self, pictures: Float[Tensor, "picture shared"], texts: Sequence[str]) -> Predictions:
        """The same for pictures that were looked at before."""
        u, v = pictures.to(self._device), self.understand(texts).to(self._device)
        # p(text j | picture i) = softmax_j(z_ij)
        return Predictions(self.model.compare(u, v).softmax(-1).cpu(), tuple(texts))

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class PictureMatching:
    """The experiment: CLIP, pictures and what is said of them, and how it is trained."""

    def __init__(
        self,
        model: CLIP,
        splits: CaptionSplits,
        tokenizer: PublishedTokenizer,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        augment: Augment,
        captions: CaptionsConfig,
        columns: Columns,
    ):
        self.device = pick_device(training.device)
        self.model, self.model_config, self.splits, self.tokenizer = (
            model.to(self.device),
            model.config,
            splits,
            tokenizer,
        )
        self.training, self.seed, self.name, self.columns = training, seed, name, columns
        self.augment, self.captions = augment, captions
        self.learner, self.matcher = Matching(self.model), Matcher(self.model, tokenizer, columns)
        self.matches: dict[str, Matches] = {
            part: encode_matches(getattr(splits, part), tokenizer, model.config.text.context) for part in PARTS
        }
        require_monitor(training, evaluate(self.learner, self._held_out("test")))  # before a run folder is made

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.splits.train.source,
            "columns": dict(self.columns),
            "notes": self.notes,
            "fingerprint": fingerprint(
                tensor for part in self.matches.values() for tensor in (part.pictures, part.picture_of, part.captions)
            ),
        }

    @property
    def notes(self) -> list[str]:
        """Sentences on what was found in the data, and what was left out of it."""
        count, total = self.matches["train"].shortened, len(self.matches["train"])
        long = f"{count:,} of {total:,} training captions have more than {self.model_config.text.context} tokens and lose their end."
        return [*self.splits.notes, *([long] if count else [])]

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.tokenizer.save(folder)
        fit(
            self.learner,
            self.training_batches,
            self._held_out("validation") if len(self.matches["validation"]) else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=self.name,
            show_progress=show_progress,
        )

    @property
    def training_batches(self) -> MatchingBatches:
        return MatchingBatches(
            self.matches["train"],
            self.training.batch_size,
            self.seed,
            shuffle=True,
            short_first=self.captions.short_first,
            alike=self.captions.alike,
            augment=self.augment,
            device=self.device,
        )

    @property
    def validation_batches(self) -> MatchingBatches:
        return self._held_out("validation" if len(self.matches["validation"]) else "test")

    def own_result(self) -> Result:
        return Result(self.name, evaluate(self.learner, self._held_out("test")))

    def evaluate(self) -> list[Result]:
        return [self.own_result(), *baselines(self.splits, self.matches["test"])]

    @cached_property
    def test_similarities(self) -> list[Float[Tensor, "picture caption"]]:
        """Among the pairs of each pool of the test part: u_i · v_j of the trained model."""
        self.model.eval()
        found = []
        with torch.no_grad():
            for batch in self._held_out("test").epoch(0):
                u, v = self.model.embed_pictures(batch["picture"]), self.model.embed_texts(batch["caption"])
                found.append((u @ v.mT).cpu())
        return found

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return matching_report.sections(self, history)

    def _held_out(self, part: str) -> MatchingBatches:
        return MatchingBatches(self.matches[part], POOL, seed=0, shuffle=False, device=self.device)
