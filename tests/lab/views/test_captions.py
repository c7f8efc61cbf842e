import math
from collections.abc import Callable

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.lab.scenes import scenes
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("captions")


@pytest.fixture
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run("captioner", **SMALL["captioner"])


@pytest.mark.parametrize("beam", [1, 3])
def test_caption_and_looks_are_those_of_the_library(run: Run, beam: int):
    answer = ask(VIEW, "caption", run, {"example": 1, "beam": beam})
    picture = scenes(run, 24).pictures[1:2]
    found = run.predictor.caption(picture, beam_width=beam)
    assert [answer["caption"]] == found.texts
    assert answer["log_probability"] == pytest.approx(found.log_probabilities[0])
    words, maps = run.predictor.attention(picture, found.texts)[0]
    assert [each["word"] for each in answer["words"]] == words
    torch.testing.assert_close(torch.tensor([each["map"] for each in answer["words"]]), maps, atol=1e-6, rtol=0)


def test_each_word_has_the_probability_that_makes_up_the_whole(run: Run):
    answer = ask(VIEW, "caption", run, {})
    written = answer["words"][: run.predictor.max_tokens]  # there the search ended it, and not the model
    total = sum(math.log(each["share"]) for each in written)
    assert total == pytest.approx(answer["log_probability"], abs=1e-3)
    assert all(each["alternatives"][0] == [each["word"], each["share"]] for each in written)
