"""Attention weights of a model while it runs as it always does: on the fused kernels, which never hold them.

    with record(model, layers="decoder.*.cross", heads=[0, 3], queries=range(8)) as tape:
        model(source, target)
    tape.attention["decoder.2.cross"]        batch × head × query × key

Each attention tells a recorder its queries and keys; the recorder computes the weights that were asked for, and nothing
else, a few rows at a time. What the model computes is untouched, bit for bit. A layer that runs several times within
the block is remembered as it ran last. It also works on `nn.MultiheadAttention`, alone or inside `nn.Transformer`, and
while a model is compiled.
"""

import copy
import fnmatch
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError, nearest
from neuropil.parts.attention import ScaledDot, Score, Tap, attention_weights

Limit: TypeAlias = Tensor | None
"""A mask, or a bias of the scores."""
Indices: TypeAlias = Iterable[int] | None
"""None for all."""

NUMBERS_AT_ONCE = 2**19
"""Scores held at one time while weights are computed: 2 MB in single precision, which stay in the processor's cache."""


@dataclass
class Tape:
    attention: dict[str, Float[Tensor, "batch head query key"]] = field(default_factory=dict)
    """Weights by the name of the module, in the order in which the modules ran."""


@contextmanager
def record(
    model: nn.Module, *, layers: str | Iterable[str] = "*", heads: Indices = None, queries: Indices = None
) -> Iterator[Tape]:
    """Record attention modules whose names match `layers` (shell patterns), these heads and queries; default all.

    A head or query that a layer does not have is left out, so that texts of any length can be watched by the same rows.
    """
    model = cast(nn.Module, getattr(model, "_orig_mod", model))  # what torch.compile wraps
    tape = Tape()
    chosen = _chosen(model, [layers] if isinstance(layers, str) else list(layers))
    with ExitStack() as stack:
        wanted = _indices(heads), _indices(queries)
        observers = {module: _Observer(tape, name, _score_of(module), *wanted) for name, module in chosen.items()}
        for module, observer in observers.items():
            stack.enter_context(_registered(observer))
            torchs = isinstance(module, nn.MultiheadAttention)
            told = _told_by_torch(module, observer) if torchs else _told(cast(Attentive, module), observer)
            stack.enter_context(told)
        for layer in model.modules():
            if isinstance(layer, nn.TransformerEncoderLayer) and layer.self_attn in observers:
                stack.enter_context(_told_by_fast_path(layer, observers[layer.self_attn]))
        yield tape


@runtime_checkable
class Attentive(Protocol):
    """A module that tells its `tap` of every attention; parts.multi_head is one."""

    score: Score
    tap: Tap | None


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """All that can be recorded, by name; a model that is an attention module itself is named `attention`."""
    named = model.named_modules()
    found = [(name, each) for name, each in named if hasattr(each, "tap") or isinstance(each, nn.MultiheadAttention)]
    return {name or "attention": module for name, module in found}


def _chosen(model: nn.Module, patterns: Sequence[str]) -> dict[str, nn.Module]:
    known = attention_modules(model)
    if not known:
        raise InputError("record watches models with attention", got=f"a {type(model).__name__} without any")
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            rule = "layers must name attention modules of the model"
            raise InputError(rule, got=f"{pattern!r}", fix=nearest(pattern, known))
    return {name: known[name] for name in known if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)}


def _score_of(module: nn.Module) -> Score:
    return ScaledDot() if isinstance(module, nn.MultiheadAttention) else cast(Attentive, module).score


def _indices(chosen: Indices) -> list[int] | None:
    return None if chosen is None else sorted(set(chosen))


# --- the recorder -----------------------------------------------------------------------------------------------------


