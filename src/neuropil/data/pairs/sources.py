"""Pairs of texts in three parts: the embedded dates, or the user's own files.

All pairs with the same source go into the same part, so that nothing in the test part was seen in training.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.pairs.dataset import PairSplits
from neuropil.data.pairs.embedded import make_dates
from neuropil.data.pairs.files import names_of, read_pairs
from neuropil.errors import InputError
from neuropil.randomness import seeded

NUM_DATES = 33_000
MOST_HELD_OUT = 2_000
"""Decoding is slow, and a score on more pairs would not tell more."""
TRAIN, VALIDATION, TEST = range(3)


class PairDataConfig(Config):
    data: tuple[Path, ...] = option(
        (), "your own pairs: a TSV, CSV or JSONL, or two files with a line each; without it, dates in many languages"
    )
    source_column: str | None = option(None, "the column of a TSV, CSV or JSONL to translate from")
    target_column: str | None = option(None, "the column of a TSV, CSV or JSONL to translate to")
    reverse: bool = option(False, "translate from the second column or file to the first")
    validation: float = option(
        0.05, f"share held out for early stopping, at most {MOST_HELD_OUT:,} pairs", low=0, high=0.5
    )
    test: float = option(
        0.1, f"share held out for the final score, at most {MOST_HELD_OUT:,} pairs", low=0.01, high=0.9
    )


def prepare_pairs(config: PairDataConfig, seed: int) -> PairSplits:
    """The same for the same seed; each part is in the order of the data."""
    if not config.data:
        return _embedded(config, seed)
    pairs, notes = read_pairs(
        config.data, source_column=config.source_column, target_column=config.target_column, reverse=config.reverse
    )
    source_of = number_sources(pairs.sources)
    sizes = source_of.bincount()
    if len(sizes) < 2:
        rule = f"{names_of(config.data)} must hold at least 2 different sources, one to learn from and one to score"
        raise InputError(rule, got=f"{len(sizes)}")
    shared = int(sizes[sizes > 1].sum())
    if shared:
        notes = [
            *notes,
            f"{shared:,} of {len(pairs):,} pairs share their source with another; the same source is always in the same part.",
        ]
    part = assign_parts(sizes, config.validation, config.test, seed)[source_of]
    train, validation, test = (pairs.take((part == name).nonzero().flatten()) for name in (TRAIN, VALIDATION, TEST))
    return PairSplits(train, validation, test, notes)


def number_sources(sources: Sequence[str]) -> Int64[Tensor, " pair"]:
    """The same number for the same text."""
    numbers: dict[str, int] = {}
    return torch.tensor([numbers.setdefault(source, len(numbers)) for source in sources], dtype=torch.int64)


def assign_parts(
    sizes: Int64[Tensor, " source"], validation: float, test: float, seed: int
) -> Int64[Tensor, " source"]:
    """Training, validation or test for each source, where `sizes` says how many pairs it has. One source is always left for training."""
    total = int(sizes.sum())
    part = torch.full_like(sizes, TRAIN)
    for name, label, share in ((TEST, "test", test), (VALIDATION, "validation", validation)):
        order = torch.randperm(len(sizes), generator=seeded(seed, label))
        order = order[part[order] == TRAIN]
        part[torch.tensor(fill(order, sizes[order], held_out_of(total, share)), dtype=torch.int64)] = name
    return part


def held_out_of(total: int, share: float) -> int:
    return min(max(round(share * total), int(share > 0)), MOST_HELD_OUT)


def fill(sources: Int64[Tensor, " source"], sizes: Int64[Tensor, " source"], wanted: int) -> list[int]:
    """Sources with as many pairs together as are wanted, or nearly; if each alone has too many, the smallest; never all of them."""
    if wanted == 0 or len(sources) < 2:
        return []
    chosen = []
    for source, size in zip(sources[1:].tolist(), sizes[1:].tolist(), strict=True):
        if size <= wanted:
            chosen.append(source)
            wanted -= size
        if wanted == 0:
            break
    return chosen or [int(sources[sizes.argmin()])]


def _embedded(config: PairDataConfig, seed: int) -> PairSplits:
    if config.source_column is not None or config.target_column is not None:
        raise InputError(
            "columns are named in a TSV, CSV or JSONL", got="names for the embedded dates", fix="leave them out"
        )
    if config.reverse:
        raise InputError(
            "an ISO date can be written in many ways",
            got="reverse for the embedded dates",
            fix="give pairs of your own",
        )
    num_validation, num_test = held_out_of(NUM_DATES, config.validation), held_out_of(NUM_DATES, config.test)
    return make_dates(NUM_DATES - num_validation - num_test, num_validation, num_test, seed)
