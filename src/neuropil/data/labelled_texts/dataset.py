"""What the data room hands out for text classification: texts, each with its class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.splits import pick, text_key


@dataclass(frozen=True)
class LabelledTexts:
    unit: ClassVar = "texts"
    texts: Sequence[str]
    targets: Int64[Tensor, " example"]
    classes: tuple[str, ...]
    source: str
    """Where they come from, as a phrase for the report: "5,000 texts in 2 classes (reviews.tsv.gz)"."""
    weights: Float[Tensor, " example"] | None = None
    """In the loss; without them all texts count the same."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def keys(self) -> list[str]:
        return [*map(text_key, self.texts)]

    def take(self, index: Int64[Tensor, " chosen"]) -> "LabelledTexts":
        weights = None if self.weights is None else self.weights[index]
        return replace(self, texts=pick(self.texts, index), targets=self.targets[index], weights=weights)
