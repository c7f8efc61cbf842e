from collections.abc import Callable
from typing import Any

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.recording import record
from neuropil.inspection.rollout import patch_maps, rollout
from neuropil.lab.pictures import held_out
from neuropil.lab.scenes import scenes
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("patches")


@pytest.mark.parametrize("name", ["vit", "clip"])
def test_the_class_token_looks_where_the_library_says(trained_run: Callable[..., Run], name: str):
    run = trained_run(name, **SMALL[name])
    picture = scenes(run, 12).pictures[2:3] if name == "clip" else held_out(run).examples.inputs[2:3]
    maps = patch_maps(run.model, picture)
    answer = ask(VIEW, "look", run, {"example": 2})
    assert answer["picture"] == picture[0, 0].tolist()
    torch.testing.assert_close(torch.tensor(answer["rollout"]), maps.rollout[0], atol=1e-6, rtol=0)
    for layer, (known, heads) in zip(answer["glance"], maps.heads.items(), strict=True):
        assert layer["name"].endswith(known)
        torch.testing.assert_close(torch.tensor(layer["maps"]), heads[0], atol=1e-6, rtol=0)


def test_a_patch_looks_where_the_library_says(trained_run: Callable[..., Run]):
    run = trained_run("attention", **SMALL["attention"])
    picture = held_out(run).examples.inputs[:1]
    with torch.no_grad(), record(run.model) as tape:
        run.model(picture)
    answer = ask(VIEW, "look", run, {"query": 5})
    for layer, weights in zip(answer["glance"], tape.attention.values(), strict=True):
        torch.testing.assert_close(torch.tensor(layer["maps"]).flatten(), weights[0, 0, 5], atol=1e-6, rtol=0)
    together = rollout(tape.attention.values())[0, 5]
    torch.testing.assert_close(torch.tensor(answer["rollout"]).flatten(), together, atol=1e-6, rtol=0)


def test_the_answer_without_a_head_is_that_of_the_masked_model(trained_run: Callable[..., Run]):
    run = trained_run("vit", **SMALL["vit"])
    picture, off = held_out(run).examples.inputs[4:5], "blocks.0.attention"
    rows = ask(VIEW, "look", run, {"example": 4, "off": [f"{off}:1"]})["answers"][0]["rows"]
    with masked_heads(run.model, {off: [1]}):
        after = run.predict(picture).records()[0]["probabilities"]
    assert {row["name"]: row["after"] for row in rows} == pytest.approx(after)
    before = run.predict(picture).records()[0]["probabilities"]
    assert {row["name"]: row["before"] for row in rows} == pytest.approx(before)


def test_texts_and_pictures_are_compared_as_by_the_run(trained_run: Callable[..., Run]):
    run = trained_run("clip", **SMALL["clip"])
    texts, off = ["a six above a two", "a three"], "vision.blocks.1.attention"
    answer = ask(VIEW, "compare", run, {"texts": texts, "off": [f"{off}:0"]})
    pictures = scenes(run, 12).pictures
    before = run.predictor.classify_images(pictures, texts).scores.T
    with masked_heads(run.model, {off: [0]}):
        similarity = run.predictor.embed_texts(texts) @ run.predict(pictures).vectors.T
        after = run.predictor.classify_images(pictures, texts).scores.T
    torch.testing.assert_close(torch.tensor(answer["similarity"]), similarity, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.tensor(answer["before"]), before, atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.tensor(answer["probabilities"]), after, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("name", "action", "values", "sentence"),
    [
        ("vit", "look", {"query": 16}, "query must be one of the 16 patches, counted from 0, but got 16."),
        ("attention", "look", {}, "query must be one of the 16 patches, counted from 0, but got -1."),
        ("vit", "compare", {}, "texts are compared with pictures by a run of clip, but got a run of vit."),
        ("clip", "compare", {"texts": []}, "texts must have at least 1 entries, but got 0."),
        ("clip", "compare", {"texts": ["a" * 121]}, "a text must have at most 120 characters, but got 121."),
    ],
)
def test_what_cannot_be_shown_is_refused(
    trained_run: Callable[..., Run], name: str, action: str, values: dict[str, Any], sentence: str
):
    with pytest.raises(InputError) as refused:
        ask(VIEW, action, trained_run(name, **SMALL[name]), values)
    assert str(refused.value) == sentence
