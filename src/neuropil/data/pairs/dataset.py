"""What the data room hands out for translation: texts and what they become."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True)
class Pairs:
    """Texts as they were given: no normalisation, no trimming. Whoever compares texts of different origin must normalise them first."""

    sources: Sequence[str]
    targets: Sequence[str]
    groups: Sequence[str]
    """One name for each pair, for a score by group: "German". None at all where the data has no groups."""
    source: str
    """Where they come from, as a phrase for the report: "32,683 pairs of texts (descriptions.tsv.gz)"."""

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, index: Int64[Tensor, " chosen"]) -> "Pairs":
        chosen: list[int] = index.tolist()
        return Pairs(
            [self.sources[number] for number in chosen],
            [self.targets[number] for number in chosen],
            [self.groups[number] for number in chosen] if self.groups else (),
            self.source,
        )
