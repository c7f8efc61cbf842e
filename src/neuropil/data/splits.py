"""Data in three parts, to learn from, to choose by and to score; all copies of one example are in the same part.

Texts are compared as a model may read them: "Good film" and "good  film" are copies, so neither is scored where the
other was learned.
"""

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from neuropil.config import Config, PythonValue, option
from neuropil.data.copies import Keyed
from neuropil.randomness import seeded

PartName: TypeAlias = str
"""One of `PARTS`."""
PARTS: tuple[PartName, ...] = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
PART_OF_WORD: Mapping[str, PartName] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "t10k"), "test"),
}
MOST_HELD_OUT = 2_000
"""Where scores are slow, as those of decoding are: more examples would not tell more."""
CAPPED = f"at most {MOST_HELD_OUT:,} examples"

Groups: TypeAlias = Int64[Tensor, " group"]
Chosen: TypeAlias = Bool[Tensor, " group"]
T = TypeVar("T")
U = TypeVar("U")


@runtime_checkable
class Dataset(Keyed, Protocol):
    """Examples of which some can be taken."""

    def __len__(self) -> int: ...

    def take(self, index: Int64[Tensor, " chosen"]) -> Self: ...


D = TypeVar("D", bound=Dataset)


@dataclass(frozen=True)
class Splits(Generic[T]):
    train: T
    validation: T
    test: T
    notes: Sequence[str] = ()
    """Sentences on what was found: "3 of 5,000 texts are empty and are left out (first: row 17)."."""

    @property
    def parts(self) -> dict[PartName, T]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def map(self, change: Callable[[T], U]) -> "Splits[U]":
        return Splits(change(self.train), change(self.validation), change(self.test), self.notes)


def validation_share(default: float, help: str = "share of the training part held out for early stopping") -> Any:
    return option(default, help, low=0, high=0.5)


def scoring_share(default: float, help: str = "share held out for the final score", high: float = 0.9) -> Any:
    return option(default, help, low=0.01, high=high)


class SplitConfig(Config):
    """What every kind of data asks for; each has defaults of its own. Options `for_embedded` data say which of it to
    use, and have no effect on the user's own."""

    for_embedded: ClassVar[tuple[str, ...]] = ()
    weighted: ClassVar[bool] = False
    """Whether examples in memory may come with weights, as (X, y, weights), and with several labels each."""
    data: Path | tuple[Path, ...] | PythonValue | None = option(None, "your own data; without it, the embedded data")
    validation: float = validation_share(0.1)
    test: float = scoring_share(0.2)


class CappedSplitConfig(SplitConfig):
    """Both shares are of all examples, and no part that is held out has more than `MOST_HELD_OUT`."""

    validation: float = validation_share(0.05, f"share held out for early stopping, {CAPPED}")
    test: float = scoring_share(0.1, f"share held out for the final score, {CAPPED}")

    def sizes(self, total: int) -> tuple[int, int, int]:
        """Examples to learn from, to choose by and to score."""
        validation, test = (num_held_out(total, share, MOST_HELD_OUT) for share in (self.validation, self.test))
        return total - validation - test, validation, test


def pick(values: Sequence[T], index: Int64[Tensor, " chosen"]) -> Sequence[T]:
    """Of a list that has one for each example, or none at all."""
    return [values[number] for number in index.tolist()] if values else ()


def part_of(words: Iterable[str]) -> PartName:
    """The part that one of the words names; a name that says nothing is for training."""
    return next((PART_OF_WORD[word] for word in words if word in PART_OF_WORD), "train")


def last_part(names: Iterable[PartName]) -> PartName:
    """The one to score a trained model on."""
    return max(names, key=PARTS.index)