class _Observer:
    """Is told of queries and keys, and computes weights. In a compiled graph it is reached through an operator, which a
    compiler leaves where it is because it changes the `ticket`: the observer's number, and how often the operator ran.
    The number is a tensor, so that one graph serves every recording."""

    numbers = itertools.count()
    running: dict[int, "_Observer"] = {}  # noqa: RUF012 (all of them, for the operator)

    def __init__(self, tape: Tape, name: str, score: Score, heads: list[int] | None, queries: list[int] | None):
        self.tape, self.name, self.score, self.heads, self.queries = tape, name, score, heads, queries
        self.number, self.told = next(self.numbers), False
        self.ticket = torch.tensor([self.number, 0])

    def __call__(self, query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool) -> None:
        self.told = True
        query, key = query.detach(), key.detach()
        bias = None if bias is None else bias.detach()
        if torch.compiler.is_compiling():
            torch.ops.neuropil.observe(self.ticket, query, key, mask, bias, causal)
        else:
            self.observe(query, key, mask, bias, causal)

    @torch.no_grad()
    def observe(self, query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool) -> None:
        if query.ndim == 3:  # one head, without an axis for it
            query, key = query.unsqueeze(1), key.unsqueeze(1)
            mask, bias = (limit if limit is None or limit.ndim < 3 else limit.unsqueeze(1) for limit in (mask, bias))
        heads = _present(self.heads, query.shape[1], query.device)
        rows = _present(self.queries, query.shape[2], query.device)
        mask, bias = (None if limit is None else _of_heads(limit, heads, query.shape[1]) for limit in (mask, bias))
        query, key = _of_heads(query, heads, query.shape[1]), _of_heads(key, heads, query.shape[1])
        with torch.autocast(query.device.type, enabled=False):
            self.tape.attention.pop(self.name, None)
            query, key = _single(query), _single(key)
            score = _in_precision_of(query, self.score)
            self.tape.attention[self.name] = _weights_in_pieces(query, key, score, mask, bias, causal, rows)


@torch.library.custom_op("neuropil::observe", mutates_args=("ticket",))
def _observe(
    ticket: Tensor, query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool
) -> None:
    ticket[1] += 1
    observer = _Observer.running.get(int(ticket[0]))
    if observer is not None:
        observer.observe(query, key, mask, bias, causal)


@_observe.register_fake
def _(ticket: Tensor, query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool) -> None:
    return None


