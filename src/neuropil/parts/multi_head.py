"""Multi-head attention: several soft selects side by side, each with its own way of looking.

    Q = X_q W^Q + b^Q,   K = X_k W^K + b^K,   V = X_v W^V + b^V        one each for every head
    head = attend(Q, K, V)
    Y = [head₁ … head_H] W^O + b^O

A head can be masked, to see what the others do without it, or removed for good, with its rows and columns of the
weights.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError, nearest
from neuropil.parts.attention import ScaledDot, Score, Tap, attend
from neuropil.parts.parameters import ParameterRow

Queries: TypeAlias = Float[Tensor, "batch head query head_width"]
Keys: TypeAlias = Float[Tensor, "batch head key head_width"]
Mask: TypeAlias = Bool[Tensor, "..."]


@runtime_checkable
class AttentionCache(Protocol):
    def extend(
        self, keys: Float[Tensor, "batch head new width"], values: Float[Tensor, "batch head new width"]
    ) -> tuple[Float[Tensor, "batch head time width"], Float[Tensor, "batch head time width"]]:
        """The keys and values to attend to, these new ones among them, which are held from now on."""
        ...


class KeyValueCache:
    """The KV cache: keys and values of the tokens so far, so that a decoder computes those of each new token only.
    There is `room` for so many from the first on, and twice as much when it is used up."""

    def __init__(self, room: int = 32) -> None:
        self.length, self.room = 0, room
        self._keys = self._values = torch.empty(0)

    def extend(
        self, keys: Float[Tensor, "batch head new width"], values: Float[Tensor, "batch head new width"]
    ) -> tuple[Float[Tensor, "batch head time width"], Float[Tensor, "batch head time width"]]:
        """Everything so far, the new ones at its end."""
        start, self.length = self.length, self.length + keys.shape[2]
        if start == 0 or self.length > self._keys.shape[2]:
            self._keys, self._values = (
                self._with_room(old, new, start) for old, new in ((self._keys, keys), (self._values, values))
            )
        self._keys[:, :, start : self.length], self._values[:, :, start : self.length] = keys, values
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        """Go on with these rows of the batch: some may be dropped, others repeated."""
        if self.length:
            self._keys, self._values = self._keys.index_select(0, index), self._values.index_select(0, index)

    def _with_room(self, old: Tensor, new: Tensor, filled: int) -> Tensor:
        batch, heads, _, width = new.shape
        room = new.new_empty(batch, heads, max(self.room, 2 * self.length if filled else self.length), width)
        if filled:
            room[:, :, :filled] = old[:, :, :filled]
        return room


class Projected(NamedTuple):
    query: Float[Tensor, "batch head query width"]
    key: Float[Tensor, "batch head key width"]
    value: Float[Tensor, "batch head key width"]


class MultiHeadAttention(nn.Module):
    """`fused` keeps W^Q, W^K and W^V in one matrix, which is one multiplication in place of three; keys and values of
    other widths than the queries' need three. Recorders set `tap`; whoever masks heads sets `head_mask`, one factor for
    each head."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        head_width: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        fused: bool = True,
        dropout: float = 0.0,
        score: Score = ScaledDot(),  # noqa: B008 (it is frozen)
    ):
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, head_width or _split(width, heads), dropout
        self.score = score
        self.tap: Tap | None = None
        self.head_mask: Float[Tensor, " head"] | None = None
        self.fused = fused and {key_width or width, value_width or width} == {width}
        inner = self.heads * self.head_width
        if self.fused:
            self.projection = _linear(width, 3 * inner, bias)
        else:
            self.query = _linear(width, inner, bias)
            self.key = _linear(key_width or width, inner, bias)
            self.value = _linear(value_width or width, inner, bias)
        self.output = _linear(inner, width, bias)
        self._initialise()

    def forward(
        self,
        query: Float[Tensor, "batch query width"],
        key: Float[Tensor, "batch key k_width"] | None = None,
        value: Float[Tensor, "batch key v_width"] | None = None,
        *,
        mask: Mask | None = None,
        causal: bool = False,
        cache: AttentionCache | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Self-attention without keys; without values, the keys are mixed. A cache adds what it holds to the keys."""
        q, k, v = self.project(query, key, value)
        if cache is not None:
            k, v = cache.extend(k, v)
        return self.select(q, k, v, mask=mask, causal=causal)

    def project(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None) -> Projected:
        if key is None and self.fused:
            return Projected(*self._split_heads(self.projection(query), 3))
        key = query if key is None else key
        return Projected(self.project_queries(query), *self.project_keys(key, value))

    def project_queries(self, query: Float[Tensor, "batch query width"]) -> Queries:
        return self._split_heads(self._part(query, 0, 1) if self.fused else self.query(query), 1)[0]

    def project_keys(
        self, key: Float[Tensor, "batch key k_width"], value: Float[Tensor, "batch key v_width"] | None = None
    ) -> tuple[Keys, Keys]:
        """Keys and values as the heads see them."""
        if self.fused and value is None:
            k, v = self._split_heads(self._part(key, 1, 3), 2)
            return k, v
        value = key if value is None else value
        k, v = (self._part(key, 1, 2), self._part(value, 2, 3)) if self.fused else (self.key(key), self.value(value))
        return self._split_heads(k, 1)[0], self._split_heads(v, 1)[0]

    def select(
        self, query: Queries, key: Keys, value: Keys, *, mask: Mask | None = None, causal: bool = False
    ) -> Float[Tensor, "batch query width"]:
        """What comes after the projections: attend, concatenate the heads, project back."""
        if self.heads == 0:
            return self.output(query.new_zeros(query.shape[0], query.shape[2], 0))
        dropout = self.dropout if self.training else 0.0
        mixed = attend(query, key, value, score=self.score, mask=mask, causal=causal, dropout=dropout, tap=self.tap)
        if self.head_mask is not None:
            mixed = mixed * self.head_mask[:, None, None]
        return self.output(rearrange(mixed, "batch head query width -> batch query (head width)"))

    @torch.no_grad()
    def remove_heads(self, removed: Iterable[int]) -> None:
        """Physically: only the weights of the other heads are left; without any head, the output's bias."""
        removed = set(removed)
        self.require_heads(removed)
        kept = torch.tensor([head for head in range(self.heads) if head not in removed], dtype=torch.int64)
        inner = (kept[:, None] * self.head_width + torch.arange(self.head_width)).flatten()
        if self.fused:
            rows = torch.cat([inner + part * self.heads * self.head_width for part in range(3)])
            _keep(self.projection, rows=rows)
        else:
            for linear in (self.query, self.key, self.value):
                _keep(linear, rows=inner)
        _keep(self.output, columns=inner)
        self.heads = len(kept)
        self.head_mask = None if self.head_mask is None else self.head_mask[kept.to(self.head_mask.device)]

    @torch.no_grad()
    def split_projection(self) -> None:
        """Keep W^Q, W^K and W^V in three layers, as without `fused`."""
        if not self.fused:
            return
        matrices, inner, width = self._matrices(), self.heads * self.head_width, self.projection.in_features
        self.query, self.key, self.value = (_linear(width, inner, self.projection.bias is not None) for _ in range(3))
        self.fused = False
        del self.projection
        for own, part in zip(self._matrices(), matrices, strict=True):
            own.data = part.clone()

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """The same attention with the same weights. Batches come first here, whatever `batch_first` is."""
        if module.bias_k is not None or module.add_zero_attn:
            raise InputError("MultiHeadAttention has no extra keys", got="a module with add_bias_kv or add_zero_attn")
        bias = module.in_proj_bias is not None
        same = module._qkv_same_embed_dim
        ours = cls(
            module.embed_dim,
            module.num_heads,
            key_width=module.kdim,
            value_width=module.vdim,
            bias=bias,
            fused=same,
            dropout=module.dropout,
        )
        ours.train(module.training)
        with torch.no_grad():
            for own, theirs in zip(ours._matrices(), _torch_matrices(module), strict=True):
                own.copy_(theirs)
        return ours.to(module.out_proj.weight)

    def to_torch(self) -> nn.MultiheadAttention:
        """An `nn.MultiheadAttention` (batch first) with the same weights; it must have all its heads."""
        width = self.output.out_features
        if self.heads * self.head_width != width:
            rule = f"nn.MultiheadAttention must have heads that fill its width of {width}"
            raise InputError(rule, got=f"{self.heads} heads of {self.head_width}")
        if self.score != ScaledDot():
            rule = "nn.MultiheadAttention knows the scaled dot product alone"
            raise InputError(rule, got=f"the score {type(self.score).__name__}")
        key_width, value_width = (width, width) if self.fused else (self.key.in_features, self.value.in_features)
        theirs = nn.MultiheadAttention(
            width,
            self.heads,
            dropout=self.dropout,
            bias=self.output.bias is not None,
            kdim=key_width,
            vdim=value_width,
            batch_first=True,
        )
        theirs.train(self.training)
        with torch.no_grad():
            for own, copy in zip(self._matrices(), _torch_matrices(theirs), strict=True):
                copy.copy_(own)
        return theirs.to(self.output.weight)

    def parameter_row(self, name: str) -> ParameterRow:
        """For equal widths: three projections into the heads and one out of them."""
        bias = " + 3*h*w + d" if self.output.bias is not None else ""
        sizes = {"d": self.output.out_features, "h": self.heads, "w": self.head_width}
        return ParameterRow(name, f"4*d*h*w{bias}", sizes)

    def require_heads(self, heads: set[int]) -> None:
        if not heads <= set(range(self.heads)):
            unknown = ", ".join(map(str, sorted(heads - set(range(self.heads)))))
            rule = f"heads to remove must be among the {self.heads} of the layer, counted from 0"
            raise InputError(rule, got=unknown)

    def _initialise(self) -> None:
        """Var W = 2 / (inputs + outputs) for each of the matrices, fused or not, and biases of zero."""
        for matrix in self._matrices():
            if matrix.ndim == 1:
                nn.init.zeros_(matrix)
            elif matrix.numel():
                nn.init.xavier_uniform_(matrix)

    def _matrices(self) -> list[Tensor]:
        """W^Q, W^K, W^V, W^O, then their biases, as views into the parameters."""
        if self.fused:
            weights, bias = self.projection.weight.chunk(3), self.projection.bias
            biases = () if bias is None else bias.chunk(3)
        else:
            linears = (self.query, self.key, self.value)
            weights = tuple(linear.weight for linear in linears)
            biases = tuple(linear.bias for linear in linears if linear.bias is not None)
        outward = () if self.output.bias is None else (self.output.bias,)
        return [*weights, self.output.weight, *biases, *outward]

    def _part(self, x: Tensor, first: int, last: int) -> Tensor:
        """Only the projections from `first` to before `last` of query, key and value."""
        rows = slice(first * self.heads * self.head_width, last * self.heads * self.head_width)
        bias = self.projection.bias
        return F.linear(x, self.projection.weight[rows], None if bias is None else bias[rows])

    def _split_heads(self, x: Tensor, parts: int) -> Sequence[Tensor]:
        # In parts first: their gradients are put side by side in one copy, which then is that of x.
        pattern = "batch time (head width) -> batch head time width"
        return [rearrange(part, pattern, width=self.head_width) for part in x.chunk(parts, -1)]


def _split(width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise InputError("the heads must divide the width", got=f"{heads} heads for a width of {width}")
    return width // heads


def _torch_matrices(module: nn.MultiheadAttention) -> list[Tensor]:
    if module._qkv_same_embed_dim:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = module.in_proj_bias.chunk(3) if module.in_proj_bias is not None else ()
    outward = [module.out_proj.bias] if module.out_proj.bias is not None else []
    return [*weights, module.out_proj.weight, *biases, *outward]


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    """Not yet initialised. Without heads a layer has no inputs or outputs, which `nn.Linear` would warn of."""
    linear = nn.Linear(1, 1, bias=bias, device="meta")
    linear.in_features, linear.out_features = inputs, outputs
    linear.weight = nn.Parameter(torch.empty(outputs, inputs))
    if bias:
        linear.bias = nn.Parameter(torch.empty(outputs))
    return linear


def _keep(linear: nn.Linear, *, rows: Tensor | None = None, columns: Tensor | None = None) -> None:
    if rows is not None:
        linear.weight = nn.Parameter(linear.weight[rows.to(linear.weight.device)])
        if linear.bias is not None:
            linear.bias = nn.Parameter(linear.bias[rows.to(linear.bias.device)])
    if columns is not None:
        linear.weight = nn.Parameter(linear.weight[:, columns.to(linear.weight.device)])
    linear.out_features, linear.in_features = linear.weight.shape


def heads_of(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Every multi-head attention of a model, by its name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def known_heads(model: nn.Module, chosen: Mapping[str, Iterable[int]]) -> dict[str, set[int]]:
    """What was chosen, once it is sure that the model has these layers and that they have these heads."""
    attentions, known = heads_of(model), {name: set(heads) for name, heads in chosen.items()}
    for name, heads in known.items():
        if name not in attentions:
            rule = "heads are chosen by the name of their attention module"
            raise InputError(rule, got=f"{name!r}", fix=nearest(name, attentions))
        attentions[name].require_heads(heads)
    return known


def remove_heads(model: nn.Module, removed: Mapping[str, Iterable[int]]) -> None:
    """Take heads out of a model for good; its `config.kept_heads` then says what is left."""
    attentions = heads_of(model)
    for name, heads in known_heads(model, removed).items():
        attentions[name].remove_heads(heads)
    config: Any = model.config
    model.config = config.keep_heads([attention.heads for attention in attentions.values()])
