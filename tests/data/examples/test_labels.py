"""Several labels of an example, in columns of their own or joined in one."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from data.written_files import refusal, write_text
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import ClassificationDataConfig, prepare, read_labelled
from neuropil.data.formats.memory import in_memory
from neuropil.data.splits import Splits

COLUMNS = ("size,red,round,w", *["1,1,0,1", "2,0,0,2", "3,1,1,1", "4,yes,TRUE,1", "5,,1,1"] * 4)
JOINED = ("size,tags,w", *["1,red,1", "2,,2", "3,red|round,1", "4, round | red ,1"] * 4)


def labelled(source: Any, **options: Any) -> Splits[Examples]:
    return prepare(ClassificationDataConfig(data=source, **options), 0)


def labels_by_size(splits: Splits[Examples]) -> dict[float, list[float]]:
    every = [*splits.parts.values()]
    return {
        size: target
        for part in every
        for size, target in zip(part.inputs[:, 0].tolist(), part.targets.tolist(), strict=True)
    }


def test_several_columns_are_labels_and_so_is_one_of_joined_ones(tmp_path: Path):
    columns, joined = write_text(tmp_path / "columns.csv", *COLUMNS), write_text(tmp_path / "tags.csv", *JOINED)
    expected = {1.0: [1, 0], 2.0: [0, 0], 3.0: [1, 1], 4.0: [1, 1]}
    frame = pd.read_csv(columns).dropna().assign(red=lambda each: each.red.isin(["1", "yes"]).astype(int))
    frame["round"] = frame["round"].astype(str).str.lower().isin(["1", "true"]).astype(int)
    arrays = frame[["size"]].to_numpy(dtype=float), frame[["red", "round"]].to_numpy()
    for splits in (
        labelled(columns, target="red,round", ignore=("w",)),
        labelled(joined, target="tags", multi_label=True, ignore=("w",)),
        labelled(in_memory(frame), target="red, round", ignore=("w",)),
        labelled(in_memory((frame[["size"]], frame[["red", "round"]]))),
        labelled(in_memory(pd.read_csv(joined)), target="tags", multi_label=True, ignore=("w",)),
    ):
        schema = splits.train.schema
        assert (schema.labels, schema.classes, schema.task) == (("red", "round"), (), "multi_label")
        assert labels_by_size(splits) == expected
        assert splits.train.source.startswith("16 rows of 1 feature with 2 labels (")
    unnamed = labelled(in_memory(arrays))
    assert unnamed.train.schema.labels == ("label 0", "label 1")
    assert labels_by_size(unnamed) == expected
    weights = labelled(in_memory((*arrays, np.arange(1, 17)))).train.weights
    assert weights is not None
    notes = labelled(columns, target="red,round", ignore=("w",)).notes
    assert "4 of 20 rows have no target and are left out (first: row 6)." in notes


def test_one_column_of_truth_values_is_one_label(tmp_path: Path):
    path = write_text(tmp_path / "mail.csv", "size,spam", *["1,1", "2,0"] * 4)
    splits = labelled(path, target="spam", multi_label=True)
    assert splits.train.schema.labels == ("spam",)
    assert labels_by_size(splits) == {1.0: [1], 2.0: [0]}
    assert labelled(path, target="spam").train.schema.classes == ("0", "1")


def test_labels_may_be_numbers_that_are_joined(tmp_path: Path):
    path = write_text(tmp_path / "codes.csv", "size,codes", *["1,7|12", "2,12", "3,"] * 4)
    assert labelled(path, target="codes", multi_label=True).train.schema.labels == ("12", "7")


def test_labelled_files_of_a_trained_model_are_read_by_its_labels(tmp_path: Path):
    columns, joined = write_text(tmp_path / "columns.csv", *COLUMNS[:5]), write_text(tmp_path / "tags.csv", *JOINED)
    for path, options in (
        (columns, {"target": "red,round"}),
        (joined, {"target": "tags", "multi_label": True}),
    ):
        schema = labelled(path, ignore=("w",), **options).train.schema
        found = read_labelled(path, schema)
        assert found.targets.tolist()[:3] == [[1, 0], [0, 0], [1, 1]]
    new = write_text(tmp_path / "new.csv", "size,tags", "1,red|square")
    assert refusal(read_labelled, new, schema) == (
        "each label must be one of the training data, but got 'square': the labels are red, round."
    )


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (
            COLUMNS,
            {"target": "red,size"},
            "row 3, column 'size' of a.csv must hold 0 or 1, as each of several targets does, but got '2': "
            "give one target to predict classes or numbers.",
        ),
        (
            COLUMNS,
            {"target": "red,rond"},
            "a.csv must have the column 'rond', but got size, red, round, w: did you mean 'round'?",
        ),
        (
            COLUMNS,
            {"target": "red,round", "task": "regression"},
            "several labels are predicted as such, but got --task regression for red, round: leave --task out.",
        ),
        (
            ("size,tags", "1,", "2,"),
            {"target": "tags", "multi_label": True},
            "a.csv must have rows with a target, but got 2 without.",
        ),
        (
            ("size,price", "1,0", "2,3.5", "3,", "4,12"),
            {"target": "price", "multi_label": True},
            "a target of several labels must hold 0 and 1, or labels that are joined, as in red|round, "
            "but got numbers such as 12 in column 'price': leave --multi-label out to predict them.",
        ),
    ],
)
def test_labels_that_are_none_are_refused(
    tmp_path: Path, lines: tuple[str, ...], options: dict[str, Any], message: str
):
    path = write_text(tmp_path / "a.csv", *lines)
    assert refusal(lambda: labelled(path, **options)) == message


def test_one_hot_labels_are_refused_unless_they_are_meant():
    data = in_memory((np.arange(8.0)[:, None], np.eye(4)[np.arange(8) % 4]))
    assert refusal(lambda: labelled(data)) == (
        "labels of arrays in memory must be classes, or several to an example, but got one to each: "
        "for one-hot labels give y.argmax(axis=1), or say --multi-label."
    )
    assert labelled(data, multi_label=True).train.schema.labels == tuple(f"label {number}" for number in range(4))


def test_classes_that_look_like_labels_are_mentioned(tmp_path: Path):
    path = write_text(tmp_path / "tags.csv", *JOINED)
    note = "'red|round' is one class of the target; --multi-label predicts each of its labels."
    assert note in labelled(path, target="tags", ignore=("w",)).notes
    rare = write_text(tmp_path / "rare.csv", "size,tags", *["1,red", "2,round"] * 4, "3,red|round")
    assert refusal(lambda: labelled(rare, target="tags")).endswith("say --multi-label, if it is several labels.")
