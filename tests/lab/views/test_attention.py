from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.tiny_runs import tiny
from neuropil.errors import InputError
from neuropil.inspection.attention_spread import distance, entropy
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.report.attention import self_attention, tokens_of
from neuropil.inspection.rollout import rollout
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("attention")
TEXTS = {"gpt2": "We read the", "bert": "We [MASK] the [MASK].", "bert_classifier": "They see the word."}


@pytest.fixture(params=list(TEXTS))
def run(request: Any, trained_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return tiny(trained_run, tmp_path_factory.mktemp("data"), request.param)


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
        ({"text": "a" * 401}, "text must have at most 400 characters, but got 401: shorten it."),
        ({"text": "We read " * 40}, "a text to look at has at most 64 tokens, but got {}: shorten it."),
        ({"text": ""}, "a text to look at must have one token or more, but got ''."),
        ({"head": 2}, "head must be among the 2 of the layer, counted from 0, but got 2."),
        ({"layer": "x"}, "layer must be the name of an attention module, but got 'x': {}."),
        ({"off": ["x"]}, "a removed head must be a layer, a colon and a number, but got 'x'."),
        ({"off": ["x:0"]}, "heads are chosen by the name of their attention module, but got 'x': {}"),
    ],
)
def test_what_cannot_be_read_is_refused(
    trained_run: Callable[..., Run], tmp_path: Path, values: dict[str, Any], sentence: str
):
    run = tiny(trained_run, tmp_path, "bert")
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", run, {"text": "We read.", **values})
    head, _, tail = sentence.partition("{}")
    assert str(refused.value).startswith(head)
    assert str(refused.value).endswith(tail)
