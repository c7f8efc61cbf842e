"""What the data room hands out for translation: texts and what they become."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int64
from torch import Tensor

from neuropil.data.splits import pick, text_key


@dataclass(frozen=True)
class Pairs:
    """Texts as they were given: no normalisation, no trimming. Normalise texts of different origin to compare them."""

    unit: ClassVar = "pairs"
    sources: Sequence[str]
    targets: Sequence[str]
    groups: Sequence[str]
    """One name for each pair, for a score by group: "German". None at all where the data has no groups."""
    source: str
    """Where they come from, as a phrase for the report: "32,683 pairs of texts (descriptions.tsv.gz)"."""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def keys(self) -> list[str]:
        """Of the sources: what a text becomes may be said in several ways."""
        return [*map(text_key, self.sources)]

    def take(self, index: Int64[Tensor, " chosen"]) -> "Pairs":
        sources, targets, groups = (pick(values, index) for values in (self.sources, self.targets, self.groups))
        return Pairs(sources, targets, groups, self.source)
