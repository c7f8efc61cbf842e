"""What else a model can be asked, by what it is able to do."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_server import Served, serving_thread
from neuropil.runs.run import load
from neuropil.runs.start import train

TEXTS = ["12 is even", "7", "see 8. é€"]


def test_embeddings_are_those_of_the_run_in_both_encodings(served: Served, run_folder: Callable[[str], Path]):
    run = load(run_folder("bert"))
    expected = run.embed(TEXTS).numpy()
    create = served.openai.embeddings.create
    found = create(model="bert", input=TEXTS)  # which asks for base64 by itself
    np.testing.assert_allclose([each.embedding for each in found.data], expected, atol=1e-6)
    assert [(each.index, each.object) for each in found.data] == [(0, "embedding"), (1, "embedding"), (2, "embedding")]
    tokens = sum(len(ids) for ids in run.predictor.tokenizer.encode(TEXTS, special=True))
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (tokens, tokens)
    one = create(model="bert", input=TEXTS[0], encoding_format="float", dimensions=expected.shape[1])
    np.testing.assert_allclose(one.data[0].embedding, expected[0], atol=1e-6)
    body = {"model": "bert", "input": TEXTS[:1], "encoding_format": "base64"}
    packed = served.ask("/v1/embeddings", body).json()["data"][0]["embedding"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(packed), "<f4"), expected[0], atol=1e-6)


def test_classes_are_those_of_the_run(served: Served, run_folder: Callable[[str], Path]):
    found = served.ask("/v1/classify", {"model": "text_classifier", "input": TEXTS}).json()
    expected = load(run_folder("text_classifier")).classify(TEXTS).records()
    assert found["model"] == "text_classifier"
    assert [each["label"] for each in found["data"]] == [each["label"] for each in expected]
    for each, other in zip(found["data"], expected, strict=True):
        assert each["probabilities"] == pytest.approx(other["probabilities"])


@pytest.mark.parametrize("width", [1, 3])
def test_translations_are_those_of_the_run(served: Served, run_folder: Callable[[str], Path], width: int):
    body = {"model": "transformer", "input": ["say 123", "say 140"], "beam_width": width, "length_penalty": 0.5}
    found = served.ask("/v1/translate", body).json()["data"]
    run = load(run_folder("transformer"))
    texts = run.translate(["say 123", "say 140"], beam=width, length_penalty=0.5)
    assert [each["translation"] for each in found] == texts
    assert all(each["log_probability"] < 0 for each in found)


def test_masks_are_filled_as_by_the_run(served: Served, run_folder: Callable[[str], Path]):
    found = served.ask("/v1/fill", {"model": "bert", "input": "12 is [MASK], see [MASK]", "top": 2}).json()
    expected = [each.record() for each in load(run_folder("bert")).fill("12 is [MASK], see [MASK]", 2)]
    filled = found["data"][0]["filled"]
    assert [(each["place"], each["word"]) for each in filled] == [(each["place"], each["word"]) for each in expected]
    without = served.error("/v1/fill", {"model": "bert", "input": "12"})
    said = "a text to fill must say [MASK], but got '12': write [MASK] where a word is missing."
    assert without == (400, said, "input")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("embeddings", "each text to embed must have at most 64 tokens, but got one of 65."),
        ("fill", "a text to fill has at most 64 tokens, but got 65: shorten it."),
    ],
)
def test_a_text_that_does_not_fit_is_refused_and_one_that_just_fits_is_read(served: Served, path: str, said: str):
    fitting = {"model": "bert", "input": ["[MASK]", "[MASK]" * 62]}
    assert served.ask(f"/v1/{path}", fitting).status_code == 200
    answer = served.ask(f"/v1/{path}", {"model": "bert", "input": ["[MASK]", "[MASK]" * 63]})
    error = {"message": said, "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_a_series_goes_on_as_by_the_run(served: Served, run_folder: Callable[[str], Path]):
    run = load(run_folder("forecaster"))
    values = [float(step % 7) for step in range(60)]
    expected = run.predict(values)
    for asked in ({"values": values}, {"table": {"sold": values}}):
        data = served.ask("/v1/forecast", {"model": "forecaster", **asked}).json()["data"]
        assert [each["median"] for each in data] == pytest.approx(expected.median[0].tolist(), rel=1e-5)
        assert [each["index"] for each in data] == [0, 1, 2, 3]
        assert set(data[0]["bands"]) == {"0.5", "0.8", "0.9"}
    gap = served.ask("/v1/forecast", {"model": "forecaster", "values": [*values[:50], None, *values[51:]]})
    assert gap.status_code == 200


def test_a_forecaster_that_learned_dates_says_which_table_it_needs(tmp_path: Path):
    days = [str(np.datetime64("2026-01-01") + day) for day in range(120)]
    table: dict[str, list[Any]] = {"day": days, "sold": [day % 7 + day * 37 % 11 for day in range(120)]}
    options: dict[str, Any] = {"updates": 5, "members": 1, "hidden_size": 8, "horizon": 4}
    train("forecaster", data=table, out=tmp_path / "shop", show_progress=False, report=False, **options)
    with serving_thread([str(tmp_path / "shop")]) as served:
        found = served.ask("/v1/forecast", {"table": table}).json()["data"]
        assert [each["step"] for each in found] == ["2026-05-01", "2026-05-02", "2026-05-03", "2026-05-04"]
        assert served.error("/v1/forecast", {"values": table["sold"]}) == (
            400,
            "this forecaster needs what is known in advance, such as dates, beside the values, but got values only: "
            "give a table with the columns day, sold.",
            "values",
        )
        said = "table must have the column 'day', but got sold."
        assert served.error("/v1/forecast", {"table": {"sold": [1]}}) == (400, said, "table")
        status, said, param = served.error("/v1/forecast", {"table": {**table, "day": ["never", *days[1:]]}})
        assert (status, param) == (400, "table")
        assert said.startswith("row 0, column 'day' of table must hold a date, but got 'never'")


@pytest.mark.parametrize(
    ("path", "body", "said", "param"),
    [
        ("classify", {}, "input must be given.", "input"),
        ("classify", {"input": 5}, "input must be a text or a list of texts, but got a number.", "input"),
        (
            "classify",
            {"input": [["a"]]},
            "input must be a text or a list of texts, but got a list of other things.",
            "input",
        ),
        ("classify", {"input": []}, "input must hold 1 to 2,048 texts, but got 0.", "input"),
        ("classify", {"input": ["a"] * 2049}, "input must hold 1 to 2,048 texts, but got 2,049.", "input"),
        (
            "classify",
            {"input": "a", "top": 1},
            "'top' is no field of this request: choose from input, model, user.",
            "top",
        ),
        (
            "embeddings",
            {"input": [1, 2]},
            "input must be a text or a list of texts, but got token numbers: "
            "send the texts: tokens are numbered otherwise by every tokenizer.",
            "input",
        ),
        (
            "embeddings",
            {"input": "a", "encoding_format": "hex"},
            'encoding_format must be float or base64, but got "hex".',
            "encoding_format",
        ),
        (
            "embeddings",
            {"input": "a", "dimensions": 5},
            "dimensions must be 16, the model's own, or left out, but got 5.",
            "dimensions",
        ),
        ("translate", {"input": ["a"] * 129}, "input must hold at most 128 texts, but got 129.", "input"),
        ("translate", {"input": "a", "beam_width": 17}, "beam_width must be at most 16, but got 17.", "beam_width"),
        (
            "translate",
            {"input": "1" * 2000},
            "each text to translate must have at most 1,024 tokens, but got one of 2,000.",
            "input",
        ),
        ("fill", {"input": "[MASK]", "top": 0}, "top must be at least 1, but got 0.", "top"),
        ("forecast", {}, "A forecast needs either values or table.", "values"),
        ("forecast", {"values": [1], "table": {"sold": [1]}}, "A forecast needs either values or table.", "values"),
        (
            "forecast",
            {"values": "/etc/passwd"},
            "values must be a list of numbers, and null for gaps, but got a text.",
            "values",
        ),
        (
            "forecast",
            {"values": ["/etc/passwd"]},
            "values must be a list of numbers, and null for gaps, but got a list of other things.",
            "values",
        ),
        ("forecast", {"values": []}, "values must have 1 to 200,000 numbers, but got 0.", "values"),
        (
            "forecast",
            {"values": [10**200]},
            "values must be a list of numbers, and null for gaps, but got a list of other things.",
            "values",
        ),
        (
            "forecast",
            {"values": [1.0, None]},
            "values to continue must be a row of numbers that begins and ends with one, "
            "but got an array of shape (2,).",
            "values",
        ),
        (
            "forecast",
            {"table": "x"},
            "table must be an object of columns, each a list of cells, but got a text.",
            "table",
        ),
        *(
            (
                "forecast",
                {"table": table},
                f"table must be an object of columns, each a list of cells, but got {got}.",
                "table",
            )
            for table, got in (
                ({}, "an empty one"),
                ({"sold": []}, "an empty list in column 'sold'"),
                ({"sold": [1], "b": 5}, "a number in column 'b'"),
            )
        ),
        (
            "forecast",
            {"table": {"sold": [1, 2], "b": [1]}},
            "table must have columns of one length, and at most 200,000 cells, but got columns of 2, 1.",
            "table",
        ),
        (
            "forecast",
            {"table": {"sold": [[1]]}},
            "table must have numbers, texts and null in its cells, but got something else.",
            "table",
        ),
        (
            "forecast",
            {"table": {"other": [float(step % 7) for step in range(60)]}},
            "table must have the column 'sold', but got other.",
            "table",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(served: Served, path: str, body: dict[str, Any], said: str, param: str):
    models = {
        "classify": "text_classifier",
        "embeddings": "bert",
        "fill": "bert",
        "translate": "transformer",
        "forecast": "forecaster",
    }
    assert served.error(f"/v1/{path}", {"model": models[path], **body}) == (400, said, param)


@pytest.mark.parametrize(
    ("path", "model", "said"),
    [
        ("completions", "bert", "generates text, but got bert, which has /v1/embeddings and /v1/fill."),
        ("embeddings", "gpt2", "embeds texts, but got gpt2, which has /v1/completions."),
        ("classify", "forecaster", "classifies texts, but got forecaster, which has /v1/forecast."),
        ("translate", "text_classifier", "translates texts, but got text_classifier, which has /v1/classify."),
        ("forecast", "transformer", "forecasts series, but got transformer, which has /v1/translate."),
        ("fill", "lstm", "fills in masked words, but got lstm, which has /v1/completions."),
        ("tag", "lstm", "tags the tokens of texts, but got lstm, which has /v1/completions."),
    ],
)
def test_a_model_that_cannot_says_what_it_can(served: Served, path: str, model: str, said: str):
    found = served.error(f"/v1/{path}", {"model": model, "input": "a", "prompt": "a"})
    assert found == (404, f"/v1/{path} needs a model that {said}", "model")


def test_models_are_listed_as_openai_lists_them(served: Served):
    listed = {model.id: model for model in served.openai.models.list()}
    assert list(listed) == ["gpt2", "bert", "lstm", "text_classifier", "transformer", "forecaster"]
    bert: Any = served.openai.models.retrieve("bert")
    assert (bert.id, bert.object, bert.owned_by) == ("bert", "model", "neuropil")
    assert bert.endpoints == ["/v1/embeddings", "/v1/fill"]
    contexts: dict[str, Any] = {name: getattr(model, "context") for name, model in listed.items()}  # noqa: B009
    assert contexts == {**dict.fromkeys(listed), "gpt2": 64, "bert": 64}


def test_a_model_says_what_a_client_must_know_to_ask_it(served: Served):
    described = {each["id"]: each for each in served.ask("/v1/models").json()["data"]}
    usual = {"id", "object", "created", "owned_by", "endpoints", "context"}
    known = {name: {key: each[key] for key in each if key not in usual} for name, each in described.items()}
    columns = {"target": "sold", "date": None, "series": None, "known": []}
    assert known == {
        "gpt2": {"max_prompt": 64, "max_tokens": 64},
        "bert": {},
        "lstm": {"max_prompt": served.config.max_body, "max_tokens": 100},
        "text_classifier": {"labels": ["even", "odd"]},
        "transformer": {"max_prompt": 1024},
        "forecaster": {"window": known["forecaster"]["window"], "horizon": 4, "step": "row", "columns": columns},
    }
    window = known["forecaster"]["window"]
    values = [float(number % 7) for number in range(window)]
    answer = served.ask("/v1/forecast", {"model": "forecaster", "values": values}).json()
    assert len(answer["data"]) == 4
    status, _, param = served.error("/v1/forecast", {"model": "forecaster", "values": values[1:]})
    assert (status, param) == (400, "values")  # one fewer is too few
    (classified,) = served.ask("/v1/classify", {"model": "text_classifier", "input": "so 3 is odd"}).json()["data"]
    assert list(classified["probabilities"]) == known["text_classifier"]["labels"]


def test_what_is_not_there_is_said_in_a_sentence(served: Served):
    status, said, _ = served.error("/v1/chat/completions", {})
    assert status == 404
    assert said.startswith("There is no POST /v1/chat/completions: there are /v1/completions, /v1/embeddings, ")
    wrong = served.ask("/v1/completions")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["error"]["message"] == ("This cannot be asked by GET /v1/completions: the method must be POST.")
