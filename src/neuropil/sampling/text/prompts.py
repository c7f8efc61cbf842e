"""The beginnings of texts, of different lengths in one batch: shorter ones are padded at their left, so that all end together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.errors import InputError


@runtime_checkable
class State(Protocol):
    """What a model remembers of the sequences so far, a row for each."""

    def reorder(self, index: Int64[Tensor, " row"]) -> None: ...


Step: TypeAlias = Callable[..., Float[Tensor, "row token"]]
"""`step(tokens, state)` or `step(tokens, state, present)`: reads the newest tokens [row new] and returns the logits of the next ones.
`present` [row new] is false at padding, which stands at the left; without it there is none."""


@dataclass(frozen=True)
class Prompts:
    tokens: Int64[Tensor, "row time"]
    present: Bool[Tensor, "row time"] | None = None
    """False at padding; None where there is none."""

    @classmethod
    def padded(cls, prompts: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> "Prompts":
        require_beginnings(prompts)
        longest = max(map(len, prompts), default=0)
        # Any token will do at the left, since nobody looks at it.
        rows = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        tokens = torch.tensor(rows, dtype=torch.int64, device=device).view(len(rows), longest)
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        present = torch.arange(longest, device=device) >= longest - lengths[:, None]
        return cls(tokens, None if all(len(prompt) == longest for prompt in prompts) else present)

    @classmethod
    def start(cls, token: int, rows: int, device: torch.device | str = "cpu") -> "Prompts":
        """All rows begin with the same token."""
        return cls(torch.full((rows, 1), token, device=device))

    def select(self, index: Int64[Tensor, " row"]) -> "Prompts":
        return Prompts(self.tokens[index], None if self.present is None else self.present[index])

    def read(self, step: Step, state: State) -> Float[Tensor, "row token"]:
        return step(self.tokens, state) if self.present is None else step(self.tokens, state, self.present)


def require_beginnings(prompts: Sequence[Sequence[int]]) -> None:
    if not all(len(prompt) for prompt in prompts):
        raise InputError("a text is continued from its beginning", got="an empty one", fix="give at least one token")
