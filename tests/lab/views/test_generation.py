from collections.abc import Callable

import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.logit_lens import logit_lens
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run
from neuropil.sampling.text.filters import SamplingConfig

VIEW = find_view("generation")
PROMPT = "12 is "


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_steps_write_what_the_run_generates(text_run: Callable[[str], Run], name: str):
    run, written, answer = text_run(name), list[int](), {}
    for _ in range(8):
        answer = ask(VIEW, "step", run, {"text": PROMPT, "written": written, "temperature": 0.9, "seed": 5})
        assert not answer["ended"]
        written.append(answer["token"])
    sampling = SamplingConfig(temperature=0.9)
    pieces = run.predictor.generate_batch([PROMPT], length=8, sampling=sampling, seed=5, samples=2)
    assert answer["shown"]["text"] == PROMPT + "".join(piece.text for piece in pieces if piece.row == 0)


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_surprise_and_expectation_are_those_of_the_model(text_run: Callable[[str], Run], name: str):
    run = text_run(name)
    text = "12 is even (see"
    whole = ask(VIEW, "read", run, {"text": text, "temperature": 1})
    surprise = run.predictor.surprise(text)
    assert whole["nats"][1:] == pytest.approx(surprise.nats.tolist(), abs=1e-4)
    assert whole["tokens"][1:] == surprise.tokens
    place = 3
    then = ask(VIEW, "read", run, {"text": text, "place": place, "temperature": 1})
    tokens = run.predictor.tokens_of(text)
    assert then["actual"] == int(tokens[place])
    chances = {token: before for token, _, before, _ in then["candidates"]}
    if then["actual"] in chances:
        assert chances[then["actual"]] == pytest.approx(float(torch.exp(-surprise.nats[place - 1])), rel=1e-3)
    assert ("lens" in then) == (name == "gpt2")


def test_the_lens_is_read_at_the_place(text_run: Callable[[str], Run]):
    run = text_run("gpt2")
    answer = ask(VIEW, "read", run, {"text": PROMPT, "place": 2})
    lens = logit_lens(run.predictor.model, run.predictor.tokens_of(PROMPT)[:2], 4)
    assert [[share for _, share in layer] for layer in answer["lens"]] == [
        pytest.approx(row) for row in lens.shares[:, -1].tolist()
    ]


def test_a_beam_finds_what_the_run_finds(text_run: Callable[[str], Run]):
    run = text_run("lstm")
    answer = ask(VIEW, "search", run, {"text": PROMPT, "beam": 3, "length": 6})
    assert answer["continuations"] == [
        piece.text for piece in run.predictor.beam_search(PROMPT, beam=3, length=6, repetition_penalty=1.0)
    ]


def test_an_empty_prompt_begins_as_the_model_does(text_run: Callable[[str], Run]):
    assert ask(VIEW, "read", text_run("lstm"), {"text": ""})["tokens"] == ["\n"]


def test_too_long_a_text_is_refused(text_run: Callable[[str], Run]):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", text_run("lstm"), {"text": "a" * 1001})
    assert str(refused.value) == "text must have at most 1,000 characters, but got 1,001."
