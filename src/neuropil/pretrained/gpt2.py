"""GPT-2 as Hugging Face keeps it: `GPT2LMHeadModel`, whose matrices stand the other way round."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.pretrained import names
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import HuggingFaceFamily, Place

AS_PUBLISHED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}
NAMES = {
    "width": "n_embd",
    "heads": "n_head",
    "layers": "n_layer",
    "feed_forward": "n_inner",
    "context": "n_positions",
    "vocabulary_size": "vocab_size",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "tied": "tie_word_embeddings",
    "epsilon": "layer_norm_epsilon",
}
"""Of settings, ours and theirs."""
BLOCK = ("attn.c_attn", "attn.c_proj", "ln_1", "mlp.c_fc", "mlp.c_proj", "ln_2")


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> GPT2Config:
    names.require_settings("GPT2 is GPT-2 as it was published", settings, AS_PUBLISHED)
    activation = names.activation(settings.get("activation_function", "gelu_new"))
    return GPT2Config(**names.translated(settings, NAMES), activation=activation)


def settings_of(model: GPT2) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        **names.settings_in(model.config, NAMES),
        "embd_pdrop": model.config.dropout,
        "activation_function": names.THEIR_ACTIVATIONS[model.config.activation],
        # Theirs would otherwise be GPT-2's own 50256, which a smaller vocabulary does not have.
        "bos_token_id": None,
        "eos_token_id": None,
    }


def places(model: GPT2) -> dict[str, Place]:
    found = {"transformer.wte.weight": Place("tokens.weight"), "transformer.wpe.weight": Place("positions.weight")}
    pairs = names.block_pairs("blocks", "transformer.h", model.config.layers, BLOCK)
    norms = {ours: theirs for ours, theirs in pairs.items() if ours.endswith(".norm")} | {"norm": "transformer.ln_f"}
    matrices = {ours: theirs for ours, theirs in pairs.items() if ours not in norms}
    found |= names.linear_places(norms) | names.linear_places(matrices, transposed=True)
    return found if model.config.tied else found | {"lm_head.weight": Place("output.weight")}


KNOWN, IGNORED = ("lm_head.",), (".attn.bias", ".attn.masked_bias")
FAMILY = HuggingFaceFamily("gpt2", "transformer.", config, settings_of, places, known=KNOWN, ignored=IGNORED)
