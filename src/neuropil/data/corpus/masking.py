"""Tokens hidden for a model to find again.

Of each row 15 % of the tokens are chosen, one at the least. By BERT's rule, 80/10/10, of the chosen

    80 %   become [MASK]
    10 %   become any token, so that no token can be trusted
    10 %   stay as they are, since a text that is read later has no [MASK]

and by the simpler rule all of them become [MASK]. The model must tell what stood there. Special tokens and padding are
never chosen.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.data.batches import Device
from neuropil.data.corpus.token_file import Tokens
from neuropil.data.corpus.windows import TextWindows
from neuropil.protocols import Batch
from neuropil.randomness import seeded

Rows: TypeAlias = Int64[Tensor, "batch time"]
Chosen: TypeAlias = Bool[Tensor, "batch time"]

MaskingName = Literal["80/10/10", "all"]
SHARES: dict[MaskingName, tuple[float, float]] = {"80/10/10": (0.8, 0.1), "all": (1.0, 0.0)}
"""Of the chosen tokens: those that become [MASK], and those that become any token."""


class Masked(NamedTuple):
    tokens: Rows
    chosen: Chosen
    """Where something must be found again, be it hidden or not."""


class Alphabet(NamedTuple):
    """The token numbers that hiding needs: ordinary ones are `first`, `first` + 1 … `size` − 1."""

    mask: int
    first: int
    size: int


def hide(
    tokens: Rows,
    ordinary: Chosen,
    alphabet: Alphabet,
    generator: torch.Generator,
    share: float = 0.15,
    masking: MaskingName = "80/10/10",
) -> Masked:
    """`ordinary` is true where a token may be chosen; a row without any such place stays as it is."""
    counts = ordinary.sum(1, keepdim=True)
    wanted = torch.where(counts > 0, (share * counts).round().clamp(min=1), 0)
    # As many as are wanted, at random: those with the smallest of random numbers.
    rank = torch.rand(tokens.shape, generator=generator).masked_fill(~ordinary, 2.0).argsort(1).argsort(1)
    chosen = rank < wanted
    fate = torch.rand(tokens.shape, generator=generator)
    others = torch.randint(alphabet.first, alphabet.size, tokens.shape, generator=generator)
    masked, replaced = SHARES[masking]
    hidden = tokens.masked_fill(chosen & (fate < masked), alphabet.mask)
    return Masked(torch.where(chosen & (fate >= masked) & (fate < masked + replaced), others, hidden), chosen)


class MaskedWindows:
    """Windows of a long text, each between a start and an end token, as ``{"input": …, "target": …, "scored": …}``:
    what the model reads, what stood there, and where that is asked for. Other tokens are hidden in each pass."""

    def __init__(
        self,
        tokens: Tokens,
        size: int,
        context: int,
        *,
        alphabet: Alphabet,
        around: tuple[int, int],
        share: float,
        seed: int,
        masking: MaskingName = "80/10/10",
        device: Device = "cpu",
    ):
        self.windows = TextWindows(tokens, size, max(context - len(around), 1), seed=seed)
        self.alphabet, self.around, self.share = alphabet, around, share
        self.masking: MaskingName = masking
        self.seed, self.device = seed, torch.device(device)

    def __len__(self) -> int:
        return len(self.windows)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        before, after = self.around
        for index, batch in enumerate(self.windows.epoch(number, start), start):
            whole = F.pad(F.pad(batch["input"], (1, 0), value=before), (0, 1), value=after)
            generator = seeded(self.seed, number, index)
            ordinary = whole >= self.alphabet.first
            tokens, chosen = hide(whole, ordinary, self.alphabet, generator, self.share, self.masking)
            masked = {"input": tokens, "target": whole, "scored": chosen}
            yield {name: values.to(self.device) for name, values in masked.items()}
