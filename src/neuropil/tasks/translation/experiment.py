"""From one text to another: what the recipes of all models that translate have in common."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, cast, runtime_checkable

import torch
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.formats.lines import read_lines
from neuropil.data.pairs.batches import PairBatches, encode_pairs
from neuropil.data.pairs.dataset import Pairs, PairSplits
from neuropil.data.pairs.files import read_pairs
from neuropil.data.pairs.sources import PairDataConfig
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.inspection.recording import record
from neuropil.inspection.report.alignment import Alignment, AttentionMap
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Translation
from neuropil.parts.parameters import ParameterRow
from neuropil.protocols import END, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search
from neuropil.sampling.text.generation import DecoderState
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Result
from neuropil.tasks.translation import report as translation_report
from neuropil.tasks.translation.scores import nearest_pair, score_translations
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

TEXTS_AT_ONCE = 128
TOKENS_AT_ONCE = 8_192
SOURCE_FILE, TARGET_FILE = "tokenizer.json", "tokenizer-target.json"


class VocabularyConfig(Config):
    tokens: Literal["bpe", "characters", "words"] = option(
        "bpe", "what a text is cut into; bpe learns frequent pieces of words"
    )
    vocabulary_size: int = option(8_000, "maximum vocabulary size", low=8)
    shared_vocabulary: bool = option(True, "one vocabulary for both sides")
    max_tokens: int = option(256, "longer texts are left out of training, counted, and reported", low=2)


class TranslationObjective(Config):
    label_smoothing: float = option(
        0.1, "share of a token's probability that is spread over the vocabulary", low=0, high=0.9
    )


@runtime_checkable
class WritingModel(Protocol):
    """What a model must have to translate: read a source once, then write a token at a time."""

    def begin(self, source: Tensor) -> DecoderState: ...

    def step(self, tokens: Tensor, state: Any) -> Tensor: ...

    def hidden(self, source: Tensor, target: Tensor) -> Tensor: ...


class Columns(TypedDict, total=False):
    """Where in the user's files the two sides stand."""

    source_column: str | None
    target_column: str | None
    reverse: bool


def columns_of(data: PairDataConfig) -> Columns:
    return Columns(source_column=data.source_column, target_column=data.target_column, reverse=data.reverse)


