"""What the data room hands out for language modelling: one long text in three parts, one after the other."""

from dataclasses import dataclass

from neuropil.data.splits import Splits


@dataclass(frozen=True, kw_only=True)
class Corpus(Splits[str]):
    source: str
    """Where it comes from, as a phrase for the report: "5,447,521 characters (shakespeare.txt.gz)"."""
