"""A memory of patterns and the schema of its data: from damaged pictures or rows to those that are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import read_inputs
from neuropil.models.hopfield.network import HopfieldNetwork
from neuropil.randomness import seeded
from neuropil.tasks.generated_examples import GeneratedExamples, as_data
from neuropil.tasks.predictor import as_examples


@dataclass(frozen=True)
class PatternMemory:
    """Signs are those of values above or below a threshold, which is half of a picture's range or a feature's mean."""

    model: HopfieldNetwork
    schema: Schema
    threshold: tuple[float, ...]

    @classmethod
    def restore(cls, model: HopfieldNetwork, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, Schema.from_dict(facts["schema"]), tuple(facts["threshold"]))

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return read_inputs(paths, self.schema)

    def recall(self, inputs: Any) -> GeneratedExamples:
        """`inputs` are examples like the stored ones, in a tensor or array, or a path or paths of files."""
        examples = as_examples(inputs, self.schema)
        states = self.model.recall(self.signs(examples), generator=seeded("recall")).states
        return GeneratedExamples(self.pictures(states), self.schema, originals=examples)

    def signs(self, examples: Tensor) -> Float[Tensor, "example unit"]:
        return torch.where(examples.flatten(1).float() > torch.tensor(self.threshold), 1.0, -1.0)

    def pictures(self, states: Float[Tensor, "example unit"]) -> Tensor:
        """Black and white; 0, which is not known, is grey."""
        shaped = states.cpu().unflatten(1, self.schema.shape)
        return as_data(127.5 * (shaped + 1), self.schema) if self.schema.kind == "image" else shaped
