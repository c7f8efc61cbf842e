"""Multi-head attention: its heads one by one, the cache of keys and values, and heads that are masked or removed."""

import copy
from itertools import pairwise

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.parts.attention import (
    Additive,
    Cosine,
    Hard,
    ScaledDot,
    Score,
    Smoothing,
    attend,
    attention_weights,
    padding_mask,
)
from neuropil.parts.kernels import Laplacian
from neuropil.parts.multi_head import KeyValueCache, MultiHeadAttention
from neuropil.parts.parameters import count_parameters

DOUBLE = torch.float64
WIDTH, HEADS = 12, 3


def made(**options) -> MultiHeadAttention:
    """In double precision, with biases that are not the zeros they start as."""
    layer = MultiHeadAttention(WIDTH, HEADS, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def one_by_one(
    layer: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Every head with its own W^Q, W^K, W^V, by the formula; then concatenation and W^O."""
    matrices = layer._matrices()
    weights, biases = matrices[:3], matrices[4:7] if layer.output.bias is not None else [torch.zeros(()).double()] * 3
    mixed = []
    for head in range(layer.heads):
        rows = slice(head * layer.head_width, (head + 1) * layer.head_width)
        q, k, v = (
            x @ weight[rows].T + (bias[rows] if bias.ndim else bias)
            for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        scores = q @ k.mT / layer.head_width**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, 0], -torch.inf)
        mixed.append(scores.softmax(-1) @ v)
    return layer.output(torch.cat(mixed, -1))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_heads_are_soft_selects_side_by_side(bias: bool, fused: bool):
    torch.manual_seed(0)
    layer = made(bias=bias, fused=fused, head_width=5)
    x, other, third = (torch.randn(2, time, WIDTH, dtype=DOUBLE) for time in (4, 6, 6))
    mask = padding_mask(torch.tensor([3, 6]), 6)
    torch.testing.assert_close(layer(x), one_by_one(layer, x, x, x))
    torch.testing.assert_close(layer(x, other, mask=mask), one_by_one(layer, x, other, other, mask))
    torch.testing.assert_close(layer(x, other, third), one_by_one(layer, x, other, third))


@settings(deadline=None, max_examples=25)
@given(
    bias=st.booleans(),
    cross=st.sampled_from(["self", "keys", "keys and values"]),
    causal=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_one_matrix_for_all_projections_is_three(bias: bool, cross: str, causal: bool, seed: int):
    torch.manual_seed(seed)
    fused, separate = made(bias=bias), made(bias=bias, fused=False)
    with torch.no_grad():
        for own, other in zip(separate._matrices(), fused._matrices(), strict=True):
            own.copy_(other)
    x, key, value = (torch.randn(2, time, WIDTH, dtype=DOUBLE) for time in (4, 5, 5))
    others = {"self": (), "keys": (key,), "keys and values": (key, value)}[cross]
    torch.testing.assert_close(fused(x, *others, causal=causal), separate(x, *others, causal=causal))
    assert count_parameters(fused) == count_parameters(separate)


def test_keys_and_values_may_have_widths_of_their_own():
    torch.manual_seed(0)
    layer = made(key_width=5, value_width=7)
    query, key, value = (
        torch.randn(2, 4, WIDTH, dtype=DOUBLE),
        torch.randn(2, 6, 5, dtype=DOUBLE),
        torch.randn(2, 6, 7, dtype=DOUBLE),
    )
    assert not layer.fused
    torch.testing.assert_close(layer(query, key, value), one_by_one(layer, query, key, value))


@pytest.mark.parametrize(
    "score", [Cosine(3.0), Smoothing(Laplacian()), Additive(4, 4, 6).double(), Hard()], ids=lambda s: type(s).__name__
)
def test_any_score_may_be_the_heads_own(score: Score):
    layer, x = made(score=score), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    query, key, value = layer.project(x)
    mixed = attention_weights(query, key, score=score, causal=True) @ value
    torch.testing.assert_close(
        layer(x, causal=True), layer.output(rearrange(mixed, "batch head query width -> batch query (head width)"))
    )


def test_a_scores_parameters_are_learned_with_the_layers():
    layer = MultiHeadAttention(WIDTH, HEADS, score=Additive(4, 4, 6))
    assert {name for name, _ in layer.named_parameters()} >= {"score.query.weight", "score.key.weight", "score.weight"}


def test_first_weights_have_the_variance_of_their_own_matrix_fused_or_not():
    """Glorot: Var W = 2 / (inputs + outputs), of each projection and not of the three together."""
    for fused in (True, False):
        torch.manual_seed(0)
        layer = MultiHeadAttention(256, 4, fused=fused)
        spreads = torch.stack([matrix.std() for matrix in layer._matrices() if matrix.ndim == 2])
        torch.testing.assert_close(spreads, torch.full((4,), (2 / 512) ** 0.5), rtol=0.02, atol=0)
        assert not any(matrix.any() for matrix in layer._matrices() if matrix.ndim == 1)


def test_dropout_is_for_training_only():
    torch.manual_seed(0)
    layer, x = made(dropout=0.5), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    assert not torch.allclose(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"head_width": 7}])
def test_the_parameter_row_is_the_layer(options: dict):
    layer = MultiHeadAttention(WIDTH, HEADS, **options)
    assert layer.parameter_row("layer").count == count_parameters(layer)


def test_a_tap_hears_the_queries_and_keys_of_the_heads():
    layer, x = made(), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    heard = []
    layer.tap = lambda query, key, mask, bias, causal: heard.append((query, key, mask, bias, causal))
    watched = layer(x, causal=True)
    layer.tap = None
    assert torch.equal(watched, layer(x, causal=True))
    ((query, key, mask, bias, causal),) = heard
    torch.testing.assert_close((query, key), layer.project(x)[:2])
    assert (mask, bias, causal) == (None, None, True)


# --- the cache of keys and values -------------------------------------------------------------------------------------


def cuts(time: int) -> st.SearchStrategy[list[int]]:
    """Lengths of the pieces of a sequence."""
    return st.lists(st.integers(0, time), max_size=6).map(
        lambda at: [b - a for a, b in pairwise([0, *sorted(at), time])]
    )


@settings(deadline=None, max_examples=25)
@given(pieces=st.integers(1, 70).flatmap(cuts), seed=st.integers(0, 2**16), padded=st.booleans())
def test_a_sequence_in_pieces_gives_what_the_whole_gives(pieces: list[int], seed: int, padded: bool):
    torch.manual_seed(seed)
    layer, x, cache = made(), torch.randn(2, sum(pieces), WIDTH, dtype=DOUBLE), KeyValueCache()
    mask = padding_mask(torch.tensor([1, sum(pieces)]), sum(pieces)) if padded else None
    parts, done = [], 0
    for piece in x.split(pieces, dim=1):
        done += piece.shape[1]
        parts.append(layer(piece, causal=True, cache=cache, mask=None if mask is None else mask[..., :done]))
        assert cache.length == done
    torch.testing.assert_close(torch.cat(parts, 1), layer(x, causal=True, mask=mask))


@settings(deadline=None, max_examples=20)
@given(before=st.integers(1, 40), rows=st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_a_reordered_cache_goes_on_with_those_rows(before: int, rows: list[int]):
    layer, x, cache = made(), torch.randn(3, before, WIDTH, dtype=DOUBLE), KeyValueCache()
    index = torch.tensor(rows)
    cache.reorder(index)  # of nothing: nothing happens
    layer(x, causal=True, cache=cache)
    cache.reorder(index)
    new = torch.randn(len(rows), 2, WIDTH, dtype=DOUBLE)
    whole = layer(torch.cat([x[index], new], 1), causal=True)
    torch.testing.assert_close(layer(new, causal=True, cache=cache), whole[:, before:])


# --- heads that are masked or removed ---------------------------------------------------------------------------------

subsets = st.sets(st.integers(0, HEADS - 1))


@settings(deadline=None, max_examples=30)
@given(removed=subsets, bias=st.booleans(), fused=st.booleans(), cross=st.booleans())
def test_a_removed_head_is_a_masked_one_and_its_weights_are_gone(
    removed: set[int], bias: bool, fused: bool, cross: bool
):
    layer = made(bias=bias, fused=fused)
    x, key = torch.randn(2, 5, WIDTH, dtype=DOUBLE), torch.randn(2, 4, WIDTH, dtype=DOUBLE) if cross else None
    pruned = copy.deepcopy(layer)
    layer.head_mask = torch.tensor([float(head not in removed) for head in range(HEADS)], dtype=DOUBLE)
    masked = layer(x, key, causal=not cross)
    pruned.remove_heads(removed)
    torch.testing.assert_close(pruned(x, key, causal=not cross), masked)
    assert pruned.heads == HEADS - len(removed)
    assert pruned.parameter_row("layer").count == count_parameters(pruned)


@settings(deadline=None, max_examples=20)
@given(removed=subsets, bias=st.booleans(), fused=st.booleans())
def test_a_pruned_layer_is_saved_and_loads_into_a_layer_of_so_many_heads(removed: set[int], bias: bool, fused: bool):
    pruned, x = made(bias=bias, fused=fused), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    pruned.remove_heads(removed)
    fresh = MultiHeadAttention(WIDTH, pruned.heads, head_width=pruned.head_width, bias=bias, fused=fused).double()
    fresh.load_state_dict(pruned.state_dict())
    assert torch.equal(fresh(x), pruned(x))


def test_without_any_head_only_the_bias_of_the_output_remains():
    layer = made()
    layer.remove_heads(range(HEADS))
    x = torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    assert torch.equal(layer(x, x[:, :3]), layer.output.bias.expand(2, 5, WIDTH))
    layer(x).sum().backward()
    cache = KeyValueCache()
    assert layer(x, causal=True, cache=cache).shape == x.shape


def test_heads_are_counted_anew_after_each_removal_and_masks_follow():
    layer, x = made(), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    twice, mask = copy.deepcopy(layer), torch.tensor([0.5, 0.0, 2.0], dtype=DOUBLE)
    layer.head_mask = twice.head_mask = mask
    before = layer(x)
    layer.remove_heads([1])
    assert layer.head_mask.tolist() == [0.5, 2.0]
    torch.testing.assert_close(layer(x), before)
    layer.remove_heads([0])
    twice.remove_heads(iter([0, 1]))  # any iterable, even one that can be walked once only
    torch.testing.assert_close(layer(x), twice(x))


def test_a_head_mask_scales_heads_and_has_a_gradient():
    layer, x = made(), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    outputs = []
    for factors in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [2.0, -1.0, 0.5]):
        layer.head_mask = torch.tensor(factors, dtype=DOUBLE, requires_grad=True)
        outputs.append(layer(x) - layer.output.bias)
    torch.testing.assert_close(outputs[3], 2 * outputs[0] - outputs[1] + 0.5 * outputs[2])
    (gradient,) = torch.autograd.grad(outputs[3].sum(), layer.head_mask)
    torch.testing.assert_close(gradient, torch.stack([output.sum() for output in outputs[:3]]))


def test_removing_heads_keeps_what_is_learned_trainable():
    layer = made()
    layer.remove_heads([2])
    layer(torch.randn(2, 5, WIDTH, dtype=DOUBLE)).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in layer.parameters())


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "heads"), [(10, 3), (10, 0)])
def test_heads_that_do_not_divide_the_width_are_refused(width: int, heads: int):
    with pytest.raises(InputError) as error:
        MultiHeadAttention(width, heads)
    assert str(error.value) == f"the heads must divide the width, but got {heads} heads for a width of {width}."


def test_heads_that_are_not_there_cannot_be_removed():
    layer = made()
    with pytest.raises(InputError) as error:
        layer.remove_heads([-1, 1, 3])
    assert str(error.value) == "heads to remove must be among the 3 of the layer, counted from 0, but got -1, 3."
    assert layer.heads == HEADS


def test_what_torchs_module_cannot_be_is_refused():
    pruned = made()
    pruned.remove_heads([0])
    with pytest.raises(InputError) as error:
        pruned.to_torch()
    assert str(error.value) == "nn.MultiheadAttention must have heads that fill its width of 12, but got 2 heads of 4."
    with pytest.raises(InputError) as error:
        made(score=Cosine()).to_torch()
    assert str(error.value) == "nn.MultiheadAttention knows the scaled dot product alone, but got the score Cosine."


def test_torchs_extra_keys_are_refused():
    for option in ("add_bias_kv", "add_zero_attn"):
        with pytest.raises(InputError) as error:
            MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(8, 2, **{option: True}))
        assert (
            str(error.value)
            == "MultiHeadAttention has no extra keys, but got a module with add_bias_kv or add_zero_attn."
        )


def test_the_fast_path_is_the_attention_of_this_library():
    layer, x = made(), torch.randn(2, 5, WIDTH, dtype=DOUBLE)
    query, key, value = layer.project(x)
    mixed = attend(query, key, value, score=ScaledDot(), causal=True)
    torch.testing.assert_close(layer.select(query, key, value, causal=True), layer(x, causal=True))
    expected = F.linear(rearrange(mixed, "b h q w -> b q (h w)"), layer.output.weight, layer.output.bias)
    torch.testing.assert_close(layer(x, causal=True), expected)
