"""A memory of patterns and the schema of its data: from damaged pictures or rows to those that are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.examples.dataset import Schema, recorded_schema
from neuropil.data.examples.files import read_inputs
from neuropil.models.hopfield.network import HopfieldNetwork
from neuropil.randomness import seeded
from neuropil.tasks.generated_examples import GeneratedExamples, as_data
from neuropil.tasks.predictor import as_examples
from neuropil.tasks.recall.scores import settled_at
from neuropil.training.weights import read_tensors, write_tensors

STORED = "patterns.safetensors"


@dataclass(frozen=True)
class StoredPatterns:
    """What a memory was given. It recalls without them; they tell what it recalled."""

    signs: Float[Tensor, "pattern unit"]
    names: tuple[str, ...]

    @classmethod
    def of(cls, signs: Float[Tensor, "pattern unit"], classes: Sequence[str] | None) -> Self:
        numbers = range(1, len(signs) + 1)
        if classes is None:
            return cls(signs, tuple(f"pattern {number}" for number in numbers))
        return cls(signs, tuple(f"pattern {number} ({each})" for number, each in zip(numbers, classes, strict=True)))

    def save(self, folder: Path) -> None:
        write_tensors(folder / STORED, {"signs": self.signs.to(torch.int8)}, {"names": self.names})

    @classmethod
    def load(cls, folder: Path) -> Self:
        tensors, facts = read_tensors(folder / STORED)
        return cls(tensors["signs"].float(), tuple(facts["names"]))


@dataclass(frozen=True)
class PatternMemory:
    """Signs are those of values above or below a threshold, which is half of a picture's range or a feature's mean."""

    model: HopfieldNetwork
    schema: Schema
    threshold: tuple[float, ...]
    stored: StoredPatterns

    @classmethod
    def restore(cls, model: HopfieldNetwork, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, recorded_schema(facts, folder), tuple(facts["threshold"]), StoredPatterns.load(folder))

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return read_inputs(paths, self.schema)

    def recall(self, inputs: Any) -> GeneratedExamples:
        """`inputs` are examples like the stored ones, in a tensor or array, or a path or paths of files; the names of
        what comes back say which stored pattern it is."""
        examples = as_examples(inputs, self.schema)
        states = self.model.recall(signs_of(examples, self.threshold), generator=seeded("recall")).states
        names = settled_at(states.cpu(), self.stored.signs, self.stored.names)
        return GeneratedExamples(self.pictures(states), self.schema, names, originals=examples)

    def pictures(self, states: Float[Tensor, "example unit"]) -> Tensor:
        """Black and white; 0, which is not known, is grey."""
        shaped = states.cpu().unflatten(1, self.schema.shape)
        return as_data(127.5 * (shaped + 1), self.schema) if self.schema.kind == "image" else shaped


def signs_of(examples: Tensor, threshold: Sequence[float]) -> Float[Tensor, "example unit"]:
    return torch.where(examples.flatten(1).float() > torch.tensor(threshold), 1.0, -1.0)
