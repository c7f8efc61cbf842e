"""Texts as OpenAI's own client gets them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import openai
import pytest
import torch

from model_server import Served
from neuropil.runs.run import Run, load
from neuropil.tasks.language_modelling.predictor import LanguageModel

GREEDY: dict[str, Any] = {"temperature": 0}


@pytest.fixture(scope="module")
def run(run_folder: Callable[[str], Path]) -> Run:
    return load(run_folder("gpt2"))


@pytest.fixture(scope="module")
def language_model(run: Run) -> LanguageModel:
    return run.predictor


def generated(run: Run, prompt: str, **options: Any) -> str:
    """What the run generates by itself, without the prompt."""
    return "".join(run.generate(prompt, **options)).removeprefix(prompt)


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_sixteen_clients_at_once_get_what_the_run_generates(
    served: Served, run_folder: Callable[[str], Path], name: str
):
    run = load(run_folder(name))
    prompts = [f"{number} is" * (1 + number % 4) for number in range(16)]
    asked = [{"temperature": 0.0} if number % 2 else {"temperature": 1.2, "top_p": 0.9} for number in range(16)]

    def ask(number: int) -> str:
        options: dict[str, Any] = {"model": name, "prompt": prompts[number], "max_tokens": 24, "seed": number}
        if number % 3:
            return served.complete(**options, **asked[number]).choices[0].text
        stream = served.complete(**options, **asked[number], stream=True)
        return "".join(chunk.choices[0].text for chunk in stream)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    alone = [generated(run, prompts[number], length=24, seed=number, **asked[number]) for number in range(16)]
    assert answers == alone


def test_an_answer_has_the_shape_that_openai_gives_it(served: Served, run: Run):
    answer = served.complete(model="gpt2", prompt="12 is", max_tokens=5, **GREEDY)
    assert answer.id.startswith("cmpl-")
    assert (answer.object, answer.model) == ("text_completion", "gpt2")
    (choice,) = answer.choices
    assert (choice.index, choice.logprobs, choice.finish_reason) == (0, None, "length")
    assert choice.text == generated(run, "12 is", length=5, temperature=0.0)
    assert answer.usage is not None
    tokens = len(run.predictor.tokens_of("12 is"))
    assert answer.usage.prompt_tokens == tokens
    assert (answer.usage.completion_tokens, answer.usage.total_tokens) == (5, tokens + 5)


def test_several_prompts_and_samples_are_numbered_by_prompt(served: Served, run: Run):
    prompts = ["12 is", "7 is even"]
    options: dict[str, Any] = {"temperature": 1.0, "seed": 3}
    answer = served.complete(model="gpt2", prompt=prompts, max_tokens=8, n=2, **options)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    texts = ["", "", "", ""]
    predictor: LanguageModel = run.predictor
    from neuropil.sampling.text.filters import SamplingConfig

    sampling = SamplingConfig(temperature=1.0)
    for piece in predictor.generate_batch(prompts, length=8, sampling=sampling, samples=2, seed=3):
        texts[piece.row] += piece.text
    assert [choice.text for choice in answer.choices] == texts
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(len(predictor.tokens_of(prompt)) for prompt in prompts)
    assert answer.usage.completion_tokens == 32


def test_tokens_may_stand_for_texts(served: Served, language_model: LanguageModel):
    tokens = language_model.tokens_of("12 is").tolist()
    create = served.complete
    text = create(model="gpt2", prompt="12 is", max_tokens=6, **GREEDY).choices[0].text
    assert create(model="gpt2", prompt=tokens, max_tokens=6, **GREEDY).choices[0].text == text
    several = create(model="gpt2", prompt=[tokens, tokens], max_tokens=6, echo=True, **GREEDY)
    assert [choice.text for choice in several.choices] == [f"12 is{text}"] * 2


def test_without_a_seed_texts_differ_and_with_it_they_are_the_same(served: Served):
    def ask(**options: Any) -> str:
        return served.complete(model="gpt2", prompt="1", max_tokens=30, **options).choices[0].text

    assert ask() != ask()
    assert ask(seed=-5) == ask(seed=-5)


def test_a_length_that_is_not_given_is_the_longest_that_there_is_room_for(served: Served):
    answer = served.complete(model="gpt2", prompt="12 is", **GREEDY)
    assert answer.usage is not None
    assert answer.usage.total_tokens == 65  # the last token need not fit into the context of 64
    assert served.complete(model="lstm", prompt="12 is", **GREEDY).usage.completion_tokens == 100


def test_a_stop_string_may_span_tokens(served: Served, run: Run, language_model: LanguageModel):
    whole = generated(run, "12 is", length=40, temperature=1.0, seed=5)
    stop = whole[9:16]
    assert len(language_model.tokens_of(stop)) > 1
    end = whole.index(stop)
    for stream in (False, True):
        options: dict[str, Any] = {"max_tokens": 40, "temperature": 1, "seed": 5, "stop": ["never", stop]}
        answer = served.complete(model="gpt2", prompt="12 is", stream=stream, **options)
        chunks = list(answer) if stream else [answer]
        assert "".join(chunk.choices[0].text for chunk in chunks) == whole[:end]
        assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_stream_has_whole_characters_and_ends_as_openai_ends_it(served: Served):
    options = {"model": "gpt2", "prompt": "2. é€", "max_tokens": 50, "temperature": 1.5, "seed": 2, "stream": True}
    lines = served.ask("/v1/completions", options).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = list(served.complete(**options, stream_options={"include_usage": True}))
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 50
    assert len({chunk.id for chunk in chunks}) == 1
    reasons = [chunk.choices[0].finish_reason for chunk in chunks[:-1]]
    assert reasons == [None] * (len(reasons) - 1) + ["length"]
    whole = served.complete(**{**options, "stream": False})
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == whole.choices[0].text
    assert len(lines) > 20


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("echo", [False, True])
def test_log_probabilities_are_those_of_the_model(
    served: Served, language_model: LanguageModel, echo: bool, stream: bool
):
    prompt, length = "q 12 is é", 6  # which does not begin as the texts do
    options: dict[str, Any] = {"max_tokens": length, "logprobs": 3, "echo": echo, "temperature": 0}
    answer = served.complete(model="gpt2", prompt=prompt, stream=stream, **options)
    chunks: Any = list(answer) if stream else [answer]
    text = "".join(chunk.choices[0].text for chunk in chunks)
    found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for chunk in chunks:
        for name, values in found.items():
            values += getattr(chunk.choices[0].logprobs, name)
    before = language_model.tokens_of(prompt).tolist()
    assert text.startswith(prompt) == echo
    tokens = [*before, *language_model.tokens_of(text.removeprefix(prompt) if echo else text).tolist()]
    assert len(tokens) == len(before) + length  # else the model wrote what is read otherwise
    with torch.no_grad():
        scores = language_model.model(torch.tensor([tokens]))[0].double().log_softmax(-1)
    first, beyond = 0 if echo else len(before), 0
    assert found["tokens"] == language_model.tokenizer.tokens(tokens)[first:]
    for place, (value, best) in enumerate(zip(found["token_logprobs"], found["top_logprobs"], strict=True), first):
        if place == 0:
            assert (value, best) == (None, None)
            continue
        assert value == pytest.approx(float(scores[place - 1, tokens[place]]), abs=1e-4)
        shown = {*scores[place - 1].topk(3).indices.tolist(), tokens[place]}  # the token itself may be none of the best
        expected = sorted(float(scores[place - 1, token]) for token in shown)
        assert sorted(best.values()) == pytest.approx(expected, abs=1e-4)
        assert best[found["tokens"][place - first]] == value
        beyond += len(shown) > 3
    assert beyond > 0 or not echo
    starts = [
        text.index(token, offset)
        for token, offset in zip(found["tokens"], found["text_offset"], strict=True)
        if token in text
    ]
    assert [each for each in found["text_offset"] if each in starts] == starts


@pytest.mark.parametrize("length", [0, 4])
def test_what_an_empty_prompt_begins_with_is_neither_echoed_nor_scored(served: Served, length: int):
    options: dict[str, Any] = {"max_tokens": length, "logprobs": 2, "temperature": 0}
    (choice,) = served.complete(model="gpt2", prompt="", echo=True, **options).choices
    assert "".join(choice.logprobs.tokens) == choice.text
    assert len(choice.logprobs.tokens) == length
    ends = [0, *accumulate(map(len, choice.logprobs.tokens))]
    assert choice.logprobs.text_offset == ends[:-1]
    assert (choice,) == tuple(served.complete(model="gpt2", prompt="", **options).choices)


def test_a_prompt_alone_is_scored(served: Served):
    answer = served.complete(model="gpt2", prompt="12 is ü", max_tokens=0, echo=True, logprobs=0)
    (choice,) = answer.choices
    assert (choice.text, choice.finish_reason) == ("12 is ü", "length")
    assert choice.logprobs is not None
    assert choice.logprobs.tokens is not None
    assert "".join(choice.logprobs.tokens) == "12 is …ü"
    pairs = list(zip(choice.logprobs.tokens, choice.logprobs.token_logprobs, strict=True))
    assert choice.logprobs.top_logprobs == [None, *({token: value} for token, value in pairs[1:])]


@pytest.mark.parametrize(
    ("wrong", "said", "param"),
    [
        ({"max_tokens": "x"}, 'max_tokens must be a whole number or null, but got "x".', "max_tokens"),
        ({"max_tokens": True}, "max_tokens must be a whole number or null, but got true.", "max_tokens"),
        ({"max_tokens": -1}, "max_tokens must be at least 0, but got -1.", "max_tokens"),
        ({"max_tokens": 10**30}, f"max_tokens must be at most 100 here, but got {10**30:,}.", "max_tokens"),
        (
            {"max_tokens": 65},
            "max_tokens must fit into the context of 64 tokens beside a prompt of 1, but got 65: ask for at most 64.",
            "max_tokens",
        ),
        ({"prompt": [1] * 65}, "prompt must have at most 64 tokens here, but got 65.", "prompt"),
        ({"prompt": None}, "prompt must be given.", "prompt"),
        ({"prompt": 5}, "prompt must be a text or a list of texts, but got a number.", "prompt"),
        ({"prompt": {}}, "prompt must be a text or a list of texts, but got an object.", "prompt"),
        ({"prompt": []}, "prompt must hold 1 to 2,048 texts, but got 0.", "prompt"),
        (
            {"prompt": ["a", 1]},
            "prompt must be a text, a list of texts, token numbers, or a list of lists of token numbers, "
            "but got a list of other things.",
            "prompt",
        ),
        (
            {"prompt": [[1], []]},
            "prompt must be a text, a list of texts, token numbers, or a list of lists of token "
            "numbers, but got a list of other things.",
            "prompt",
        ),
        ({"prompt": [0, 300]}, "prompt must hold token numbers from 0 to 299, but got 300.", "prompt"),
        ({"prompt": [-1]}, "prompt must hold token numbers from 0 to 299, but got -1.", "prompt"),
        ({"temperature": 11}, "temperature must be at most 10, but got 11.", "temperature"),
        ({"temperature": "hot"}, 'temperature must be a number, but got "hot".', "temperature"),
        ({"top_p": 1.5}, "top_p must be at most 1, but got 1.5.", "top_p"),
        ({"n": 0}, "n must be at least 1, but got 0.", "n"),
        ({"stop": [""]}, "stop must be up to 16 texts of 1 to 1,000 characters, but got others.", "stop"),
        ({"stop": [1]}, "stop must be a text or a list of texts, but got [1].", "stop"),
        ({"seed": 2**63}, "seed must be at most 9.22337e+18, but got 9223372036854775808.", "seed"),
        ({"stream": "yes"}, 'stream must be true or false, but got "yes".', "stream"),
        (
            {"stream_options": []},
            "stream_options must be an object with include_usage alone, but got another.",
            "stream_options",
        ),
        (
            {"stream_options": {"include_usage": 1}},
            "stream_options must say true or false for include_usage, but got something else.",
            "stream_options",
        ),
        ({"logprobs": 21}, "logprobs must be at most 20, but got 21.", "logprobs"),
        ({"best_of": 2}, "best_of must be 1 or left out: it is not supported, but got 2.", "best_of"),
        ({"suffix": "x"}, "suffix must be '' or left out: it is not supported, but got 'x'.", "suffix"),
        (
            {"presence_penalty": 1},
            "presence_penalty must be 0 or left out: it is not supported, but got 1.",
            "presence_penalty",
        ),
        (
            {"logit_bias": {"1": 1}},
            "logit_bias must be empty or left out: it is not supported, but got some.",
            "logit_bias",
        ),
        ({"max_token": 5}, "'max_token' is no field of this request: did you mean 'max_tokens'?", "max_token"),
        ({"model": 1}, "model must be a text, but got something else.", "model"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_its_field(served: Served, wrong: dict[str, Any], said: str, param: str):
    body = {"model": "gpt2", "prompt": "1", **wrong}
    assert served.error("/v1/completions", body) == (400, said, param)


def test_null_stands_for_what_is_left_out(served: Served):
    names = ("max_tokens", "temperature", "stop", "n", "seed", "stream", "stream_options", "logprobs", "suffix", "user")
    body = {"model": "gpt2", "prompt": "1", **dict.fromkeys(names), "best_of": None, "logit_bias": {}}
    assert served.ask("/v1/completions", body).status_code == 200


def test_a_model_that_is_not_there_is_not_found(served: Served):
    with pytest.raises(openai.NotFoundError) as caught:
        served.complete(model="gpt5", prompt="1")
    names = "gpt2, bert, lstm, text_classifier, transformer, forecaster"
    body: Any = caught.value.body
    assert body["message"] == f"model must be one of {names}, but got 'gpt5'."
    assert body["code"] == "model_not_found"
    assert served.error("/v1/completions", {"prompt": "1"}) == (
        400,
        f"model must be one of {names}, but got none.",
        "model",
    )
