"""The Vision Transformer as Hugging Face keeps it: `ViTForImageClassification`.

Theirs is given pictures that are standardised already, and `preprocessor_config.json` says how; ours takes them as they are.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.errors import InputError
from neuropil.models.vit import ViT, ViTConfig
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places, translated

NAMES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "feed_forward": "intermediate_size",
    "patch": "patch_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "epsilon": "layer_norm_eps",
}
"""Of settings, ours and theirs."""


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> ViTConfig:
    if not settings.get("qkv_bias", True):
        raise InputError("ViT has biases in its attention, as it was published", got="qkv_bias=False")
    return ViTConfig(
        **translated(settings, NAMES),
        shape=shape_of(settings),
        classes=tensors["classifier.weight"].shape[0]
        if "classifier.weight" in tensors
        else len(settings.get("id2label", "..")),
        activation=activation(settings.get("hidden_act", "gelu")),
    )


def settings_of(model: ViT) -> dict[str, Any]:
    own = model.config
    channels, height, width = own.shape
    return {
        "architectures": ["ViTForImageClassification"],
        **{theirs: getattr(own, ours) for ours, theirs in NAMES.items()},
        "image_size": height if height == width else [height, width],
        "num_channels": channels,
        "hidden_act": THEIR_ACTIVATIONS[own.activation],
        "qkv_bias": True,
        "id2label": {str(number): str(number) for number in range(own.classes)},
    }


def places(model: ViT) -> dict[str, Place]:
    positions, width = model.patches.positions.shape
    found = {
        "vit.embeddings.cls_token": Place("patches.whole", shape=(1, 1, width)),
        "vit.embeddings.position_embeddings": Place("patches.positions", shape=(1, positions, width)),
        "standardize.mean": Place("standardize.mean"),
        "standardize.std": Place("standardize.std"),
    }
    pairs: dict[str, str | tuple[str, ...]] = {"patches.projection": "vit.embeddings.patch_embeddings.projection"}
    pairs |= {"norm": "vit.layernorm", "output": "classifier"}
    for number in range(model.config.layers):
        own, other = f"blocks.{number}", f"vit.encoder.layer.{number}"
        pairs |= {
            f"{own}.attention.projection": tuple(
                f"{other}.attention.attention.{part}" for part in ("query", "key", "value")
            ),
            f"{own}.attention.output": f"{other}.attention.output.dense",
            f"{own}.attention_sum.norm": f"{other}.layernorm_before",
            f"{own}.feed_forward.inner": f"{other}.intermediate.dense",
            f"{own}.feed_forward.outer": f"{other}.output.dense",
            f"{own}.feed_forward_sum.norm": f"{other}.layernorm_after",
        }
    return found | linear_places(pairs)


def shape_of(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Channels, height and width of a picture; theirs may be one number for both sides."""
    size = settings.get("image_size", 224)
    return (settings.get("num_channels", 3), *((size, size) if isinstance(size, int) else size))


FAMILY = Family(
    "vit",
    "vit.",
    config,
    settings_of,
    places,
    known=("classifier.", "standardize.", "vit.pooler.", "vit.embeddings.mask_token"),
    new=("classifier.", "standardize."),
)
