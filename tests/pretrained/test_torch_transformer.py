"""What the map of names covers, what comes along with the weights, and what is refused."""

import copy
import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.parts.multi_head import remove_heads
from neuropil.pretrained.torch_transformer import from_torch, names_of, to_torch

TINY = TransformerConfig(
    width=8, heads=2, layers=2, feed_forward=16, source_vocabulary_size=9, target_vocabulary_size=9
)


def torchs(**options: Any) -> nn.Transformer:
    sizes: dict[str, Any] = {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "dim_feedforward": 16,
        "batch_first": True,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        return nn.Transformer(8, 2, **(sizes | options))


def loaded(module: nn.Transformer, **options: Any) -> Transformer:
    vocabularies: dict[str, Any] = {"source_vocabulary_size": 9, "target_vocabulary_size": 9}
    return from_torch(module, **(vocabularies | options))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("final_norm", [False, True])
def test_names_map_every_parameter_of_ours_but_the_embeddings_to_every_one_of_theirs(norm: str, final_norm: bool):
    config = dataclasses.replace(TINY, norm=norm, final_norm=final_norm, shared_embeddings=False)
    names, model = names_of(config), Transformer(config)
    assert names.keys() == model.state_dict().keys() - {"source.weight", "target.weight", "output.weight"}
    assert set(names.values()) == to_torch(model).state_dict().keys()
    assert len(set(names.values())) == len(names)


def test_a_pre_norm_model_is_handed_over_without_a_warning():
    assert to_torch(Transformer(dataclasses.replace(TINY, norm="pre"))).encoder.norm is not None


def test_sizes_options_mode_and_precision_come_along():
    theirs = torchs(norm_first=True, dropout=0.3, dtype=torch.float64).eval()
    ours = loaded(theirs, target_vocabulary_size=7, shared_embeddings=False)
    expected = TransformerConfig(
        width=8,
        heads=2,
        layers=2,
        feed_forward=16,
        dropout=0.3,
        norm="pre",
        final_norm=True,
        shared_embeddings=False,
        source_vocabulary_size=9,
        target_vocabulary_size=7,
    )
    assert ours.config == expected
    assert not ours.training
    assert ours.decoder[1].cross.output.weight.dtype == ours.source.weight.dtype == torch.float64
    back = to_torch(ours)
    layer = back.decoder.layers[0]
    assert isinstance(layer, nn.TransformerDecoderLayer)
    assert (layer.dropout1.p, layer.norm_first, layer.self_attn.batch_first, back.training) == (0.3, True, True, False)
    assert layer.linear1.weight.dtype == torch.float64
    assert to_torch(ours.train()).training


def test_weights_are_copies_and_embeddings_our_own():
    theirs = torchs()
    torch.manual_seed(0)
    ours = loaded(theirs)
    torch.manual_seed(0)
    assert torch.equal(ours.source.weight, Transformer(ours.config).source.weight)
    before = copy.deepcopy(theirs.state_dict())
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.state_dict().items())
    assert not any(parameter.any() for parameter in to_torch(ours).parameters())


def test_relu_is_taken_as_a_module_too():
    assert loaded(torchs(activation=nn.ReLU())).config.layers == 2


def with_other_norms() -> nn.Transformer:
    module = torchs(norm_first=True)
    module.encoder.norm = module.decoder.norm = None
    return module


def with_other_layers() -> nn.Transformer:
    module = torchs()
    module.decoder.layers[1] = nn.Identity()
    return module


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torchs(activation="gelu"), "from_torch takes layers with relu, but got gelu."),
        (lambda: torchs(activation=nn.SiLU()), "from_torch takes layers with relu, but got SiLU."),
        (lambda: torchs(layer_norm_eps=1e-6), "from_torch takes layers whose norms have eps=1e-05, but got 1e-06."),
        (lambda: torchs(num_decoder_layers=1), "from_torch takes as many encoder as decoder layers, but got 2 and 1."),
        (
            lambda: torchs(bias=False),
            "from_torch takes an nn.Transformer with the parameters of ours, "
            "but got one that differs in decoder.layers.0.linear1.bias.",
        ),
        (
            with_other_norms,
            "from_torch takes an nn.Transformer with the parameters of ours, "
            "but got one that differs in decoder.norm.bias.",
        ),
        (with_other_layers, "from_torch takes nn.Transformer's own layers, but got Identity."),
    ],
    ids=["activation", "activation module", "eps", "layers", "biases", "norms", "foreign layer"],
)
def test_what_our_transformer_cannot_be_is_refused(make: Callable[[], nn.Transformer], message: str):
    with pytest.raises(InputError) as error:
        loaded(make())
    assert str(error.value) == message


def test_a_model_whose_heads_were_removed_has_no_counterpart():
    model = Transformer(TINY)
    remove_heads(model, {})
    assert to_torch(model).nhead == 2
    remove_heads(model, {"encoder.0.attention": [1]})
    with pytest.raises(InputError) as error:
        to_torch(model)
    assert (
        str(error.value)
        == "nn.Transformer has the same number of heads in every layer, but got a model whose heads were removed."
    )


def test_removing_one_head_of_two_everywhere_is_no_counterpart_either():
    model = Transformer(TINY)
    remove_heads(
        model,
        {f"encoder.{i}.attention": [0] for i in range(2)}
        | {f"decoder.{i}.{a}": [0] for i in range(2) for a in ("attention", "cross")},
    )
    with pytest.raises(InputError):
        to_torch(model)
