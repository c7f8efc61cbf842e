"""What the data room hands out for tagging: texts as tokens, and a tag for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from jaxtyping import Int64
from torch import Tensor

from neuropil.data.splits import pick, text_key

TokenKind = Literal["characters", "words"]


@dataclass(frozen=True)
class TaggedTexts:
    unit: ClassVar = "texts"
    tokens: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]]
    """As many for each text as it has tokens."""
    groups: Sequence[str]
    """One name for each text, for a score by group: "German". None at all where the data has no groups."""
    kind: TokenKind
    """Whether tokens are the letters of a text, spaces among them, or words with spaces between them."""
    source: str
    """Where they come from, as a phrase for the report: "1,204 texts with 17 tags (news.conll)"."""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def keys(self) -> list[str]:
        return [text_key(" ".join(tokens)) for tokens in self.tokens]

    def take(self, index: Int64[Tensor, " chosen"]) -> "TaggedTexts":
        tokens, tags, groups = pick(self.tokens, index), pick(self.tags, index), pick(self.groups, index)
        return replace(self, tokens=tokens, tags=tags, groups=groups)
