"""Two names for one tensor: views both ways, parts of unequal models, older names, and what stands beside the
weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from neuropil.errors import InputError
from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.models.clip import CLIP, CLIPConfig, TextTowerConfig, VisionTowerConfig
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.vit import ViT, ViTConfig
from neuropil.parts.multi_head import heads_of, remove_heads
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.pretrained.names import Place, linear_places
from neuropil.training.weights import load_model, save_model

MODELS: dict[str, tuple[type[PretrainedModel], Any]] = {
    "gpt2": (GPT2, GPT2Config(width=12, heads=3, layers=2, feed_forward=10, context=6, vocabulary_size=11)),
    "untied": (
        GPT2,
        GPT2Config(width=12, heads=3, layers=2, feed_forward=10, context=6, vocabulary_size=11, tied=False),
    ),
    "bert": (BERT, BERTConfig(width=12, heads=3, layers=2, feed_forward=10, context=6, vocabulary_size=11)),
    "masked": (MaskedBERT, BERTConfig(width=12, heads=3, layers=2, feed_forward=10, context=6, vocabulary_size=11)),
    "classifier": (
        BERTClassifier,
        BERTConfig(width=12, heads=3, layers=2, feed_forward=10, context=6, vocabulary_size=11, classes=2),
    ),
    "vit": (ViT, ViTConfig(width=12, heads=3, layers=2, feed_forward=10, patch=2, shape=(1, 4, 6), classes=3)),
    "clip": (
        CLIP,
        CLIPConfig(
            embedding_size=5,
            vision=VisionTowerConfig(width=12, heads=3, layers=2, patch=2, feed_forward=10, shape=(1, 4, 4)),
            text=TextTowerConfig(width=8, heads=2, layers=1, context=6, feed_forward=9, vocabulary_size=11, end=10),
        ),
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)


def made(name: str, seed: int = 0) -> Any:
    kind, config = MODELS[name]
    torch.manual_seed(seed)
    model = kind(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.eval()


@every_model
def test_every_tensor_has_one_name_there_and_is_a_view_of_ours(name: str):
    model = made(name)
    views = model.published_state()
    assert sum(view.numel() for view in views.values()) == sum(tensor.numel() for tensor in model.state_dict().values())
    for view in views.values():
        view.fill_(7.0)
    assert all((tensor == 7.0).all() for tensor in model.state_dict().values())


@every_model
def test_saved_and_loaded_is_the_same_model_bit_for_bit(name: str, tmp_path: Path):
    model = made(name)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert not again.training
    if name == "masked":  # whose pooler is nobody's
        model.bert.pooler = again.bert.pooler = None
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, again.state_dict()[key]) for key, tensor in model.state_dict().items())


@every_model
@pytest.mark.parametrize("removed", [[0], [1], [0, 1], "all"])
def test_a_model_without_some_heads_is_saved_and_loaded_in_a_run(name: str, removed: Any, tmp_path: Path):
    model = made(name)
    attentions = heads_of(model)
    first = next(iter(attentions))
    remove_heads(model, {first: range(attentions[first].heads) if removed == "all" else removed})
    save_model(tmp_path / "model.safetensors", model)
    again = type(model)(model.config)
    load_model(tmp_path / "model.safetensors", again)
    assert all(torch.equal(tensor, again.state_dict()[key]) for key, tensor in model.state_dict().items())


@every_model
def test_a_model_without_some_heads_is_not_handed_out(name: str, tmp_path: Path):
    model = made(name)
    remove_heads(model, {next(iter(heads_of(model))): [0]})
    assert model.published_files() == {}
    with pytest.raises(InputError) as error:
        model.save_pretrained(tmp_path / "out")
    assert str(error.value) == "a model that others can open has all its heads, but got one whose heads were removed."
    assert not (tmp_path / "out").exists()


@every_model
def test_settings_say_in_which_precision_the_weights_are(name: str, tmp_path: Path):
    made(name).to(torch.bfloat16).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}


def test_norms_of_the_first_berts_are_called_gamma_and_beta(tmp_path: Path):
    """As in the file of google-bert/bert-base-uncased on the hub."""
    model = made("masked")
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    weights = load_file(path)
    for now, then in old.items():
        weights = {key.replace(now, then): tensor for key, tensor in weights.items()}
    assert sum("gamma" in key for key in weights) == 6
    save_file(weights, path)
    tokens = torch.randint(11, (2, 6))
    assert torch.equal(MaskedBERT.from_pretrained(tmp_path)(tokens), model(tokens))


def test_what_old_files_hold_besides_weights_is_passed_over(tmp_path: Path):
    model = made("gpt2")
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    masks = {f"transformer.h.{layer}.attn.bias": torch.ones(1, 1, 6, 6, dtype=torch.bool).tril() for layer in range(2)}
    save_file(load_file(path) | masks | {"lm_head.weight": model.tokens.weight.detach().clone()}, path)
    tokens = torch.randint(11, (2, 6))
    assert (GPT2.from_pretrained(tmp_path)(tokens) - model(tokens)).abs().max() < 1e-4


def test_pictures_are_made_ready_there_as_they_are_here():
    model = made("vit")
    model.standardize.fit(torch.randint(256, (5, 1, 4, 6), dtype=torch.uint8))
    told = model.published_files()["preprocessor_config.json"]
    assert told["image_mean"] == pytest.approx((model.standardize.mean / 255).flatten().tolist())
    assert told["image_std"] == pytest.approx((model.standardize.std / 255).flatten().tolist())
    assert told["size"] == {"height": 4, "width": 6}


@pytest.mark.parametrize("transposed", [True, False])
def test_a_place_gives_back_what_it_shows(transposed: bool):
    ours = torch.randn(4, 6)
    place = Place("weight", transposed=transposed)
    assert place.view(ours).shape == ((6, 4) if transposed else (4, 6))
    assert torch.equal(place.back(place.view(ours), ours.shape), ours)


def test_parts_stand_below_one_another():
    ours = torch.arange(12).view(6, 2)
    places = linear_places({"projection": ("q", "k", "v")})
    assert [places[f"{part}.weight"].view(ours).tolist() for part in "qkv"] == [
        [[0, 1], [2, 3]],
        [[4, 5], [6, 7]],
        [[8, 9], [10, 11]],
    ]
    assert all(places[f"{part}.weight"].view(torch.empty(0, 2)).shape == (0, 2) for part in "qkv")
