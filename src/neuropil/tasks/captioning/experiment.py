"""From a picture to a sentence: the experiment of every model that writes captions, and what it leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.captions.batches import CaptionBatches, encode_captions
from neuropil.data.captions.dataset import CaptionSplits
from neuropil.data.captions.files import read_captions
from neuropil.data.formats.contents import tracked
from neuropil.data.formats.picture_inputs import pictures_of, read_pictures
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.inspection.recording import record
from neuropil.inspection.report.page import Section
from neuropil.models.captioner import Captioner
from neuropil.parts.objectives import Translation
from neuropil.protocols import END, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search
from neuropil.tasks.captioning import report as captioning_report
from neuropil.tasks.captioning.scores import baselines, score_captions
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Result
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

PICTURES_AT_ONCE = 256
TOKENIZER_FILE = "tokenizer.json"
PARTS = ("train", "validation", "test")


class WordsConfig(Config):
    tokens: Literal["words", "bpe", "characters"] = option(
        "words", "what a caption is cut into; bpe learns frequent pieces of words"
    )
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=8)
    max_tokens: int = option(64, "longer captions are left out of training, counted, and reported", low=3)
    beam: int = option(1, "how many beginnings of a caption to follow at once; 1 is greedy", low=1)


class Columns(TypedDict, total=False):
    """Where in the user's files the two sides stand."""

    picture_column: str | None
    caption_column: str | None


@dataclass(frozen=True)
class Captions:
    texts: list[str]
    log_probabilities: list[float]

    def __len__(self) -> int:
        return len(self.texts)

    def lines(self) -> list[list[str]]:
        return [[text] for text in self.texts]


