"""Attention: score every key against a query, soften the scores to weights that sum to one, mix the values.

    e_ij = score(q_i, k_j) + b_ij               for the keys j that query i may see
    a_ij = exp(e_ij) / Σ_j' exp(e_ij')          0 ≤ a_ij ≤ 1,  Σ_j a_ij = 1
    o_i  = Σ_j a_ij v_j

What the field calls by many names differs in the score alone:

    ScaledDot    q·k / √d                  Transformer
    Dot          q·k                       Luong
    General      qᵀ W k                    Luong
    Concat       vᵀ tanh(W [q; k])         Luong
    Additive     vᵀ tanh(W q + U k)        Bahdanau
    Cosine       β q·k / (‖q‖ ‖k‖)
    Smoothing    ln k(q, k)                kernel regression (Nadaraya, Watson)
    Hopfield     β q·k                     modern Hopfield network, whose stored patterns are keys and values
    Hard         all weight on the best key of another score

A score that is an inner product says so by its `factors`, and then the whole operation is PyTorch's fused kernel, which
never holds the weights. The others are computed for a few queries at a time.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from neuropil.errors import InputError
from neuropil.parts.kernels import Gaussian, Kernel

Query: TypeAlias = Float[Tensor, "*batch query q_width"]
Key: TypeAlias = Float[Tensor, "*batch key k_width"]
Scores: TypeAlias = Float[Tensor, "*batch query key"]

NUMBERS_AT_ONCE = 2**22
"""Of the scores that are no inner products: 16 MB in single precision."""


class Factors(NamedTuple):
    """e = scale · query · keyᵀ, up to a constant for each query, which no weight depends on."""

    query: Float[Tensor, "*batch query inner"]
    key: Float[Tensor, "*batch key inner"]
    scale: float


class Score(ABC):
    numbers_per_pair = 1
    """How many numbers must be held to score one query against one key."""
    finite = True
    """Whether every key has some weight, however small."""

    @abstractmethod
    def __call__(self, query: Query, key: Key) -> Scores: ...

    def factors(self, query: Query, key: Key) -> Factors | None:
        """Queries and keys whose inner product is the score, where there are such."""
        return None

    def soften(self, scores: Scores) -> Scores:
        """From scores, at least one of them finite for each query, to weights."""
        return scores.softmax(-1)


class InnerProduct(Score):
    @abstractmethod
    def factors(self, query: Query, key: Key) -> Factors: ...

    def __call__(self, query: Query, key: Key) -> Scores:
        query, key, scale = self.factors(query, key)
        return scale * query @ key.mT


@dataclass(frozen=True)
class ScaledDot(InnerProduct):
    def factors(self, query: Float[Tensor, "*batch query width"], key: Float[Tensor, "*batch key width"]) -> Factors:
        return Factors(query, key, 1 / math.sqrt(query.shape[-1]))


@dataclass(frozen=True)
class Dot(InnerProduct):
    def factors(self, query: Float[Tensor, "*batch query width"], key: Float[Tensor, "*batch key width"]) -> Factors:
        return Factors(query, key, 1.0)


@dataclass(frozen=True)
class Hopfield(InnerProduct):
    """β is the inverse temperature: small mixes many memories, large recalls the nearest."""

    beta: float = 1.0

    def factors(self, query: Float[Tensor, "*batch query width"], key: Float[Tensor, "*batch key width"]) -> Factors:
        return Factors(query, key, self.beta)


@dataclass(frozen=True)
class Cosine(InnerProduct):
    beta: float = 1.0

    def factors(self, query: Float[Tensor, "*batch query width"], key: Float[Tensor, "*batch key width"]) -> Factors:
        return Factors(F.normalize(query, dim=-1), F.normalize(key, dim=-1), self.beta)


class General(nn.Module, Score):
    """Queries and keys may differ in width."""

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_width, key_width))
        nn.init.xavier_uniform_(self.weight)

    def factors(self, query: Query, key: Key) -> Factors:
        return Factors(query @ self.weight, key, 1.0)

    def forward(self, query: Query, key: Key) -> Scores:
        return query @ self.weight @ key.mT


class Additive(nn.Module, Score):
    """Queries and keys may differ in width. As in the paper, W q and U k carry no bias of their own."""

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.query, self.key = nn.Linear(query_width, hidden, bias=False), nn.Linear(key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-1, 1) / math.sqrt(hidden))
        self.numbers_per_pair = hidden

    def forward(self, query: Query, key: Key) -> Scores:
        # e = vᵀ tanh(W q + U k)
        return torch.tanh(self.query(query).unsqueeze(-2) + self.key(key).unsqueeze(-3)) @ self.weight


class Concat(nn.Module, Score):
    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.projection = nn.Linear(query_width + key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-1, 1) / math.sqrt(hidden))
        self.numbers_per_pair = hidden

    def forward(self, query: Query, key: Key) -> Scores:
        # e = vᵀ tanh(W [q; k]), where W [q; k] = W_q q + W_k k: each is projected once, and not once for every pair
        of_query, of_key = self.projection.weight.split((query.shape[-1], key.shape[-1]), dim=1)
        return torch.tanh(F.linear(query, of_query).unsqueeze(-2) + F.linear(key, of_key).unsqueeze(-3)) @ self.weight


@dataclass(frozen=True, eq=False)
class ProjectedAdditive(Score):
    """An additive score whose keys have been projected."""

    W: Float[Tensor, "hidden q_width"]
    v: Float[Tensor, " hidden"]

    @property
    def numbers_per_pair(self) -> int:
        return len(self.v)

    def __call__(self, query: Query, key: Float[Tensor, "*batch key hidden"]) -> Scores:
        # e = vᵀ tanh(W q + k)
        return torch.tanh(F.linear(query, self.W).unsqueeze(-2) + key.unsqueeze(-3)) @ self.v


@dataclass(frozen=True)
class Smoothing(Score):
    """exp(ln k) = k, so the weights are k(q, k_j) / Σ k(q, k_j'), and the operation is kernel regression."""

    kernel: Kernel

    @property
    def finite(self) -> bool:
        return not self.kernel.compact

    def __call__(self, query: Float[Tensor, "*batch query width"], key: Float[Tensor, "*batch key width"]) -> Scores:
        return self.kernel.log(query, key)

    def factors(self, query: Query, key: Key) -> Factors | None:
        if not isinstance(self.kernel, Gaussian):
            return None
        # −‖q − k‖² / 2 = q·k − ‖k‖² / 2 − ‖q‖² / 2 = [q 1]·[k −‖k‖²/2] + a constant of the query. The squares of keys
        # that lie many lengths apart leave few digits to their differences: hence double precision, and the origin in
        # the middle of the keys.
        middle = key.double().mean(-2, keepdim=True)
        query, key = query - middle, key - middle
        height = -0.5 * key.square().sum(-1, keepdim=True)
        query = torch.cat([query, torch.ones_like(query[..., :1])], -1) / self.kernel.length**2
        return Factors(query, torch.cat([key, height], -1), 1.0)


@dataclass(frozen=True)
class Hard(Score):
    """Of several best keys the first is taken. Gradients reach the value that was selected, and no score."""

    score: Score = ScaledDot()

    @property
    def finite(self) -> bool:
        return self.score.finite

    @property
    def numbers_per_pair(self) -> int:
        return self.score.numbers_per_pair

    def __call__(self, query: Query, key: Key) -> Scores:
        return self.score(query, key)

    def soften(self, scores: Scores) -> Scores:
        return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)


