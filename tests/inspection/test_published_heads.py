"""Heads of GPT-2, BERT, ViT and CLIP: masked or removed is the same, and what is left is kept, read and taught like any
other model."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from neuropil.inspection.heads import gradient_importance, least_important, leave_one_out, masked_heads
from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.models.clip import CLIP, CLIPConfig, TextTowerConfig, VisionTowerConfig
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.vit import ViT, ViTConfig
from neuropil.parts.multi_head import heads_of, remove_heads
from neuropil.parts.parameters import count_parameters
from neuropil.training.weights import load_model, save_model

STACK: dict[str, Any] = {
    "width": 12,
    "heads": 3,
    "layers": 2,
    "feed_forward": 10,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
TEXTS: dict[str, Any] = STACK | {"context": 8, "vocabulary_size": 11}
TOWERS = CLIPConfig(
    embedding_size=5,
    vision=VisionTowerConfig(width=12, heads=3, layers=2, patch=2, feed_forward=9, shape=(1, 4, 6)),
    text=TextTowerConfig(width=8, heads=2, layers=1, context=8, feed_forward=7, vocabulary_size=11, end=10),
)
PICTURES = torch.rand(3, 1, 4, 6, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(11, (3, 8), generator=torch.Generator().manual_seed(0))
PRESENT = torch.arange(8) < torch.tensor([[8], [5], [2]])

KINDS: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], Tensor]]] = {
    "gpt2": (lambda: GPT2(GPT2Config(**TEXTS)), lambda model: model(TOKENS)),
    "bert": (lambda: BERT(BERTConfig(**TEXTS)), lambda model: model(TOKENS, PRESENT)),
    "masked": (lambda: MaskedBERT(BERTConfig(**TEXTS, pooler=False)), lambda model: model(TOKENS, PRESENT)),
    "classifier": (lambda: BERTClassifier(BERTConfig(**TEXTS, classes=2)), lambda model: model(TOKENS, PRESENT)),
    "vit": (lambda: ViT(ViTConfig(**STACK, patch=2, shape=(1, 4, 6), classes=3)), lambda model: model(PICTURES)),
    "clip": (
        lambda: CLIP(TOWERS),
        lambda model: model(PICTURES, TOKENS),
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind: str) -> Any:
    torch.manual_seed(0)
    model = KINDS[kind][0]()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


@torch.no_grad()
def output(kind: str, model: nn.Module) -> Tensor:
    return KINDS[kind][1](model)


def loss(kind: str, model: nn.Module) -> Tensor:
    return KINDS[kind][1](model).square().mean()


@every_kind
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_removed_is_as_masked_and_opens_again(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject):
    model = made(kind)
    off = {name: data.draw(st.sets(st.integers(0, layer.heads - 1))) for name, layer in heads_of(model).items()}
    removed = copy.deepcopy(model)
    remove_heads(removed, off)
    with masked_heads(model, off):
        masked = output(kind, model)
    assert (output(kind, removed) - masked).abs().max() <= 1e-5
    if any(off.values()):
        assert count_parameters(removed) < count_parameters(model)
    assert sum(row.count for row in removed.parameter_table()) == count_parameters(removed)
    path: Path = tmp_path_factory.mktemp("pruned") / "model.safetensors"
    save_model(path, removed)
    again = type(removed)(type(removed.config).from_dict(removed.config.to_dict())).eval()
    load_model(path, again)
    assert torch.equal(output(kind, again), output(kind, removed))


@every_kind
def test_no_head_need_be_left(kind: str):
    model = made(kind)
    every = {name: range(layer.heads) for name, layer in heads_of(model).items()}
    with masked_heads(model, every):
        masked = output(kind, model)
    remove_heads(model, every)
    assert (output(kind, model) - masked).abs().max() <= 1e-5
    assert set(model.config.kept_heads) == {0}


@every_kind
def test_both_measures_know_a_head_that_nobody_listens_to(kind: str):
    model = made(kind)
    name, attention = list(heads_of(model).items())[-1]
    with torch.no_grad():
        attention.output.weight[:, : attention.head_width] = 0
    by_gradient = gradient_importance(model, [lambda: loss(kind, model)])
    by_leaving_out = leave_one_out(model, lambda: loss(kind, model).item())
    assert by_gradient.keys() == by_leaving_out.keys() == heads_of(model).keys()
    for importance in (by_gradient, by_leaving_out):
        assert importance[name][0] == 0
        assert all((values != 0).sum() >= len(values) - (layer == name) for layer, values in importance.items())
    assert least_important(by_gradient, 1) == {name: [0]}


@every_kind
def test_what_is_left_goes_on_learning(kind: str):
    model = made(kind)
    remove_heads(model, {next(iter(heads_of(model))): [0, 2]})
    loss(kind, model.train()).backward()
    unused = {"pooler.weight", "pooler.bias"} if kind == "bert" else set()
    assert {
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    } == unused


def test_a_pruned_gpt2_writes_with_its_cache_what_it_would_write_without():
    model = made("gpt2")
    remove_heads(model, {"blocks.0.attention": [1], "blocks.1.attention": [0, 1, 2]})
    state = model.begin()
    for place in range(8):
        logits = model.step(TOKENS[:, place : place + 1], state)
        assert (logits - model(TOKENS)[:, place]).abs().max() < 1e-5
