"""What an attacker may do to the examples of a data set: the threat model in their own units.

ε of pictures counts from 0 (black) to 1 (white), as in the literature; the models take bytes, so it is times 255. That
of a table counts in standard deviations of each column of the training part, within the range of its values.
Categories, parts of dates and marks of missing cells are not numbers that change a little, and stay.
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from neuropil.adversarial.threat_model import Norm, ThreatModel
from neuropil.config import Config
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.errors import InputError

WHITE = 255.0


class FeatureUnits(Config):
    """Of the features of a table, in its training part."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    deviation: tuple[float, ...]
    """The standard deviation of each, which ε counts in; 0 of what may not change."""


def feature_units(train: Examples) -> FeatureUnits | None:
    """Those of pictures are known without looking."""
    if train.schema.kind == "image":
        return None
    # A part of few rows may hold a column of one value: it has no unit, and stays.
    deviation = torch.where(numeric_features(train.schema), train.inputs.double().std(0, correction=0), 0.0)
    found = train.inputs.amin(0), train.inputs.amax(0), deviation.float()
    low, high, deviation = (tuple(each.tolist()) for each in found)
    return FeatureUnits(low=low, high=high, deviation=deviation)


def threat_model(
    examples: Examples, units: FeatureUnits | None, norm: Norm, eps: float, target: int | None = None
) -> ThreatModel:
    """For examples like these, within the range of the training part."""
    schema = examples.schema
    require_classes(schema, examples.source)
    if schema.kind == "image":
        if norm == "linf" and eps > 1:
            raise InputError("ε of pictures counts from 0 to 1", got=f"{eps:g}", fix="divide shades by 255")
        return ThreatModel(norm, unit_size(schema) * eps, 0.0, WHITE, target)
    if units is None:
        rule, fix = "an attack on rows needs the ranges of their columns in training", "train again"
        raise InputError(rule, got="a run from before they were recorded", fix=fix)
    low, high, scale = (torch.tensor(each) for each in (units.low, units.high, units.deviation))
    if not scale.any():
        rule = "an attack changes numbers"
        raise InputError(rule, got=f"{examples.source}, which has none that vary", fix="attack a model of other data")
    return ThreatModel(norm, eps, low, high, target, scale)


def unit_of(schema: Schema) -> str:
    """Of ε, in words."""
    return "pixels from 0 to 1" if schema.kind == "image" else "standard deviations of each column"


def unit_size(schema: Schema) -> float:
    """How much ε = 1 is, in units of a model's inputs (and of `scale`)."""
    return WHITE if schema.kind == "image" else 1.0


def numeric_features(schema: Schema) -> Bool[Tensor, " feature"]:
    """Which features hold the value of a number; all, where columns are not known."""
    found = [
        column.kind == "number" and index < len(column.value_features)
        for column in schema.columns
        for index in range(len(column.features))
    ]
    return torch.tensor(found or [True] * schema.shape[0])


def require_classes(schema: Schema, source: str) -> None:
    if not schema.classes:
        rule = "an attack changes which class is predicted"
        targets = "several labels" if schema.labels else "numbers"
        raise InputError(rule, got=f"{source}, whose targets are {targets}", fix="attack a model of classes")
