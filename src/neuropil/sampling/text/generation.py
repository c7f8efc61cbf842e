"""Writing on, with any model that scores the next token: read the prompt, choose a token, read it, choose again.

    writing = Generation(model.step, model.begin(), [prompt], length=100, end=end)
    for row, token, ended in writing: …

Tokens come as soon as they are known. What a row gets depends on its prompt, the seed and the number of the sample, and on no other row.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from neuropil.errors import InputError
from neuropil.randomness import seeded
from neuropil.sampling.text.beam_search import Hypothesis, beam_search
from neuropil.sampling.text.filters import SamplingConfig, sample_tokens
from neuropil.sampling.text.prompts import Prompts, State, Step

Ending = Literal["end", "length", "context", "stopped"]
"""The model wrote its end token; the wanted length was reached; the context is full; or whoever reads has had enough."""


class GeneratedToken(NamedTuple):
    row: int
    token: int
    ended: Ending | None
    """Why this is the row's last token, if it is; with "end" it is the end token itself."""


class Generation(Iterator[GeneratedToken]):
    """`state` has a row for each prompt. `samples` of each prompt are written at once: row r belongs to prompt r // samples.

    `end` is the token that ends a text, `never` are tokens that are not drawn, and `context` is how many tokens the model can read: the
    token after a full context is the last. Without a length, an end or a context, writing does not end.
    """

    def __init__(
        self,
        step: Step,
        state: State,
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
            tokens = sample_tokens(
                logits, self.sampling, generators, seen=self._seen(rows, logits.shape[1]), never=self.never
            ).tolist()
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


def beam_continuations(
    step: Step,
    state: State,
    prompts: Sequence[Sequence[int]],
    *,
    width: int,
    length: int,
    end: int | None = None,
    context: int | None = None,
    length_penalty: float = 0.6,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Beam search: for each prompt up to `width` continuations, the best first."""
    require_room(prompts, context)
    limits = [limit_of(prompt, length, context).tokens for prompt in prompts]
    return beam_search(
        step,
        state,
        [length if tokens is None else tokens for tokens in limits],
        width=width,
        start=Prompts.padded(prompts, device),
        end=end,
        length_penalty=length_penalty,
        device=device,
    )


class Limit(NamedTuple):
    tokens: int | None
    ending: Ending


def limit_of(prompt: Sequence[int], length: int | None, context: int | None) -> Limit:
    """How many tokens may follow, and what ends them. The last one need not be read, and so need not fit into the context."""
    room = None if context is None else context - len(prompt) + 1
    if length is not None and (room is None or length <= room):
        return Limit(length, "length")
    return Limit(room, "context")


def require_room(prompts: Sequence[Sequence[int]], context: int | None) -> None:
    longest = max(map(len, prompts), default=0)
    if context is not None and longest > context:
        raise InputError(
            f"a prompt must fit into the model's context of {context:,} tokens",
            got=f"one of {longest:,}",
            fix=f"shorten it, or give its last {context:,} tokens only",
        )


def require_counts(length: int | None, samples: int) -> None:
    if length is not None and length < 0:
        raise InputError("length must be 0 or more", got=f"{length}")
    if samples < 1:
        raise InputError("samples must be 1 or more", got=f"{samples}")
