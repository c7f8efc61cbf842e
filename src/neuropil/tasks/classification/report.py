"""What a report shows of a classifier or a regressor: where it errs, what is inside it, what it learned from."""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.inspection import mistakes
from neuropil.inspection.pictures.predictions import label_probabilities, predicted_against_actual
from neuropil.inspection.pictures.weights import weight_grid
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail, percent
from neuropil.tasks import report
from neuropil.tasks.classification.scores import ABOVE, area_under_curve, label_counts
from neuropil.tasks.report import confusion_blocks, surest

WORST = 12
SHOWN = 12
MOST_FEATURES = 40
MOST_LABELS, MOST_DOTS = 20, 500
"""That are drawn: the commonest labels, and examples."""


def mistakes_section(test: Examples, scores: Float[Tensor, "example output"]) -> Section:
    classes = test.schema.classes
    if test.schema.labels:
        return _labels_section(test, scores)
    if not classes:
        actual = test.schema.target_offset + test.targets[:, 0].double()
        figure = predicted_against_actual(scores[:, 0].numpy(), actual.numpy())
        alt = "predicted against actual values of the test part, and the residuals"
        return Section("Errors", [Picture.of(figure, alt=alt)])
    blocks = confusion_blocks(mistakes.confusion_counts(scores.argmax(-1), test.targets, len(classes)), classes)
    worst = mistakes.worst_mistakes(scores, test.targets, WORST).tolist()
    if not worst:
        blocks.append(Text("No mistake was made on the test part."))
    elif test.schema.kind == "image":
        shown = [
            Thumbnail(pixels(test.inputs[index]), label_of(test, index), f"said {surest(scores[index], classes)}")
            for index in worst
        ]
        blocks += [Text("The most confident mistakes:"), Gallery(shown)]
    return Section("Errors", blocks)


def _labels_section(test: Examples, scores: Float[Tensor, "example label"]) -> Section:
    names, targets = test.schema.labels, test.targets > ABOVE
    counts, wrong = label_counts(scores, targets), (scores > ABOVE) != targets
    columns = range(len(names))
    areas = {
        column: area_under_curve(scores[:, column], targets[:, column])
        for column in columns
        if 0 < int(targets[:, column].sum()) < len(test)
    }
    rows = [
        [
            names[column],
            int(counts.actual[column]),
            int(counts.predicted[column]),
            _share(counts.hits[column], counts.predicted[column]),
            _share(counts.hits[column], counts.actual[column]),
            _share(2 * counts.hits[column], counts.actual[column] + counts.predicted[column]),
            f"{areas[column]:.3f}" if column in areas else "–",
        ]
        for column in columns
    ]
    all_right = int((~wrong.any(1)).sum())
    words = (
        f"A label is predicted where its probability is above ½. All labels are right for {all_right:,} of "
        f"{len(test):,} examples; {int(wrong.sum()):,} of {wrong.numel():,} labels are wrong. An example has "
        f"{float(targets.double().sum(1).mean()):.2f} labels on average, and gets "
        f"{float((scores > ABOVE).double().sum(1).mean()):.2f}."
    )
    header = ["label", "examples", "predicted", "precision", "recall", "F1", "AUC"]
    blocks: list[Block] = [Text(words), Table(header, rows)]
    shown = counts.actual.argsort(descending=True, stable=True)[:MOST_LABELS].sort().values
    few = torch.arange(0, len(test), max(1, len(test) // MOST_DOTS))
    figure = label_probabilities(scores[few][:, shown], targets[few][:, shown], [names[index] for index in shown])
    blocks.append(Picture.of(figure, alt="probability of each label in examples with and without it"))
    worst = [index for index in wrong.sum(1).argsort(descending=True, stable=True).tolist() if wrong[index].any()]
    if test.schema.kind == "image" and worst:
        said = [", ".join(name for name, on in zip(names, row, strict=True) if on) for row in (scores > ABOVE).tolist()]
        items = [
            Thumbnail(pixels(test.inputs[index]), label_of(test, index), f"said {said[index] or 'none'}")
            for index in worst[:WORST]
        ]
        blocks += [Text("The examples with the most wrong labels:"), Gallery(items)]
    return Section("Errors", blocks)


def _share(part: Tensor, whole: Tensor) -> str:
    return percent(float(part / whole)) if whole > 0 else "–"


def inside_section(model: nn.Module, schema: Schema) -> Section:
    """The weights that touch the input: drawn as pictures, or as a table of features."""
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear))
    weight = first.weight.detach().cpu()
    if isinstance(first, nn.Conv2d):
        images, what = weight.mean(1), "a kernel of the first convolution"
    elif schema.kind == "image":
        axes = dict(zip(("channel", "height", "width"), schema.shape, strict=True))
        images = rearrange(weight, "unit (channel height width) -> unit channel height width", **axes).mean(1)
        what = "the weights of one unit of the first layer"
    else:
        strength = zip(_feature_names(schema), weight.abs().mean(0).tolist(), strict=True)
        rows = sorted(([name, value] for name, value in strength), key=lambda row: -float(row[1]))
        return Section("First weights", [Table(["feature", "mean |weight| in the first layer"], rows[:MOST_FEATURES])])
    figure = Picture.of(weight_grid(images[:48].numpy()), alt=what)
    return Section("First weights", [Text(f"Each square is {what}: blue is negative, red positive."), figure])


def data_section(parts: Mapping[str, Examples], augment: Augment | None, notes: Sequence[str]) -> Section:
    train, shown = parts["train"], list[Block]()
    if train.schema.kind == "image":
        some = [Thumbnail(pixels(train.inputs[index]), label_of(train, index)) for index in _of_all_classes(train)]
        shown.append(Gallery(some))
    rows = [[name, len(part)] for name, part in parts.items()]
    return report.data_section(train.source, ["part", "examples"], rows, notes, augment=augment, shown=shown)


def _of_all_classes(examples: Examples) -> list[int]:
    """A few examples: the first of each class, then the second, and so on; files often come one class after the
    other."""
    classes = range(max(1, len(examples.schema.classes)))
    targets = examples.targets if examples.schema.classes else torch.zeros(len(examples))
    firsts = [(targets == number).nonzero().flatten()[:SHOWN].tolist() for number in classes]
    mixed = chain.from_iterable(zip_longest(*firsts))
    return [index for index in mixed if index is not None][:SHOWN]


def label_of(examples: Examples, index: int) -> str:
    target, classes = examples.targets[index], examples.schema.classes
    if examples.schema.labels:
        has = (name for name, on in zip(examples.schema.labels, (target > ABOVE).tolist(), strict=True) if on)
        return ", ".join(has) or "none"
    return classes[int(target)] if classes else f"{examples.schema.target_offset + float(target):g}"


def _feature_names(schema: Schema) -> list[str]:
    names = [name for column in schema.columns for name in column.features]
    return names or [f"feature {index}" for index in range(schema.shape[0])]
