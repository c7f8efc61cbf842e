"""Where a classifier is wrong: how often each class is taken for which, and the examples of which it was most sure."""

from collections.abc import Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from neuropil.errors import InputError
from neuropil.inspection.report.page import Table, percent

Labels: TypeAlias = Int[Tensor, " example"]


def worst_mistakes(probabilities: Float[Tensor, "example class"], targets: Labels, k: int) -> Int[Tensor, " mistake"]:
    """The at most `k` wrong predictions of which the model was most sure, the surest first."""
    confidence, predicted = probabilities.max(dim=1)
    wrong = (predicted != targets).nonzero().squeeze(1)
    surest_first = confidence[wrong].argsort(descending=True, stable=True)
    return wrong[surest_first][:k]


def confusion_counts(predicted: Labels, actual: Labels, num_classes: int) -> Int[Tensor, "actual predicted"]:
    """Entry (i, j) counts the examples of class i that were taken for class j."""
    for labels in (predicted, actual):
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
            got = f"numbers from {int(labels.min())} to {int(labels.max())}"
            raise InputError(f"class numbers must lie from 0 to {num_classes - 1}", got=got)
    cells = actual.long() * num_classes + predicted.long()
    return cells.bincount(minlength=num_classes**2).reshape(num_classes, num_classes)


def per_class_table(counts: Int[Tensor, "actual predicted"], classes: Sequence[str]) -> Table:
    """Recall, precision and F1 of each class, and what is most often predicted instead."""
    hits = counts.diagonal().double()
    recall = hits / counts.sum(dim=1)
    precision = hits / counts.sum(dim=0)
    f1 = 2 * hits / (counts.sum(dim=0) + counts.sum(dim=1))
    scores = torch.stack([recall, precision, f1], 1)
    rows = [
        [name, int(row.sum()), *map(_percent, scores[index]), _most_confused(row, index, classes)]
        for index, (name, row) in enumerate(zip(classes, counts, strict=True))
    ]
    return Table(["class", "examples", "recall", "precision", "F1", "most often predicted instead"], rows)


def confused_pairs(counts: Int[Tensor, "actual predicted"], classes: Sequence[str], k: int) -> Table:
    """The at most `k` commonest confusions: for many classes more legible than the matrix."""
    mistakes = counts - torch.diag(counts.diagonal())
    order = mistakes.flatten().argsort(descending=True, stable=True)[:k]
    pairs = [divmod(int(cell), len(classes)) for cell in order if mistakes.flatten()[cell] > 0]
    rows = [[classes[i], classes[j], int(counts[i, j]), _percent(counts[i, j] / counts[i].sum())] for i, j in pairs]
    return Table(["actual", "predicted", "times", "of the class"], rows)


def _percent(share: Tensor) -> str:
    """A class without examples has no recall, and one never predicted no precision."""
    return "–" if share.isnan() else percent(share.item())


def _most_confused(row: Int[Tensor, " predicted"], index: int, classes: Sequence[str]) -> str:
    others = row.clone()
    others[index] = 0
    times = int(others.max())
    return f"{classes[int(others.argmax())]} ({times}×)" if times else "–"
