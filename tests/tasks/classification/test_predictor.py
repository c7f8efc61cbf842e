from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from data.written_files import write_text
from neuropil.data.examples.dataset import Column, Schema
from neuropil.parts.standardize import Standardize
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.predictor import Predictions


class SumOfFeatures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.target_scale = Standardize((1,))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x.sum(1, keepdim=True)


SCHEMA = Schema(
    kind="table",
    shape=(2,),
    classes=(),
    columns=(Column(name="time", kind="number"), Column(name="x", kind="number")),
    target="y",
    imputed=(1.6e9 + 7, 3.0),
    offsets=(1.6e9, 0.0),
    target_offset=2e9,
)


def test_values_are_predicted_in_the_units_of_the_targets():
    """Offsets are subtracted from what goes in and added to what comes out."""
    predictor = ExamplePredictor(SumOfFeatures(), SCHEMA)
    rows = np.array([[1.6e9 + 1, 1], [1.6e9 + 5, 2], [np.nan, np.nan]])
    predictions = predictor.predict(rows)
    assert isinstance(predictions, Predictions)
    assert predictions.values.tolist() == [2e9 + 2, 2e9 + 7, 2e9 + 10]


def test_a_file_is_scored_in_the_units_of_the_targets(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,time,y", "1,1600000001,2000000002", "2,1600000005,2000000009")
    predictor = ExamplePredictor(SumOfFeatures(), SCHEMA)
    found = predictor.evaluate(predictor.read_labelled([path]))
    assert found == pytest.approx({"loss": 1.0, "squared_error": 2.0, "absolute_error": 1.0, "r2": 1 - 4 / 24.5})


def test_a_file_of_unequal_classes_has_more_scores_than_accuracy(tmp_path: Path):
    class Probable(SumOfFeatures):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([torch.zeros_like(x), self.weight * x], 1)

    schema = Schema(
        kind="table", shape=(1,), classes=("no", "yes"), columns=(Column(name="x", kind="number"),), target="y"
    )
    path = write_text(tmp_path / "a.csv", "x,y", "1,yes", "-1,no", "-2,no", "3,no")
    predictor = ExamplePredictor(Probable(), schema)
    found = predictor.evaluate(predictor.read_labelled([path]))
    assert found.pop("loss") > 0
    assert found == pytest.approx({"accuracy": 3 / 4, "balanced_accuracy": 5 / 6, "auc": 2 / 3, "macro_f1": 0.7333333})
