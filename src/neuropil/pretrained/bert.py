"""BERT as Hugging Face keeps it: the body alone, or with one of its heads (`BertForMaskedLM`, `BertForSequenceClassification`)."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.models.bert import BERT, BERTClassifier, BERTConfig, MaskedBERT
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places

ARCHITECTURES = {BERT: "BertModel", MaskedBERT: "BertForMaskedLM", BERTClassifier: "BertForSequenceClassification"}


def config(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], kind: type[nn.Module]) -> BERTConfig:
    if (positions := settings.get("position_embedding_type", "absolute")) != "absolute":
        raise InputError("BERT has absolute positions, as it was published", got=f"{positions}")
    pooler = any(name.startswith("bert.pooler.") for name in tensors)
    return BERTConfig(
        width=settings["hidden_size"],
        heads=settings["num_attention_heads"],
        layers=settings["num_hidden_layers"],
        feed_forward=settings["intermediate_size"],
        context=settings["max_position_embeddings"],
        vocabulary=settings["vocab_size"],
        segments=settings.get("type_vocab_size", 2),
        activation=activation(settings.get("hidden_act", "gelu")),
        dropout=float(settings.get("hidden_dropout_prob", 0.1)),
        attention_dropout=float(settings.get("attention_probs_dropout_prob", 0.1)),
        epsilon=settings.get("layer_norm_eps", 1e-12),
        pooler=kind is BERTClassifier or (kind is BERT and pooler),
        classes=tensors["classifier.weight"].shape[0] if "classifier.weight" in tensors else len(settings.get("id2label", "..")),
    )


def settings_of(model: BERT | MaskedBERT | BERTClassifier) -> dict[str, Any]:
    own = model.config
    settings: dict[str, Any] = {
        "architectures": [ARCHITECTURES[type(model)]],
        "hidden_size": own.width,
        "num_attention_heads": own.heads,
        "num_hidden_layers": own.layers,
        "intermediate_size": own.feed_forward,
        "max_position_embeddings": own.context,
        "vocab_size": own.vocabulary,
        "type_vocab_size": own.segments,
        "hidden_act": THEIR_ACTIVATIONS[own.activation],
        "hidden_dropout_prob": own.dropout,
        "attention_probs_dropout_prob": own.attention_dropout,
        "layer_norm_eps": own.epsilon,
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
            f"{own}.attention.projection": tuple(f"{other}.attention.self.{part}" for part in ("query", "key", "value")),
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
)
