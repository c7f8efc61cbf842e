import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.heads import masked_heads
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW, TEXT = find_view("translation"), "say 257"


@pytest.fixture(params=["transformer", "seq2seq"])
def run(request: Any, pair_run: Callable[[str], Run]) -> Run:
    return pair_run(request.param)


def test_translation_and_alignment_are_those_of_the_library(run: Run):
    expected = run.translate(TEXT)
    for number, each in enumerate(run.predictor.align(TEXT).maps):
        weights = torch.as_tensor(each.weights)
        head = number % len(weights)
        answer = ask(VIEW, "translate", run, {"text": TEXT, "layer": each.name, "head": head})
        assert answer["translation"] == answer["before"] == expected
        torch.testing.assert_close(torch.tensor(answer["map"]), weights[head], atol=1e-6, rtol=0)
        assert (len(answer["queries"]), len(answer["keys"])) == weights[head].shape


def test_each_token_has_the_probability_that_makes_up_the_whole(run: Run):
    answer = ask(VIEW, "translate", run, {"text": TEXT})
    written, limit = answer["written"], 2 * len(answer["source"]) + 50
    written = written[:limit]  # there the search ended it, and not the model
    total = sum(math.log(each["share"]) for each in written)
    assert total == pytest.approx(run.predictor.translate([TEXT]).log_probabilities[0], abs=1e-3)
    # What greedy search wrote was the likeliest at its place.
    assert all(each["alternatives"][0] == [each["token"], each["share"]] for each in written)


def test_beams_are_ranked_and_the_best_is_the_translation(run: Run):
    answer = ask(VIEW, "translate", run, {"text": TEXT, "beam": 3})
    assert answer["translation"] == run.translate(TEXT, beam=3) == answer["beams"][0]["text"]
    assert len(answer["beams"]) == 3


def test_removed_heads_change_what_is_written(pair_run: Callable[[str], Run]):
    run = pair_run("transformer")
    layers = [layer for layer in ask(VIEW, "open", run, {})["layers"] if "cross" in layer["name"]]
    off = {layer["name"]: list(range(layer["heads"])) for layer in layers}
    names = [f"{name}:{head}" for name, heads in off.items() for head in heads]
    answer = ask(VIEW, "translate", run, {"text": TEXT, "off": names, "layer": layers[0]["name"]})
    with masked_heads(run.model, off):
        assert answer["translation"] == run.translate(TEXT)
        weights = next(each for each in run.predictor.align(TEXT).maps if each.name == layers[0]["name"]).weights
    torch.testing.assert_close(torch.tensor(answer["map"]), torch.as_tensor(weights)[0], atol=1e-6, rtol=0)
    assert answer["before"] == run.translate(TEXT)


def test_it_opens_with_a_text_that_was_held_out(run: Run):
    opened = ask(VIEW, "open", run, {})
    assert opened["text"] in run.experiment().splits.test.sources
    assert opened["shown"]["translation"] == run.translate(opened["text"])


def test_an_empty_text_is_refused(run: Run):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "translate", run, {"text": " "})
    assert str(refused.value) == "a text to translate must say something, but got ' '."
