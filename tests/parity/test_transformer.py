"""Our Transformer beside nn.Transformer with the same weights, both ways, for every combination of masks."""

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.pretrained.torch_transformer import from_torch, names_of, to_torch

WIDTH, BATCH = 12, 2


@pytest.fixture(autouse=True)
def without_prototype_warnings() -> Iterator[None]:
    """PyTorch warns of its own nested tensors, and of layers for which it does not use them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage")
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        yield


def torchs(norm_first: bool, heads: int = 3, layers: int = 2, **options: Any) -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        module = nn.Transformer(WIDTH, heads, layers, layers, 20, batch_first=True, norm_first=norm_first, **options)
    for parameter in module.parameters():  # not the zeros and ones that biases and norms start as
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return module.eval()


def ours_of(module: nn.Transformer) -> Transformer:
    return from_torch(module, source_vocabulary_size=9, target_vocabulary_size=9)


@st.composite
def masks(draw: st.DrawFn, queries: int, keys: int) -> tuple[Tensor | None, Tensor | None]:
    """Who may look at what, and which keys are there. The first key is always seen, or PyTorch would answer NaN."""
    mask = padding = None
    if draw(st.booleans()):
        mask = torch.rand(queries, keys) < 0.6
        mask[:, 0] = True
    if draw(st.booleans()):
        padding = torch.arange(keys) < torch.randint(1, keys + 1, (BATCH, 1))
    return mask, padding


def as_ours(mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
    present = None if padding is None else padding[:, None, None]
    return present if mask is None else mask if present is None else mask & present


def as_theirs(mask: Tensor | None, numbers: bool) -> Tensor | None:
    if mask is None or not numbers:
        return None if mask is None else ~mask
    return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)


def run_both(ours: Transformer, theirs: nn.Transformer, data: st.DataObject) -> tuple[Tensor, Tensor]:
    """With whatever masks are drawn, causal or not."""
    sizes = st.integers(1, 6)
    x, y = torch.randn(BATCH, data.draw(sizes), WIDTH), torch.randn(BATCH, data.draw(sizes), WIDTH)
    source, target = x.shape[1], y.shape[1]
    (src, src_there), (tgt, tgt_there) = data.draw(masks(source, source)), data.draw(masks(target, target))
    memory, memory_there = data.draw(masks(target, source))
    causal, numbers = data.draw(st.booleans()), data.draw(st.booleans())
    triangle = torch.ones(target, target).tril().bool()
    seen = tgt if not causal else triangle if tgt is None else tgt & triangle
    given = {
        "src_mask": src,
        "tgt_mask": seen,
        "memory_mask": memory,
        "src_key_padding_mask": src_there,
        "tgt_key_padding_mask": tgt_there,
        "memory_key_padding_mask": memory_there,
    }
    hint = {"tgt_is_causal": True} if causal and tgt is None and data.draw(st.booleans()) else {}
    expected = theirs(x, y, **{name: as_theirs(mask, numbers) for name, mask in given.items()}, **hint)
    read = ours.encode(x, as_ours(src, src_there))
    return ours.decode(
        y, read, mask=as_ours(tgt, tgt_there), causal=causal, memory_mask=as_ours(memory, memory_there)
    ), expected


@settings(deadline=None, max_examples=60)
@given(data=st.data(), norm_first=st.booleans(), heads=st.sampled_from([1, 3, 4]), seed=st.integers(0, 2**16))
def test_weights_of_torch_give_torchs_output_for_any_masks(
    data: st.DataObject, norm_first: bool, heads: int, seed: int
):
    torch.manual_seed(seed)
    theirs = torchs(norm_first, heads)
    ours, expected = run_both(ours_of(theirs), theirs, data)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), norm=st.sampled_from(["post", "pre"]), final_norm=st.booleans(), seed=st.integers(0, 2**16))
def test_our_weights_give_our_output_in_torch_for_any_masks(
    data: st.DataObject, norm: str, final_norm: bool, seed: int
):
    torch.manual_seed(seed)
    config = TransformerConfig(
        width=WIDTH, heads=3, layers=1, feed_forward=16, source_vocabulary_size=9, target_vocabulary_size=9
    )
    model = Transformer(dataclasses.replace(config, norm=norm, final_norm=final_norm)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    ours, expected = run_both(model, to_torch(model), data)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_torchs_fast_path_agrees_too_wherever_there_is_a_token(norm_first: bool):
    torch.manual_seed(0)
    theirs = torchs(norm_first)
    ours, x, y = ours_of(theirs), torch.randn(BATCH, 6, WIDTH), torch.randn(BATCH, 5, WIDTH)
    there, triangle = torch.arange(6) < torch.tensor([[3], [6]]), nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        expected = theirs(
            x, y, tgt_mask=triangle, tgt_is_causal=True, src_key_padding_mask=~there, memory_key_padding_mask=~there
        )
        memory = ours.encode(x, there[:, None, None])
        torch.testing.assert_close(
            ours.decode(y, memory, memory_mask=there[:, None, None]), expected, atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_are_torchs(norm_first: bool):
    torch.manual_seed(0)
    theirs = torchs(norm_first, dropout=0.0).train()
    ours, x, y = ours_of(theirs), torch.randn(BATCH, 6, WIDTH), torch.randn(BATCH, 5, WIDTH)
    theirs(x, y, tgt_mask=torch.ones(5, 5).triu(1).bool()).square().mean().backward()
    ours.decode(y, ours.encode(x)).square().mean().backward()
    for name, other in names_of(ours.config).items():
        torch.testing.assert_close(
            ours.get_parameter(name).grad, theirs.get_parameter(other).grad, atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("norm_first", [False, True])
def test_weights_come_back_from_a_round_trip_bit_for_bit(norm_first: bool):
    theirs = torchs(norm_first)
    back = to_torch(ours_of(theirs))
    assert back.state_dict().keys() == theirs.state_dict().keys()
    assert all(torch.equal(tensor, back.state_dict()[name]) for name, tensor in theirs.state_dict().items())
    x, y = torch.randn(BATCH, 6, WIDTH), torch.randn(BATCH, 5, WIDTH)
    assert torch.equal(back(x, y), theirs(x, y))
