"""Search: from a model that scores the next token to a whole sequence.

    greedy      y_t = argmax p(y | y_<t)
    beam        keep the b prefixes with the largest Σ_t ln p(y_t | y_<t); of the finished ones take the largest
                Σ_t ln p / ((5 + |y|) / 6)^α

The sum falls with every token, so without the denominator (α = 0) short outputs win; α = 0.6 is the Transformer's. A
beam of one is greedy.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from neuropil.sampling.text.filters import Logits, SamplingConfig, filter_logits, require_choice
from neuropil.sampling.text.generation import DecoderState, Prompts, Step, limit_of, require_room

Restriction: TypeAlias = Callable[[Logits, Sequence[tuple[int, list[int]]]], Logits]
"""Changes the log-probabilities of the next tokens, given the input's number and the tokens so far of each prefix."""


@dataclass(frozen=True)
class Hypothesis:
    """`tokens` without the start and without the end; `log_probability` of all of them and of the end."""

    tokens: list[int]
    log_probability: float
    finished: bool
    """Whether the model ended it, or the limit did."""

    def score(self, length_penalty: float) -> float:
        return self.log_probability / length_factor(len(self.tokens) + self.finished, length_penalty)


def length_factor(length: int, penalty: float) -> float:
    # ((5 + |y|) / 6)^α
    return ((5 + length) / 6) ** penalty


@torch.no_grad()
def greedy_search(
    step: Step, state: DecoderState, limits: Sequence[int], *, start: int, end: int, device: torch.device | str = "cpu"
) -> list[Hypothesis]:
    """The most probable next token, again and again, in each row until it ends or has `limits[row]` tokens."""
    tokens: list[list[int]] = [[] for _ in limits]
    totals = torch.zeros(len(limits), device=device)
    finished = [False] * len(limits)
    rows = [row for row, limit in enumerate(limits) if limit > 0]
    if len(rows) < len(limits):
        state.reorder(torch.tensor(rows, device=device, dtype=torch.int64))
    newest = torch.full((len(rows), 1), start, device=device)
    while rows:
        log_probabilities = step(newest, state).float().log_softmax(-1)
        require_choice(log_probabilities)
        best = log_probabilities.max(-1)
        totals[rows] += best.values
        going: list[int] = []
        for place, (row, token) in enumerate(zip(rows, best.indices.tolist(), strict=True)):
            if token == end:
                finished[row] = True
                continue
            tokens[row].append(token)
            if len(tokens[row]) < limits[row]:
                going.append(place)
        newest = best.indices[:, None]
        if len(going) < len(rows):
            kept = torch.tensor(going, device=device, dtype=torch.int64)
            state.reorder(kept)
            newest, rows = newest[kept], [rows[place] for place in going]
    return [Hypothesis(*parts) for parts in zip(tokens, totals.tolist(), finished, strict=True)]


