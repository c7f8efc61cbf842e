"""The Vision Transformer as Hugging Face keeps it: `ViTForImageClassification`.

Theirs is given pictures that are standardised already, and `preprocessor_config.json` says how; ours takes them as they
are.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.models.vit import ViT, ViTConfig
from neuropil.pretrained import names
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import HuggingFaceFamily, Place

DROPOUTS = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}
NAMES = names.STACK_NAMES | {"patch": "patch_size"} | DROPOUTS
"""Of settings, ours and theirs."""
ATTENTION = (tuple(f"attention.attention.{part}" for part in ("query", "key", "value")), "attention.output.dense")
BLOCK = (*ATTENTION, "layernorm_before", "intermediate.dense", "output.dense", "layernorm_after")


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> ViTConfig:
    names.require_settings("ViT has biases in its attention, as it was published", settings, {"qkv_bias": True})
    return ViTConfig(
        **names.translated(settings, NAMES),
        shape=names.picture_shape(settings),
        classes=names.number_of_classes(settings, tensors),
        activation=names.activation(settings.get("hidden_act", "gelu")),
    )


def settings_of(model: ViT) -> dict[str, Any]:
    return {
        "architectures": ["ViTForImageClassification"],
        **names.settings_in(model.config, NAMES),
        **names.picture_settings(model.config.shape),
        "hidden_act": names.THEIR_ACTIVATIONS[model.config.activation],
        "qkv_bias": True,
        **names.class_names(model.config.classes),
    }


def places(model: ViT) -> dict[str, Place]:
    positions, width = model.patches.positions.shape
    found = {
        "vit.embeddings.cls_token": Place("patches.whole", shape=(1, 1, width)),
        "vit.embeddings.position_embeddings": Place("patches.positions", shape=(1, positions, width)),
        **names.standardize_places("standardize"),
    }
    pairs = names.block_pairs("blocks", "vit.encoder.layer", model.config.layers, BLOCK)
    pairs |= {"patches.projection": "vit.embeddings.patch_embeddings.projection"}
    return found | names.linear_places(pairs | {"norm": "vit.layernorm", "output": "classifier"})


NEW = ("classifier.", "standardize.")
KNOWN = (*NEW, "vit.pooler.", "vit.embeddings.mask_token")
FAMILY = HuggingFaceFamily("vit", "vit.", config, settings_of, places, known=KNOWN, new=NEW)
