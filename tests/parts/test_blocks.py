"""Blocks of attention beside PyTorch's own layers, and what a configuration of a stack must satisfy."""

from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

from neuropil.errors import InputError
from neuropil.parts.blocks import HIDDEN, HiddenName, StackConfig, TransformerBlock, initialise, quick_gelu, stack
from neuropil.parts.multi_head import KeyValueCache, MultiHeadAttention
from neuropil.parts.parameters import count_parameters
from neuropil.pretrained.names import THEIR_ACTIVATIONS

SMALL = StackConfig(width=12, heads=3, layers=2, feed_forward=20, dropout=0.0, attention_dropout=0.0)


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_units_are_those_of_hugging_face(name: HiddenName):
    z = torch.linspace(-12, 12, 401)
    assert torch.allclose(HIDDEN[name](z), ACT2FN[THEIR_ACTIVATIONS[name]](z), atol=1e-6)


def test_quick_gelu_is_near_gelu_and_finite_far_away():
    z = torch.linspace(-6, 6, 101)
    assert (quick_gelu(z) - F.gelu(z)).abs().max() < 0.021
    assert quick_gelu(torch.tensor([-1e4, 1e4])).tolist() == [0.0, 1e4]


@settings(deadline=None, max_examples=20)
@given(
    norm=st.sampled_from(["pre", "post"]),
    activation=st.sampled_from(["relu", "gelu"]),
    heads=st.integers(1, 4),
    time=st.integers(1, 6),
    epsilon=st.sampled_from([1e-5, 1e-2]),
    causal=st.booleans(),
)
def test_a_block_is_pytorchs_encoder_layer(
    norm: Literal["pre", "post"],
    activation: Literal["relu", "gelu"],
    heads: int,
    time: int,
    epsilon: float,
    causal: bool,
):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        4 * heads,
        heads,
        10,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=epsilon,
        batch_first=True,
        norm_first=norm == "pre",
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    ours = TransformerBlock(4 * heads, heads, 10, norm=norm, activation=activation, epsilon=epsilon)
    ours.attention = MultiHeadAttention.from_torch(theirs.self_attn)
    ours.feed_forward.inner, ours.feed_forward.outer = theirs.linear1, theirs.linear2
    ours.attention_sum.norm, ours.feed_forward_sum.norm = theirs.norm1, theirs.norm2
    x = torch.randn(2, time, 4 * heads)
    mask = torch.ones(time, time).triu(1).bool() if causal else None
    assert torch.allclose(ours(x, causal=causal), theirs(x, src_mask=mask), atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_with_a_cache_goes_on_where_it_stopped(norm: Literal["pre", "post"]):
    torch.manual_seed(0)
    block, x = TransformerBlock(12, 3, 20, norm=norm), torch.randn(2, 7, 12)
    whole, cache = block(x, causal=True), KeyValueCache()
    pieces = [block(piece, causal=True, cache=cache) for piece in x.split([3, 1, 2, 1], 1)]
    assert torch.allclose(torch.cat(pieces, 1), whole, atol=1e-5)


def test_dropout_silences_the_sublayers_and_attention_only_while_learning():
    torch.manual_seed(0)
    block, x = TransformerBlock(12, 3, 20, dropout=0.5, attention_dropout=0.5), torch.randn(2, 7, 12)
    assert not torch.equal(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


@pytest.mark.parametrize("kept", [(), (3, 1), (0, 2)])
def test_rows_count_what_is_left_of_a_stack(kept: tuple[int, ...]):
    for number, block in enumerate(stack(StackConfig.from_dict(SMALL.to_dict() | {"kept_heads": kept}))):
        assert block.attention.heads == (kept[number] if kept else 3)
        assert block.parameter_row("block").count == count_parameters(block)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"heads": 5}, "the heads must divide the width, but got 5 heads for a width of 12."),
        (
            {"kept_heads": (1,)},
            "kept_heads must be a number from 0 to 3 for each of the 2 attention modules, but got (1,).",
        ),
        (
            {"kept_heads": (1, 4)},
            "kept_heads must be a number from 0 to 3 for each of the 2 attention modules, but got (1, 4).",
        ),
        ({"layers": 0}, "layers must be at least 1, but got 0."),
        ({"dropout": 1.0}, "dropout must be at most 0.95, but got 1.0."),
    ],
)
def test_a_stack_that_cannot_be_built_is_refused(changes: dict[str, Any], sentence: str):
    with pytest.raises(InputError) as error:
        StackConfig.from_dict(SMALL.to_dict() | changes)
    assert str(error.value) == sentence


def test_first_weights_have_the_given_spread_and_first_biases_are_zero():
    torch.manual_seed(0)
    linear, embedding, convolution, norm = nn.Linear(60, 80), nn.Embedding(90, 40), nn.Conv2d(3, 30, 8), nn.LayerNorm(7)
    initialise(nn.ModuleList([linear, embedding, convolution, norm]), 0.05)
    for weight in (linear.weight, embedding.weight, convolution.weight):
        assert weight.std().item() == pytest.approx(0.05, rel=0.05)
    assert convolution.bias is not None
    assert not torch.cat([linear.bias, convolution.bias]).any()
    assert torch.equal(norm.weight, torch.ones(7))
