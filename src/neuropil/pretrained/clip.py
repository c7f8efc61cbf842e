"""CLIP as Hugging Face keeps it: `CLIPModel`, one tower that sees and one that reads."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.models.clip import CLIP, CLIPConfig
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places
from neuropil.pretrained.vit import size_of

OLD_END = 2
"""What the first configurations say of the end token; the models mean the last of the vocabulary."""


def config(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], kind: type[nn.Module]) -> CLIPConfig:
    see, read = settings["vision_config"], settings["text_config"]
    height, width = size_of(see.get("image_size", 224))
    if see.get("hidden_act", "quick_gelu") != read.get("hidden_act", "quick_gelu"):
        raise InputError("CLIP has the same hidden units in both towers", got=f"{see['hidden_act']} and {read['hidden_act']}")
    vocabulary, end = read.get("vocab_size", 49_408), read.get("eos_token_id", 49_407)
    return CLIPConfig(
        shared=settings.get("projection_dim", 512),
        width=see["hidden_size"],
        heads=see["num_attention_heads"],
        layers=see["num_hidden_layers"],
        feed_forward=see["intermediate_size"],
        patch=see.get("patch_size", 32),
        shape=(see.get("num_channels", 3), height, width),
        text_width=read["hidden_size"],
        text_heads=read["num_attention_heads"],
        text_layers=read["num_hidden_layers"],
        text_feed_forward=read["intermediate_size"],
        context=read.get("max_position_embeddings", 77),
        vocabulary=vocabulary,
        end=vocabulary - 1 if end == OLD_END else end,
        activation=activation(see.get("hidden_act", "quick_gelu")),
        dropout=0.0,
        epsilon=see.get("layer_norm_eps", 1e-5),
    )


def settings_of(model: CLIP) -> dict[str, Any]:
    own = model.config
    channels, height, width = own.shape
    both = {"hidden_act": THEIR_ACTIVATIONS[own.activation], "layer_norm_eps": own.epsilon, "projection_dim": own.shared}
    return {
        "architectures": ["CLIPModel"],
        "projection_dim": own.shared,
        "vision_config": {
            "hidden_size": own.width,
            "num_attention_heads": own.heads,
            "num_hidden_layers": own.layers,
            "intermediate_size": own.feed_forward,
            "patch_size": own.patch,
            "image_size": height if height == width else [height, width],
            "num_channels": channels,
            **both,
        },
        "text_config": {
            "hidden_size": own.text_width,
            "num_attention_heads": own.text_heads,
            "num_hidden_layers": own.text_layers,
            "intermediate_size": own.text_feed_forward,
            "max_position_embeddings": own.context,
            "vocab_size": own.vocabulary,
            "eos_token_id": own.end,
            **both,
        },
    }


def places(model: CLIP) -> dict[str, Place]:
    found = {
        "vision_model.embeddings.class_embedding": Place("seeing.patches.whole"),
        "vision_model.embeddings.patch_embedding.weight": Place("seeing.patches.projection.weight"),
        "vision_model.embeddings.position_embedding.weight": Place("seeing.patches.positions"),
        "text_model.embeddings.token_embedding.weight": Place("reading.tokens.weight"),
        "text_model.embeddings.position_embedding.weight": Place("reading.positions.weight"),
        "visual_projection.weight": Place("picture_projection.weight"),
        "text_projection.weight": Place("text_projection.weight"),
        "logit_scale": Place("scale"),
        "standardize.mean": Place("seeing.standardize.mean"),
        "standardize.std": Place("seeing.standardize.std"),
    }
    pairs: dict[str, str | tuple[str, ...]] = {
        "seeing.first_norm": "vision_model.pre_layrnorm",
        "seeing.norm": "vision_model.post_layernorm",
        "reading.norm": "text_model.final_layer_norm",
    }
    for tower, theirs, layers in (
        ("seeing", "vision_model", model.config.layers),
        ("reading", "text_model", model.config.text_layers),
    ):
        for number in range(layers):
            own, other = f"{tower}.blocks.{number}", f"{theirs}.encoder.layers.{number}"
            pairs |= {
                f"{own}.attention.projection": tuple(f"{other}.self_attn.{part}_proj" for part in "qkv"),
                f"{own}.attention.output": f"{other}.self_attn.out_proj",
                f"{own}.attention_sum.norm": f"{other}.layer_norm1",
                f"{own}.feed_forward.inner": f"{other}.mlp.fc1",
                f"{own}.feed_forward.outer": f"{other}.mlp.fc2",
                f"{own}.feed_forward_sum.norm": f"{other}.layer_norm2",
            }
    return found | linear_places(pairs)


FAMILY = Family("clip", "", config, settings_of, places, known=("standardize.",), ignored=(".position_ids",), new=("standardize.",))
