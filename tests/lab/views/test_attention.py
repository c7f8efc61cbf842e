from collections.abc import Callable
from typing import Any

import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.attention_spread import distance, entropy
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.report.attention import self_attention, tokens_of
from neuropil.inspection.rollout import rollout
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW, LAYERS = find_view("attention"), "bert.blocks.0.attention, bert.blocks.1.attention"
TEXTS = {"gpt2": "12 is even", "bert": "7 is [MASK] (see [MASK]).", "bert_classifier": "so 7 is odd now"}


@pytest.fixture(params=list(TEXTS))
def run(request: Any, text_run: Callable[[str], Run]) -> Run:
    return text_run(request.param)


def test_weights_and_measures_are_those_of_the_library(run: Run):
    text = TEXTS[run.name]
    maps = self_attention(run.predictor, tokens_of(run.predictor, text))
    for number, layer in enumerate(maps):
        for head, weights in enumerate(torch.as_tensor(layer.weights)):
            answer = ask(VIEW, "read", run, {"text": text, "layer": layer.name, "head": head})
            torch.testing.assert_close(torch.tensor(answer["map"]), weights, atol=1e-6, rtol=0)
            small = answer["glance"][number]
            assert small["name"] == layer.name
            assert small["entropy"][head] == pytest.approx(float(entropy(weights).mean()), abs=1e-6)
            assert small["distance"][head] == pytest.approx(float(distance(weights).mean()), abs=1e-6)
    together = rollout(torch.as_tensor(layer.weights)[None] for layer in maps)[0]
    answer = ask(VIEW, "read", run, {"text": text, "map": "rollout"})
    torch.testing.assert_close(torch.tensor(answer["map"]), together, atol=1e-6, rtol=0)


def probabilities(run: Run, text: str) -> list[dict[str, float]]:
    """As the commands print them."""
    if run.name == "gpt2":
        return [dict(run.predict(text).texts[0].following)]
    if run.name == "bert":
        filled = run.fill(text, 3)
        return [{each.word: each.share for each in filled if each.place == place} for place in (1, 2)]
    predicted = run.classify(text)
    return [dict(zip(predicted.classes, predicted.scores[0].tolist(), strict=True))]


def test_the_answer_without_a_head_is_that_of_the_masked_model(run: Run):
    text, layer = TEXTS[run.name], ask(VIEW, "open", run, {})["layers"][0]["name"]
    before = probabilities(run, text)
    with masked_heads(run.model, {layer: [0, 1]}):
        after = probabilities(run, text)
    answers = ask(VIEW, "read", run, {"text": text, "off": [f"{layer}:0", f"{layer}:1"]})["answers"]
    assert len(answers) == len(before)
    for answer, whole, less in zip(answers, before, after, strict=True):
        rows = {row["name"].removeprefix("##").replace("␣", " ").replace("⏎", "\n"): row for row in answer["rows"]}
        assert {name: rows[name]["before"] for name in whole} == pytest.approx(whole)
        assert {name: rows[name]["after"] for name in less} == pytest.approx(less)
        assert [row["after"] for row in answer["rows"]] == sorted(
            (row["after"] for row in answer["rows"]), reverse=True
        )
    assert probabilities(run, text) == before


def test_without_any_head_nothing_moves(run: Run):
    layers = ask(VIEW, "open", run, {})["layers"]
    off = [f"{layer['name']}:{head}" for layer in layers for head in range(layer["heads"])]
    answer = ask(VIEW, "read", run, {"text": TEXTS[run.name], "off": off, "map": "rollout"})
    assert answer["map"] == torch.eye(len(answer["tokens"])).tolist()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"text": "a" * 401}, "text must have at most 400 characters, but got 401."),
        ({"text": "( " * 70}, "a text to look at has at most 64 tokens, but got 72: shorten it."),
        ({"text": ""}, "a text to look at must have one token or more, but got ''."),
        ({"head": 2}, "head must be among the 2 of the layer, counted from 0, but got 2."),
        ({"layer": "x"}, f"layer must be the name of an attention module, but got 'x': choose from {LAYERS}."),
        ({"off": ["x"]}, "a removed head must be a layer, a colon and a number, but got 'x'."),
        (
            {"off": ["x:0"]},
            f"heads are chosen by the name of their attention module, but got 'x': choose from {LAYERS}.",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(text_run: Callable[[str], Run], values: dict[str, Any], sentence: str):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", text_run("bert"), {"text": "7 is odd.", **values})
    assert str(refused.value) == sentence
