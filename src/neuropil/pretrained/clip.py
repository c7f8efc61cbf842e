"""CLIP as Hugging Face keeps it: `CLIPModel`, a vision tower and a text tower."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.errors import InputError
from neuropil.models.clip import CLIP, CLIPConfig, TextTowerConfig, VisionTowerConfig
from neuropil.pretrained import names
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import HuggingFaceFamily, Place

OLD_END = 2
"""The end token of the first configurations, which mean the last of the vocabulary by it."""
VISION = names.STACK_NAMES | {"patch": "patch_size"}
TOKENS = {"context": "max_position_embeddings", "vocabulary_size": "vocab_size", "end": "eos_token_id"}
TEXT = names.STACK_NAMES | TOKENS
"""Of the settings of each tower, ours and theirs."""
PROJECTIONS = tuple(f"self_attn.{part}_proj" for part in "qkv")
BLOCK = (PROJECTIONS, "self_attn.out_proj", "layer_norm1", "mlp.fc1", "mlp.fc2", "layer_norm2")


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> CLIPConfig:
    see, read = settings.get("vision_config") or {}, settings.get("text_config") or {}
    vision, text = names.translated(see, VISION), names.translated(read, TEXT)
    if text.get("end") == OLD_END:
        text["end"] = text.get("vocabulary_size", TextTowerConfig.vocabulary_size) - 1
    for tower, theirs in ((vision, see), (text, read)):
        tower["activation"] = names.activation(theirs.get("hidden_act", "quick_gelu"))
    size = settings.get("projection_dim", CLIPConfig.embedding_size)
    seeing = VisionTowerConfig(**vision, shape=names.picture_shape(see))
    return CLIPConfig(embedding_size=size, vision=seeing, text=TextTowerConfig(**text))


def settings_of(model: CLIP) -> dict[str, Any]:
    own = model.config
    vision, text = own.vision, own.text
    if text.end == OLD_END != text.vocabulary_size - 1:
        rule = "a CLIP for Hugging Face must end captions with another token than 2, there the largest of a caption"
        raise InputError(rule, got=f"end=2 of {text.vocabulary_size} tokens")
    both = {"projection_dim": own.embedding_size}
    towers = {"vision_config": names.settings_in(vision, VISION), "text_config": names.settings_in(text, TEXT)}
    for name, tower in (("vision_config", vision), ("text_config", text)):
        towers[name] |= both | {"hidden_act": names.THEIR_ACTIVATIONS[tower.activation]}
    towers["vision_config"] |= names.picture_settings(vision.shape)
    # Theirs would otherwise be CLIP's own tokens, which a smaller vocabulary does not have.
    towers["text_config"] |= {"bos_token_id": None, "pad_token_id": None}
    return {"architectures": ["CLIPModel"], **both, **towers}


def places(model: CLIP) -> dict[str, Place]:
    found = {
        "vision_model.embeddings.class_embedding": Place("vision.patches.whole"),
        "vision_model.embeddings.patch_embedding.weight": Place("vision.patches.projection.weight"),
        "vision_model.embeddings.position_embedding.weight": Place("vision.patches.positions"),
        "text_model.embeddings.token_embedding.weight": Place("text.tokens.weight"),
        "text_model.embeddings.position_embedding.weight": Place("text.positions.weight"),
        "visual_projection.weight": Place("picture_projection.weight"),
        "text_projection.weight": Place("text_projection.weight"),
        "logit_scale": Place("scale"),
        **names.standardize_places("vision.standardize"),
    }
    pairs = names.block_pairs("vision.blocks", "vision_model.encoder.layers", model.config.vision.layers, BLOCK)
    pairs |= names.block_pairs("text.blocks", "text_model.encoder.layers", model.config.text.layers, BLOCK)
    pairs |= {"vision.first_norm": "vision_model.pre_layrnorm", "vision.norm": "vision_model.post_layernorm"}
    pairs["text.norm"] = "text_model.final_layer_norm"
    return found | names.linear_places(pairs)


NEW, IGNORED = ("standardize.",), (".position_ids",)
FAMILY = HuggingFaceFamily("clip", "", config, settings_of, places, known=NEW, ignored=IGNORED, new=NEW)
