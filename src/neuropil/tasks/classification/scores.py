"""How classifiers and regressors are scored, and the baselines that they must beat: the simplest things that learn from
the same examples.

    balanced accuracy   mean recall of the classes                  where the classes of what is scored are unequal
    macro F1            mean of 2 TP / (2 TP + FP + FN)             where they are unequal
    AUC                 P(score of a member > that of another)      the mean over the classes, each against the rest
    R²                  1 − Σ (y − t)² / Σ (t − mean t)²

Where an example may have several labels, a label is predicted if its probability is above ½:

    micro F1            2 TP / (2 TP + FP + FN)                     over all labels of all examples
    macro F1            the mean of the labels' own F1              of labels that occur or are predicted
    exact match         share of examples with all labels right     also called subset accuracy
    Hamming loss        share of wrong labels                       among all labels of all examples
    AUC                 the mean over the labels                    that some examples have and others do not
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.data.examples.dataset import FEW, Examples, Schema
from neuropil.data.formats.picture_files import PictureFiles
from neuropil.data.splits import Splits
from neuropil.data.weights import relative
from neuropil.parts.objectives import Classification, MultiLabel, Regression
from neuropil.parts.standardize import Standardize
from neuropil.randomness import seeded
from neuropil.tasks.experiment import Result
from neuropil.tasks.logistic_regression import LogisticRegression

LARGEST = 10_000
ABOVE = 0.5
"""The probability above which a label is predicted."""
UNEQUAL = 1.5
"""Times as many examples in the largest class as in the smallest: then accuracy alone says too little."""


@runtime_checkable
class ScaledModel(Protocol):
    """What a model must have to learn numbers: the mean and standard deviation of its targets, fitted before
    training."""

    target_scale: Standardize


def scorer_for(
    model: nn.Module, schema: Schema, label_smoothing: float = 0.0, l1: float = 0.0
) -> Classification | MultiLabel | Regression:
    """The learner whose metrics are reported, whatever the learning rule; it trains most models too."""
    if schema.task == "classification":
        return Classification(model, label_smoothing, l1)
    if schema.task == "multi_label":
        return MultiLabel(model, label_smoothing, l1)
    return Regression(model, l1, scale=cast(ScaledModel, model).target_scale.std)


def final_scores(predicted: Float[Tensor, "example output"], examples: Examples) -> dict[str, float]:
    """Of probabilities of the classes or labels, or of values in the targets' units."""
    if examples.schema.classes:
        return class_scores(predicted, examples.targets)
    if examples.schema.labels:
        return label_scores(predicted, examples.targets > ABOVE)
    return value_scores(predicted.double() - examples.schema.target_offset, examples.targets.double())


def class_scores(probabilities: Float[Tensor, "example class"], targets: Int64[Tensor, " example"]) -> dict[str, float]:
    right = probabilities.argmax(-1) == targets
    found = {"accuracy": right.double().mean().item()}
    present = targets.unique()
    sizes = targets.bincount(minlength=probabilities.shape[1])
    if len(present) < 2 or int(sizes.max()) < UNEQUAL * int(sizes[present].min()):
        return found
    hits = targets[right].bincount(minlength=len(sizes)).double()
    guesses = probabilities.argmax(-1).bincount(minlength=len(sizes))
    f1 = 2 * hits / (sizes + guesses)
    scored = present if len(sizes) > 2 else present[1:]  # of two classes, one against the other
    areas = [area_under_curve(probabilities[:, name], targets == name) for name in scored]
    return found | {
        "balanced_accuracy": (hits / sizes)[present].mean().item(),
        "auc": sum(areas) / len(areas),
        "macro_f1": f1[sizes + guesses > 0].mean().item(),
    }


class LabelCounts(NamedTuple):
    """Of each label: hits, examples that have it, and for how many it is predicted."""

    hits: Float[Tensor, " label"]
    actual: Float[Tensor, " label"]
    predicted: Float[Tensor, " label"]

    @property
    def f1(self) -> Float[Tensor, " label"]:
        """NaN, where a label neither occurs nor is predicted."""
        # 2 TP / (2 TP + FP + FN)
        return 2 * self.hits / (self.actual + self.predicted)


def label_counts(probabilities: Float[Tensor, "example label"], targets: Bool[Tensor, "example label"]) -> LabelCounts:
    predicted = probabilities > ABOVE
    return LabelCounts(*((each.double().sum(0)) for each in (predicted & targets, targets, predicted)))


def label_scores(
    probabilities: Float[Tensor, "example label"], targets: Bool[Tensor, "example label"]
) -> dict[str, float]:
    counts, wrong = label_counts(probabilities, targets), (probabilities > ABOVE) != targets
    total = LabelCounts(*(each.sum(0, keepdim=True) for each in counts))
    found = {
        "micro_f1": total.f1.nan_to_num(0.0).item(),
        "macro_f1": counts.f1.nanmean().nan_to_num(0.0).item(),
        "exact_match": (~wrong.any(1)).double().mean().item(),
        "hamming_loss": wrong.double().mean().item(),
    }
    mixed = [column for column in range(targets.shape[1]) if 0 < int(targets[:, column].sum()) < len(targets)]
    areas = [area_under_curve(probabilities[:, column], targets[:, column]) for column in mixed]
    return found | {"auc": sum(areas) / len(areas)} if areas else found


