"""What Python holds, in every usual form, becomes the same columns."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from data.written_files import noise, refusal
from neuropil.data.formats import memory
from neuropil.data.formats.memory import InMemory, MemoryTable, are_paths, in_memory
from neuropil.data.formats.values import cell_texts

X = np.arange(12.0).reshape(4, 3)
NAMES = ["b", "a", "b", "a"]
PAIR = in_memory((X, NAMES))


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat((np.zeros(3), 1))


@pytest.mark.parametrize(
    "given",
    [
        (torch.from_numpy(X), NAMES),
        (X.tolist(), np.array(NAMES)),
        ([*X], np.array(NAMES, dtype=object)),
        (X, np.array(NAMES)[:, None]),
        (X, pd.Series(NAMES)),
        (X, pd.Series(NAMES, dtype="category")),
        (X, pl.Series(NAMES)),
        (X, pl.Series(NAMES, dtype=pl.Categorical)),
        [*zip(X, NAMES, strict=True)],
        zip(X, NAMES, strict=True),
        {"x": X, "y": NAMES},
    ],
)
def test_inputs_with_answers_are_two_columns(given: Any):
    found = in_memory(given)
    assert [*found.columns] == ["x", "y"]
    np.testing.assert_array_equal(np.asarray(found.columns["x"]), X)
    assert found.columns["y"] == NAMES


@pytest.mark.parametrize("wrap", [lambda data: data, DataLoader])
def test_a_dataset_of_torch_is_read_item_by_item(wrap: Callable[[Any], Any]):
    found = in_memory(wrap(TensorDataset(torch.from_numpy(X), torch.tensor([3, 1, 3, 1]))))
    np.testing.assert_array_equal(np.array(found.columns["x"]), X)
    np.testing.assert_array_equal(found.columns["y"], [3, 1, 3, 1])
    assert (found.name, found.answer) == ("dataset in memory", "y")


FRAME = {"size": [1.5, None, 3.0], "count": [1, 2, 3], "colour": ["red", None, "blue"], "new": [True, False, True]}


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame(FRAME),
        pd.DataFrame(FRAME).convert_dtypes(),
        pd.DataFrame(FRAME).astype({"colour": "category"}),
        pl.DataFrame(FRAME),
        pl.DataFrame(FRAME).lazy(),
        datasets.Dataset.from_dict(FRAME),
        datasets.Dataset.from_dict(FRAME).to_iterable_dataset(),
        FRAME,
        [dict(zip(FRAME, row, strict=True)) for row in zip(*FRAME.values(), strict=True)],
    ],
)
def test_a_table_has_the_cells_that_a_file_would_hold(given: Any):
    found = in_memory(given)
    assert {name: [*cell_texts(values, name, "")] for name, values in found.columns.items()} == {
        "size": ["1.5", "", "3.0"],
        "count": ["1", "2", "3"],
        "colour": ["red", "", "blue"],
        "new": ["True", "False", "True"],
    }
    assert found.recorded == in_memory(FRAME).recorded


def test_rows_of_a_table_are_counted_from_0_and_come_in_blocks():
    blocks = [*MemoryTable(in_memory({"n": np.arange(2_500), "s": ["t"] * 2_500})).blocks()]
    assert [len(block["n"].rows) for block in blocks] == [1_000, 1_000, 500]
    assert blocks[1]["n"].where(3) == "row 1003, column 'n' of mapping in memory"
    assert blocks[1]["n"].texts[3] == "1003"
    assert [*blocks[2]["n"].texts[:2]] == ["2000", "2001"]


def test_the_dates_of_an_index_are_kept_beside_the_columns():
    series = pd.Series([1.0, 2.0], index=pd.period_range("2020-01", periods=2, freq="M"), name="sales")
    found = in_memory(series)
    assert [*found.columns] == ["sales"]
    assert found.dates == ["2020-01-01 00:00:00", "2020-02-01 00:00:00"]
    assert [*found.recorded] == ["sales", "index"]
    assert in_memory(series.reset_index(drop=True)).dates is None


def test_classes_of_hugging_face_have_their_names():
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "PER"]))
    features = datasets.Features({"label": datasets.ClassLabel(names=["bad", "good"]), "ner_tags": tags})
    data = datasets.Dataset.from_dict({"label": [1, 0, -1], "ner_tags": [[0, 1], [0], [1]]}, features=features)
    columns = {"label": ["good", "bad", ""], "ner_tags": [["O", "PER"], ["O"], ["PER"]]}
    assert in_memory(data).columns == columns
    streamed = data.to_iterable_dataset()
    assert in_memory(streamed).columns == in_memory(streamed.with_format("torch")).columns == columns
    without_names = in_memory(streamed.remove_columns("ner_tags").map(lambda row: row))
    np.testing.assert_array_equal(without_names.columns["label"], [1, 0, -1])


def test_translations_of_hugging_face_become_two_columns():
    data = datasets.Dataset.from_dict({"translation": [{"de": "Haus", "en": "house"}, {"de": "Hut", "en": "hat"}]})
    assert in_memory(data).columns == {"de": ["Haus", "Hut"], "en": ["house", "hat"]}


@pytest.mark.parametrize("form", ["list", "mapping", "dataset"])
def test_nested_columns_have_their_full_names(form: str):
    rows = [{"user": {"age": 1, "at": {"city": "x"}}, "item": {"age": 2}}, {"user": {"age": 3, "at": {"city": "y"}}}]
    columns = {name: [row.get(name) for row in rows] for name in ("user", "item")}
    found = in_memory({"list": rows, "mapping": columns, "dataset": datasets.Dataset.from_dict(columns)}[form])
    assert {name: [*cell_texts(values, name, "")] for name, values in found.columns.items()} == {
        "user.age": ["1", "3"],
        "user.at.city": ["x", "y"],
        "item.age": ["2.0", ""],
    }


@pytest.mark.parametrize("given", [{"user.age": [1], "user": [{"age": 2}]}, {"1": [1], 1: [2]}])
def test_columns_that_would_share_a_name_are_refused_where_they_are_asked_for(given: Any):
    found = in_memory({**given, "size": [3]})
    (name,) = {*found.names} - {"size"}
    assert [*found.columns] == ["size"]
    assert refusal(found.column, name) == (
        f"each column must have a name of its own, but got {name!r} twice: rename one."
    )


def test_the_record_knows_the_same_data_again_in_another_form():
    again = InMemory.from_dict(PAIR.to_dict())
    assert PAIR.to_dict() == {
        "in_memory": "arrays",
        "answer": "y",
        "columns": {
            "x": {"shape": [4, 3], "type": "float64", "fingerprint": PAIR.recorded["x"]["fingerprint"]},
            "y": {"shape": [4], "type": "text", "fingerprint": PAIR.recorded["y"]["fingerprint"]},
        },
    }
    assert str(again) == "arrays in memory (x 4×3 float64, y 4 text)"
    assert again == PAIR == in_memory((torch.from_numpy(X), pd.Series(NAMES)))
    assert again.columns == {}


@pytest.mark.parametrize(
    "other",
    [
        (X + 1e-12, NAMES),
        (X.astype(np.float32), NAMES),
        (X.reshape(4, 3, 1), NAMES),
        (X, NAMES[::-1]),
        (X[:3], NAMES[:3]),
    ],
)
def test_any_other_data_has_another_record(other: Any):
    assert in_memory(other) != PAIR


def test_lists_are_told_apart_by_their_items_and_pictures_by_their_pixels():
    assert in_memory(["ab", "c"]) != in_memory(["a", "bc"])
    first, second = ([Image.fromarray(noise(4, 5, seed=seed))] for seed in (0, 1))
    assert in_memory(first) == in_memory(first) != in_memory(second)
    assert str(in_memory(first)) == "list in memory (x 1 pictures)"
    assert str(in_memory([np.zeros(2), np.zeros(3)])) == "list in memory (x 2 float64 arrays)"


def test_texts_are_told_from_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a text").touch()
    for paths in (
        "a.txt",
        "missing",
        Path("a\nb"),
        ["a.txt", "b c.txt"],
        (),
        ["a text"],
        [Path("x y")],
        "/".join(["x" * 200] * 3),
    ):
        assert are_paths(paths), paths
    for texts in ("two\nlines", "x" * 300, ["one text", "another"], ["a.txt", "two\nlines"], [], [1], (X, NAMES), X):
        assert not are_paths(texts), texts


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((X, NAMES[:3]), "x and y of the arrays in memory must be equally long, but got 4 and 3."),
        ({"a": [1, 2], "b": [1]}, "a and b of the mapping in memory must be equally long, but got 2 and 1."),
        ([], "data in memory must hold something, but got an empty list."),
        (np.zeros((0, 3)), "data in memory must hold something, but got an empty ndarray."),
        (pd.DataFrame(), "data in memory must hold something, but got an empty DataFrame."),
        (
            3,
            "data must be paths of files, or in memory a pair (X, y), an array, a DataFrame, a mapping of columns, "
            "a list, a Dataset or another iterable, but got a value of type int.",
        ),
        (
            (pd.DataFrame(FRAME), pd.DataFrame(FRAME)),
            "labels must have other names than inputs, but got size, count, colour, new for both.",
        ),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            "a DataFrame must name each of its columns once, but got a, a.",
        ),
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict(FRAME)}),
            "data in memory must be one part, but got the parts train: give one of them, as in data['train'].",
        ),
        (
            datasets.DatasetDict(
                {"train": datasets.Dataset.from_dict(FRAME), "more": datasets.Dataset.from_dict(FRAME)}
            ),
            "a mapping must hold columns, or the parts train, validation and test, but got a DatasetDict of train, "
            "more: give those that are meant.",
        ),
        (
            {"a": [object()]},
            "column 'a' must hold numbers, texts, pictures, arrays or lists of texts alone, but got a object.",
        ),
        (
            [np.zeros(2), None],
            "column 'x' must hold numbers, texts, pictures, arrays or lists of texts alone, but got nothing in row 1.",
        ),
        (
            np.array([["a", "b"]]),
            "column 'x' must hold numbers, or a text in each row, but got 1×2 values of type str32.",
        ),
    ],
)
def test_what_cannot_be_columns_is_refused(given: Any, sentence: str):
    assert refusal(in_memory, given) == sentence


@pytest.mark.parametrize("limits", [{"MOST_ITEMS": 100}, {"MOST_BYTES": 2_400}])
def test_an_iterable_without_an_end_is_given_up(limits: dict[str, int], monkeypatch: pytest.MonkeyPatch):
    for name, limit in limits.items():
        monkeypatch.setattr(memory, name, limit)
    sentence = refusal(in_memory, Endless())
    assert sentence.startswith("an iterable is read to its end, within ")
    assert sentence.endswith(", but got more: give the beginning of it, as in itertools.islice(data, 10_000).")
    assert in_memory(itertools.islice(Endless(), 100)).num_rows == 100


TABLE = datasets.Dataset.from_dict(FRAME)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (((X, NAMES), (X[:2], NAMES[:2])), {"train": 4, "test": 2}),
        (((X, NAMES), (X[:2], NAMES[:2]), (X[:1], NAMES[:1])), {"train": 4, "validation": 2, "test": 1}),
        ({"train": (X, NAMES), "val": (X[:2], NAMES[:2])}, {"train": 4, "validation": 2}),
        ({"test": [("a", "b")] * 3, "training": [("c", "d")] * 5}, {"test": 3, "train": 5}),
        ({"train": pd.DataFrame(FRAME), "dev": pl.DataFrame(FRAME)}, {"train": 3, "validation": 3}),
        (datasets.DatasetDict({"train": TABLE, "test": TABLE.select([0])}), {"train": 3, "test": 1}),
        (datasets.IterableDatasetDict({"train": TABLE.to_iterable_dataset()}), {"train": 3}),
    ],
)
def test_data_may_have_parts_of_its_own(given: Any, parts: dict[str, int]):
    found = in_memory(given, parts=True)
    assert {name: part.num_rows for name, part in found.parts.items()} == parts
    assert found.training is found.parts["train"]
    assert found.others.keys() == parts.keys() - {"train"}
    assert (
        found.held_out is found.parts["test" if "test" in parts else "validation" if "validation" in parts else "train"]
    )
    assert InMemory.from_dict(found.to_dict()) == found != found.training


def test_data_in_parts_says_what_each_holds():
    found = in_memory(((X, NAMES), (X[:2], NAMES[:2])), parts=True)
    shapes = "train x 4×3 float64, train y 4 text, test x 2×3 float64, test y 2 text"
    assert str(found) == f"arrays in memory ({shapes})"
    assert found.parts["test"].name == "test part of arrays in memory"
    assert found.recorded["train x"] == in_memory((X, NAMES)).recorded["x"]


@pytest.mark.parametrize("given", [([X, X], [0, 1]), {"train": [1], "x": [2]}, [("a", "b"), ("c", "d")]])
def test_a_pair_of_rows_has_no_parts(given: Any):
    assert in_memory(given, parts=True).parts == {}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"train": "train.csv", "test": "test.csv"},
            "parts of data are given in memory, but got a path for 'train': read them first, as pandas.read_csv does.",
        ),
        ({"train": X, "val": X, "dev": X}, "data in memory must have one validation part, but got train, val, dev."),
        (
            {"validation": X, "test": X},
            "data in memory must have a part to train on, but got only validation and test.",
        ),
    ],
)
def test_parts_that_cannot_be_learned_from_are_refused(given: Any, sentence: str):
    assert refusal(lambda: in_memory(given, parts=True)) == sentence


# --- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        (np.zeros((3, 2)), np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])),
        (np.zeros((3, 2)), [0, 1, 0], [1, 2, 3]),
        (["one", "two", "three"], ["a", "b", "a"], torch.tensor([1.0, 2.0, 3.0])),
        (pd.DataFrame({"x": [1, 2, 3]}), pd.Series([0, 1, 0]), pd.Series([1.0, 2.0, 3.0])),
    ],
)
def test_the_third_of_three_are_weights(data: Any):
    found = in_memory(data)
    assert (found.answer, found.weight) == ("y", "weights")
    assert np.asarray(found.column("weights")).tolist() == [1, 2, 3]


def test_three_rows_of_numbers_are_three_examples():
    for data in (([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]), tuple(np.ones((3, 2))), tuple(np.ones((3, 4, 4)))):
        assert in_memory(data).weight == ""
        assert in_memory(data).num_rows == 3


def test_parts_may_have_weights():
    train, test = (np.zeros((3, 2)), [0, 1, 0], [1, 2, 3]), (np.zeros((2, 2)), [0, 1])
    found = in_memory((train, test), parts=True)
    assert found.weight == "weights"
    assert {name: part.weight for name, part in found.parts.items()} == {"train": "weights", "test": ""}
