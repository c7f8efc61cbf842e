"""PyTorch's own attention modules are recorded as ours are."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from inspection.torch_warnings import without_prototype_warnings
from neuropil.inspection.recording import attention_modules, record


def by_torch(model: nn.Module, *inputs: Any, **options: Any) -> dict[str, Tensor]:
    """The weights that PyTorch itself returns when each of its modules is asked for them, off its fast path."""
    model, found = copy.deepcopy(model), {}

    def asked(name: str, forward: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
        def with_weights(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
            output, found[name] = forward(*args, **(kwargs | {"need_weights": True, "average_attn_weights": False}))
            return output, found[name]

        return with_weights

    for name, module in attention_modules(model).items():
        module.forward = asked(name, module.forward)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        model(*inputs, **options)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return found


@settings(deadline=None, max_examples=80)
@given(data=st.data(), grad=st.booleans(), need_weights=st.booleans())
def test_a_plain_multihead_attention_in_any_form_is_recorded(data: st.DataObject, grad: bool, need_weights: bool):
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    batched, batch_first = data.draw(st.booleans()), data.draw(st.booleans())
    widths: dict[str, int] = data.draw(st.sampled_from([{}, {"kdim": 5}, {"kdim": 5, "vdim": 6}]))
    extra: dict[str, bool] = data.draw(
        st.sampled_from([{}, {}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"bias": False}])
    )
    module = nn.MultiheadAttention(12, 3, batch_first=batch_first, **widths, **extra).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    queries, keys = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    query, key, value = (
        torch.randn(2, time, width) for time, width in ((queries, 12), (keys, module.kdim), (keys, module.vdim))
    )
    if not widths and data.draw(st.booleans()):  # self-attention, which has a fast path of its own
        key = value = query
        keys = queries
    options = data.draw(torch_masks(queries, keys, batched))
    if not batched:
        query, key, value = (x[0] for x in (query, key, value))
    elif not batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    with torch.set_grad_enabled(grad):
        plain = module(query, key, value, need_weights=need_weights, **options)[0]
        with record(module) as tape:
            watched = module(query, key, value, need_weights=need_weights, **options)[0]
    assert torch.equal(plain, watched)
    expected = by_torch(module, query, key, value, **options)["attention"]
    torch.testing.assert_close(tape.attention["attention"], expected if batched else expected[None], atol=1e-5, rtol=0)


@st.composite
def torch_masks(draw: st.DrawFn, queries: int, keys: int, batched: bool) -> dict[str, Tensor]:
    """PyTorch's: true, or −∞, where a query may not look. The first key is always there, or PyTorch would answer
    NaN."""
    options = {}
    if draw(st.booleans()):
        options["key_padding_mask"] = torch.arange(keys) >= torch.randint(1, keys + 1, (2, 1))
        options["key_padding_mask"] = options["key_padding_mask"] if batched else options["key_padding_mask"][0]
    per_head: tuple[int, ...] = draw(st.sampled_from([(), (2 * 3 if batched else 3,)]))
    if draw(st.booleans()):
        options["attn_mask"] = torch.rand(*per_head, queries, keys) < 0.5
        options["attn_mask"][..., 0] = False
    if draw(st.booleans()):
        options = {name: torch.zeros(mask.shape).masked_fill(mask, -torch.inf) for name, mask in options.items()}
        if "attn_mask" in options:
            options["attn_mask"] = options["attn_mask"] + torch.randn(options["attn_mask"].shape)
    return options


def test_a_hint_of_causality_without_a_mask_is_recorded_as_pytorch_takes_it():
    module, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 4, 8)
    with torch.no_grad(), record(module) as tape:
        output, weights = module(x, x, x, is_causal=True, average_attn_weights=False)
    torch.testing.assert_close(tape.attention["attention"], weights, atol=1e-5, rtol=0)
    assert torch.equal(output, module(x, x, x)[0])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("limit", ["none", "padding", "mask"])
def test_an_encoder_of_torch_is_recorded_on_its_fast_path(norm_first: bool, limit: str):
    torch.manual_seed(0)
    with without_prototype_warnings():
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
        encoder, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(3, 6, 8)
        padding = torch.arange(6) >= torch.tensor([[4], [6], [1]])
        options = {
            "none": {},
            "padding": {"src_key_padding_mask": padding},
            "mask": {"mask": torch.ones(6, 6).triu(1).bool()},
        }[limit]
        with torch.no_grad():
            plain = encoder(x, **options)
            with record(encoder) as tape:
                watched = encoder(x, **options)
        slow = encoder(x, **options)
        expected = by_torch(encoder, x, **options)
    assert torch.equal(plain, watched)
    assert limit != "padding" or not torch.equal(plain, slow), "on the fast path padding becomes zeros"
    assert list(tape.attention) == ["layers.0.self_attn", "layers.1.self_attn"]
    for name, weights in tape.attention.items():
        there = ~padding if limit == "padding" else torch.ones_like(padding)
        rows = there[:, None, :, None].expand_as(weights)  # padding asks nothing once it has been taken away
        torch.testing.assert_close(weights[rows], expected[name][rows], atol=1e-5, rtol=0)


def test_torchs_transformer_is_recorded_in_training_with_the_same_gradients():
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 2, 16, batch_first=True)
    source, target = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    padding = torch.arange(5) >= torch.tensor([[3], [5]])
    options = {
        "src_key_padding_mask": padding,
        "tgt_mask": torch.ones(4, 4).triu(1).bool(),
        "memory_key_padding_mask": padding,
    }

    def gradients() -> list[Tensor]:
        torch.manual_seed(1)
        return list(torch.autograd.grad(model(source, target, **options).square().sum(), list(model.parameters())))

    plain = gradients()
    with record(model) as tape:
        watched = gradients()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    decoder = [f"decoder.layers.{i}.{kind}" for i in range(2) for kind in ("self_attn", "multihead_attn")]
    assert list(tape.attention) == ["encoder.layers.0.self_attn", *decoder]
    model.eval()
    with record(model, layers="decoder.*") as tape, torch.no_grad():
        model(source, target, **options)
    expected = by_torch(model, source, target, **options)
    for name in decoder:
        torch.testing.assert_close(tape.attention[name], expected[name], atol=1e-5, rtol=0)


def test_what_is_wrong_with_the_inputs_is_still_said_by_the_module():
    module, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 4, 7)
    with pytest.raises(AssertionError) as plain:
        module(x, x, x)
    with pytest.raises(AssertionError) as watched, record(module):
        module(x, x, x)
    assert str(watched.value) == str(plain.value)
