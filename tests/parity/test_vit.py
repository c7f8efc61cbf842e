"""ViT beside Hugging Face's with the same weights, both ways, for pictures of the size it was made for and of
others."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForImageClassification
from transformers import ViTConfig as TheirConfig
from transformers import ViTForImageClassification as TheirViT
from transformers import ViTModel as TheirBody

from neuropil.models.vit import SIZES, ViT, ViTConfig
from neuropil.parts.blocks import HiddenName
from neuropil.parts.parameters import count_parameters
from parity.hugging_face import assert_near, opened, saved, shaken

FOLDERS = itertools.count()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vit")


def their_config(**options: Any) -> TheirConfig:
    sizes: dict[str, Any] = {
        "hidden_size": 24,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "intermediate_size": 40,
        "image_size": 8,
        "patch_size": 4,
    }
    others: dict[str, Any] = {"num_channels": 2, "num_labels": 5}
    return TheirConfig(**(sizes | others | options))


def loaded(theirs: nn.Module, place: Path) -> ViT:
    return ViT.from_pretrained(saved(theirs, place / str(next(FOLDERS))))


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    heads, patch = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return {
        "num_attention_heads": heads,
        "hidden_size": heads * draw(st.sampled_from([2, 5, 8])),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "hidden_act": draw(st.sampled_from(["gelu_new", "gelu", "relu", "quick_gelu"])),
        "patch_size": patch,
        "image_size": patch * rows if rows == columns else [patch * rows, patch * columns],
        "num_channels": draw(st.integers(1, 3)),
        "num_labels": draw(st.integers(1, 6)),
        "layer_norm_eps": draw(st.sampled_from([1e-12, 1e-3])),
    }


@pytest.mark.parametrize(("size", "published"), [("base_16", 86_567_656), ("large_16", 304_326_632)])
def test_sizes_have_as_many_parameters_as_published(size: str, published: int):
    with torch.device("meta"):
        ours = ViT(SIZES[size])
    assert count_parameters(ours) == published
    assert sum(row.count for row in ours.parameter_table()) == published


@settings(deadline=None, max_examples=20)
@given(options=configurations())
def test_logits_and_gradients_are_those_of_hugging_face(place: Path, options: dict[str, Any]):
    theirs = shaken(TheirViT(their_config(**options))).train()
    ours = loaded(theirs, place).train()
    pictures = torch.randn(3, *ours.config.shape)
    mine, other = ours(pictures), theirs(pictures).logits
    assert_near(mine, other)
    weights = torch.randn_like(mine)
    (mine * weights).mean().backward()
    (other * weights).mean().backward()
    # Their modules are called otherwise than their files, so that gradients come in as weights do.
    with torch.no_grad():
        for parameter in theirs.parameters():
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)
    gradients = loaded(theirs, place)
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None
        assert_near(parameter.grad, gradients.get_parameter(name))


@settings(deadline=None, max_examples=12)
@given(options=configurations(), rows=st.integers(1, 5), columns=st.integers(1, 5))
def test_pictures_of_other_sizes_are_seen_as_hugging_face_sees_them(
    place: Path, options: dict[str, Any], rows: int, columns: int
):
    side = 3 * options["patch_size"]  # theirs must be square for this
    theirs = shaken(TheirViT(their_config(**(options | {"image_size": side}))))
    ours = loaded(theirs, place)
    pictures = torch.randn(2, options["num_channels"], rows * options["patch_size"], columns * options["patch_size"])
    assert_near(ours(pictures), theirs(pictures, interpolate_pos_encoding=True).logits)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "quick_gelu"])
def test_what_we_save_opens_there_with_equal_outputs_for_pictures_that_it_makes_ready(
    tmp_path: Path, activation: HiddenName
):
    config = ViTConfig(
        width=24, heads=3, layers=2, feed_forward=40, patch=4, shape=(3, 8, 12), classes=5, activation=activation
    )
    ours = shaken(ViT(config))
    pictures = torch.randint(256, (6, 3, 8, 12), dtype=torch.uint8)
    ours.standardize.fit(pictures)
    ours.save_pretrained(tmp_path)
    told = json.loads((tmp_path / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(told[name])[:, None, None] for name in ("image_mean", "image_std"))
    ready = (pictures * told["rescale_factor"] - mean) / std
    theirs = opened(AutoModelForImageClassification, tmp_path)
    assert_near(ours(pictures), theirs(ready).logits)
    assert_near(ViT.from_pretrained(tmp_path)(pictures), ours(pictures), 0.0)


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
def test_pictures_are_made_ready_as_the_folder_says(tmp_path: Path, rescale: bool, normalize: bool):
    theirs = shaken(TheirViT(their_config()))
    told = {
        "do_rescale": rescale,
        "do_normalize": normalize,
        "rescale_factor": 1 / 127.5,
        "image_mean": [0.4, 0.5],
        "image_std": [0.3, 0.2],
    }
    (saved(theirs, tmp_path) / "preprocessor_config.json").write_text(json.dumps(told))
    pictures = torch.randint(256, (2, 2, 8, 8), dtype=torch.uint8)
    ready = pictures / 127.5 if rescale else pictures.float()
    if normalize:
        ready = (ready - torch.tensor([0.4, 0.5])[:, None, None]) / torch.tensor([0.3, 0.2])[:, None, None]
    assert_near(ViT.from_pretrained(tmp_path)(pictures), theirs(ready).logits)


def test_a_body_gets_a_new_output(tmp_path: Path):
    body = shaken(TheirBody(their_config()))
    ours = ViT.from_pretrained(saved(body, tmp_path), classes=7)
    pictures = torch.randn(2, 2, 8, 8)
    assert_near(ours.hidden(pictures), body(pictures).last_hidden_state)
    assert ours(pictures).shape == (2, 7)
    assert not ours.output.bias.any()
