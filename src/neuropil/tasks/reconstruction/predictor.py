"""A trained encoder and decoder and the schema of their data: from examples to codes, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, cast, runtime_checkable

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.data.examples.dataset import Examples, Schema, recorded_schema
from neuropil.data.examples.files import read_inputs
from neuropil.data.examples.unlabelled import read_unlabelled
from neuropil.errors import InputError
from neuropil.parts.coders import latents
from neuropil.parts.standardize import UnitRange
from neuropil.tasks import generated_examples
from neuropil.tasks.generated_examples import GeneratedExamples
from neuropil.tasks.predictor import Source, as_examples, device_of, only_source
from neuropil.tasks.reconstruction.scores import squared_errors

AT_ONCE = 512


@runtime_checkable
class Coder(Protocol):
    """What a model must have to reconstruct: codes of examples, and examples in the unit range of codes."""

    unit_range: UnitRange

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch latent"]: ...

    def decode(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]: ...


@dataclass(frozen=True)
class Reconstructor:
    model: nn.Module
    schema: Schema
    path: latents.PathName = "linear"
    """Between two codes."""

    @classmethod
    def restore(cls, model: nn.Module, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, recorded_schema(facts, folder))

    @property
    def coder(self) -> Coder:
        return cast(Coder, self.model)

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return read_inputs(paths, self.schema)

    def read_labelled(self, source: Source) -> Examples:
        """Labels are not needed: what is to be reconstructed is the input."""
        return read_unlabelled(only_source(source, "the data is"), self.schema)

    def evaluate(self, examples: Examples) -> dict[str, float]:
        errors = squared_errors(self.coder.unit_range, examples.inputs, self.decoded(examples.inputs))
        return {"reconstruction_error": float(errors.mean())}

    @torch.no_grad()
    def encode(self, inputs: Any) -> Float[Tensor, "example latent"]:
        """The code of each example: what a classifier may learn from."""
        parts = as_examples(inputs, self.schema).split(AT_ONCE)
        return torch.cat([self.coder.encode(part.to(device_of(self.model))).cpu() for part in parts])

    @torch.no_grad()
    def decode(self, codes: Float[Tensor, "example latent"]) -> Float[Tensor, "example *shape"]:
        """In the unit range."""
        parts = codes.split(AT_ONCE)
        return torch.cat([self.coder.decode(part.to(device_of(self.model))).cpu() for part in parts])

    def decoded(self, examples: Tensor) -> Float[Tensor, "example *shape"]:
        """What is left of examples, in the unit range."""
        return self.decode(self.encode(examples))

    def reconstruct(self, inputs: Any) -> GeneratedExamples:
        """`inputs` are examples like the training data, in a tensor or array, or a path or paths of files."""
        examples = as_examples(inputs, self.schema)
        return GeneratedExamples.of(self.as_data(self.decoded(examples)), self.schema, originals=examples)

    def interpolate(self, first: Any, last: Any, steps: int = 8) -> GeneratedExamples:
        """The way between the codes of two examples, in equal steps."""
        begin, end = self.encode(first), self.encode(last)
        if len(begin) != 1 or len(end) != 1:
            got = f"{len(begin)} and {len(end)}"
            raise InputError("interpolation goes from one example to one other", got=got)
        codes = latents.interpolate(begin[0], end[0], steps, self.path)
        return GeneratedExamples.of(self.as_data(self.decode(codes)), self.schema, columns=steps)

    def as_data(self, unit: Float[Tensor, "example *shape"]) -> Tensor:
        scale = self.coder.unit_range
        return generated_examples.as_data(scale.inverse(unit.to(scale.low.device)), self.schema)