def _weights_in_pieces(
    query: Tensor, key: Tensor, score: Score, mask: Limit, bias: Limit, causal: bool, rows: Tensor
) -> Float[Tensor, "batch head query key"]:
    weights = query.new_empty(*query.shape[:2], len(rows), key.shape[2])
    numbers = query.shape[0] * query.shape[1] * key.shape[2] * score.numbers_per_pair
    limits = {"mask": mask, "causal": causal, "bias": _single(bias)}
    at_once = max(1, NUMBERS_AT_ONCE // max(1, numbers))
    for piece, place in zip(rows.split(at_once), weights.split(at_once, dim=2), strict=True):
        place.copy_(attention_weights(query, key, score=score, rows=piece, **limits))
    return weights


def _present(chosen: list[int] | None, count: int, device: torch.device) -> Tensor:
    indices = range(count) if chosen is None else [index for index in chosen if 0 <= index < count]
    return torch.tensor(indices, device=device, dtype=torch.int64)


def _of_heads(part: Tensor, heads: Tensor, count: int) -> Tensor:
    """Queries, keys, or a mask or bias that may differ between heads."""
    if part.ndim < 4 or part.shape[1] != count or len(heads) == count:
        return part
    return part.index_select(1, heads)


def _single(x: Tensor | None) -> Any:
    """Half precision has too few digits for weights that sum to one."""
    return x.float() if x is not None and x.dtype in (torch.bfloat16, torch.float16) else x


def _in_precision_of(query: Tensor, score: Score) -> Score:
    """A score may have weights of its own, which are then as short as the model's."""
    if not isinstance(score, nn.Module) or all(weight.dtype == query.dtype for weight in score.parameters()):
        return score
    return copy.deepcopy(score).to(query.dtype)


# --- how modules tell it ----------------------------------------------------------------------------------------------


@contextmanager
def _registered(observer: _Observer) -> Iterator[None]:
    _Observer.running[observer.number] = observer
    try:
        yield
    finally:
        del _Observer.running[observer.number]


@contextmanager
def _told(module: Attentive, observer: _Observer) -> Iterator[None]:
    before = module.tap

    def both(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, causal: bool) -> None:
        """A recorder within another's block takes nothing from it."""
        if before is not None:
            before(query, key, mask, bias, causal)
        observer(query, key, mask, bias, causal)

    module.tap = observer if before is None else both
    try:
        yield
    finally:
        module.tap = before


@contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Not a hook: where PyTorch sees one, it leaves its fast path, and the output would change in its last digits."""
    outer = module.__dict__.get("forward")  # of a recorder around this one
    module.forward = forward
    try:
        yield
    finally:
        if outer is None:
            del module.forward
        else:
            module.forward = outer


def _told_by_torch(module: nn.MultiheadAttention, observer: _Observer) -> Any:
    original = module.forward
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        output = original(*args, **kwargs)  # first: what is wrong with the inputs is for the module to say
        _tell(module, observer, values["query"], values["key"], values["key_padding_mask"], values["attn_mask"])
        return output

    return _replaced_forward(module, forward)


def _tell(
    module: nn.MultiheadAttention, observer: _Observer, query: Tensor, key: Tensor, padding: Limit, attn_mask: Limit
) -> None:
    """Queries and keys as this module projects them, and its two masks as ours: true where one may look. Its
    `is_causal` says nothing more: it is a hint that `attn_mask` is of that form."""
    if query.ndim == 2:
        query, key, padding = query.unsqueeze(0), key.unsqueeze(0), None if padding is None else padding.unsqueeze(0)
    elif not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    same = module._qkv_same_embed_dim
    of_query, of_key = module.in_proj_weight.chunk(3)[:2] if same else (module.q_proj_weight, module.k_proj_weight)
    biases = (None, None) if module.in_proj_bias is None else module.in_proj_bias.chunk(3)[:2]
    by_head = "batch time (head width) -> batch head time width"
    q = rearrange(F.linear(query, of_query, biases[0]), by_head, head=module.num_heads)
    k = rearrange(F.linear(key, of_key, biases[1]), by_head, head=module.num_heads)
    k = _with_extra_keys(module, k)
    extra = (0, k.shape[2] - key.shape[1])
    padding, attn_mask = (None if limit is None else F.pad(limit, extra) for limit in (padding, attn_mask))
    mask, bias = _torch_masks(padding, attn_mask, module.num_heads)
    observer(q, k, mask, bias, False)


def _with_extra_keys(
    module: nn.MultiheadAttention, k: Float[Tensor, "batch head key width"]
) -> Float[Tensor, "batch head more width"]:
    """A module may have a learned key, and a zero, that every query sees."""
    if module.bias_k is not None:
        learned = rearrange(module.bias_k, "1 1 (head width) -> 1 head 1 width", head=module.num_heads)
        k = torch.cat([k, learned.expand(len(k), -1, -1, -1).to(k.dtype)], 2)
    return F.pad(k, (0, 0, 0, 1)) if module.add_zero_attn else k


def _torch_masks(padding: Limit, attn_mask: Limit, heads: int) -> tuple[Bool[Tensor, "..."] | None, Limit]:
    """In PyTorch a boolean mask is true where one may NOT look, and a mask of numbers is added to the scores."""
    limits = []
    if padding is not None:
        limits.append(padding[:, None, None])
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = rearrange(attn_mask, "(batch head) query key -> batch head query key", head=heads)
    if attn_mask is not None:
        limits.append(attn_mask)
    masks = [~limit for limit in limits if limit.dtype == torch.bool]
    biases = [limit for limit in limits if limit.dtype != torch.bool]
    mask = functools.reduce(Tensor.logical_and, masks) if masks else None
    return mask, functools.reduce(Tensor.add, biases) if biases else None


def _told_by_fast_path(layer: nn.TransformerEncoderLayer, observer: _Observer) -> Any:
    """Outside of training this layer bypasses its attention module; then we record what that module would have seen."""
    original = layer.forward
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(*args, **kwargs)
        given.apply_defaults()
        observer.told = False
        output = original(*args, **kwargs)
        if not observer.told:
            values = given.arguments
            x, padding = _padded(values["src"], values["src_key_padding_mask"])
            x = layer.norm1(x) if layer.norm_first else x
            _tell(layer.self_attn, observer, x, x, padding, values["src_mask"])
        return output

    return _replaced_forward(layer, forward)


def _padded(x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """`nn.TransformerEncoder` may take the padding away; this puts it back."""
    if not x.is_nested:
        return x, padding
    lengths = torch.tensor([len(one) for one in x.unbind()], device=x.device)
    padded = x.to_padded_tensor(0.0)
    return padded, torch.arange(padded.shape[1], device=x.device) >= lengths[:, None]
