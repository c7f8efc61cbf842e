"""A translation as it is typed: where each written token looked, what else could have been written, and what is written
without some of the heads."""

from contextlib import nullcontext
from typing import Any, Literal, cast

import torch

from neuropil.config import option
from neuropil.errors import InputError, NeuropilError
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.report.alignment import shown
from neuropil.lab.bounds import require_length
from neuropil.lab.heads import MOST_HEADS, HeadsRequest, glance, layers_of, require_layer, rows
from neuropil.runs.run import Run
from neuropil.tasks.translation.predictor import Translator

MOST_CHARACTERS, MOST_BEAMS = 160, 8
EXAMPLE = "Sonntag, 15. November 2026"
"""Of the embedded pairs, which are dates."""


class TranslateRequest(HeadsRequest):
    text: str = option("", "the text to translate")
    beam: int = option(1, "beam width", low=1, high=MOST_BEAMS)
    layer: str = option("", "name of the attention module that is shown; the last to the source by default")
    head: int = option(0, "its head, from 0", low=0, high=MOST_HEADS)
    map: Literal["head", "mean"] = option("head", "one head, or the mean of its layer")

    def validate(self) -> None:
        super().validate()
        require_length("text", self.text, MOST_CHARACTERS)


def open_view(run: Run) -> dict[str, Any]:
    layers = layers_of(run.model)
    if not layers:
        raise InputError(
            "the view translation opens models with attention", got="one without", fix="train with another --attention"
        )
    request = TranslateRequest(text=example(run)[:MOST_CHARACTERS], layer=layers[-1]["name"])
    return {
        "system": run.name,
        "layers": layers,
        "characters": MOST_CHARACTERS,
        "beams": MOST_BEAMS,
        **request.to_dict(),
        "shown": translate(run, request) if request.text.strip() else None,
    }


def example(run: Run) -> str:
    """A text that the run has not learned from; none where its data is no longer there."""
    options = cast(Any, run.options)
    if not options.data.data:
        return EXAMPLE
    try:
        return cast(Any, run.experiment()).splits.test.sources[0]
    except NeuropilError:
        return ""


def translate(run: Run, request: TranslateRequest) -> dict[str, Any]:
    translator, off = cast(Translator, run.predictor), request.removed
    if not request.text.strip():
        raise InputError("a text to translate must say something", got=f"{request.text!r}")
    whole = translator.beams(request.text, request.beam)
    with masked_heads(run.model, off) if off else nullcontext():
        beams = translator.beams(request.text, request.beam) if off else whole
        translation = beams[0].text
        maps = {each.name: each for each in translator.align(request.text, translation).maps}
        written = translator.alternatives(request.text, translation)
    weights = {name: torch.as_tensor(each.weights)[None] for name, each in maps.items()}
    layer = request.layer or next(reversed(weights))
    heads = require_layer(weights, layer, request.head)
    read = next(each.keys for name, each in maps.items() if "cross" in name)
    return {
        "translation": translation,
        "before": whole[0].text,
        "source": [shown(token) for token in read],
        "glance": glance(weights),
        "map": rows(heads[request.head] if request.map == "head" else heads.mean(0)),
        "queries": [shown(token) for token in maps[layer].queries],
        "keys": [shown(token) for token in maps[layer].keys],
        "written": [
            {
                "token": shown(each.token),
                "share": each.share,
                "alternatives": [[shown(token), share] for token, share in each.alternatives],
            }
            for each in written
        ],
        "beams": [{"text": each.text, "score": each.score} for each in beams],
    }


ACTIONS = {"open": open_view, "translate": translate}
