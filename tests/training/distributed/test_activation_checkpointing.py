from dataclasses import replace

import pytest
import torch
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, SIZES
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import NextTokenInWindow
from neuropil.training.distributed.activation_checkpointing import recompute, require_blocks, restore
from training.distributed.forked import ForkedGroups

CONFIG = replace(SIZES["tiny"], dropout=0.2, attention_dropout=0.2)
BATCH = {name: torch.randint(2_000, (4, 32)) for name in ("input", "target")}


def backward(model: GPT2) -> tuple[list[Tensor], int]:
    """Gradients, and the bytes that were kept for them beside the weights."""
    kept: dict[int, int] = {}
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = NextTokenInWindow(model).loss(BATCH)
    loss.backward()
    return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None], sum(kept.values())


def test_gradients_are_the_same_with_dropout_and_less_is_kept():
    torch.manual_seed(0)
    model = GPT2(CONFIG)
    gradients, kept = backward(model)
    model.zero_grad()
    blocks = model.parallel_plan().blocks
    recompute(model, blocks)
    again, less = backward(model)
    assert all(torch.equal(one, other) for one, other in zip(gradients, again, strict=True))
    assert less < 0.5 * kept
    restore(model, blocks)
    model.zero_grad()
    assert backward(model)[1] == kept


def test_models_without_blocks_are_refused():
    with pytest.raises(InputError) as error:
        require_blocks(MLP(MLPConfig()))
    assert str(error.value) == (
        "--recompute (activation checkpointing) needs a model of blocks, as transformers are, but got MLP: train "
        "without it."
    )


def test_divided_models_recompute_to_the_same_gradients(groups: ForkedGroups):
    alike = {"system": "gpt2", "data": 2, "tensor": 2, "recompute": True}
    assert max(groups.run("trained_alike", 4, **alike)) < 1e-11


def test_the_blocks_of_a_model_are_its_layers():
    assert GPT2(CONFIG).parallel_plan().blocks == [f"blocks.{number}" for number in range(CONFIG.layers)]
