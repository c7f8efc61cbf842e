"""A trained generative model and the schema of its data: from random numbers to pictures or rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.examples.dataset import Schema
from neuropil.errors import InputError, nearest
from neuropil.parts.standardize import UnitRange
from neuropil.progress import tracked
from neuropil.randomness import seeded
from neuropil.tasks.generated_examples import GeneratedExamples, as_data

AT_ONCE = 250


@runtime_checkable
class UnitRanged(Protocol):
    """A model that scales its data to the unit range."""

    unit_range: UnitRange


@dataclass(frozen=True)
class ExampleSampler(ABC):
    """`options` are the names of what `draw` takes beside numbers and labels; a user may give them."""

    model: nn.Module
    schema: Schema
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, Schema.from_dict(facts["schema"]))

    @property
    @abstractmethod
    def conditional(self) -> bool:
        """Whether examples of one class can be asked for."""

    @abstractmethod
    def draw(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Float[Tensor, "count *shape"]:
        """In the unit range."""

    def sample(self, count: int = 16, *, seed: int = 0, label: str | None = None, **options: Any) -> GeneratedExamples:
        """New examples, the same for the same seed; of one class, where the model knows classes."""
        if count < 1:
            raise InputError("count must be at least 1", got=f"{count}")
        for name in options:
            if name not in self.options:
                known = nearest(name, self.options) if self.options else "leave it out"
                what = f"samples of this model take {'no options' if not self.options else ', '.join(self.options)}"
                raise InputError(what, got=f"{name!r}", fix=known)
        labels = None if label is None else torch.full((count,), self.class_number(label))
        drawn = self.sample_labels(count, seeded(seed, "samples"), labels, **options)
        return GeneratedExamples(drawn, self.schema, () if label is None else (label,) * count)

    def class_number(self, label: str) -> int:
        if not self.conditional:
            got = f"the class {label!r}"
            raise InputError("this model was not trained to make examples of one class", got=got, fix="leave it out")
        if label not in self.schema.classes:
            fix = nearest(label, self.schema.classes)
            raise InputError("a class must be one of the training data", got=f"{label!r}", fix=fix)
        return self.schema.classes.index(label)

    @torch.no_grad()
    def sample_labels(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Tensor:
        """Examples as the training data has them, each with its own label, a few hundred at a time."""
        found = []
        for begin in tracked(range(0, count, AT_ONCE), "Drawing examples"):
            size = min(AT_ONCE, count - begin)
            part = None if labels is None else labels[begin : begin + size]
            unit = self.draw(size, generator, part, **options)
            found.append(self.as_data(unit))
        return torch.cat(found)

    @property
    def scale(self) -> UnitRange:
        return cast(UnitRanged, self.model).unit_range

    def as_data(self, unit: Float[Tensor, "example *shape"]) -> Tensor:
        return as_data(unit.clamp(0, 1).to(self.scale.low.device), self.scale.inverse, self.schema)


def class_names(schema: Schema, labels: Int64[Tensor, " example"]) -> Sequence[str]:
    return tuple(schema.classes[number] for number in labels.tolist())
