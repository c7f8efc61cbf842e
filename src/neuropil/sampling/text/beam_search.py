"""Search: from a model that scores the next token to a whole sequence.

    greedy      y_t = argmax p(y | y_<t)
    beam        keep the b prefixes with the largest Σ_t ln p(y_t | y_<t); of the finished ones take the largest
                Σ_t ln p / ((5 + |y|) / 6)^α

The sum falls with every token, so without the denominator (α = 0) short outputs win; α = 0.6 is the Transformer's. A
beam of one is greedy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from neuropil.sampling.text.generation import DecoderState, Prompts, Step, limit_of, require_room


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
        best = step(newest, state).float().log_softmax(-1).max(-1)
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
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """For each row up to `width` outputs, the best first. A row stops when it has `width` finished ones, or at its
    limit. All rows begin with the same token, or each with its prompt."""
    rows = [_Row(limit, width, length_penalty) for limit in limits]
    open_rows = [row for row in rows if row.limit > 0]
    keep = torch.tensor([index for index, row in enumerate(rows) if row.limit > 0], device=device, dtype=torch.int64)
    state.reorder(keep)
    newest = (start if isinstance(start, Prompts) else Prompts.start(start, len(rows), device)).select(keep)
    while open_rows:
        log_probabilities = newest.read(step, state).float().log_softmax(-1)
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


@dataclass(frozen=True)
class _Prefix:
    tokens: list[int]
    total: float


class _Row:
    """The beam of one input: prefixes that are open, and outputs that are finished."""

    def __init__(self, limit: int, width: int, length_penalty: float):
        self.limit, self.width, self.length_penalty = limit, width, length_penalty
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
        elif len(self.finished) >= self.width:
            self.open = []
        return chosen if self.open else []

    def ranked(self) -> list[Hypothesis]:
        order = sorted(self.finished, key=lambda written: (not written.finished, -written.score(self.length_penalty)))
        return order[: self.width] or [Hypothesis([], 0.0, finished=False)]
