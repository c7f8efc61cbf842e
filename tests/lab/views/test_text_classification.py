from collections.abc import Callable

import pytest

from neuropil.errors import InputError
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("text_classification")
TEXT = "so 3 is odd, now"


@pytest.mark.parametrize("name", ["text_classifier", "bert_classifier"])
def test_probabilities_and_contributions_are_those_of_the_classifier(text_run: Callable[[str], Run], name: str):
    run = text_run(name)
    answer = ask(VIEW, "classify", run, {"text": TEXT, "label": "odd"})
    odd = run.predictor.classes.index("odd")
    whole, without = run.classify([TEXT, "so 3 is , now"]).scores
    assert answer["probabilities"] == pytest.approx(whole.tolist(), abs=1e-6)
    assert "".join(answer["pieces"]) == TEXT
    assert answer["contributions"][answer["pieces"].index("odd")] == pytest.approx(
        float(whole[odd] - without[odd]), abs=1e-6
    )
    assert answer["contributions"][1] is None, "white space is no word"


def test_an_attack_is_that_of_the_run(text_run: Callable[[str], Run]):
    run = text_run("text_classifier")
    answer = ask(VIEW, "attack", run, {"text": TEXT, "words": 0.5, "similarity": -1})
    assert answer == run.attack([TEXT], words=0.5, similarity=-1.0).records()[0] | {
        "substitutions": [
            list(each) for each in run.attack([TEXT], words=0.5, similarity=-1.0).records()[0]["substitutions"]
        ]
    }


def test_what_cannot_be_answered_is_refused(text_run: Callable[[str], Run]):
    run = text_run("text_classifier")
    for action, values, message in (
        ("classify", {"text": "a " * 61}, "text must have at most 60 words, but got 61: shorten it."),
        ("classify", {"label": "prime"}, "label must be one of even, odd, but got 'prime'."),
        ("attack", {"text": " "}, "an attack changes words, but got a text without any: type some."),
    ):
        with pytest.raises(InputError) as refused:
            ask(VIEW, action, run, values)
        assert str(refused.value) == message


def test_an_empty_text_has_a_class_too(text_run: Callable[[str], Run]):
    answer = ask(VIEW, "classify", text_run("text_classifier"), {"text": ""})
    assert answer["pieces"] == []
    assert sum(answer["probabilities"]) == pytest.approx(1, abs=1e-5)
