from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from neuropil.models import clip, gpt2, transformer
from neuropil.parts.multi_head import MultiHeadAttention
from neuropil.parts.parallel_plan import ParallelTransformer
from neuropil.protocols import ParallelModel

MODELS: dict[str, Callable[[], ParallelTransformer]] = {
    "gpt2": lambda: gpt2.GPT2(replace(gpt2.SIZES["tiny"], layers=2)),
    "clip": lambda: clip.CLIP(clip.SIZES["tiny"]),
    "transformer": lambda: transformer.Transformer(
        replace(transformer.SIZES["tiny"], source_vocabulary_size=30, target_vocabulary_size=30)
    ),
}


def test_attention_answers_the_same_with_one_layer_for_each_projection():
    attention, x, y = MultiHeadAttention(8, 2), torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    nn.init.normal_(attention.projection.bias)
    alone, across = attention(x), attention(x, y)
    attention.split_projection()
    assert [name for name, _ in attention.named_children()] == ["output", "query", "key", "value"]
    torch.testing.assert_close(attention(x), alone)
    torch.testing.assert_close(attention(x, y), across)


@pytest.mark.parametrize("system", MODELS)
def test_a_plan_names_what_the_model_has_once_it_is_split(system: str):
    model = MODELS[system]()
    assert isinstance(model, ParallelModel)
    before, plan = dict(model.state_dict()), model.parallel_plan()
    model.split_projections()
    after = model.state_dict()
    for name in (*plan.blocks, *plan.heads, *plan.hidden):
        model.get_submodule(name)
    assert all(isinstance(model.get_submodule(name), nn.Linear) for name in (*plan.columns, *plan.rows))
    for name, parts in plan.parts.items():
        assert torch.equal(torch.cat([after[part] for part in parts]), before[name])
    inside = {part for parts in plan.parts.values() for part in parts}
    assert after.keys() - inside == before.keys() - plan.parts.keys()
    layers = {name for name, module in model.named_modules() if isinstance(module, nn.Linear) and "." in name}
    assert layers == {*plan.columns, *plan.rows}


def test_a_plan_of_cross_attention_divides_it_too():
    plan = MODELS["transformer"]().parallel_plan()
    assert "decoder.0.cross.query" in plan.columns
    assert "decoder.0.cross.output" in plan.rows
    assert plan.blocks == [*(f"encoder.{layer}" for layer in range(3)), *(f"decoder.{layer}" for layer in range(3))]
