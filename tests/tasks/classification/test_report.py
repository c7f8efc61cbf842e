import numpy as np
import pytest
import torch
from torch import nn

from neuropil.data.examples.dataset import Column, Examples, Schema
from neuropil.inspection.report.page import Gallery, Table, Text
from neuropil.tasks.classification import report
from neuropil.tasks.classification.report import data_section, inside_section, label_of, mistakes_section


def captions_shown(targets: list[int], classes: tuple[str, ...]) -> list[str]:
    schema = Schema(kind="image", shape=(1, 2, 2), classes=classes)
    inputs = torch.zeros(len(targets), 1, 2, 2, dtype=torch.uint8)
    labels = torch.tensor(targets) if classes else torch.tensor(targets, dtype=torch.float32)[:, None]
    section = data_section({"train": Examples(inputs, labels, schema, "pictures")}, None, [])
    (gallery,) = (block for block in section.blocks if isinstance(block, Gallery))
    return [each.caption for each in gallery.items]


def test_pictures_of_all_classes_are_shown_though_files_come_one_class_after_the_other():
    shown = captions_shown([0] * 40 + [1] * 3 + [2] * 40, ("cat", "dog", "fish"))
    assert shown == [*("cat", "dog", "fish") * 3, "cat", "fish", "cat"]


def test_pictures_with_numbers_are_shown_in_their_order():
    assert captions_shown([5, 3, 5], ()) == ["5", "3", "5"]


def test_values_are_shown_in_the_units_of_the_targets(monkeypatch: pytest.MonkeyPatch):
    """Targets are held without their offset; what is shown has it."""
    shown: list[np.ndarray] = []
    draw = report.predicted_against_actual

    def spy(predicted: np.ndarray, actual: np.ndarray) -> object:
        shown.extend([predicted, actual])
        return draw(predicted, actual)

    monkeypatch.setattr(report, "predicted_against_actual", spy)
    schema = Schema(kind="table", shape=(1,), classes=(), target_offset=1.6e9)
    examples = Examples(torch.rand(3, 1), torch.tensor([[1.0], [2.0], [4.0]]), schema, "a table")
    mistakes_section(examples, 1.6e9 + torch.tensor([[1.5], [2.0], [3.0]], dtype=torch.double))
    assert [values.tolist() for values in shown] == [
        [1_600_000_001.5, 1_600_000_002.0, 1_600_000_003.0],
        [1_600_000_001.0, 1_600_000_002.0, 1_600_000_004.0],
    ]
    near = Schema(kind="table", shape=(1,), classes=(), target_offset=500.0)
    assert label_of(Examples(torch.rand(1, 1), torch.tensor([[0.5]]), near, "a table"), 0) == "500.5"


def test_notes_on_the_data_stand_with_it():
    schema = Schema(kind="table", shape=(1,), classes=("a", "b"))
    part = Examples(torch.rand(2, 1), torch.tensor([0, 1]), schema, "a table")
    assert data_section({"train": part}, None, ["Column 'id' is left out."]).blocks[-1] == Text(
        "Column 'id' is left out."
    )


def test_features_are_called_by_their_columns():
    columns = (
        Column(name="age", kind="number", missing=True),
        Column(name="colour", kind="category", values=("blue", "red")),
        Column(name="day", kind="date", values=("year",)),
    )
    schema = Schema(kind="table", shape=(5,), classes=(), columns=columns)
    layer = nn.Linear(5, 1)
    layer.weight.data[:] = torch.arange(5.0)
    (table,) = inside_section(layer, schema).blocks
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["day: year", "colour = red", "colour = blue", "age is missing", "age"]
