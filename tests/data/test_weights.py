"""Weights of classes beside scikit-learn's, and what is refused."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from neuropil.data.weights import (
    WeightedBatches,
    class_weights,
    class_weights_note,
    require_weights,
    step_weights,
    weights_note,
)
from neuropil.errors import InputError

CLASSES = ("ham", "spam", "a=b")
COUNTS = torch.tensor([6, 2, 4])


def test_balanced_weights_are_those_of_scikit_learn():
    y = np.repeat(np.arange(3), COUNTS.numpy())
    expected = compute_class_weight("balanced", classes=np.arange(3), y=y)
    found = class_weights(("balanced",), CLASSES, COUNTS)
    assert found is not None
    assert found.tolist() == pytest.approx(expected.tolist())
    torch.testing.assert_close(found * COUNTS, torch.full((3,), 4.0))  # all classes count the same


def test_given_weights_are_those_of_the_named_classes_and_others_have_one():
    assert class_weights((), CLASSES, COUNTS) is None
    found = class_weights(("spam=5", "a=b=0.5"), CLASSES, COUNTS)
    assert found is not None
    assert found.tolist() == [1, 5, 0.5]
    assert class_weights_note(found, CLASSES, ("spam=5", "a=b=0.5")) == (
        "Weights of the classes in the loss: 'ham' 1, 'spam' 5, 'a=b' 0.5."
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("spam",), "a class weight must be a class and a number, but got 'spam': write ham=2, or balanced."),
        (("spma=2",), "class weights must be of classes, but got 'spma': did you mean 'spam'?"),
        (("spam=-1",), "a class weight must be a finite number, 0 or more, but got 'spam=-1'."),
        (("spam=nan",), "a class weight must be a finite number, 0 or more, but got 'spam=nan'."),
        (("spam=much",), "a class weight must be a finite number, 0 or more, but got 'spam=much'."),
        (("spam=0", "ham=0", "a=b=0"), "some class weight must be above 0, but got spam=0, ham=0, a=b=0."),
        (("balanced", "ham=2"), "class weights are balanced or given, but got balanced and ham=2: leave one out."),
    ],
)
def test_bad_class_weights_get_their_sentence(words: tuple[str, ...], message: str):
    with pytest.raises(InputError) as error:
        class_weights(words, CLASSES, COUNTS)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -2, 0], "a weight must be a finite number, 0 or more, but got -2 (row 1)."),
        ([1, 2, np.nan], "a weight must be a finite number, 0 or more, but got nan (row 2)."),
        ([0, 0, 0], "some weight of the table must be above 0, but got 0 for every example."),
        (
            [1, 0, 1e-42],
            "a weight must be 0, or from 1e-30 to 1e+30, but got 1e-42 (row 2): divide all of them by their mean.",
        ),
    ],
)
def test_bad_weights_of_examples_get_their_sentence(weights: list[float], message: str):
    with pytest.raises(InputError) as error:
        require_weights(np.array(weights, dtype=float), lambda index: f"row {index}", "the table")
    assert str(error.value) == message


def test_the_note_says_how_many_examples_of_equal_weights_they_amount_to():
    assert weights_note(torch.tensor([2.0] * 8)).endswith("8 examples count as 8 of equal weights would.")
    assert weights_note(torch.tensor([1.0, 1.0, 1e-6])).endswith("3 examples count as 2 of equal weights would.")


def test_weights_of_steps_are_one_for_each():
    found = step_weights((1.0, 2.0), 2)
    assert found is not None
    assert found.tolist() == [1, 2]
    assert step_weights((), 2) is None
    with pytest.raises(InputError) as error:
        step_weights((1.0, 2.0), 3)
    assert str(error.value) == "horizon weights must be one for each of the 3 steps of a forecast, but got 2."
    with pytest.raises(InputError) as error:
        step_weights((0.0, 0.0), 2)
    assert str(error.value) == "horizon weights must be finite numbers, 0 or more, and some above 0, but got 0 0."


def test_weights_of_steps_multiply_those_of_examples():
    class Two:
        def __len__(self) -> int:
            return 1

        def epoch(self, number: int, start: int = 0) -> Iterator[dict[str, Tensor]]:
            yield {"input": torch.zeros(2, 3), "weight": torch.tensor([1.0, 10.0])}

    (batch,) = WeightedBatches(Two(), lambda batch: torch.tensor([1.0, 2.0, 3.0]).expand(2, 3)).epoch(0)
    assert batch["weight"].tolist() == [[1, 2, 3], [10, 20, 30]]
