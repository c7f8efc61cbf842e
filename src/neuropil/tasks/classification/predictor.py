"""A trained classifier or regressor and the schema of its data: from pictures or rows to classes or numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples, Schema, recorded_schema
from neuropil.data.examples.files import read_inputs, read_labelled
from neuropil.data.formats.picture_files import PictureFiles
from neuropil.tasks.attack import Attacker
from neuropil.tasks.classification.scores import final_scores, scorer_for
from neuropil.tasks.classification.threats import FeatureUnits
from neuropil.tasks.predictor import LabelPredictions, Predictions, Source, as_examples, device_of, only_source
from neuropil.training.evaluation import evaluate

EVALUATION_BATCH = 512
UNITS = "feature_units"
"""Their name among the facts of a run."""


@dataclass(frozen=True)
class ExamplePredictor:
    """`units` are those of the columns of a table, in which attacks are measured."""

    model: nn.Module
    schema: Schema
    units: FeatureUnits | None = None

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, recorded_schema(facts, folder), recorded_units(facts))

    def predict(self, inputs: Any) -> Predictions | LabelPredictions:
        """`inputs` is a tensor or array of examples (or of one), or a path or paths of files."""
        return self.predict_examples(as_examples(inputs, self.schema))

    def predict_examples(self, examples: Tensor | PictureFiles) -> Predictions | LabelPredictions:
        """For inputs as `Examples` have them."""
        device = device_of(self.model)
        with torch.no_grad():
            outputs = torch.cat([self.model(part.to(device)).cpu() for part in examples.split(EVALUATION_BATCH)])
        if self.schema.classes:
            return Predictions(outputs.softmax(-1), self.schema.classes)
        if self.schema.labels:
            return LabelPredictions(outputs.sigmoid(), self.schema.labels)
        return Predictions(self.schema.target_offset + outputs.double(), ())

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return read_inputs(paths, self.schema)

    def read_labelled(self, source: Source) -> Examples:
        return read_labelled(only_source(source, "labelled data is"), self.schema)

    def evaluate(self, examples: Examples) -> dict[str, float]:
        measured = evaluate(scorer_for(self.model, self.schema), in_order(examples, device_of(self.model)))
        return measured | final_scores(self.predict_examples(examples.inputs).scores, examples)

    @property
    def attacker(self) -> Attacker:
        from neuropil.tasks.classification.attack import ExampleAttacker  # which imports this module

        return ExampleAttacker(self)


def recorded_units(facts: Mapping[str, Any]) -> FeatureUnits | None:
    """Of a run; of pictures there are none, and none were recorded of runs from before they were."""
    return FeatureUnits.from_dict(facts[UNITS]) if UNITS in facts else None


def in_order(examples: Examples, device: torch.device | str = "cpu") -> ExampleBatches:
    """For evaluation."""
    return ExampleBatches(examples, EVALUATION_BATCH, seed=0, shuffle=False, device=device)
