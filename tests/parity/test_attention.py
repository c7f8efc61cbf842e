"""Attention beside PyTorch's own: the fused kernel with every limit, and `nn.MultiheadAttention` with weights copied
both ways."""

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from neuropil.parts.attention import (
    Cosine,
    Dot,
    Hopfield,
    ScaledDot,
    Score,
    Smoothing,
    attend,
    attention_weights,
    causal_mask,
    padding_mask,
)
from neuropil.parts.kernels import Gaussian, Laplacian
from neuropil.parts.multi_head import MultiHeadAttention

sizes = st.integers(1, 7)


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=sizes,
    keys=sizes,
    width=sizes,
    v_width=sizes,
    limit=st.sampled_from(["none", "padding", "causal", "padding and causal", "arbitrary", "bias"]),
    seed=st.integers(0, 2**16),
)
def test_attend_equals_torchs_scaled_dot_product_attention(
    batch: int, heads: int, queries: int, keys: int, width: int, v_width: int, limit: str, seed: int
):
    torch.manual_seed(seed)
    query, key, value = (torch.randn(batch, heads, n, w) for n, w in ((queries, width), (keys, width), (keys, v_width)))
    mask = bias = None
    if "padding" in limit:
        mask = padding_mask(torch.randint(1, keys + 1, (batch,)), keys)
    if limit == "arbitrary":
        mask = torch.rand(batch, heads, queries, keys) < 0.7
    if limit == "bias":
        bias = torch.randn(batch, heads, queries, keys)
    theirs = causal_mask(queries, keys) if limit == "causal" else bias if mask is None else mask
    theirs = mask & causal_mask(queries, keys) if mask is not None and "causal" in limit else theirs
    ours = attend(query, key, value, mask=mask, causal="causal" in limit, bias=bias)
    torch.testing.assert_close(
        ours, F.scaled_dot_product_attention(query, key, value, attn_mask=theirs), atol=1e-6, rtol=1e-5
    )
    weights = attention_weights(query, key, mask=mask, causal="causal" in limit, bias=bias)
    torch.testing.assert_close(weights @ value, ours, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("score", "scale"), [(Dot(), 1.0), (Hopfield(0.3), 0.3)])
def test_other_inner_products_are_torchs_with_another_scale(score: Score, scale: float):
    query, key, value = torch.randn(3, 2, 2, 5, 4)
    ours = attend(query, key, value, score=score, causal=True)
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale))


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
@pytest.mark.parametrize(
    "score", [ScaledDot(), Cosine(), Smoothing(Gaussian())], ids=lambda score: type(score).__name__
)
def test_inner_products_run_on_the_kernel_that_never_holds_the_weights(leading: tuple[int, ...], score: Score):
    """Restricted to that kernel, PyTorch refuses what it would otherwise compute the long way without a word."""
    query, key, value = torch.randn(*leading, 5, 4), torch.randn(*leading, 6, 4), torch.randn(*leading, 6, 3)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        masks = {"mask": torch.rand(5, 6) < 0.5}, {"mask": torch.rand(6) < 0.5}
        choices: list[dict[str, Any]] = [{}, {"causal": True}, *masks, {"bias": torch.randn(5, 6)}]
        for limits in choices:
            mixed = attend(query, key, value, score=score, **limits)
            torch.testing.assert_close(mixed, attention_weights(query, key, score=score, **limits) @ value)


@pytest.mark.parametrize("score", [ScaledDot(), Smoothing(Gaussian()), Smoothing(Laplacian())])
def test_on_the_meta_device_shapes_are_enough(score: Score):
    x = torch.empty(2, 3, 5, 4, device="meta")
    lengths = torch.ones(2, dtype=torch.int64, device="meta")
    assert attend(x, x, x, score=score, mask=padding_mask(lengths, 5), causal=True).shape == x.shape


# --- nn.MultiheadAttention --------------------------------------------------------------------------------------------


@st.composite
def torch_modules(draw: st.DrawFn) -> nn.MultiheadAttention:
    """In any form, with biases that are not the zeros they start as."""
    torch.manual_seed(draw(st.integers(0, 2**16)))
    heads, head_width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    other_widths: dict[str, Any] = draw(st.sampled_from([{}, {"kdim": 5}, {"vdim": 6}, {"kdim": 5, "vdim": 6}]))
    module = nn.MultiheadAttention(
        heads * head_width, heads, bias=draw(st.booleans()), batch_first=True, **other_widths
    )
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.eval()


