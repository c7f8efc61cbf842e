"""Hold a share of the examples out, with every class in its right proportion."""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from neuropil.data.examples.dataset import Examples


def hold_out(examples: Examples, share: float, generator: torch.Generator) -> tuple[Examples, Examples]:
    """(kept, held out): disjoint, together everything, each in the order of the data; stratified by class where there are classes."""
    strata = (
        examples.targets if examples.schema.task == "classification" else torch.zeros(len(examples), dtype=torch.int64)
    )
    held = choose(strata, share, generator)
    return examples.take((~held).nonzero().flatten()), examples.take(held.nonzero().flatten())


def choose(strata: Int64[Tensor, " example"], share: float, generator: torch.Generator) -> Bool[Tensor, " example"]:
    """True for `share` of the examples, drawn at random within each stratum."""
    size = strata.bincount()
    quota = apportion(size, share)
    # Shuffle, then gather the strata; the first `quota` of each stratum are held out.
    shuffled = torch.randperm(len(strata), generator=generator)
    order = shuffled[strata[shuffled].argsort(stable=True)]
    rank = torch.arange(len(strata)) - (size.cumsum(0) - size)[strata[order]]
    held = torch.zeros(len(strata), dtype=torch.bool)
    held[order] = rank < quota[strata[order]]
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
