"""Attention of models that read a text: every head at a glance, one in depth, and the answer without some of them."""

from contextlib import nullcontext
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.config import option
from neuropil.errors import InputError
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.recording import record
from neuropil.inspection.report.alignment import shown
from neuropil.inspection.report.attention import tokens_of
from neuropil.lab.bounds import require_length
from neuropil.lab.heads import MOST_HEADS, HeadsRequest, change, glance, layers_of, require_layer, rolled_out, rows
from neuropil.runs.run import Run
from neuropil.tasks.masked_language_modelling.predictor import TextFiller
from neuropil.tasks.text_classification.predictor import TextClassifier

MOST_CHARACTERS, MOST_TOKENS = 400, 64
MOST_ANSWERS, MOST_GAPS = 8, 4
EXAMPLES = {
    "gpt2": "The function returns a list of the names of the",
    "bert": "The [MASK] returns a list of the names of the class.",
    "bert_classifier": "The function returns a list of the names of the class.",
}


class AttentionRequest(HeadsRequest):
    text: str = option("", "the text that is read")
    layer: str = option("", "name of the attention module that is shown; the first by default")
    head: int = option(0, "its head, from 0", low=0, high=MOST_HEADS)
    map: Literal["head", "mean", "rollout"] = option("head", "one head, the mean of its layer, or all layers")

    def validate(self) -> None:
        super().validate()
        require_length("text", self.text, MOST_CHARACTERS)


def open_view(run: Run) -> dict[str, Any]:
    layers = layers_of(run.model)
    if not layers:
        raise InputError("attention is shown of models with heads", got="one whose heads were all removed")
    example = AttentionRequest(text=EXAMPLES.get(run.name, EXAMPLES["gpt2"]), layer=layers[-1]["name"])
    mask = run.predictor.mask_token if isinstance(run.predictor, TextFiller) else None
    return {
        "system": run.name,
        "layers": layers,
        "characters": MOST_CHARACTERS,
        "mask": mask,
        **example.to_dict(),
        "shown": read(run, example),
    }


@torch.no_grad()
def read(run: Run, request: AttentionRequest) -> dict[str, Any]:
    trained, off = run.predictor, request.removed
    tokens = tokens_of(trained, request.text)
    room = min(MOST_TOKENS, trained.model.config.context)
    if len(tokens) > room:
        raise InputError(f"a text to look at has at most {room} tokens", got=f"{len(tokens)}", fix="shorten it")
    before = answers(trained, request.text, tokens)
    with masked_heads(run.model, off) if off else nullcontext():
        with record(run.model) as tape:
            run.model(tokens[None])
        after = answers(trained, request.text, tokens) if off else before
    weights = {name: each.cpu() for name, each in tape.attention.items() if each.shape[1]}
    heads = require_layer(weights, request.layer or next(iter(weights)), request.head)
    maps = {
        "head": lambda: heads[request.head],
        "mean": lambda: heads.mean(0),
        "rollout": lambda: rolled_out(weights, off),
    }
    return {
        "tokens": [shown(token) for token in trained.tokenizer.tokens(tokens.tolist())],
        "glance": glance(weights),
        "map": rows(maps[request.map]()),
        "answers": [
            {"title": title, "rows": change(old, new, lambda index: option_name(trained, index), MOST_ANSWERS)}
            for (title, old), (_, new) in zip(before, after, strict=True)
        ],
    }


def answers(trained: Any, text: str, tokens: Int64[Tensor, " time"]) -> list[tuple[str, Float[Tensor, " option"]]]:
    """Probabilities of the next token, of what fills each gap, or of the classes."""
    if isinstance(trained, TextClassifier):
        return [("Class", trained.classify([text]).scores[0])]
    if isinstance(trained, TextFiller):
        if trained.mask_token not in text:
            return []
        filled = trained.probabilities(text).cpu()
        return [(f"{trained.mask_token} {place + 1}", each) for place, each in enumerate(filled[:MOST_GAPS])]
    return [("Next token", trained.score_tokens(tokens)[1].softmax(-1))]


def option_name(trained: Any, index: int) -> str:
    if isinstance(trained, TextClassifier):
        return trained.classes[index]
    return shown(trained.tokenizer.tokens([index])[0])


ACTIONS = {"open": open_view, "read": read}