@st.composite
def inputs_for(draw: st.DrawFn, module: nn.MultiheadAttention) -> tuple[Tensor, Tensor, Tensor]:
    """For self-attention where the widths allow it, or for queries that look elsewhere."""
    query = torch.randn(2, draw(sizes), module.embed_dim)
    if module._qkv_same_embed_dim and draw(st.booleans()):
        return query, query, query
    keys = draw(sizes)
    return query, torch.randn(2, keys, module.kdim), torch.randn(2, keys, module.vdim)


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    module=torch_modules(),
    limit=st.sampled_from(["none", "padding", "causal", "padding and causal", "arbitrary"]),
)
def test_multi_head_attention_equals_torchs_with_the_same_weights(
    data: st.DataObject, module: nn.MultiheadAttention, limit: str
):
    query, key, value = data.draw(inputs_for(module))
    queries, keys = query.shape[1], key.shape[1]
    mask, theirs = None, {}
    if "padding" in limit:
        mask = padding_mask(torch.randint(1, keys + 1, (2,)), keys)
        theirs["key_padding_mask"] = ~mask[:, 0, 0]
    if "causal" in limit and queries <= keys:
        theirs["attn_mask"] = ~causal_mask(queries, keys)
    if limit == "arbitrary":
        mask = torch.rand(queries, keys) < 0.5
        mask[:, 0] = True  # torch answers NaN to a query that sees nothing
        theirs["attn_mask"] = ~mask
    expected, expected_weights = module(query, key, value, average_attn_weights=False, **theirs)
    ours = MultiHeadAttention.from_torch(module)
    causal = "causal" in limit and queries <= keys
    arguments = (query,) if key is query else (query, key, value)
    torch.testing.assert_close(ours(*arguments, mask=mask, causal=causal), expected, atol=1e-6, rtol=1e-5)
    q, k, _ = ours.project(*arguments)
    torch.testing.assert_close(
        attention_weights(q, k, mask=mask, causal=causal), expected_weights, atol=1e-6, rtol=1e-5
    )


@settings(deadline=None, max_examples=30)
@given(data=st.data(), module=torch_modules())
def test_weights_go_to_torch_and_come_back_unchanged(data: st.DataObject, module: nn.MultiheadAttention):
    query, key, value = data.draw(inputs_for(module))
    back = MultiHeadAttention.from_torch(module).to_torch()
    assert back.state_dict().keys() == module.state_dict().keys()
    assert all(torch.equal(tensor, back.state_dict()[name]) for name, tensor in module.state_dict().items())
    assert torch.equal(back(query, key, value)[0], module(query, key, value)[0])
    ours = MultiHeadAttention(
        module.embed_dim, module.num_heads, key_width=module.kdim, value_width=module.vdim, fused=False
    ).eval()
    torch.testing.assert_close(ours.to_torch()(query, key, value)[0], ours(query, key, value), atol=1e-6, rtol=1e-5)


def test_gradients_equal_torchs():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 3, batch_first=True)
    ours, x = MultiHeadAttention.from_torch(module), torch.randn(2, 5, 12)
    module(x, x, x, attn_mask=~causal_mask(5, 5))[0].square().sum().backward()
    ours(x, causal=True).square().sum().backward()
    torch.testing.assert_close(ours.projection.weight.grad, module.in_proj_weight.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.projection.bias.grad, module.in_proj_bias.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.output.weight.grad, module.out_proj.weight.grad, atol=1e-5, rtol=1e-5)


def test_dropout_mode_and_precision_come_along():
    module = nn.MultiheadAttention(8, 2, dropout=0.3, dtype=torch.float64).eval()
    ours = MultiHeadAttention.from_torch(module)
    assert (ours.dropout, ours.training, ours.output.weight.dtype) == (0.3, False, torch.float64)
    theirs = ours.train().to_torch()
    assert (theirs.dropout, theirs.training, theirs.out_proj.weight.dtype) == (0.3, True, torch.float64)
    assert not any(own is copied for own in ours.parameters() for copied in copy.copy(theirs).parameters())
