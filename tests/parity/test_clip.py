"""CLIP beside Hugging Face's with the same weights, both ways."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import AutoModel
from transformers import CLIPConfig as TheirConfig
from transformers import CLIPModel as TheirCLIP

from neuropil.errors import InputError
from neuropil.models.clip import CLIP, SIZES, CLIPConfig, TextTowerConfig, VisionTowerConfig
from neuropil.parts.blocks import HiddenName
from neuropil.parts.parameters import count_parameters
from neuropil.pretrained.clip import FAMILY
from parity.hugging_face import assert_near, assert_same_gradients, opened, saved, shaken

FOLDERS = itertools.count()
END = 30


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clip")


def tower(heads: int, head_width: int, layers: int, hidden: int, activation: str) -> dict[str, Any]:
    return {
        "num_attention_heads": heads,
        "hidden_size": heads * head_width,
        "num_hidden_layers": layers,
        "intermediate_size": hidden,
        "hidden_act": activation,
    }


def their_config(see: dict[str, Any], read: dict[str, Any], shared: int = 6) -> TheirConfig:
    tokens = {
        "vocab_size": 31,
        "max_position_embeddings": 12,
        "bos_token_id": 29,
        "eos_token_id": END,
        "pad_token_id": 0,
    }
    pictures = {"image_size": 8, "patch_size": 4, "num_channels": 2}
    both = {"projection_dim": shared}
    return TheirConfig(text_config=tokens | both | read, vision_config=pictures | both | see, projection_dim=shared)


def loaded(theirs: nn.Module, place: Path) -> CLIP:
    return CLIP.from_pretrained(saved(theirs, place / str(next(FOLDERS))))


def captions(number: int, length: int, end: int = END) -> Tensor:
    """Each with its end somewhere, and anything after it."""
    tokens = torch.randint(3, 29, (number, length))
    tokens[torch.arange(number), torch.randint(length, (number,))] = end
    return tokens


@st.composite
def configurations(draw: st.DrawFn) -> TheirConfig:
    activation = draw(st.sampled_from(["quick_gelu", "gelu", "gelu_new", "relu"]))
    towers = [
        tower(
            draw(st.integers(1, 3)),
            draw(st.sampled_from([2, 4, 6])),
            draw(st.integers(1, 3)),
            draw(st.sampled_from([7, 20])),
            activation,
        )
        for _ in range(2)
    ]
    return their_config(*towers, shared=draw(st.integers(1, 8)))


@pytest.mark.parametrize(("size", "published"), [("base_32", 151_277_313), ("large_14", 427_616_513)])
def test_sizes_have_as_many_parameters_as_published(size: str, published: int):
    with torch.device("meta"):
        ours = CLIP(SIZES[size])
    assert count_parameters(ours) == published
    assert sum(row.count for row in ours.parameter_table()) == published


@settings(deadline=None, max_examples=20)
@given(config=configurations(), pictures=st.integers(1, 3), texts=st.integers(1, 3), length=st.integers(1, 12))
def test_logits_embeddings_and_gradients_are_those_of_hugging_face(
    place: Path, config: TheirConfig, pictures: int, texts: int, length: int
):
    theirs = shaken(TheirCLIP(config)).train()
    ours = loaded(theirs, place).train().double()
    theirs.double()  # two hidden numbers that are nearly equal have gradients that float32 cannot compare
    seen, read = torch.randn(pictures, 2, 8, 8, dtype=torch.double), captions(texts, length)
    found = theirs(input_ids=read, pixel_values=seen)
    mine = ours(seen, read)
    assert_near(ours.embed_pictures(seen), found.image_embeds)
    assert_near(ours.embed_texts(read), found.text_embeds)
    assert_near(mine, found.logits_per_image)
    weights = torch.randn_like(mine)
    (mine * weights).mean().backward()
    (found.logits_per_image * weights).mean().backward()
    assert assert_same_gradients(ours, theirs, FAMILY.places(ours), 1e-6) == len(list(theirs.parameters()))


def test_the_first_configurations_say_2_and_mean_the_last_token(place: Path):
    """As on openai/clip-vit-base-patch32, whose config.json has eos_token_id 2."""
    config = their_config(tower(2, 4, 1, 8, "quick_gelu"), tower(2, 4, 1, 8, "quick_gelu") | {"eos_token_id": 2})
    theirs = shaken(TheirCLIP(config))
    read, seen = captions(4, 9), torch.randn(2, 2, 8, 8)
    assert_near(loaded(theirs, place)(seen, read), theirs(input_ids=read, pixel_values=seen).logits_per_image)


def test_a_model_that_ends_its_captions_with_2_would_be_read_otherwise_there(tmp_path: Path):
    tiny = SIZES["tiny"]
    with pytest.raises(InputError) as error:
        CLIP(dataclasses.replace(tiny, text=dataclasses.replace(tiny.text, end=2))).save_pretrained(tmp_path / "out")
    rule = "a CLIP for Hugging Face must end captions with another token than 2, there the largest of a caption"
    assert str(error.value) == f"{rule}, but got end=2 of 64 tokens."
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "quick_gelu"])
@pytest.mark.parametrize("end", [1, 30])
def test_what_we_save_opens_there_with_equal_outputs(tmp_path: Path, activation: HiddenName, end: int):
    both: dict[str, Any] = {"activation": activation}
    vision = VisionTowerConfig(width=24, heads=3, layers=2, patch=4, feed_forward=20, shape=(3, 8, 8), **both)
    sizes = {"width": 16, "heads": 2, "layers": 1, "context": 12, "feed_forward": 10, "vocabulary_size": 31}
    ours = shaken(CLIP(CLIPConfig(embedding_size=6, vision=vision, text=TextTowerConfig(**sizes, end=end, **both))))
    ours.save_pretrained(tmp_path)
    seen, read = torch.randn(3, 3, 8, 8), captions(4, 9, end)
    theirs = opened(AutoModel, tmp_path)
    assert_near(ours(seen, read), theirs(input_ids=read, pixel_values=seen).logits_per_image)
    assert_near(CLIP.from_pretrained(tmp_path)(seen, read), ours(seen, read), 0.0)
