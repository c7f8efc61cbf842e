"""Sections that the reports of all tasks have in common, made from plain data."""

from collections import defaultdict
from collections.abc import Sequence

from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.config import Config
from neuropil.inspection import mistakes
from neuropil.inspection.pictures.predictions import confusion_matrix
from neuropil.inspection.pictures.training import learning_curve
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.inspection.summary import parameter_table
from neuropil.metrics import Metric, find_metric
from neuropil.parts.parameters import ParameterRow, count_parameters
from neuropil.training.config import TrainingConfig
from neuropil.training.history import Row

MOST_IN_MATRIX = 40
"""With more classes the cells of a confusion matrix become too small for numbers, and the commonest confusions are
listed too."""
MOST_CONFUSED = 12


def learning_section(history: Sequence[Row], training: TrainingConfig) -> Section:
    curve = Picture.of(learning_curve(history), alt="loss and metrics against training steps")
    seconds = max((row["seconds"] for row in history), default=0.0)
    words = f"Training took {seconds:,.1f} seconds."
    validations = [row for row in history if row["kind"] == "validation"]
    if validations:
        metric = find_metric(training.monitor)
        if training.patience is not None and _since_best(validations, metric) >= training.patience:
            words += f" It stopped early, at epoch {validations[-1]['epoch']:g}: {training.patience} validations in a "
            words += f"row did not improve the {metric.title}."
        kept = f"with the best validation {metric.title}" if training.keeps_best else "of the last step"
        words += f" The weights {kept} are kept; the ring marks the lowest validation loss."
    return Section("Training", [Text(words), curve])


def _since_best(validations: Sequence[Row], metric: Metric) -> int:
    best, since = None, 0
    for row in validations:
        since += 1
        if metric.improves(row[metric.name], best):
            best, since = row[metric.name], 0
    return since


def model_section(rows: Sequence[ParameterRow], model: nn.Module) -> Section:
    counted, formula = count_parameters(model), sum(row.count for row in rows)
    agrees = "by formula and in the model itself" if counted == formula else f"and by formula {formula:,}"
    words = f"The model has {counted:,} parameters, counted {agrees}."
    return Section("Parameters", [Text(words), parameter_table(model, rows)])


def data_section(
    source: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str | float]],
    notes: Sequence[str] = (),
    *,
    augment: Config | None = None,
    shown: Sequence[Block] = (),
) -> Section:
    """Where the data is from, how much of it each part has, some of it, how it is augmented, and what is odd about
    it."""
    changes = ", ".join(f"{name} {value:g}" for name, value in augment.to_dict().items() if value) if augment else ""
    random = [Text(f"Augmentation of the training images, new in each epoch: {changes}.")] if changes else []
    return Section("Data", [Text(f"{source}."), Table(list(header), rows), *shown, *random, *map(Text, notes)])


def confusion_blocks(counts: Int64[Tensor, "truth prediction"], classes: Sequence[str]) -> list[Block]:
    """The confusion matrix, and precision and recall of each class."""
    matrix = Picture.of(confusion_matrix(counts, classes), alt="confusion matrix of the test part")
    pairs = [mistakes.confused_pairs(counts, classes, MOST_CONFUSED)] if len(classes) > MOST_IN_MATRIX else []
    return [matrix, *pairs, mistakes.per_class_table(counts, classes)]


def group_table(groups: Sequence[str], right: Sequence[bool], header: Sequence[str]) -> Table:
    """The share of right answers in each group of the test part."""
    of_group: dict[str, list[bool]] = defaultdict(list)
    for group, each in zip(groups, right, strict=True):
        of_group[group].append(each)
    rows = [[group, len(each), f"{100 * sum(each) / len(each):.1f} %"] for group, each in of_group.items()]
    return Table(["", *header], rows)


def spread(items: Sequence[int], count: int) -> list[int]:
    """Some of the items, evenly spaced."""
    step = max(1, len(items) // count)
    return list(items[::step])[:count]


def surest(scores: Float[Tensor, " class"], classes: Sequence[str]) -> str:
    """The predicted class with its probability."""
    share, best = scores.max(-1)
    return f"{classes[int(best)]} ({100 * float(share):.0f} %)"
