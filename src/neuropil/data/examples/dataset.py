"""What the data room hands out: examples in memory, and the schema that a model keeps of them."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from neuropil.config import Config

Task = Literal["classification", "regression"]


class Column(Config):
    """One column of a table: a number is one feature, a category is one feature for each of its values."""

    name: str
    kind: Literal["number", "category"]
    values: tuple[str, ...] = ()


class Schema(Config):
    """All that a trained model must remember of its data, so that it can read more of the same kind."""

    kind: Literal["image", "table"]
    shape: tuple[int, ...]
    """Of one input: (channel, height, width) or (feature,)."""
    classes: tuple[str, ...]
    """Names in the order of the model's outputs; none for regression."""
    columns: tuple[Column, ...] = ()
    target: str = ""

    @property
    def task(self) -> Task:
        return "classification" if self.classes else "regression"

    @property
    def num_outputs(self) -> int:
        return len(self.classes) or 1


@dataclass(frozen=True)
class Examples:
    inputs: UInt8[Tensor, "example channel height width"] | Float32[Tensor, "example feature"]
    targets: Int64[Tensor, " example"] | Float32[Tensor, "example 1"]
    schema: Schema
    source: str
    """Where they come from, as a phrase for the report: "1,797 hand-written digits of 8×8 (scikit-learn)"."""

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: Int64[Tensor, " chosen"]) -> "Examples":
        return Examples(self.inputs[index], self.targets[index], self.schema, self.source)


@dataclass(frozen=True)
class Splits:
    train: Examples
    validation: Examples
    test: Examples
