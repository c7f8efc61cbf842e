"""What was understood of data before anything is trained on it: its parts, columns and classes, a few of its examples,
and what is odd about it. Plain data; what training would refuse is refused here with the same sentence."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import singledispatch
from typing import Any

import torch

from neuropil import recipes
from neuropil.config import Config
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.corpus.dataset import Corpus
from neuropil.data.examples.dataset import Examples, Schema, restored
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.films.dataset import Films
from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.data.pairs.dataset import Pairs
from neuropil.data.series.files import SeriesSplits
from neuropil.data.splits import Splits
from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.words.dataset import END, WordCorpus
from neuropil.errors import DataWarning, InputError
from neuropil.memory import refused_memory
from neuropil.runs.planned import PlannedRun, require_startable
from neuropil.tasks import preview
from neuropil.tasks.classification.report import label_of
from neuropil.tasks.experiment import Experiment
from neuropil.training.previews import Preview

MOST_CLASSES, MOST_COLUMNS, MOST_VALUES = 100, 200, 12
"""That are listed, the first; and categories of one column."""
SHOWN_CHARACTERS = 600
"""Of one long text."""


@dataclass(frozen=True)
class DataColumn:
    """`values` are its first categories, or the parts of a date; `count` is how many there are."""

    name: str
    kind: str
    values: tuple[str, ...] = ()
    count: int = 0
    missing: bool = False


@dataclass(frozen=True)
class Understood:
    """Of one kind of data: what it is called, what is read and what is to be predicted, and a few examples."""

    kind: str
    unit: str
    sample: Preview | None = None
    columns: tuple[DataColumn, ...] = ()
    target: str = ""
    task: str = ""


@dataclass(frozen=True)
class DataPreview:
    """`parts` has the number of examples in each, `classes` those of each class in each part, where there are
    classes. `notes` are sentences on what was found, left out or weighted; `warnings` on what was read differently from
    how it stands."""

    system: str
    source: str
    parts: Mapping[str, int]
    understood: Understood
    classes: Sequence[Mapping[str, Any]] = ()
    num_classes: int = 0
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def preview_data(name: str, options: Mapping[str, Any], *, seed: int = 0) -> DataPreview:
    """For these options, by their names in `neuropil show`; without `data` among them, of the embedded data."""
    recipe = recipes.recipe(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        plan = PlannedRun.of(recipe.verb, name, seed, options)
        with refused_memory():
            experiment = recipe.build(plan.typed, seed)
            require_startable(experiment, options)
            splits = _splits(plan.typed, experiment, seed)
    told = [str(each.message) for each in caught if issubclass(each.category, DataWarning)]
    if splits is None:
        raise InputError("data is shown of a system that learns from examples", got=f"{plan.name!r}")
    counts = {part: class_counts(each) for part, each in splits.parts.items()}
    classes = list(dict.fromkeys(label for each in counts.values() for label in each))
    return DataPreview(
        plan.name,
        source_of(splits),
        {part: len(each) for part, each in splits.parts.items()},
        understood(splits if isinstance(splits, Corpus | WordCorpus | SeriesSplits) else splits.train),
        [{"name": label, **{part: each[label] for part, each in counts.items()}} for label in classes[:MOST_CLASSES]],
        len(classes),
        list(getattr(experiment, "notes", splits.notes)),
        list(dict.fromkeys(told)),
    )


def _splits(options: Config, experiment: Experiment, seed: int) -> Splits[Any] | None:
    """Of a study, whose data is in what it computes, the same again."""
    for found in (getattr(experiment, "splits", None), getattr(experiment, "corpus", None)):
        if isinstance(found, Splits):
            return found
    config = getattr(options, "data", None)
    return prepare(config, seed) if isinstance(config, DataConfig) else None


def source_of(splits: Splits[Any]) -> str:
    if isinstance(splits, SeriesSplits):
        return splits.table.source
    return splits.source if isinstance(splits, Corpus | WordCorpus) else splits.train.source


# --- classes ----------------------------------------------------------------------------------------------------------


@singledispatch
def class_counts(part: object) -> Counter[str]:
    """Of data without classes, none."""
    return Counter()


@class_counts.register
def _(part: Examples) -> Counter[str]:
    schema = part.schema
    if schema.labels:
        return Counter(dict(zip(schema.labels, part.targets.sum(0).long().tolist(), strict=True)))
    numbers = part.targets.bincount(minlength=len(schema.classes)).tolist() if schema.classes else []
    return Counter(dict(zip(schema.classes, numbers, strict=True)))


@class_counts.register
def _(part: LabelledTexts) -> Counter[str]:
    return Counter(dict(zip(part.classes, part.targets.bincount(minlength=len(part.classes)).tolist(), strict=True)))


@class_counts.register
def _(part: TaggedTexts) -> Counter[str]:
    """Of the tags."""
    return Counter(tag for tags in part.tags for tag in tags)


# --- each kind of data ------------------------------------------------------------------------------------------------


@singledispatch
def understood(data: object) -> Understood:
    return Understood("data", "examples")


@understood.register
def _(train: Examples) -> Understood:
    few, schema = preview.spread(train), train.schema
    labels = [label_of(few, index) for index in range(len(few))] if schema.target or schema.classes else []
    if schema.kind == "image":
        sample = preview.pictures(few.inputs, captions=labels)
        return Understood("pictures", "examples", sample, target=schema.target, task=_task(schema))
    names = preview.feature_names(schema)[: preview.MOST_COLUMNS]
    values = restored(few.inputs, schema)[:, : preview.MOST_COLUMNS].tolist()
    rows = [[*row, *([label] if label else [])] for row, label in zip(values, labels or [""] * len(few), strict=True)]
    columns = tuple(
        DataColumn(each.name, each.kind, each.values[:MOST_VALUES], len(each.values), each.missing)
        for each in schema.columns[:MOST_COLUMNS]
    )
    sample = preview.pairs([*names, *([schema.target or "label"] if labels else [])], rows)
    return Understood("table", "examples", sample, columns, schema.target, _task(schema))


def _task(schema: Schema) -> str:
    return schema.task.replace("_", "-")


@understood.register
def _(train: LabelledTexts) -> Understood:
    few = range(min(preview.SHOWN, len(train)))
    order = torch.linspace(0, len(train) - 1, len(few)).round().long().tolist()
    rows = [[train.texts[index], train.classes[int(train.targets[index])]] for index in order]
    return Understood("labelled texts", "texts", preview.pairs(["text", "class"], rows), task="classification")


@understood.register
def _(train: TaggedTexts) -> Understood:
    between = " " if train.kind == "words" else ""
    texts = zip(train.tokens[: preview.SHOWN], train.tags, strict=False)
    rows = [[between.join(tokens), " ".join(tags)] for tokens, tags in texts]
    return Understood("tagged texts", "texts", preview.pairs(["text", "tags"], rows), task="tagging")


@understood.register
def _(train: Pairs) -> Understood:
    rows = [list(pair) for pair in zip(train.sources[: preview.SHOWN], train.targets, strict=False)]
    return Understood("pairs of texts", "pairs", preview.pairs(["source", "target"], rows), task="translation")


@understood.register
def _(train: CaptionedPictures) -> Understood:
    few = [captions[0] for captions in train.captions[: preview.SHOWN]]
    sample = preview.pictures(train.pictures[: preview.SHOWN], captions=few)
    return Understood("pictures with captions", "pictures", sample, task="captioning")


@understood.register
def _(train: Films) -> Understood:
    """The first frame of each."""
    first = train.begins[: preview.SHOWN]
    sample = preview.pictures(train.frames[first], captions=list(train.names[: preview.SHOWN]))
    return Understood("films", "films", sample, task="tracking")


@understood.register
def _(corpus: Corpus) -> Understood:
    parts = corpus.learned_texts[0], corpus.validation, corpus.test
    beginnings = [("", text[:SHOWN_CHARACTERS]) for text in parts if text]
    return Understood("text", "characters", preview.texts(beginnings), task="language modelling")


@understood.register
def _(corpus: WordCorpus) -> Understood:
    numbers, words = corpus.train.numbers[:SHOWN_CHARACTERS].tolist(), corpus.vocabulary.words
    text = " ".join("\n" if number == END else words[number] for number in numbers)
    return Understood("text", "words", preview.texts([("", text)]), task="word vectors")


@understood.register
def _(splits: SeriesSplits) -> Understood:
    table = splits.table
    columns = (DataColumn(table.target, "number"), *(DataColumn(name, "number") for name in table.known))
    shown = [
        {
            "name": each.name,
            "history": preview.numbers(torch.tensor(each.values[-preview.MOST_POINTS :])),
            "forecast": [],
        }
        for each in table.series[: preview.SHOWN]
    ]
    return Understood("series", "windows", preview.curves(shown), columns, table.target, "forecasting")