@dataclass(frozen=True)
class CaptionWriter:
    """A trained captioner and its words: from pictures to sentences."""

    model: Captioner
    tokenizer: Tokenizer
    max_tokens: int
    beam: int = 1
    columns: Columns = field(default_factory=Columns)

    def predict(self, inputs: Any) -> Captions:
        """`inputs` are pictures as bytes, one or several, as a tensor or an array; or the path or paths of picture files."""
        return self.describe(pictures_of(inputs, self.model.config.shape))

    def read(self, paths: Sequence[Path]) -> tuple[Tensor, list[str]]:
        return read_pictures(paths, self.model.config.shape)

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        if len(paths) != 1:
            raise InputError("captions are read from one table", got=f"{len(paths)}")
        data, _ = read_captions(paths[0], shape=self.model.config.shape, **self.columns)
        return score_captions(self.describe(data.pictures).texts, data.captions)

    def describe(
        self, pictures: UInt8[Tensor, "picture channel height width"], *, beam_width: int | None = None
    ) -> Captions:
        """One caption for each picture. A wider beam is slower and often a little better; without one, as the run was made."""
        texts, totals = list[str](), list[float]()
        for some in tracked(pictures.split(PICTURES_AT_ONCE), "Writing captions"):
            for written, total in self._write(some.to(self._device), beam_width or self.beam):
                texts.append(written)
                totals.append(total)
        return Captions(texts, totals)

    def looks(
        self, pictures: UInt8[Tensor, "picture channel height width"], captions: Sequence[str]
    ) -> list[tuple[list[str], Float[Tensor, "word row column"]]]:
        """For each picture the words of its caption, the last of them the end, and where the model looked for each."""
        rows, columns = self.model.config.grid
        found = []
        for picture, ids in zip(pictures, self.tokenizer.encode(list(captions)), strict=True):
            fed = torch.tensor([[START, *ids]], device=self._device)
            with torch.no_grad(), record(self.model, layers="attention") as tape:
                self.model.hidden(picture[None].to(self._device), fed)
            weights = rearrange(
                tape.attention["attention"][0, 0].cpu(),
                "word (row column) -> word row column",
                row=rows,
                column=columns,
            )
            found.append(([*self.tokenizer.tokens(ids), "◁"], weights))
        return found

    def _write(
        self, pictures: UInt8[Tensor, "picture channel height width"], beam_width: int
    ) -> list[tuple[str, float]]:
        model, limits = self.model, [self.max_tokens] * len(pictures)
        with torch.no_grad():
            state = model.begin(pictures)
        if beam_width == 1:
            written = greedy_search(model.step, state, limits, start=START, end=END, device=self._device)
        else:
            ranked = beam_search(model.step, state, limits, width=beam_width, start=START, end=END, device=self._device)
            written = [each[0] for each in ranked]
        return [(self.tokenizer.decode(each.tokens), each.log_probability) for each in written]

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class Captioning:
    """The experiment: a captioner, pictures and what is said of them, and how it is trained; beside it another captioner, if one is given,
    that learns from the same batches."""

    def __init__(
        self,
        model: Captioner,
        splits: CaptionSplits,
        tokenizer: Tokenizer,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        label_smoothing: float,
        words: WordsConfig,
        augment: Augment,
        columns: Columns,
        rival: tuple[str, Captioner] | None,
    ):
        self.device = pick_device(training.device)
        self.model, self.model_config, self.splits, self.tokenizer = (
            model.to(self.device),
            model.config,
            splits,
            tokenizer,
        )
        self.training, self.seed, self.name, self.words, self.augment = training, seed, name, words, augment
        self.learner = Translation(self.model, label_smoothing)
        self.columns, self.writer = columns, CaptionWriter(self.model, tokenizer, words.max_tokens, words.beam, columns)
        self.rival = None if rival is None else (rival[0], Translation(rival[1].to(self.device), label_smoothing))
        self.encoded = {
            part: encode_captions(getattr(splits, part), tokenizer, words.max_tokens if part == "train" else None)
            for part in PARTS
        }
        if not len(self.encoded["train"]):
            raise InputError(
                f"training needs captions of at most {words.max_tokens} tokens",
                got="none",
                fix="give shorter captions or a larger --max-tokens",
            )
        one = self.encoded["train"].take(torch.zeros(1, dtype=torch.int64))
        require_monitor(training, evaluate(self.learner, CaptionBatches(one, 1, 0, shuffle=False, device=self.device)))

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.splits.train.source,
            "vocabulary": len(self.tokenizer),
            "max_tokens": self.words.max_tokens,
            "beam": self.words.beam,
            "columns": dict(self.columns),
            "notes": self.notes,
            "fingerprint": fingerprint(
                tensor
                for part in self.encoded.values()
                for tensor in (part.pictures, part.picture_of, *part.captions.tensors)
            ),
        }

    @property
    def notes(self) -> list[str]:
        """Sentences on what was found in the data, and what was left out of it."""
        count, total = self.encoded["train"].too_long, len(self.splits.train.texts)
        long = f"{count:,} of {total:,} training captions have more than {self.words.max_tokens} tokens and are left out of training."
        return [*self.splits.notes, *([long] if count else [])]

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.tokenizer.save(folder / TOKENIZER_FILE)
        self._fit(self.learner, folder, self.name, show_progress)
        if self.rival is not None:
            self._fit(self.rival[1], folder / "rival", self.rival[0], show_progress)

    @property
    def training_batches(self) -> CaptionBatches:
        size, device = self.training.batch_size, self.device
        return CaptionBatches(self.encoded["train"], size, self.seed, shuffle=True, augment=self.augment, device=device)

    @property
    def validation_batches(self) -> CaptionBatches:
        return self._held_out("validation" if len(self.encoded["validation"]) else "test")

    def own_result(self) -> Result:
        return self._result(self.name, self.writer, self.learner)

    def evaluate(self) -> list[Result]:
        results = [self._result(self.name, self.writer, self.learner, self.captions)]
        if self.rival is not None:
            name, learner = self.rival
            writer = CaptionWriter(learner.model, self.tokenizer, self.words.max_tokens, self.words.beam)  # type: ignore[arg-type]  # a Captioner
            results.append(self._result(name, writer, learner))
        said = self.splits.test.captions
        return results + [Result(name, score_captions(texts, said)) for name, texts in baselines(self.splits).items()]

    @cached_property
    def captions(self) -> list[str]:
        """Of the test part, by the trained model."""
        return self.writer.describe(self.splits.test.pictures).texts

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return captioning_report.sections(self, history)

    def _result(
        self, name: str, writer: CaptionWriter, learner: Translation, captions: list[str] | None = None
    ) -> Result:
        test = self.splits.test
        captions = writer.describe(test.pictures).texts if captions is None else captions
        taught = evaluate(learner, self._held_out("test"))
        return Result(name, {**score_captions(captions, test.captions), "token_accuracy": taught["token_accuracy"]})

    def _fit(self, learner: Translation, folder: Path, title: str, show_progress: bool) -> None:
        fit(
            learner,
            self.training_batches,
            self._held_out("validation") if len(self.encoded["validation"]) else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=title,
            show_progress=show_progress,
        )

    def _held_out(self, part: str) -> CaptionBatches:
        return CaptionBatches(self.encoded[part], PICTURES_AT_ONCE, seed=0, shuffle=False, device=self.device)
