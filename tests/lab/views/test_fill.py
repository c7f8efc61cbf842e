from collections.abc import Callable

import pytest

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run
from neuropil.tasks.masked_language_modelling.expectations import expectations

VIEW = find_view("fill")


def test_fillings_and_expectations_are_those_of_the_run(text_run: Callable[[str], Run]):
    run = text_run("bert")
    text = "12 is [MASK] see [MASK]"
    answer = ask(VIEW, "read", run, {"text": text})
    filled = run.fill(text, 8)
    assert [share for place in answer["places"] for _, share, _ in place] == [each.share for each in filled]
    found = expectations(run.predictor, text)
    assert answer["tokens"] == found.tokens
    assert answer["shares"][0] == float(found.shares[0])
    assert answer["shares"][found.tokens.index("[MASK]")] is None
    assert answer["bits"][0] > 0


def test_a_text_without_a_mask_is_read_all_the_same(text_run: Callable[[str], Run]):
    run = text_run("bert")
    answer = ask(VIEW, "read", run, {"text": "12 is even"})
    assert answer["places"] == []
    assert len(answer["expected"]) == len(answer["tokens"])
    assert ask(VIEW, "read", run, {"text": ""})["tokens"] == []


def test_too_much_is_refused(text_run: Callable[[str], Run]):
    run = text_run("bert")
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", run, {"text": "[MASK]" * 9})
    assert str(refused.value) == "a text may leave at most 8 places open, but got 9."
    with pytest.raises(InputError) as refused:
        ask(VIEW, "read", run, {"text": "( " * 49})
    assert str(refused.value) == "a text must have at most 48 tokens, but got 49: shorten it."
