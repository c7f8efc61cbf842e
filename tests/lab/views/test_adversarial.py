from collections.abc import Callable
from typing import Any

import pytest

from lab.small_runs import SMALL
from neuropil.errors import InputError
from neuropil.lab.pictures import held_out
from neuropil.lab.view import ask, find_view
from neuropil.runs.run import Run

VIEW = find_view("adversarial")


@pytest.fixture
def run(trained_run: Callable[..., Run]) -> Run:
    return trained_run("mlp", **SMALL["mlp"])


@pytest.mark.parametrize("how", [{"method": "fgsm"}, {"method": "momentum", "norm": "l2", "eps": 1.5}])
def test_the_perturbed_picture_is_that_of_the_attack(run: Run, how: dict[str, Any]):
    picture = held_out(run).examples.inputs[4:5]
    expected = run.attack(picture, **how)
    answer = ask(VIEW, "attack", run, {"example": 4, **how})
    assert answer["answers"] == [expected.before[0], expected.after[0]]
    assert answer["perturbed"] == expected.perturbed[0, 0].round().int().tolist()
    assert answer["after"] == pytest.approx(
        run.predictor.predict_examples(expected.perturbed).scores[0].tolist(), abs=1e-5
    )
    length = answer["length"] if "norm" in how else answer["largest"]
    assert length == pytest.approx(float(expected.distance[0]), rel=1e-4)


def test_nothing_changes_without_epsilon(run: Run):
    answer = ask(VIEW, "attack", run, {"eps": 0})
    assert answer["perturbed"] == answer["original"]
    assert answer["before"] == answer["after"]


def test_the_answer_changes_at_the_smallest_epsilon(run: Run):
    answer = ask(VIEW, "smallest", run, {"example": 2})
    expected = run.attack(held_out(run).examples.inputs[2:3], method="minimal")
    assert answer["eps"] == pytest.approx(float(expected.distance[0]))
    classes = run.predictor.schema.classes
    before = classes.index(expected.before[0])
    at = [max(range(10), key=lambda each: answer["probabilities"][each][place]) for place in (19, 21)]
    assert at[0] == before
    assert at[1] != before  # the twentieth of the places is the perturbation itself


def test_a_target_is_reached(run: Run):
    assert ask(VIEW, "smallest", run, {"example": 2, "target": "5"})["answer"] == "5"


def test_a_class_that_is_none_is_refused(run: Run):
    with pytest.raises(InputError) as refused:
        ask(VIEW, "attack", run, {"target": "ten"})
    assert str(refused.value).startswith("a class must be one that the model knows, but got 'ten'")
