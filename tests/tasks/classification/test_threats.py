"""What an attacker may do to pictures and to rows, in units that people know."""

import pytest
import torch

from neuropil.data.examples.dataset import Column, Examples, Schema
from neuropil.errors import InputError
from neuropil.tasks.classification.threats import feature_units, threat_model


def examples(schema: Schema, inputs: torch.Tensor) -> Examples:
    return Examples(inputs, torch.zeros(len(inputs), dtype=torch.int64), schema, "some rows")


def test_epsilon_of_pictures_counts_from_black_to_white():
    schema = Schema(kind="image", shape=(1, 2, 2), classes=("a", "b"))
    threat = threat_model(examples(schema, torch.zeros(3, 1, 2, 2, dtype=torch.uint8)), None, "linf", 0.2, target=1)
    assert (threat.eps, threat.low, threat.high, threat.target) == (51.0, 0.0, 255.0, 1)


def test_epsilon_of_a_table_counts_in_standard_deviations_and_leaves_all_but_numbers():
    columns = (
        Column(name="weight", kind="number", missing=True),
        Column(name="colour", kind="category", values=("red", "blue")),
        Column(name="height", kind="number"),
        Column(name="constant", kind="number"),
    )
    schema = Schema(kind="table", shape=(6,), classes=("a", "b"), columns=columns)
    rows = torch.tensor([[1.0, 0.0, 1.0, 0.0, 100.0, 7.0], [3.0, 1.0, 0.0, 1.0, 300.0, 7.0]])
    few = examples(schema, rows)
    threat = threat_model(few, feature_units(few), "linf", 0.5).including(torch.tensor([[9.0, 0, 1, 0, 0, 7]]))
    assert threat.scale is not None
    assert threat.scale.tolist() == [1.0, 0.0, 0.0, 0.0, 100.0, 0.0]
    moved = threat.project(rows + 1000.0, rows)
    assert (moved - rows).tolist() == [[0.5, 0, 0, 0, 50, 0], [0.5, 0, 0, 0, 0, 0]]  # at most the largest value


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            Schema(kind="table", shape=(1,), classes=()),
            "an attack changes which class is predicted, but got some rows, whose targets are numbers: attack a "
            "model of classes.",
        ),
        (
            Schema(
                kind="table",
                shape=(2,),
                classes=("a", "b"),
                columns=(Column(name="colour", kind="category", values=("red", "blue")),),
            ),
            "an attack changes numbers, but got some rows, which has none that vary: attack a model of other data.",
        ),
    ],
)
def test_what_has_no_classes_or_no_numbers_is_refused(schema: Schema, message: str):
    few = examples(schema, torch.eye(2)[:, : schema.shape[0]])
    with pytest.raises(InputError) as error:
        threat_model(few, feature_units(few), "linf", 0.1)
    assert str(error.value) == message
