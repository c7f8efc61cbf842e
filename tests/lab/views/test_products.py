"""Down to one multiplication: what the page is told is what the library opens."""

import base64
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.inspection.products.opened import NumberPlace
from neuropil.lab.pictures import PictureRequest, chosen_picture
from neuropil.lab.view import ask, find_view
from neuropil.lab.views.products import subscripted
from neuropil.runs.attack import splits_of
from neuropil.runs.products import trace_run
from neuropil.runs.run import Run
from neuropil.runs.start import train

VIEW = find_view("products")
Opened = Callable[[str], tuple[Run, dict[str, Any]]]


PICTURES = ("mlp", "cnn", "vit", "attention")
TEXTS = {
    "tagger": "The cat sat",
    "text_classifier": "so 3 is odd now",
    "bert": "3 is [MASK], see 4.",
    "bert_classifier": "so 3 is odd now",
    "lstm": "3 is odd",
    "mingru": "3 is odd",
    "gpt2": "3 is odd",
}


@pytest.fixture
def opened(trained_run: Callable[..., Run], text_run: Callable[[str], Run]) -> Opened:
    """A run, and the part of a question that names its input."""

    def get(name: str) -> tuple[Run, dict[str, Any]]:
        if name in TEXTS:
            return text_run(name), {"text": TEXTS[name]}
        return trained_run(name, **SMALL[name]), {"example": 3}

    return get


def last_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    return answer["stages"][-1]


@pytest.mark.parametrize("name", [*PICTURES, *TEXTS])
def test_numbers_are_those_of_the_library_all_the_way_down(name: str, opened: Opened):
    run, question = opened(name)
    first = ask(VIEW, "open", run, {})
    assert first["system"] == name
    answer = ask(VIEW, "read", run, question)
    last = last_of(answer)
    index: list[int] | None = [size - 1 for size in last["shape"]]
    stage, depth = last["name"], 0
    if name in PICTURES:
        expected = trace_run(run, chosen_picture(run, PictureRequest(**question))).traced
    else:
        expected = trace_run(run, question["text"]).traced
    assert [each["name"] for each in answer["stages"]] == list(expected.stages)
    while index is not None:
        shown = ask(VIEW, "number", run, {**question, "stage": stage, "index": index})
        whole = expected.open(NumberPlace(stage, tuple(index)))
        assert shown["value"] == (whole.value if math.isfinite(whole.value) else None)
        assert shown["count"] == len(whole.terms)
        total = sum(term["value"] for term in shown["terms"]) + shown["rest"]
        assert total == pytest.approx(math.fsum(term.value for term in whole.terms))
        following = [factor for term in shown["terms"] for factor in term["factors"] if factor["kind"] == "number"]
        stage, index, depth = (
            (following[-1]["name"], following[-1]["index"], depth + 1) if following else ("", None, depth)
        )
    assert depth >= 3


def test_a_picture_of_a_stage_has_a_byte_for_each_number(opened: Opened):
    run, question = opened("gpt2")
    answer = ask(VIEW, "read", run, question)
    stages = trace_run(run, question["text"]).traced.stages
    scores = next(each for each in answer["stages"] if each["name"] == "blocks.0.attention.scores")
    shades = torch.frombuffer(bytearray(base64.b64decode(scores["picture"])), dtype=torch.uint8)
    values = stages["blocks.0.attention.scores"].values.flatten()
    assert torch.equal(shades == 0, values.isinf())
    seen = values.isfinite()
    approximate = (shades[seen].double() - 128) / 127 * scores["largest"]
    assert (approximate - values[seen]).abs().max() <= scores["largest"] / 254 * 1.001


def test_of_many_tokens_the_likeliest_are_drawn(opened: Opened):
    run, question = opened("gpt2")
    last = last_of(ask(VIEW, "read", run, question))
    probabilities = trace_run(run, question["text"]).traced.stages["probabilities"].values
    best = probabilities.amax(0)
    assert last["drawn"] == [len(probabilities), 64]
    assert last["columns"] == best.topk(64).indices.tolist()
    assert last["names"][0] == run.predictor.tokenizer.tokens([last["columns"][0]])[0].replace(" ", "␣")


def test_only_the_parts_that_are_asked_for_are_drawn(opened: Opened):
    run, question = opened("gpt2")
    answer = ask(VIEW, "read", run, {**question, "parts": ["", "blocks.1"]})
    drawn = {(each["path"] or [""])[0] for each in answer["stages"] if each["picture"] is not None}
    assert drawn == {"", "blocks.1"}


def test_a_drawing_is_read_as_a_picture(opened: Opened):
    run, _ = opened("mlp")
    drawing = "".join("f" if 10 <= place % 28 < 14 else "0" for place in range(28 * 28))
    answer = ask(VIEW, "number", run, {"drawing": drawing, "stage": "input", "index": [0, 4, 4]})
    assert answer["value"] > 128
    assert answer["operation"] == "input"


def test_a_row_of_a_table_is_chosen_by_its_number(tmp_path: Path):
    rows = [f"{number},{number % 5},{'even' if number % 2 == 0 else 'odd'}" for number in range(80)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,kind", *rows]), encoding="utf-8")
    options = {"hidden_sizes": (4,), "updates": 2, "show_progress": False, "report": False}
    run = train("mlp", data=tmp_path / "table.csv", target="kind", out=tmp_path / "run", **options)
    first = ask(VIEW, "open", run, {})
    assert first["kind"] == "table"
    shown = [ask(VIEW, "number", run, {"example": row, "stage": "input", "index": [0]})["value"] for row in (0, 1)]
    inputs = splits_of(run).test.inputs
    assert shown == inputs[:2, 0].tolist()
    assert first["rows"] == len(inputs)


@pytest.mark.parametrize(
    ("equation", "lowered"),
    [
        ("a[2] = Σ_j W[2, j] h[j] + b[2]", "a_{2} = Σ_j W_{2, j} h_{j} + b_{2}"),
        ("x[0, 5] = E[token[0], 5]", "x_{0, 5} = E_{token_{0}, 5}"),
        ("f[3, 1] = σ(a_f[3, 1])", "f_{3, 1} = σ(a^{f}_{3, 1})"),
        ("a[0, 1, 2] = Σ_c x[c, 2·1 + a − 1, 2·2 + b − 1]", "a_{0, 1, 2} = Σ_c x[c, 2·1 + a − 1, 2·2 + b − 1]"),
    ],
)
def test_short_indices_stand_below_their_letters(equation: str, lowered: str):
    assert subscripted(equation) == lowered


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"text": "x" * 201}, "text must have at most 200 characters, but got 201."),
        ({"text": ""}, "a text to look at must have one token or more, but got ''."),
        ({"text": "a b " * 40}, "a text to open has at most 48 tokens, but got 160: shorten it."),
        ({"index": [1] * 5}, "index must have at most 4 entries, but got 5."),
        ({"stage": "x" * 201}, "stage must have at most 200 characters, but got 201."),
        ({"parts": ["x"] * 65}, "parts must have at most 64 entries, but got 65."),
        ({"parts": ["x" * 201]}, "the name of a part must have at most 200 characters, but got 201."),
        ({"stage": "embeding", "index": [0, 0], "text": "3 is"},
         "a number is opened in a stage of the pass, but got 'embeding': did you mean 'embedding'?"),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused(opened: Opened, question: dict[str, Any], sentence: str):
    run, _ = opened("lstm")
    with pytest.raises(InputError) as refused:
        ask(VIEW, "number", run, question)
    assert str(refused.value) == sentence
