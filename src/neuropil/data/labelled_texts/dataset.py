"""What the data room hands out for text classification: texts, each with its class, in three parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.copies import TEST, TRAIN, VALIDATION, part_texts
from neuropil.data.examples.labels import encode_classes
from neuropil.data.labelled_texts.embedded import read_docstrings
from neuropil.data.labelled_texts.files import LabelledFile, TextColumns, read_labelled_file
from neuropil.data.messages import listed
from neuropil.errors import InputError

FEW = 5
"""A class with fewer texts has a score that means little."""


@dataclass(frozen=True)
class LabelledTexts:
    texts: Sequence[str]
    targets: Int64[Tensor, " example"]
    classes: tuple[str, ...]
    source: str
    """Where they come from, as a phrase for the report: "5,000 texts in 2 classes (reviews.tsv.gz)"."""

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: Int64[Tensor, " chosen"]) -> "LabelledTexts":
        return replace(self, texts=[self.texts[number] for number in index.tolist()], targets=self.targets[index])


@dataclass(frozen=True)
class LabelledTextSplits:
    train: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts
    notes: Sequence[str]
    """Sentences on what was found: "3 of 5,000 texts are empty and are left out (first: line 17)."."""


class LabelledTextConfig(Config):
    data: Path | None = option(
        None, "your own texts with labels: a TSV or CSV; without it, sentences of the libraries' documentation"
    )
    text_column: str | None = option(None, "the column of the TSV or CSV that holds the texts, where it is not clear")
    label_column: str | None = option(
        None, "the column of the TSV or CSV that holds the classes, where it is not clear"
    )
    validation: float = option(0.1, "share of the training part held out for early stopping", low=0, high=0.5)
    test: float = option(0.2, "share held out for the final score", low=0.01, high=0.9)

    @property
    def columns(self) -> TextColumns:
        return TextColumns(self.text_column, self.label_column)


def prepare_labelled_texts(config: LabelledTextConfig, seed: int) -> LabelledTextSplits:
    """The same for the same seed; each part is in the order of the data, with every class in its right proportion."""
    texts, notes = _embedded(config) if config.data is None else read_labelled_texts(config.data, config.columns)
    if len(texts.classes) < 2:
        raise InputError(
            f"{_where(config)} must have texts of at least 2 classes", got=f"only {listed(texts.classes)!r}"
        )
    notes = [*notes, *_rare(texts)]
    part_of = part_texts(texts.texts, texts.targets, config.validation, config.test, seed)
    train, validation, test = (texts.take((part_of == part).nonzero().flatten()) for part in (TRAIN, VALIDATION, TEST))
    if not len(train) or not len(test):
        rule = f"{_where(config)} must hold different texts, some to learn from and some to score"
        raise InputError(rule, got=f"{len(set(texts.texts)):,}")
    return LabelledTextSplits(train, validation, test, notes)


def read_labelled_texts(
    path: Path, columns: TextColumns, classes: tuple[str, ...] | None = None
) -> tuple[LabelledTexts, list[str]]:
    """All texts of a file that have a label, and notes on the others. With `classes`, those of a trained model, labels must be theirs."""
    file = read_labelled_file(path, columns, classes)
    labels = file.labels
    known = labels.occurring() if classes is None else classes
    targets = encode_classes(labels, known, lambda index: f"{path.name} line {file.lines[index]:,}")
    return LabelledTexts(file.texts, targets, known, _source(file, len(known))), file.notes


def _rare(texts: LabelledTexts) -> list[str]:
    counts = texts.targets.bincount(minlength=len(texts.classes))
    rare = int((counts < FEW).sum())
    if not rare:
        return []
    name, count = texts.classes[int(counts.argmin())], int(counts.min())
    have = "1 class has" if rare == 1 else f"{rare:,} classes have"
    return [
        f"{have} fewer than {FEW} texts (the rarest: {name!r} with {count}), so that little can be learned about them."
    ]


def _embedded(config: LabelledTextConfig) -> tuple[LabelledTexts, list[str]]:
    if config.text_column is not None or config.label_column is not None:
        raise InputError("columns are named in a TSV or CSV", got="names for the embedded texts", fix="leave them out")
    found = read_docstrings()
    classes = tuple(found)
    texts = [text for sentences in found.values() for text in sentences]
    targets = torch.arange(len(classes)).repeat_interleave(
        torch.tensor([len(sentences) for sentences in found.values()])
    )
    source = f"{len(texts):,} first sentences of docstrings in {len(classes)} libraries, as installed"
    return LabelledTexts(texts, targets, classes, source), [
        "No sentence occurs twice, in whatever library, case or spacing."
    ]


def _source(file: LabelledFile, num_classes: int) -> str:
    return f"{len(file.texts):,} texts in {num_classes} classes ({file.name})"


def _where(config: LabelledTextConfig) -> str:
    return "the data" if config.data is None else config.data.name