@torch.no_grad()
def beam_search(
    step: Step,
    state: DecoderState,
    limits: Sequence[int],
    *,
    width: int,
    start: int | Prompts,
    end: int | None,
    length_penalty: float = 0.6,
    open_ended: bool = False,
    restrict: Restriction | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """For each row up to `width` outputs, the best first. All rows begin with the same token, or each with its prompt.

    A row stops when it has `width` finished outputs, or at its limit, where what is unfinished comes last. Where texts
    are `open_ended`, an unfinished one counts as any other, and a row goes on while one may still become the best.
    """
    rows = [_Row(number, limit, width, length_penalty, open_ended) for number, limit in enumerate(limits)]
    open_rows = [row for row in rows if row.limit > 0]
    keep = torch.tensor([index for index, row in enumerate(rows) if row.limit > 0], device=device, dtype=torch.int64)
    state.reorder(keep)
    newest = (start if isinstance(start, Prompts) else Prompts.start(start, len(rows), device)).select(keep)
    while open_rows:
        log_probabilities = newest.read(step, state).float().log_softmax(-1)
        if restrict is not None:
            log_probabilities = restrict(
                log_probabilities, [(row.number, prefix.tokens) for row in open_rows for prefix in row.open]
            )
        require_choice(log_probabilities)
        # One more than the width: the end may be among them, and makes room.
        best = log_probabilities.topk(min(width + 1, log_probabilities.shape[-1]), dim=-1)
        values, indices = best.values.tolist(), best.indices.tolist()
        parents: list[int] = []
        following: list[int] = []
        first = 0
        for row in open_rows:
            count = len(row.open)
            candidates = [
                (prefix.total + value, first + place, prefix, token)
                for place, prefix in enumerate(row.open)
                for value, token in zip(values[first + place], indices[first + place], strict=True)
                if value > -math.inf
            ]
            first += count
            for parent, token in row.advance(candidates, end):
                parents.append(parent)
                following.append(token)
        open_rows = [row for row in open_rows if row.open]
        state.reorder(torch.tensor(parents, device=device, dtype=torch.int64))
        newest = Prompts(torch.tensor(following, device=device, dtype=torch.int64)[:, None])
    return [row.ranked() for row in rows]


def beam_continuations(
    step: Step,
    state: DecoderState,
    prompts: Sequence[Sequence[int]],
    *,
    width: int,
    length: int,
    end: int | None = None,
    never: Sequence[int] = (),
    repetition_penalty: float = 1.0,
    context: int | None = None,
    length_penalty: float = 0.6,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Beam search: for each prompt up to `width` continuations, the best first. As in Hugging Face's `generate`, the
    repetition penalty and the tokens that may `never` come next act on log-probabilities."""
    require_room(prompts, context)
    limits = [limit_of(prompt, length, context).tokens for prompt in prompts]
    rules = SamplingConfig(temperature=0.0, repetition_penalty=repetition_penalty)

    def restrict(log_probabilities: Logits, prefixes: Sequence[tuple[int, list[int]]]) -> Logits:
        seen = torch.zeros_like(log_probabilities, dtype=torch.bool)
        if repetition_penalty != 1:
            for row, (number, tokens) in zip(seen, prefixes, strict=True):
                row[[*prompts[number], *tokens]] = True
        return filter_logits(log_probabilities, rules, seen=seen, never=never)

    return beam_search(
        step,
        state,
        [length if tokens is None else tokens for tokens in limits],
        width=width,
        start=Prompts.padded(prompts, device),
        end=end,
        length_penalty=length_penalty,
        open_ended=True,
        restrict=restrict,
        device=device,
    )


@dataclass(frozen=True)
class _Prefix:
    tokens: list[int]
    total: float


class _Row:
    """The beam of one input: prefixes that are open, and outputs that are finished."""

    def __init__(self, number: int, limit: int, width: int, length_penalty: float, open_ended: bool):
        self.number, self.limit, self.width = number, limit, width
        self.length_penalty, self.open_ended = length_penalty, open_ended
        self.open = [_Prefix([], 0.0)] if limit > 0 else []
        self.finished: list[Hypothesis] = []

    def advance(self, candidates: list[tuple[float, int, _Prefix, int]], end: int | None) -> list[tuple[int, int]]:
        """Take the best continuations: (the row of the state that each comes from, its token)."""
        candidates.sort(key=lambda candidate: -candidate[0])
        chosen: list[tuple[int, int]] = []
        following: list[_Prefix] = []
        for rank, (total, parent, prefix, token) in enumerate(candidates):
            if token == end:
                if rank < self.width:
                    self.finished.append(Hypothesis(prefix.tokens, total, finished=True))
            elif len(following) < self.width:
                following.append(_Prefix([*prefix.tokens, token], total))
                chosen.append((parent, token))
        self.open = following
        if following and len(following[0].tokens) >= self.limit:
            self.finished += [Hypothesis(prefix.tokens, prefix.total, finished=False) for prefix in following]
            self.open = []
        elif len(self.finished) >= self.width and not (self.open_ended and self._may_improve()):
            self.open = []
        return chosen if self.open else []

    def ranked(self) -> list[Hypothesis]:
        order = sorted(
            self.finished, key=lambda written: (not (written.finished or self.open_ended), -self._score(written))
        )
        return order[: self.width] or [Hypothesis([], 0.0, finished=False)]

    def _may_improve(self) -> bool:
        """Whether the best open prefix, as long as it is now, has a better score than the worst that would be kept."""
        best = max(self._score(Hypothesis(prefix.tokens, prefix.total, finished=False)) for prefix in self.open)
        return best > sorted(map(self._score, self.finished), reverse=True)[self.width - 1]

    def _score(self, written: Hypothesis) -> float:
        return written.score(self.length_penalty)
