"""GPT-2 as Hugging Face keeps it: `GPT2LMHeadModel`, whose matrices stand the other way round."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places

AS_PUBLISHED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}


def config(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], kind: type[nn.Module]) -> GPT2Config:
    for name, usual in AS_PUBLISHED.items():
        if settings.get(name, usual) != usual:
            raise InputError(f"GPT2 is GPT-2 as it was published, with {name}={usual}", got=f"{settings[name]}")
    return GPT2Config(
        width=settings["n_embd"],
        heads=settings["n_head"],
        layers=settings["n_layer"],
        feed_forward=settings.get("n_inner") or 4 * settings["n_embd"],
        context=settings["n_positions"],
        vocabulary=settings["vocab_size"],
        activation=activation(settings.get("activation_function", "gelu_new")),
        dropout=float(settings.get("resid_pdrop", 0.1)),
        attention_dropout=float(settings.get("attn_pdrop", 0.1)),
        tied=settings.get("tie_word_embeddings", True),
        epsilon=settings.get("layer_norm_epsilon", 1e-5),
    )


def settings_of(model: GPT2) -> dict[str, Any]:
    own = model.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": own.width,
        "n_head": own.heads,
        "n_layer": own.layers,
        "n_inner": own.feed_forward,
        "n_positions": own.context,
        "vocab_size": own.vocabulary,
        "activation_function": THEIR_ACTIVATIONS[own.activation],
        "resid_pdrop": own.dropout,
        "embd_pdrop": own.dropout,
        "attn_pdrop": own.attention_dropout,
        "tie_word_embeddings": own.tied,
        "layer_norm_epsilon": own.epsilon,
    }


def places(model: GPT2) -> dict[str, Place]:
    found = {"transformer.wte.weight": Place("tokens.weight"), "transformer.wpe.weight": Place("positions.weight")}
    found |= linear_places({"norm": "transformer.ln_f"})
    for number in range(model.config.layers):
        ours, theirs = f"blocks.{number}", f"transformer.h.{number}"
        found |= linear_places({f"{ours}.attention_sum.norm": f"{theirs}.ln_1", f"{ours}.feed_forward_sum.norm": f"{theirs}.ln_2"})
        matrices = {"attention.projection": "attn.c_attn", "attention.output": "attn.c_proj"}
        matrices |= {"feed_forward.inner": "mlp.c_fc", "feed_forward.outer": "mlp.c_proj"}
        found |= linear_places({f"{ours}.{own}": f"{theirs}.{other}" for own, other in matrices.items()}, transposed=True)
    return found if model.config.tied else found | {"lm_head.weight": Place("output.weight")}


FAMILY = Family("gpt2", "transformer.", config, settings_of, places, known=("lm_head.",), ignored=(".attn.bias", ".attn.masked_bias"))
