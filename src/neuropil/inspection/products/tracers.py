"""From the whole to one multiplication: any number of a forward pass opened into the numbers that made it.

    traced = trace(model, pictures[:1])
    traced.stages["hidden.0"].values                        the whole: every stage, with its numbers
    traced.open(NumberPlace("output", (3,)))                one of them: its equation, its terms, the line of code

The pass runs as it always does, on the fused kernels. What these never return (gates, attention scores and weights,
means of a norm) is computed from what they were given. Looking changes nothing.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.inspection.products.captured import CapturedPass, run_captured
from neuropil.inspection.products.cnn import trace_cnn
from neuropil.inspection.products.layers import Answer, add_answer
from neuropil.inspection.products.mlp import trace_mlp
from neuropil.inspection.products.opened import NumberPlace, OpenedNumber
from neuropil.inspection.products.patches import trace_patch_attention, trace_vit
from neuropil.inspection.products.recurrent import trace_recurrent, trace_text_classifier
from neuropil.inspection.products.stages import NamedValues, TracedPass, TracedStage
from neuropil.inspection.products.transformers import (
    trace_bert,
    trace_bert_classifier,
    trace_gpt2,
    trace_masked_bert,
    trace_transformer,
)
from neuropil.models.attention import PatchAttention
from neuropil.models.bert import BERT, BERTClassifier, MaskedBERT
from neuropil.models.cnn import CNN
from neuropil.models.gpt2 import GPT2
from neuropil.models.mlp import MLP
from neuropil.models.recurrent import RecurrentNetwork
from neuropil.models.text_classifier import RecurrentTextClassifier
from neuropil.models.transformer import Transformer
from neuropil.models.vit import ViT

ModelInput: TypeAlias = Tensor | tuple[Tensor, ...]
"""What the model is called with: a batch of one, or several such."""

TRACERS: dict[type[nn.Module], Callable[[TracedPass, Any, CapturedPass], NamedValues]] = {
    MLP: trace_mlp,
    CNN: trace_cnn,
    RecurrentNetwork: trace_recurrent,
    RecurrentTextClassifier: trace_text_classifier,
    GPT2: trace_gpt2,
    BERT: trace_bert,
    MaskedBERT: trace_masked_bert,
    BERTClassifier: trace_bert_classifier,
    ViT: trace_vit,
    Transformer: trace_transformer,
    PatchAttention: trace_patch_attention,
}


@torch.no_grad()
def trace(model: nn.Module, input: ModelInput, answer: Answer = "softmax") -> TracedPass:
    """One forward pass of one example, as the model predicts; `answer` says what is made of its outputs."""
    model = cast(nn.Module, getattr(model, "_orig_mod", model))  # what torch.compile wraps
    tracer = next((tracer for kind, tracer in TRACERS.items() if isinstance(model, kind)), None)
    if tracer is None:
        known = ", ".join(kind.__name__ for kind in TRACERS)
        raise InputError(f"the models whose numbers can be opened are {known}", got=type(model).__name__)
    captured = run_captured(model, input if isinstance(input, tuple) else (input,))
    traced = TracedPass(model, "patch" if isinstance(model, ViT | PatchAttention) else "time")
    outputs = tracer(traced, model, captured)
    add_answer(traced, outputs, "identity" if isinstance(model, BERT) else answer)
    return traced


def places(model: nn.Module, input: ModelInput, answer: Answer = "softmax") -> list[TracedStage]:
    """The stages of a forward pass, in the order in which they are computed; `path` says where each stands."""
    return list(trace(model, input, answer).stages.values())


def open_number(model: nn.Module, input: ModelInput, place: NumberPlace, answer: Answer = "softmax") -> OpenedNumber:
    """The number at `place`, with all of its terms; `trace` once to open many."""
    return trace(model, input, answer).open(place)