def text_key(text: str) -> str:
    """Equal for texts that differ only in case, white space or how Unicode spells their characters."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def split(
    dataset: D,
    config: SplitConfig,
    seed: int,
    *,
    strata: Int64[Tensor, " example"] | None = None,
    weights: Sequence[int] | None = None,
    notes: Sequence[str] = (),
    own: Mapping[PartName, tuple[D, Sequence[str]]] | None = None,
) -> Splits[D]:
    """The same for the same seed; each part is in the order of the data. Copies are in one part. Parts that the data
    has of its `own` beside this one, with notes on them, are kept as they are."""
    own, most = own or {}, MOST_HELD_OUT if isinstance(config, CappedSplitConfig) else None
    validation, test = (0.0 if name in own else getattr(config, name) for name in PARTS[1:])
    part = assign_parts(list(dataset.keys), validation, test, seed, strata=strata, weights=weights, most=most)
    train, *held = (dataset.take((part == number).nonzero().flatten()) for number in range(len(PARTS)))
    parts = {name: part for name, (part, _) in own.items()}
    notes = [*notes, *(f"{name.capitalize()} part: {note}" for name, (_, each) in own.items() for note in each)]
    notes += shared_notes(train, parts)
    return Splits(train, parts.get("validation", held[0]), parts.get("test", held[1]), notes)


def shared_notes(train: Keyed, own: Mapping[PartName, Keyed]) -> list[str]:
    """On what parts that the data has of its own share with the training part."""
    learned = {*train.keys} if own else set[Hashable]()
    notes = []
    for name, part in own.items():
        keys = [*part.keys]
        if shared := sum(key in learned for key in keys):
            are = "is" if shared == 1 else "are"
            notes.append(f"{shared:,} of {len(keys):,} {part.unit} of the {name} part {are} in the training part too.")
    return notes


def assign_parts(
    keys: Sequence[Hashable],
    validation: float,
    test: float,
    seed: int,
    *,
    strata: Int64[Tensor, " example"] | None = None,
    weights: Sequence[int] | None = None,
    most: int | None = None,
) -> Int64[Tensor, " example"]:
    """TRAIN, VALIDATION or TEST for each example, in proportion within each stratum, and the same for the same key.

    Examples with one key are in the stratum of the first. `weights` are what examples count, one each without them.
    `test` is a share of all, `validation` one of what is left; with `most`, both are shares of all, and at most so many
    are held out for each.
    """
    numbers: dict[Hashable, int] = {}
    number_of = torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.int64)
    stratum_of = torch.zeros(len(numbers), dtype=torch.int64)
    if strata is not None:
        stratum_of[number_of.flip(0)] = strata.flip(0)  # the first copy is written last
    counts = torch.ones_like(number_of) if weights is None else torch.tensor(weights, dtype=torch.int64)
    sizes = torch.zeros_like(stratum_of).scatter_add_(0, number_of, counts)
    total = int(sizes.sum())
    part = torch.full_like(stratum_of, TRAIN)
    for name, label, share in ((TEST, "test", test), (VALIDATION, "validation", validation)):
        left = (part == TRAIN).nonzero().flatten()
        if most is not None:
            share = num_held_out(total, share, most) / max(int(sizes[left].sum()), 1)
        part[left[choose(stratum_of[left], share, seeded(seed, label), sizes[left])]] = name
    return part[number_of]


def num_held_out(total: int, share: float, most: int) -> int:
    return min(max(round(share * total), int(share > 0)), most)


def choose(strata: Groups, share: float, generator: torch.Generator, sizes: Groups | None = None) -> Chosen:
    """True for `share` of the examples, at random within each stratum; `sizes` are those of groups, one by default.

    A group that is larger than what is still wanted is passed over; if each alone is too large, the smallest is chosen.
    """
    sizes = torch.ones_like(strata) if sizes is None else sizes
    counts = strata.bincount()
    quota = apportion(torch.zeros_like(counts).scatter_add_(0, strata, sizes), share).tolist()
    shuffled = torch.randperm(len(strata), generator=generator)
    order = shuffled[strata[shuffled].argsort(stable=True)]
    chosen: list[int] = []
    for wanted, groups in zip(quota, order.split(counts.tolist()), strict=True):
        most = len(chosen) + len(groups) - 1  # one group of each stratum is always kept
        before = len(chosen)
        for group, size in zip(groups.tolist(), sizes[groups].tolist(), strict=True):
            if wanted == 0 or len(chosen) == most:
                break
            if size <= wanted:
                chosen.append(group)
                wanted -= size
        if wanted and len(chosen) == before < most:
            chosen.append(int(groups[sizes[groups].argmin()]))
    held = torch.zeros(len(strata), dtype=torch.bool)
    held[torch.tensor(chosen, dtype=torch.int64)] = True
    return held


def apportion(size: Int64[Tensor, " stratum"], share: float) -> Int64[Tensor, " stratum"]:
    """How many to hold out of each stratum: the exact share rounded down or up so that the total is right too.

    One example of each stratum is always kept; a share above zero holds out at least one example if any can be spared.
    """
    exact = share * size.double()
    quota = exact.floor().long()
    total = max(round(share * int(size.sum())), int(share > 0))
    spare = (size - quota > 1).nonzero().flatten()
    largest_remainder = (exact - quota)[spare].argsort(descending=True, stable=True)
    quota[spare[largest_remainder[: max(total - int(quota.sum()), 0)]]] += 1
    return quota
