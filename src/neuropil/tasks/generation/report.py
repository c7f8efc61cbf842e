"""What a report shows of a generative model: samples, the training examples nearest to them, and their classes."""

from collections.abc import Mapping, Sequence

from jaxtyping import Int64
from torch import Tensor

from neuropil.data.examples.dataset import Schema
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Gallery, Section, Table, Text, Thumbnail
from neuropil.metrics import find_metric
from neuropil.tasks.generation.scores import NEIGHBOURS, names_of_missing

SHOWN, NEAREST = 40, 12
FEW = 200
"""Test examples: with fewer a manifold has few balls, and a covariance more numbers than it is made of."""


def samples_section(samples: Tensor, schema: Schema, labels: Int64[Tensor, " sample"] | None) -> Section:
    """Where classes were asked for, in their order."""
    if schema.kind != "image":
        return Section("Samples", [Table([f"feature {n}" for n in range(schema.shape[0])], samples[:SHOWN].tolist())])
    shown = range(min(SHOWN, len(samples)))
    chosen = shown if labels is None else [place * len(samples) // len(shown) for place in shown]
    captions = ["" if labels is None else schema.classes[int(labels[index])] for index in chosen]
    items = [Thumbnail(pixels(samples[index]), caption) for index, caption in zip(chosen, captions, strict=True)]
    words = f"{len(items)} of {len(samples):,} samples, not chosen by anybody."
    asked = " The class that was asked for stands below each." if labels is not None else ""
    return Section("Samples", [Text(words + asked), Gallery(items)])


def nearest_section(samples: Tensor, neighbours: Tensor, schema: Schema) -> Section:
    """Pairs of a sample and the training example nearest to it in pixels."""
    words = "Each sample is followed by the training example nearest to it: a model that copies would show pairs."
    if schema.kind != "image":
        pairs = zip(samples.tolist(), neighbours.tolist(), strict=False)
        rows = [[str([round(v, 3) for v in values]) for values in pair] for pair in pairs]
        return Section("Nearest training examples", [Text(words), Table(["sample", "nearest"], rows[:NEAREST])])
    pairs = zip(samples, neighbours, strict=False)
    shown = [
        Thumbnail(pixels(image), caption)
        for pair in pairs
        for image, caption in zip(pair, ("sample", "nearest"), strict=True)
    ]
    return Section("Nearest training examples", [Text(words), Gallery(shown)])


def classes_section(
    generated: Int64[Tensor, " sample"], real: Int64[Tensor, " example"], classes: Sequence[str]
) -> Section:
    counts = [each.bincount(minlength=len(classes)).tolist() for each in (generated, real)]
    rows = [[name, *numbers] for name, *numbers in zip(classes, *counts, strict=True)]
    missing = names_of_missing(generated, classes)
    words = "Classes of the samples, as the classifier sees them, and of as many test examples."
    if missing:
        words += f" No sample is of {'the class' if len(missing) == 1 else 'the classes'} {', '.join(missing)}."
    return Section("Classes", [Text(words), Table(["class", "samples", "real examples"], rows)])


def scoring_section(about: str, count: int, scores: Mapping[str, Mapping[str, float]] | None = None) -> Section:
    """With a table of `scores` by name, where they are not those that the run itself ends with."""
    words = (
        f"{count:,} samples are compared in the features of {about}. The Fréchet distance is that between Gaussians "
        "fitted to the features of samples and of training examples. Precision is the share of samples within the "
        "manifold of the test examples, recall the share of test examples within that of the samples; a manifold is "
        f"made of balls around its examples that reach to neighbour {NEIGHBOURS}. Memorised are samples that are "
        "nearer to a training example than 99 % of the test examples are. Real examples that were held out have the "
        "scores of the last line: as good as the data would be about as good as these."
    )
    if count < FEW:
        words += f" From {count} test examples all of this is rough."
    return Section("How samples are scored", [Text(words), *([_score_table(scores)] if scores else [])])


def _score_table(scores: Mapping[str, Mapping[str, float]]) -> Table:
    """With the metrics of the first, of which others may lack some."""
    metrics = [find_metric(name) for name in next(iter(scores.values()))]
    rows = [
        [name, *(metric.text(found[metric.name]) if metric.name in found else "" for metric in metrics)]
        for name, found in scores.items()
    ]
    return Table(["", *(metric.title for metric in metrics)], rows)