@runtime_checkable
class Tap(Protocol):
    """A recorder's hook: called before every attention; it costs nothing while there is none."""

    def __call__(self, query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool) -> None: ...


def attend(
    query: Query,
    key: Key,
    value: Float[Tensor, "*batch key v_width"],
    *,
    score: Score = ScaledDot(),  # noqa: B008 (it is frozen)
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    tap: Tap | None = None,
) -> Float[Tensor, "*batch query v_width"]:
    """Every query's mixture of the values. A query with nothing to attend to gets zeros.

    `mask` is true where a query may look, `bias` is added to the scores; both broadcast to [*batch query key], for
    instance `padding_mask(lengths, n)`. With `causal`, the last query sees all keys, the one before it all but the
    last, and so on. `dropout` is the dropout probability of the weights; leave it at 0 when not training.
    """
    if tap is not None:
        tap(query, key, mask, bias, causal)
    _require_limits(mask, bias, query, key)
    if key.shape[-2] == 0:
        return value.new_zeros(*query.shape[:-1], value.shape[-1])
    factors = score.factors(query, key)
    if factors is None:
        return _attend_in_pieces(query, key, value, score, mask, causal, bias, dropout)
    return _fused(factors, value, mask, causal, bias, dropout)


def attention_weights(
    query: Query,
    key: Key,
    *,
    score: Score = ScaledDot(),  # noqa: B008 (it is frozen)
    mask: Bool[Tensor, "..."] | None = None,
    causal: bool = False,
    bias: Float[Tensor, "..."] | None = None,
    rows: Int64[Tensor, " row"] | None = None,
) -> Float[Tensor, "*batch row key"]:
    """The weights themselves, written out; `rows` are the queries to compute them for."""
    _require_limits(mask, bias, query, key)
    num_queries, num_keys = query.shape[-2], key.shape[-2]
    allowed = _allowed(mask, causal, num_queries, num_keys, rows, query.device)
    if rows is not None:
        query, bias = query.index_select(-2, rows), _of_rows(bias, rows)
    scores = score(query, key)
    if num_keys == 0:
        return scores
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    empty = None if allowed is None else ~allowed.any(-1, keepdim=True)
    if allowed is not None and empty is not None:
        hidden = ~(allowed | empty)
        fill = scores.masked_fill if torch.is_grad_enabled() else scores.masked_fill_
        scores = fill(hidden, -torch.inf)
    if bias is not None or not score.finite:
        lowest = scores.amax(-1, keepdim=True) == -torch.inf
        scores, empty = scores.masked_fill(lowest, 0.0), lowest if empty is None else lowest | empty
    weights = score.soften(scores)
    # The row of a query with nothing to see held any finite scores until here: softened infinities would be NaN, in
    # gradients too.
    if empty is None or not (torch.compiler.is_compiling() or empty.is_meta or empty.any()):
        return weights
    return weights.masked_fill(empty, 0.0)


