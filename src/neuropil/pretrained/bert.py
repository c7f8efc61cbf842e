"""BERT as Hugging Face keeps it: the body alone, or with one of its heads (`BertForMaskedLM`, `BertForSequenceClassification`)."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.errors import InputError
from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places, translated

ARCHITECTURES = {BERT: "BertModel", MaskedBERT: "BertForMaskedLM", BERTClassifier: "BertForSequenceClassification"}


NAMES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "feed_forward": "intermediate_size",
    "context": "max_position_embeddings",
    "vocabulary": "vocab_size",
    "segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "epsilon": "layer_norm_eps",
}
"""Of settings, ours and theirs."""
AS_PUBLISHED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> BERTConfig:
    usual = AS_PUBLISHED | ({"tie_word_embeddings": True} if kind is MaskedBERT else {})
    for name, value in usual.items():
        if settings.get(name, value) != value:
            raise InputError(
                f"{kind.__name__} is BERT as it was published, with {name}={value}", got=f"{settings[name]}"
            )
    pooler = any(name.startswith("bert.pooler.") for name in tensors)
    return BERTConfig(
        **translated(settings, NAMES),
        activation=activation(settings.get("hidden_act", "gelu")),
        pooler=kind is BERTClassifier or (kind is BERT and pooler),
        classes=tensors["classifier.weight"].shape[0]
        if "classifier.weight" in tensors
        else len(settings.get("id2label", "..")),
    )


def settings_of(model: BERT | MaskedBERT | BERTClassifier) -> dict[str, Any]:
    own = model.config
    settings: dict[str, Any] = {
        "architectures": [ARCHITECTURES[type(model)]],
        **{theirs: getattr(own, ours) for ours, theirs in NAMES.items()},
        "hidden_act": THEIR_ACTIVATIONS[own.activation],
        "pad_token_id": 0,
    }
    if isinstance(model, BERTClassifier):
        settings["id2label"] = {str(number): str(number) for number in range(own.classes)}
    return settings


def places(model: BERT | MaskedBERT | BERTClassifier) -> dict[str, Place]:
    ours, theirs = ("", "") if isinstance(model, BERT) else ("bert.", "bert.")
    found = {
        f"{theirs}embeddings.word_embeddings.weight": Place(f"{ours}tokens.weight"),
        f"{theirs}embeddings.position_embeddings.weight": Place(f"{ours}positions.weight"),
        f"{theirs}embeddings.token_type_embeddings.weight": Place(f"{ours}segments.weight"),
    }
    pairs: dict[str, str | tuple[str, ...]] = {f"{ours}norm": f"{theirs}embeddings.LayerNorm"}
    for number in range(model.config.layers):
        own, other = f"{ours}blocks.{number}", f"{theirs}encoder.layer.{number}"
        pairs |= {
            f"{own}.attention.projection": tuple(
                f"{other}.attention.self.{part}" for part in ("query", "key", "value")
            ),
            f"{own}.attention.output": f"{other}.attention.output.dense",
            f"{own}.attention_sum.norm": f"{other}.attention.output.LayerNorm",
            f"{own}.feed_forward.inner": f"{other}.intermediate.dense",
            f"{own}.feed_forward.outer": f"{other}.output.dense",
            f"{own}.feed_forward_sum.norm": f"{other}.output.LayerNorm",
        }
    if model.config.pooler:
        pairs[f"{ours}pooler"] = f"{theirs}pooler.dense"
    if isinstance(model, MaskedBERT):
        pairs |= {"transform": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm"}
        found["cls.predictions.bias"] = Place("bias")
    if isinstance(model, BERTClassifier):
        pairs["output"] = "classifier"
    return found | linear_places(pairs)


FAMILY = Family(
    "bert",
    "bert.",
    config,
    settings_of,
    places,
    known=("cls.", "classifier.", "bert.pooler."),
    ignored=(".position_ids",),
    new=("classifier.", "bert.pooler."),
    old={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
