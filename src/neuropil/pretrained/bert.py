"""BERT as Hugging Face keeps it: `BertModel`, `BertForMaskedLM` or `BertForSequenceClassification`."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.pretrained import names
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import HuggingFaceFamily, Place

ARCHITECTURES = {BERT: "BertModel", MaskedBERT: "BertForMaskedLM", BERTClassifier: "BertForSequenceClassification"}
NAMES = names.STACK_NAMES | {
    "context": "max_position_embeddings",
    "vocabulary_size": "vocab_size",
    "segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
"""Of settings, ours and theirs."""
AS_PUBLISHED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
ATTENTION = (tuple(f"attention.self.{part}" for part in ("query", "key", "value")), "attention.output.dense")
BLOCK = (*ATTENTION, "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> BERTConfig:
    usual = AS_PUBLISHED | ({"tie_word_embeddings": True} if kind is MaskedBERT else {})
    names.require_settings(f"{kind.__name__} is BERT as it was published", settings, usual)
    pooler = any(name.startswith("bert.pooler.") for name in tensors)
    return BERTConfig(
        **names.translated(settings, NAMES),
        activation=names.activation(settings.get("hidden_act", "gelu")),
        pooler=kind is BERTClassifier or (kind is BERT and pooler),
        classes=names.number_of_classes(settings, tensors),
    )


def settings_of(model: BERT | MaskedBERT | BERTClassifier) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "architectures": [ARCHITECTURES[type(model)]],
        **names.settings_in(model.config, NAMES),
        "hidden_act": names.THEIR_ACTIVATIONS[model.config.activation],
        "pad_token_id": 0,
    }
    return settings | (names.class_names(model.config.classes) if isinstance(model, BERTClassifier) else {})


def places(model: BERT | MaskedBERT | BERTClassifier) -> dict[str, Place]:
    ours, theirs = ("", "") if isinstance(model, BERT) else ("bert.", "bert.")
    tables = {"word": "tokens", "position": "positions", "token_type": "segments"}
    start = f"{theirs}embeddings."
    found = {f"{start}{name}_embeddings.weight": Place(f"{ours}{own}.weight") for name, own in tables.items()}
    pairs = names.block_pairs(f"{ours}blocks", f"{theirs}encoder.layer", model.config.layers, BLOCK)
    pairs[f"{ours}norm"] = f"{theirs}embeddings.LayerNorm"
    if model.config.pooler:
        pairs[f"{ours}pooler"] = f"{theirs}pooler.dense"
    if isinstance(model, MaskedBERT):
        pairs |= {"transform": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm"}
        found["cls.predictions.bias"] = Place("bias")
    if isinstance(model, BERTClassifier):
        pairs["output"] = "classifier"
    return found | names.linear_places(pairs)


FAMILY = HuggingFaceFamily(
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
