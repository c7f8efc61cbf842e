import json

import numpy as np
import pytest
import torch

from data.written_files import refusal
from neuropil.data.examples.dataset import (
    Column,
    Examples,
    Labels,
    Schema,
    decide_task,
    describe_inputs,
    encode_classes,
    encode_numbers,
)

TABLE = Schema(
    kind="table",
    shape=(3,),
    classes=("no", "yes"),
    columns=(Column(name="age", kind="number"), Column(name="colour", kind="category", values=("blue", "red"))),
    target="bought",
)


def test_a_schema_survives_json():
    assert Schema.from_dict(json.loads(json.dumps(TABLE.to_dict()))) == TABLE


def test_a_schema_knows_its_task_and_how_many_outputs_it_takes():
    regression = Schema(kind="table", shape=(3,), classes=())
    assert (TABLE.task, TABLE.num_outputs) == ("classification", 2)
    assert (regression.task, regression.num_outputs) == ("regression", 1)


def test_taking_examples_keeps_inputs_and_targets_together():
    examples = Examples(torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 0, 1]), TABLE, "four rows")
    taken = examples.take(torch.tensor([3, 0]))
    assert len(taken) == 2
    assert torch.equal(taken.inputs, torch.tensor([[9.0, 10, 11], [0, 1, 2]]))
    assert torch.equal(taken.targets, torch.tensor([1, 0]))
    assert (taken.schema, taken.source) == (TABLE, "four rows")


def test_inputs_are_put_in_words():
    assert [describe_inputs(shape) for shape in ((13,), (1, 8, 9), (3, 8, 9), (4, 8, 9))] == [
        "rows of 13 features",
        "grey images of 8×9",
        "colour images of 8×9",
        "4-channel images of 8×9",
    ]


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
