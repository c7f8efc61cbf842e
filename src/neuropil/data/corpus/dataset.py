"""What the data room hands out for language modelling: one long text in three parts, one after the other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from neuropil.data.splits import Splits, text_key

SHORTEST_PASSAGE = 30
"""Characters: shorter lines, such as a lone bracket, are the same in texts that have nothing to do with each other."""


@dataclass(frozen=True, kw_only=True)
class Corpus(Splits[str]):
    source: str
    """Where it comes from, as a phrase for the report: "5,447,521 characters (shakespeare.txt.gz)"."""


@dataclass(frozen=True)
class Passages:
    """A text, known again by its lines and sentences."""

    unit: ClassVar = "passages"
    text: str

    @property
    def keys(self) -> Iterator[str]:
        keys = (text_key(passage) for passage in re.split(r"\n|(?<=[.!?])\s|(?<=[。！？])", self.text))
        return (key for key in keys if len(key) >= SHORTEST_PASSAGE)
