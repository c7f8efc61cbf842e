"""Text generation with any model that scores the next token: read the prompt, sample a token, read it, sample again.

    generation = Generation(model.step, model.begin(), [prompt], length=100, end=end)
    for row, token, ended in generation: …

Tokens come as soon as they are known. What a row gets depends on its prompt, the seed and the number of the sample, and
on no other row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.errors import InputError
from neuropil.randomness import seeded
from neuropil.sampling.text.filters import SamplingConfig, sample_tokens


@runtime_checkable
class DecoderState(Protocol):
    """What a model remembers of the sequences so far, a row for each."""

    def reorder(self, index: Int64[Tensor, " row"]) -> None: ...


Step: TypeAlias = Callable[..., Float[Tensor, "row token"]]
"""`step(tokens, state)` or `step(tokens, state, present)`: reads the newest tokens [row new] and returns the logits of
the next ones. `present` [row new] is false at padding, which stands at the left; without it there is none."""


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

    def read(self, step: Step, state: DecoderState) -> Float[Tensor, "row token"]:
        return step(self.tokens, state) if self.present is None else step(self.tokens, state, self.present)


def require_beginnings(prompts: Sequence[Sequence[int]]) -> None:
    if not all(len(prompt) for prompt in prompts):
        raise InputError("a text is continued from its beginning", got="an empty one", fix="give at least one token")


Ending = Literal["end", "length", "context", "stopped"]
"""The end token was generated; the length was reached; the context is full; or `stop` was called."""


class GeneratedToken(NamedTuple):
    row: int
    token: int
    ended: Ending | None
    """Why this is the row's last token, if it is; with "end" it is the end token itself."""


class Generation(Iterator[GeneratedToken]):
    """`state` has a row for each prompt. `samples` of each are written at once: row r belongs to prompt r // samples.

    `end` is the token that ends a text, `never` are tokens that are not drawn, and `context` is how many tokens the
    model can read: the token after a full context is the last. Without a length, end or context, writing has no end.
    """

    def __init__(
        self,
        step: Step,
        state: DecoderState,
        prompts: Sequence[Sequence[int]],
        *,
        sampling: SamplingConfig = SamplingConfig(),  # noqa: B008 (it is frozen)
        length: int | None = None,
        samples: int = 1,
        end: int | None = None,
        never: Sequence[int] = (),
        context: int | None = None,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ):
        require_room(prompts, context)
        require_counts(length, samples)
        self.step, self.state, self.sampling = step, state, sampling
        self.end, self.never, self.device = end, never, device
        rows = [prompt for prompt in prompts for _ in range(samples)]
        self.prompts, self.samples = Prompts.padded(prompts, device), samples
        self.limits = [limit_of(prompt, length, context) for prompt in rows]
        self.written = [0] * len(rows)
        self.ended: list[Ending | None] = [limit.ending if limit.tokens == 0 else None for limit in self.limits]
        self.generators = [seeded(seed, row % samples, *prompt) for row, prompt in enumerate(rows)]
        self.seen: list[set[int]] = [set(prompt) for prompt in rows]
        self._drawn = self._write()

    def __next__(self) -> GeneratedToken:
        return next(self._drawn)

    def stop(self, row: int) -> None:
        """Write no more in this row."""
        self.ended[row] = self.ended[row] or "stopped"

    def _write(self) -> Iterator[GeneratedToken]:
        rows = [row for row, ended in enumerate(self.ended) if ended is None]
        logits = self._read_prompts(rows) if rows else None
        while logits is not None:
            generators = [self.generators[row] for row in rows]
            seen = self._seen(rows, logits.shape[1])
            tokens = sample_tokens(logits, self.sampling, generators, seen=seen, never=self.never).tolist()
            for row, token in zip(rows, tokens, strict=True):
                if self.ended[row] is None:
                    yield self._note(row, token)
            going = [place for place, row in enumerate(rows) if self.ended[row] is None]
            logits = self._read(tokens, going) if going else None
            rows = [rows[place] for place in going]

    def _note(self, row: int, token: int) -> GeneratedToken:
        self.written[row] += 1
        self.seen[row].add(token)
        if token == self.end:
            self.ended[row] = "end"
        elif self.written[row] == self.limits[row].tokens:
            self.ended[row] = self.limits[row].ending
        return GeneratedToken(row, token, self.ended[row])

    @torch.no_grad()
    def _read_prompts(self, rows: Sequence[int]) -> Float[Tensor, "row token"]:
        """Each prompt once, however many samples of it are written."""
        logits = self.prompts.read(self.step, self.state)
        if rows == list(range(len(logits))):
            return logits
        index = torch.tensor([row // self.samples for row in rows], device=self.device)
        self.state.reorder(index)
        return logits[index]

    @torch.no_grad()
    def _read(self, tokens: Sequence[int], going: Sequence[int]) -> Float[Tensor, "row token"]:
        """Rows that have ended are computed no more."""
        if len(going) < len(tokens):
            self.state.reorder(torch.tensor(going, device=self.device))
        return self.step(torch.tensor([[tokens[place]] for place in going], device=self.device), self.state)

    def _seen(self, rows: Sequence[int], vocabulary: int) -> Bool[Tensor, "row token"] | None:
        if self.sampling.repetition_penalty == 1:
            return None
        seen = torch.zeros(len(rows), vocabulary, dtype=torch.bool)
        for place, row in enumerate(rows):
            seen[place, list(self.seen[row])] = True
        return seen


class Limit(NamedTuple):
    tokens: int | None
    ending: Ending


def limit_of(prompt: Sequence[int], length: int | None, context: int | None) -> Limit:
    """How many tokens may follow, and what ends them; the last one need not fit into the context."""
    room = None if context is None else context - len(prompt) + 1
    if length is not None and (room is None or length <= room):
        return Limit(length, "length")
    return Limit(room, "context")


def require_room(prompts: Sequence[Sequence[int]], context: int | None) -> None:
    longest = max(map(len, prompts), default=0)
    if context is not None and longest > context:
        rule = f"a prompt must fit into the model's context of {context:,} tokens"
        raise InputError(rule, got=f"one of {longest:,}", fix=f"shorten it, or give its last {context:,} tokens only")


def require_counts(length: int | None, samples: int) -> None:
    if length is not None and length < 0:
        raise InputError("length must be 0 or more", got=f"{length}")
    if samples < 1:
        raise InputError("samples must be 1 or more", got=f"{samples}")
