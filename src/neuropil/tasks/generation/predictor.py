"""A trained generative model and the schema of its data: from random numbers to pictures or rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.examples.dataset import Schema, recorded_schema
from neuropil.errors import InputError, nearest
from neuropil.parts.standardize import UnitRange
from neuropil.progress import tracked
from neuropil.randomness import seeded
from neuropil.tasks.generated_examples import GeneratedExamples, as_data
from neuropil.tasks.reconstruction.predictor import Reconstructor

AT_ONCE, MOST_SAMPLES = 250, 1_000_000


@dataclass(frozen=True)
class ExampleSampler(ABC):
    """`options` are the names of what `draw` takes beside numbers and labels; a user may give them."""

    model: nn.Module
    schema: Schema
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, recorded_schema(facts, folder))

    @property
    @abstractmethod
    def conditional(self) -> bool:
        """Whether examples of one class can be asked for."""

    @abstractmethod
    def draw(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Float[Tensor, "count *shape"]:
        """In the units of the data."""

    def sample(self, count: int = 16, *, seed: int = 0, label: str | None = None, **options: Any) -> GeneratedExamples:
        """New examples, the same for the same seed; of one class, where the model knows classes."""
        if not isinstance(count, int) or not 1 <= count <= MOST_SAMPLES:
            raise InputError(f"count must be a whole number from 1 to {MOST_SAMPLES:,}", got=f"{count!r}")
        for name in options:
            if name not in self.options:
                known = nearest(name, self.options) if self.options else "leave it out"
                what = f"samples of this model take {'no options' if not self.options else ', '.join(self.options)}"
                raise InputError(what, got=f"{name!r}", fix=known)
        labels = None if label is None else torch.full((count,), self.class_number(label))
        drawn = self.sample_labels(count, seeded(seed, "samples"), labels, **options)
        return GeneratedExamples.of(drawn, self.schema, names=() if label is None else (label,) * count)

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
            found.append(as_data(self.draw(size, generator, part, **options), self.schema))
        return torch.cat(found)


@runtime_checkable
class LatentModel(Protocol):
    """A model that decodes noise, into the unit range."""

    unit_range: UnitRange

    def generate(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "count *shape"]: ...


@dataclass(frozen=True)
class LatentSampler(ExampleSampler):
    """Decodes what is drawn from N(0, I)."""

    @property
    def conditional(self) -> bool:
        return False

    def draw(
        self, count: int, generator: torch.Generator, labels: Int64[Tensor, " count"] | None, **options: Any
    ) -> Float[Tensor, "count *shape"]:
        model = cast(LatentModel, self.model)
        return model.unit_range.inverse(model.generate(count, generator=generator))


@dataclass(frozen=True)
class CodeSampler(LatentSampler):
    """Of a model that encodes too: what it knows can be reconstructed, and gone between."""

    @property
    def reconstructor(self) -> Reconstructor:
        return Reconstructor(self.model, self.schema, path="spherical")

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return self.reconstructor.read(paths)

    def encode(self, inputs: Any) -> Float[Tensor, "example latent"]:
        return self.reconstructor.encode(inputs)

    def reconstruct(self, inputs: Any) -> GeneratedExamples:
        return self.reconstructor.reconstruct(inputs)

    def interpolate(self, first: Any, last: Any, steps: int = 8) -> GeneratedExamples:
        return self.reconstructor.interpolate(first, last, steps)