@dataclass(frozen=True)
class Vocabulary:
    """How texts of both sides become tokens; the two may be one and the same."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def learn(cls, pairs: Pairs, config: VocabularyConfig) -> "Vocabulary":
        if config.shared_vocabulary:
            both = Tokenizer.train([*pairs.sources, *pairs.targets], config.tokens, config.vocabulary_size)
            return cls(both, both)
        return cls(
            *(
                Tokenizer.train(list(texts), config.tokens, config.vocabulary_size)
                for texts in (pairs.sources, pairs.targets)
            )
        )

    @classmethod
    def load(cls, folder: Path) -> "Vocabulary":
        source = Tokenizer.load(folder / SOURCE_FILE)
        return cls(source, Tokenizer.load(folder / TARGET_FILE) if (folder / TARGET_FILE).exists() else source)

    def save(self, folder: Path) -> None:
        self.source.save(folder / SOURCE_FILE)
        if self.target is not self.source:
            self.target.save(folder / TARGET_FILE)


@dataclass(frozen=True)
class Translations:
    texts: list[str]
    log_probabilities: list[float]

    def __len__(self) -> int:
        return len(self.texts)

    def lines(self) -> list[list[str]]:
        return [[text] for text in self.texts]


@dataclass(frozen=True)
class Translator:
    """A trained model and its vocabulary: from text to text."""

    model: nn.Module
    vocabulary: Vocabulary
    longest: int | None = None
    """Tokens that the model can count, where its positions are learned."""
    columns: Columns = field(default_factory=Columns)

    def predict(self, inputs: str | Sequence[str]) -> Translations:
        return self.translate([inputs] if isinstance(inputs, str) else inputs)

    def read(self, paths: Sequence[Path]) -> tuple[list[str], list[str]]:
        lines = [(path, number, line) for path in paths for number, line in enumerate(read_lines(path), start=1)]
        return [line for _, _, line in lines], [f"{path.name} line {number}" for path, number, _ in lines]

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        pairs, _ = read_pairs(list(paths), **self.columns)
        return score_translations(self.translate(pairs.sources).texts, pairs.targets)

    def translate(self, texts: Sequence[str], *, beam_width: int = 1, length_penalty: float = 0.6) -> Translations:
        """One translation for each text; an empty text stays empty. A wider beam is slower and often a little better."""
        found = ["" for _ in texts]
        totals = [0.0 for _ in texts]
        for group in self._groups(texts):
            written = self._write([texts[index] for index in group], beam_width, length_penalty)
            for index, (text, total) in zip(group, written, strict=True):
                found[index], totals[index] = text, total
        return Translations(found, totals)

    def align(self, text: str, translation: str | None = None) -> Alignment:
        """Where the model looked while it wrote the translation, its own if none is given."""
        translation = self.translate([text]).texts[0] if translation is None else translation
        read, written = self._tokens(text, translation)
        with torch.no_grad(), record(self.model) as tape:
            cast(WritingModel, self.model).hidden(self._row(read), self._row(written[:-1]))
        names = {"read": labels(self.vocabulary.source, read), "known": labels(self.vocabulary.target, written[:-1])}
        names["written"] = labels(self.vocabulary.target, written[1:])
        maps = []
        for name, weights in tape.attention.items():
            rows, columns = (
                ("read", "read") if name.startswith("encoder") else ("written", "read" if "cross" in name else "known")
            )
            maps.append(AttentionMap(name, weights[0].cpu(), names[rows], names[columns]))
        maps.sort(
            key=lambda each: "cross" in each.name
        )  # a viewer opens with the last one, and this is what people come for
        return Alignment(maps, title=f"{text} → {translation}")

    def passage(self, text: str) -> Passage:
        """The text, and the model's own translation of it, for whoever watches recurrent cells at work."""
        read, written = self._tokens(text, self.translate([text]).texts[0])
        model, known = cast(WritingModel, self.model), written[:-1]
        names = {True: labels(self.vocabulary.source, read), False: labels(self.vocabulary.target, known)}
        return Passage(
            lambda: model.hidden(self._row(read), self._row(known)), lambda cell: names[cell.startswith("encoder")]
        )

    def _tokens(self, text: str, translation: str) -> tuple[list[int], list[int]]:
        """What is read, and what is written, from start to end."""
        source, target = self.vocabulary.source.encode([text])[0], self.vocabulary.target.encode([translation])[0]
        self._require_short(len(source))
        return [*source, END], [START, *target, END]

    def _groups(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Texts of like length together; empty ones in none."""
        lengths = self.lengths(texts)
        order = sorted((index for index, length in enumerate(lengths) if length), key=lengths.__getitem__)
        group: list[int] = []
        for index in order:
            self._require_short(lengths[index])
            if group and (len(group) == TEXTS_AT_ONCE or (len(group) + 1) * lengths[index] > TOKENS_AT_ONCE):
                yield group
                group = []
            group.append(index)
        if group:
            yield group

    def _write(self, texts: list[str], beam_width: int, length_penalty: float) -> list[tuple[str, float]]:
        sources = [[*ids, END] for ids in self.vocabulary.source.encode(texts)]
        longest = max(map(len, sources))
        padded = torch.tensor([ids + [0] * (longest - len(ids)) for ids in sources], device=self._device)
        limits = [min(2 * len(ids) + 50, (self.longest or 10**9) - 1) for ids in sources]
        model = cast(WritingModel, self.model)
        with torch.no_grad():
            state = model.begin(padded)
        if beam_width == 1:
            written = greedy_search(model.step, state, limits, start=START, end=END, device=self._device)
        else:
            beams = beam_search(
                model.step,
                state,
                limits,
                width=beam_width,
                start=START,
                end=END,
                length_penalty=length_penalty,
                device=self._device,
            )
            written = [ranked[0] for ranked in beams]
        return [(self.vocabulary.target.decode(one.tokens), one.log_probability) for one in written]

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """In tokens."""
        return [len(ids) for ids in self.vocabulary.source.encode(list(texts))]

    def can_read(self, length: int) -> bool:
        return self.longest is None or length < self.longest

    def _require_short(self, length: int) -> None:
        if self.longest is not None and not self.can_read(length):
            raise InputError(
                f"this model has learned positions for texts of up to {self.longest - 1} tokens",
                got=f"a text of {length}",
                fix="split the text, or train with sinusoidal positions",
            )

    def _row(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids], device=self._device)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def labels(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Tokens as people read them; the borders of a text by signs that are not letters."""
    borders = {START: "▷", END: "◁"}
    return [borders.get(number, token) for number, token in zip(ids, tokenizer.tokens(ids), strict=True)]


class Translating:
    """The experiment: a model that writes, its pairs, and how it is trained."""

    def __init__(
        self,
        model: nn.Module,
        model_config: Config,
        splits: PairSplits,
        vocabulary: Vocabulary,
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        label_smoothing: float,
        max_tokens: int,
        parameters: Sequence[ParameterRow],
        longest: int | None,
        columns: Columns,
    ):
        self.device = pick_device(training.device)
        self.model, self.model_config, self.splits, self.vocabulary = (
            model.to(self.device),
            model_config,
            splits,
            vocabulary,
        )
        self.training, self.seed, self.name, self.parameters, self.max_tokens = (
            training,
            seed,
            name,
            parameters,
            max_tokens,
        )
        self.learner = Translation(self.model, label_smoothing)
        self.columns, self.translator = columns, Translator(self.model, vocabulary, longest, columns)
        self.encoded = {
            part: encode_pairs(
                getattr(splits, part), vocabulary.source, vocabulary.target, max_tokens if part == "train" else longest
            )
            for part in PARTS
        }
        if not len(self.encoded["train"]):
            raise InputError(
                f"training needs pairs of at most {max_tokens} tokens",
                got="none",
                fix="give shorter texts or a larger --max-tokens",
            )
        one = self.encoded["train"].take(torch.zeros(1, dtype=torch.int64))
        require_monitor(
            training, evaluate(self.learner, PairBatches(one, 1, 0, shuffle=False, device=self.device))
        )  # before a folder is made

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "source": self.splits.train.source,
            "vocabulary": {"source": len(self.vocabulary.source), "target": len(self.vocabulary.target)},
            "columns": dict(self.columns),
            "notes": self.notes,
            "fingerprint": fingerprint(
                tensor
                for part in self.encoded.values()
                for side in (part.sources, part.targets)
                for tensor in side.tensors
            ),
        }

    @property
    def notes(self) -> list[str]:
        """Sentences on what was left out of the data, and why."""
        count, total = self.encoded["train"].too_long, len(self.splits.train)
        long = f"{count:,} of {total:,} training pairs have a side of more than {self.max_tokens} tokens and are left out of training."
        return [*self.splits.notes, *([long] if count else [])]

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.vocabulary.save(folder)
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
    def training_batches(self) -> PairBatches:
        return self._batches("train", shuffle=True)

    @property
    def validation_batches(self) -> PairBatches:
        return self._batches("validation" if len(self.encoded["validation"]) else "test", shuffle=False)

    def own_result(self) -> Result:
        return Result(self.name, score_translations(self._translate_test(), self.splits.test.targets))

    def evaluate(self) -> list[Result]:
        targets = self.splits.test.targets
        own = Result(self.name, score_translations(self.translations, targets))
        return [
            own,
            *(Result(name, score_translations(texts, targets)) for name, texts in baselines(self.splits).items()),
        ]

    @cached_property
    def translations(self) -> list[str]:
        """Of the test part, by the trained model."""
        return self._translate_test()

    def _translate_test(self) -> list[str]:
        """Texts that are longer than what learned positions can count have no translation, and count as wrong."""
        sources, translator = self.splits.test.sources, self.translator
        readable = [
            text if translator.can_read(length) else ""
            for text, length in zip(sources, translator.lengths(sources), strict=True)
        ]
        return translator.translate(readable).texts

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return translation_report.sections(self, history)

    def _batches(self, part: str, *, shuffle: bool) -> PairBatches:
        return PairBatches(self.encoded[part], self.training.batch_size, self.seed, shuffle=shuffle, device=self.device)


PARTS = ("train", "validation", "test")


def baselines(splits: PairSplits) -> dict[str, list[str]]:
    """What a translator must beat: to look up the most similar text that it has seen, and to change nothing."""
    return {
        "the most similar training pair": nearest_pair(splits.train, splits.test.sources),
        "the source unchanged": list(splits.test.sources),
    }