def padding_mask(lengths: Int64[Tensor, " batch"], num_keys: int) -> Bool[Tensor, "batch 1 1 key"]:
    """Which keys are there, for [batch head query key]: the first `lengths[b]` of each example."""
    return (torch.arange(num_keys, device=lengths.device) < lengths[:, None])[:, None, None]


def causal_mask(num_queries: int, num_keys: int, device: torch.device | str = "cpu") -> Bool[Tensor, "query key"]:
    """No query sees a key that comes after it; the last of both stand side by side."""
    ones = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device)
    return ones.tril(num_keys - num_queries)


# --- how attention is computed ---


def _fused(
    factors: Factors, value: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None, dropout: float
) -> Tensor:
    query, key, scale = factors
    is_causal = False
    if causal and mask is None and bias is None and query.shape[-2] == key.shape[-2]:
        is_causal = True  # not the comparison itself, which is a symbol where a program is exported
    limit = None if is_causal else _allowed(mask, causal, query.shape[-2], key.shape[-2], None, query.device)
    if bias is not None:
        limit = bias.to(query.dtype) if limit is None else bias.to(query.dtype).masked_fill(~limit, -torch.inf)
    # The kernel asks for four axes and for one width, or it would hold the weights after all. Zeros change no score.
    width = max(query.shape[-1], value.shape[-1])
    wide = (_with_four_axes(_widened(x, width)) for x in (query, key, value.to(query.dtype)))
    limit = None if limit is None else _with_four_axes(limit)
    mixed = F.scaled_dot_product_attention(*wide, attn_mask=limit, dropout_p=dropout, is_causal=is_causal, scale=scale)
    return mixed[(0,) * (4 - query.ndim)][..., : value.shape[-1]].to(value.dtype)


def _with_four_axes(x: Tensor) -> Tensor:
    return x[(None,) * (4 - x.ndim)]


def _widened(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def _attend_in_pieces(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Score,
    mask: Tensor | None,
    causal: bool,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    """Some queries at a time; in training, a piece's scores are recomputed in the backward pass."""

    def mix(rows: Tensor) -> Tensor:
        weights = attention_weights(query, key, score=score, mask=mask, causal=causal, bias=bias, rows=rows)
        return F.dropout(weights, dropout) @ value

    if torch.compiler.is_exporting():
        return mix(torch.arange(query.shape[-2], device=query.device))  # how many pieces depends on the length
    numbers = math.prod(query.shape[:-2]) * key.shape[-2] * score.numbers_per_pair
    pieces = torch.arange(query.shape[-2], device=query.device).split(max(1, NUMBERS_AT_ONCE // max(1, numbers)))
    if len(pieces) == 1:
        return mix(pieces[0])
    if not torch.is_grad_enabled():
        return torch.cat([mix(rows) for rows in pieces], -2)
    return torch.cat([checkpoint(mix, rows, use_reentrant=False) for rows in pieces], -2)


def _allowed(
    mask: Tensor | None, causal: bool, num_queries: int, num_keys: int, rows: Tensor | None, device: torch.device
) -> Bool[Tensor, "..."] | None:
    if mask is not None and rows is not None:
        mask = _of_rows(mask, rows)
    if not causal:
        return mask
    rows = torch.arange(num_queries, device=device) if rows is None else rows
    seen = torch.arange(num_keys, device=device) <= rows[:, None] + (num_keys - num_queries)
    return seen if mask is None else mask & seen


def _of_rows(limit: Tensor | None, rows: Tensor) -> Tensor | None:
    """A mask or bias for some of the queries; one for all of them has a single row, or no axis for them."""
    return limit if limit is None or limit.ndim < 2 or limit.shape[-2] == 1 else limit.index_select(-2, rows)


def _require_limits(mask: Tensor | None, bias: Tensor | None, query: Tensor, key: Tensor) -> None:
    if mask is not None and mask.dtype != torch.bool:
        rule = "an attention mask is boolean, true where a query may look"
        raise InputError(rule, got=f"a mask of {mask.dtype}", fix="pass scores as bias")
    if torch.compiler.is_exporting():
        return  # sizes are symbols there
    pairs = (*query.shape[:-1], key.shape[-2])
    for name, limit in (("mask", mask), ("bias", bias)):
        if limit is not None and not _broadcasts(limit.shape, pairs):
            rule = f"an attention {name} must broadcast to [*batch query key] = {list(pairs)}"
            raise InputError(rule, got=f"{list(limit.shape)}")


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))
