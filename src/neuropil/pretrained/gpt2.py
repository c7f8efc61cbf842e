"""GPT-2 as Hugging Face keeps it: `GPT2LMHeadModel`, whose matrices stand the other way round."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.pretrained.folders import Stored
from neuropil.pretrained.names import THEIR_ACTIVATIONS, Family, Place, activation, linear_places, translated

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
    "vocabulary": "vocab_size",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "tied": "tie_word_embeddings",
    "epsilon": "layer_norm_epsilon",
}
"""Of settings, ours and theirs."""


def config(settings: Mapping[str, Any], tensors: Mapping[str, Stored], kind: type[nn.Module]) -> GPT2Config:
    for name, usual in AS_PUBLISHED.items():
        if settings.get(name, usual) != usual:
            raise InputError(f"GPT2 is GPT-2 as it was published, with {name}={usual}", got=f"{settings[name]}")
    found = translated(settings, NAMES)
    found.setdefault("feed_forward", 4 * settings.get("n_embd", GPT2Config.width))
    return GPT2Config(**found, activation=activation(settings.get("activation_function", "gelu_new")))


def settings_of(model: GPT2) -> dict[str, Any]:
    own = model.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        **{theirs: getattr(own, ours) for ours, theirs in NAMES.items()},
        "embd_pdrop": own.dropout,
        "activation_function": THEIR_ACTIVATIONS[own.activation],
        # Theirs would otherwise be GPT-2's own 50256, which a smaller vocabulary does not have.
        "bos_token_id": None,
        "eos_token_id": None,
    }


def places(model: GPT2) -> dict[str, Place]:
    found = {"transformer.wte.weight": Place("tokens.weight"), "transformer.wpe.weight": Place("positions.weight")}
    found |= linear_places({"norm": "transformer.ln_f"})
    for number in range(model.config.layers):
        ours, theirs = f"blocks.{number}", f"transformer.h.{number}"
        found |= linear_places(
            {f"{ours}.attention_sum.norm": f"{theirs}.ln_1", f"{ours}.feed_forward_sum.norm": f"{theirs}.ln_2"}
        )
        matrices = {"attention.projection": "attn.c_attn", "attention.output": "attn.c_proj"}
        matrices |= {"feed_forward.inner": "mlp.c_fc", "feed_forward.outer": "mlp.c_proj"}
        found |= linear_places(
            {f"{ours}.{own}": f"{theirs}.{other}" for own, other in matrices.items()}, transposed=True
        )
    return found if model.config.tied else found | {"lm_head.weight": Place("output.weight")}


FAMILY = Family(
    "gpt2",
    "transformer.",
    config,
    settings_of,
    places,
    known=("lm_head.",),
    ignored=(".attn.bias", ".attn.masked_bias"),
)
