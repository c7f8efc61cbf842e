"""Texts in three parts, with all copies of one text in the same part: nothing in the test part was seen in training."""

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from neuropil.data.splits import choose
from neuropil.randomness import seeded

TRAIN, VALIDATION, TEST = range(3)


def part_texts(
    texts: Sequence[Hashable], strata: Int64[Tensor, " text"], validation: float, test: float, seed: int
) -> Int64[Tensor, " text"]:
    """Training, validation or test for each text, in the right proportion within each stratum.

    `test` is a share of all texts, `validation` one of what is left; copies count once, in the stratum of the first.
    """
    numbers: dict[Hashable, int] = {}
    number_of = torch.tensor([numbers.setdefault(text, len(numbers)) for text in texts], dtype=torch.int64)
    stratum_of = torch.zeros(len(numbers), dtype=torch.int64)
    stratum_of[number_of.flip(0)] = strata.flip(0)  # the first copy is written last
    part = torch.full_like(stratum_of, TRAIN)
    for name, label, share in ((TEST, "test", test), (VALIDATION, "validation", validation)):
        left = (part == TRAIN).nonzero().flatten()
        part[left[choose(stratum_of[left], share, seeded(seed, label))]] = name
    return part[number_of]
