"""CLIP as Hugging Face keeps it: `CLIPModel`, one tower that sees and one that reads."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.errors import InputError
from neuropil.models.clip import CLIP, CLIPConfig
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places, translated
from neuropil.pretrained.vit import shape_of

OLD_END = 2
"""What the first configurations say of the end token; the models mean the largest of a caption, which is the last of the vocabulary."""
SEEING = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "feed_forward": "intermediate_size",
    "patch": "patch_size",
    "epsilon": "layer_norm_eps",
}
READING = {
    "text_width": "hidden_size",
    "text_heads": "num_attention_heads",
    "text_layers": "num_hidden_layers",
    "text_feed_forward": "intermediate_size",
    "context": "max_position_embeddings",
    "vocabulary": "vocab_size",
    "end": "eos_token_id",
}
"""Of the settings of each tower, ours and theirs."""
ALIKE = {"hidden_act": "quick_gelu", "layer_norm_eps": 1e-5}
"""What the towers have in common here, and how it was published."""


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> CLIPConfig:
    see, read = settings.get("vision_config") or {}, settings.get("text_config") or {}
    for name, usual in ALIKE.items():
        if see.get(name, usual) != read.get(name, usual):
            raise InputError(
                f"the towers of CLIP have the same {name}", got=f"{see.get(name, usual)} and {read.get(name, usual)}"
            )
    found = translated(see, SEEING) | translated(read, READING)
    if found.get("end") == OLD_END:
        found["end"] = found.get("vocabulary", CLIPConfig.vocabulary) - 1
    return CLIPConfig(
        **found,
        shared=settings.get("projection_dim", CLIPConfig.shared),
        shape=shape_of(see),
        activation=activation(see.get("hidden_act", "quick_gelu")),
    )


def settings_of(model: CLIP) -> dict[str, Any]:
    own = model.config
    if own.end == OLD_END != own.vocabulary - 1:
        raise InputError(
            "a CLIP that others can open ends its captions with another token than 2, which means the largest of a caption there",
            got=f"end=2 of {own.vocabulary} tokens",
        )
    channels, height, width = own.shape
    both = {
        "hidden_act": THEIR_ACTIVATIONS[own.activation],
        "layer_norm_eps": own.epsilon,
        "projection_dim": own.shared,
    }
    pictures = {"image_size": height if height == width else [height, width], "num_channels": channels}
    return {
        "architectures": ["CLIPModel"],
        "projection_dim": own.shared,
        "vision_config": {**{theirs: getattr(own, ours) for ours, theirs in SEEING.items()}, **pictures, **both},
        # Theirs would otherwise be CLIP's own tokens, which a smaller vocabulary does not have.
        "text_config": {
            **{theirs: getattr(own, ours) for ours, theirs in READING.items()},
            **both,
            "bos_token_id": None,
            "pad_token_id": None,
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


FAMILY = Family(
    "clip", "", config, settings_of, places, known=("standardize.",), ignored=(".position_ids",), new=("standardize.",)
)
