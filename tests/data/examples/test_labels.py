import numpy as np
import pytest

from data.written_files import refusal
from neuropil.data.examples.labels import Labels, decide_task, encode_classes, encode_numbers


def names(count: int) -> Labels:
    return Labels(np.arange(count), tuple(f"class {i}" for i in range(count)))


def numbers(*values: float) -> Labels:
    return Labels(np.array(values, dtype=np.float64))


@pytest.mark.parametrize(
    ("labels", "kind", "task"),
    [
        (names(50), "table", "classification"),
        (numbers(*range(20)), "table", "classification"),
        (numbers(*range(21)), "table", "regression"),
        (numbers(*range(62)), "image", "classification"),
        (numbers(0.5, 1), "image", "regression"),
        (numbers(0.5, 1), "table", "regression"),
    ],
)
def test_the_labels_suggest_the_task(labels: Labels, kind, task: str):
    assert decide_task(labels, kind, "auto") == task


def test_the_user_may_decide_otherwise():
    assert decide_task(numbers(1, 2), "table", "regression") == "regression"
    assert decide_task(numbers(0.5, 1.5), "table", "classification") == "classification"


def test_numbers_are_not_to_be_had_from_names():
    assert refusal(decide_task, names(3), "table", "regression") == (
        "regression predicts numbers, but got labels such as 'class 0': use --task classification."
    )


def test_classes_are_in_ascending_order_of_numbers_or_of_letters():
    assert numbers(10, 9, -1, 2.5, 9).occurring() == ("-1", "2.5", "9", "10")
    assert Labels(np.array([0, 2, 0]), ("z", "unused", "a")).occurring() == ("a", "z")


def test_labels_become_positions_among_the_classes():
    assert encode_classes(numbers(3, 1, 3), ("1", "2", "3"), str).tolist() == [2, 0, 2]
    assert encode_classes(Labels(np.array([1, 0]), ("3.0", "dog")), ("1", "3", "dog"), str).tolist() == [2, 1]


def test_a_label_that_is_no_class_is_named_with_its_place():
    labels = Labels(np.array([0, 1]), ("cat", "dgo"))
    assert refusal(encode_classes, labels, ("cat", "dog"), lambda index: f"a.csv row {index + 2}") == (
        "each label must be a class of the training data, but got 'dgo' (a.csv row 3): did you mean 'dog'?"
    )
    assert refusal(encode_classes, numbers(7), ("cat", "dog"), lambda index: f"a.npz[{index}]") == (
        "each label must be a class of the training data, but got '7' (a.npz[0]): the classes are cat, dog."
    )


def test_numbers_to_predict_stand_in_a_column():
    assert encode_numbers(numbers(0.5, 2)).tolist() == [[0.5], [2]]