def area_under_curve(scores: Float[Tensor, " example"], member: Bool[Tensor, " example"]) -> float:
    """By ranks, those of equal scores shared (Mann and Whitney 1947)."""
    _, place, counts = scores.unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - (counts - 1) / 2).double()[place]
    members, others = int(member.sum()), int((~member).sum())
    return (ranks[member].sum().item() - members * (members + 1) / 2) / (members * others)


def value_scores(predicted: Float[Tensor, "example 1"], targets: Float[Tensor, "example 1"]) -> dict[str, float]:
    difference = (predicted - targets).double()
    found = {"squared_error": difference.square().mean().item(), "absolute_error": difference.abs().mean().item()}
    variance = targets.double().var(correction=0).item()
    return found | {"r2": 1 - found["squared_error"] / variance} if variance else found


def baselines(splits: Splits) -> list[Result]:
    """On the test part; large training parts are cut, and the name says so. Where examples are weighted, the baselines
    learn with the same weights."""
    train, test, note = splits.train, splits.test, ""
    if len(train) > LARGEST:
        train = train.take(torch.randperm(len(train), generator=seeded("baseline"))[:LARGEST])
        note = f" (on {LARGEST:,} examples)"
    note += ", weighted alike" if train.weights is not None else ""
    learn = {"classification": _classifiers, "multi_label": _label_classifiers, "regression": _regressors}
    return learn[train.schema.task](train, test, note)


def _rows(inputs: Tensor | PictureFiles) -> Num[Tensor, "example feature"]:
    return inputs[:].flatten(1)


def _predicted(predict: Callable[[Tensor], Tensor], test: Examples) -> Tensor:
    """Pictures that are in files are read some at a time."""
    if isinstance(test.inputs, Tensor):
        return predict(_rows(test.inputs))
    return torch.cat([predict(_rows(part)) for part in test.inputs.split(FEW)])


def _classifiers(train: Examples, test: Examples, note: str) -> list[Result]:
    logistic = LogisticRegression.fit(_rows(train.inputs), train.targets, relative(train.weights))
    probabilities = torch.zeros(len(test), len(train.schema.classes), dtype=torch.double)
    probabilities[:, logistic.classes] = _predicted(logistic.probabilities, test)
    most_frequent = F.one_hot(train.targets.mode().values, len(train.schema.classes)).expand(len(test), -1)
    return [
        Result(f"logistic regression{note}", class_scores(probabilities, test.targets)),
        Result("always the most frequent class", class_scores(most_frequent.double(), test.targets)),
    ]


def _label_classifiers(train: Examples, test: Examples, note: str) -> list[Result]:
    """One against the rest: a logistic regression for each label, and the share of examples that have it."""
    x, x_test, weights = _rows(train.inputs), _rows(test.inputs), relative(train.weights)
    has, targets = train.targets > ABOVE, test.targets > ABOVE
    shares = has.double().mean(0).expand(len(test), -1)
    probabilities = shares.clone()
    for column in range(has.shape[1]):
        if 0 < int(has[:, column].sum()) < len(train):  # else all that was seen is one answer
            logistic = LogisticRegression.fit(x, has[:, column].long(), weights)
            probabilities[:, column] = logistic.probabilities(x_test)[:, 1]
    return [
        Result(f"one-vs-rest logistic regression{note}", label_scores(probabilities, targets)),
        Result("always the labels of most examples", label_scores(shares, targets)),
    ]


def _regressors(train: Examples, test: Examples, note: str) -> list[Result]:
    linear = least_squares(_rows(train.inputs), train.targets, relative(train.weights))
    predicted = _predicted(linear, test).to(test.targets)
    return [
        Result(f"linear regression{note}", value_scores(predicted, test.targets)),
        Result("always the mean", value_scores(train.targets.mean().expand_as(test.targets), test.targets)),
    ]


def least_squares(
    x: Num[Tensor, "example feature"],
    targets: Float[Tensor, "example output"],
    weights: Float[np.ndarray, " example"] | None = None,
) -> Callable[[Tensor], Tensor]:
    """The affine function of least Σ α (y − t)², and among several such the one with the smallest weights."""
    alpha = torch.ones(len(x)) if weights is None else torch.from_numpy(weights)
    share, x, targets = (alpha.double() / alpha.double().sum())[:, None], x.double(), targets.double()
    mean, constant = (share * x).sum(0), (share * targets).sum(0)
    centred = share.sqrt() * (x - mean), share.sqrt() * (targets - constant)
    weight = torch.linalg.lstsq(*centred, driver="gelsd").solution
    return lambda x: (x.double() - mean) @ weight + constant
