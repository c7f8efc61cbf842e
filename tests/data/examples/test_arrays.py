"""Examples in memory are those that a file of the same content gives."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from PIL import Image

from data.written_files import noise, refusal, write_text
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.files import (
    ClassificationDataConfig,
    DataConfig,
    inputs_of,
    prepare,
    read_inputs,
    read_labelled,
)
from neuropil.data.formats.memory import in_memory
from neuropil.data.splits import Splits
from real_data import digits

SOME = np.random.default_rng(0).normal(size=(40, 3)).round(3)
FRAME = pd.DataFrame(SOME, columns=["a", "b", "c"]).assign(colour=["red", "blue"] * 20, kind=["x", "y", "y", "x"] * 10)


def prepared(data: Any, **options: Any) -> Splits[Examples]:
    return prepare(DataConfig(data=data if isinstance(data, Path) else in_memory(data), **options), seed=3)


def same(first: Splits[Examples], second: Splits[Examples]) -> bool:
    """But for the names of features and where they are from."""
    pairs = zip(first.parts.values(), second.parts.values(), strict=True)
    assert first.train.schema.classes == second.train.schema.classes
    return all(torch.equal(a.inputs, b.inputs) and torch.equal(a.targets, b.targets) for a, b in pairs)


@pytest.mark.parametrize(
    "labels", [np.arange(40) % 3, np.array(["a", "b"] * 20), SOME[:, 0] * 2, np.arange(40) % 2 == 0]
)
def test_arrays_are_read_as_those_of_an_npz(tmp_path: Path, labels: np.ndarray):
    np.savez(tmp_path / "a.npz", x=SOME, y=labels)
    found = prepared((SOME, labels))
    assert same(found, prepared(tmp_path / "a.npz"))
    classes = f" in {len(np.unique(labels))} classes" if labels.dtype.kind != "f" else ""
    assert found.train.source == f"40 rows of 3 features{classes} (arrays in memory)"


def test_truth_values_are_classes_with_their_names():
    assert prepared((SOME, SOME[:, 0] > 0)).train.schema.classes == ("False", "True")


def test_pictures_are_read_as_those_of_an_npz(tmp_path: Path):
    images, labels = (part[:60] for part in digits())
    np.savez(tmp_path / "a.npz", x=images, y=labels)
    for given in (images, torch.from_numpy(images)[:, None], images / 255):
        assert same(prepared((given, labels)), prepared(tmp_path / "a.npz"))


def test_pictures_of_pil_are_brought_to_one_shape():
    pictures = [Image.fromarray(noise(8 + number % 2, 6, 3, seed=number)) for number in range(10)]
    found = prepared((pictures, ["a", "b"] * 5))
    assert found.train.schema.shape == (3, 8, 6)
    assert found.train.source == "10 colour images of 8×6 in 2 classes (lists in memory, resized from several sizes)"


@pytest.mark.parametrize(("target", "options"), [("kind", {}), ("a", {"task": "regression"})])
def test_a_dataframe_is_read_as_the_file_that_it_is_written_to(tmp_path: Path, target: str, options: dict[str, Any]):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    found, file = prepared(FRAME, target=target, **options), prepared(tmp_path / "a.csv", target=target, **options)
    assert same(found, file)
    assert found.train.schema == file.train.schema


def test_answers_may_come_apart_from_the_dataframe():
    apart = prepared((FRAME.drop(columns="kind"), FRAME["kind"]))
    assert same(apart, prepared(FRAME, target="kind"))
    assert apart.train.schema.target == "kind"


def test_large_numbers_keep_the_digits_that_matter():
    inputs = prepared((SOME + 1e9, SOME[:, 0])).train
    assert inputs.schema.offsets == (1e9, 1e9, 1e9)


def test_copies_of_an_example_are_in_one_part():
    twice = np.concatenate([SOME, SOME])
    parts = prepared((twice, np.arange(80) % 2)).parts.values()
    rows = [{row.tobytes() for row in part.inputs.numpy()} for part in parts]
    assert all(len(set.intersection(rows[a], rows[b])) == 0 for a, b in ((0, 1), (0, 2), (1, 2)))


SCHEMA = prepared(FRAME, target="kind").train.schema
NUMBERS = prepared((SOME, np.arange(40) % 3)).train.schema


def test_a_trained_model_reads_more_of_the_kind():
    whole = read_labelled(in_memory(FRAME), SCHEMA)
    apart = read_labelled(in_memory((FRAME.drop(columns="kind"), FRAME["kind"].to_numpy())), SCHEMA)
    assert torch.equal(whole.inputs, apart.inputs)
    assert torch.equal(whole.targets, apart.targets)
    assert torch.equal(inputs_of(FRAME.drop(columns="kind")[::-1], SCHEMA), whole.inputs.flip(0))
    pairs = [*zip(SOME, np.arange(40) % 3, strict=True)]
    assert read_labelled(in_memory(pairs), NUMBERS).targets.tolist() == [0, 1, 2] * 13 + [0]
    assert torch.equal(inputs_of(iter(SOME), NUMBERS), inputs_of(SOME, NUMBERS))


def test_an_array_in_a_table_may_be_ignored():
    table = {**FRAME.to_dict("list"), "photo": noise(40, 5, 5)}
    assert same(prepared(table, target="kind", ignore=("photo",)), prepared(FRAME, target="kind"))


LISTS = {"size": [1.5, 2.5] * 20, "tags": [[i, i % 7] for i in range(40)], "kind": ["a", "b"] * 20}


@pytest.mark.parametrize("form", ["mapping", "rows", "pandas", "polars", "datasets", "pair", ".jsonl", ".parquet"])
def test_numbers_in_lists_are_columns_beside_the_others(tmp_path: Path, form: str):
    frame = pd.DataFrame(LISTS)
    target, data = "kind", LISTS
    if form.startswith("."):
        data = tmp_path / f"a{form}"
        frame.to_parquet(data) if form == ".parquet" else frame.to_json(data, orient="records", lines=True)
    elif form == "pair":
        target, data = None, (frame.drop(columns="kind"), frame["kind"])
    else:
        forms = {"mapping": LISTS, "rows": frame.to_dict("records"), "pandas": frame, "polars": pl.DataFrame(LISTS)}
        data = (forms | {"datasets": datasets.Dataset.from_dict(LISTS)})[form]
    splits = prepared(data, target=target)
    flat = pd.DataFrame({"size": frame["size"], "tags 0": range(40), "tags 1": [i % 7 for i in range(40)]})
    flat["kind"] = frame["kind"]
    expected = prepared(flat, target="kind")
    assert same(splits, expected)
    assert splits.train.schema == expected.train.schema

    schema = splits.train.schema
    source = data if isinstance(data, Path) else in_memory(data)
    whole = read_labelled(in_memory(flat), schema)
    assert torch.equal(read_labelled(source, schema).inputs, whole.inputs)
    asked = read_inputs([data], schema)[0] if isinstance(data, Path) else inputs_of(frame, schema)
    assert torch.equal(asked, whole.inputs)


def test_columns_beside_lists_and_lists_may_be_ignored(tmp_path: Path):
    pd.DataFrame(LISTS).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for ignore, names in (
        (("size",), ["tags 0", "tags 1"]),
        (("tags",), ["size"]),
        (("tags 1",), ["size", "tags 0"]),
        (("3",), ["size", "tags 0"]),
    ):
        splits = prepared(tmp_path / "a.jsonl", target="kind", ignore=ignore)
        assert [column.name for column in splits.train.schema.columns] == names
        assert read_inputs([tmp_path / "a.jsonl"], splits.train.schema)[0].shape == (40, len(names))


def test_lists_alone_are_arrays_in_a_file_too(tmp_path: Path):
    pd.DataFrame({"tags": LISTS["tags"], "y": LISTS["kind"]}).to_json(
        tmp_path / "a.jsonl", orient="records", lines=True
    )
    splits = prepared(tmp_path / "a.jsonl")
    assert same(splits, prepared((np.array(LISTS["tags"]), LISTS["kind"])))
    values, names = read_inputs([tmp_path / "a.jsonl"], splits.train.schema)
    assert torch.equal(values, read_labelled(tmp_path / "a.jsonl", splits.train.schema).inputs)
    assert names[2] == "a.jsonl[2]"
    assert refusal(lambda: prepared(tmp_path / "a.jsonl", ignore=("size",))) == (
        "--ignore names columns of a table, but got size for arrays in a.jsonl: leave it out."
    )
    both = in_memory({"other": [[1, 2]], "tags": [[3, 4]]})
    assert refusal(inputs_of, both, splits.train.schema) == (
        "the mapping in memory must hold one column of lists or arrays, but got other, tags: leave out those that the "
        "model was not trained on."
    )


def test_gaps_in_arrays_get_what_training_saw_of_them():
    rows = np.where(SOME > 1, np.nan, SOME)
    schema = prepared((rows, np.arange(40) % 2)).train.schema
    assert torch.equal(inputs_of(iter(rows), schema), inputs_of(rows, schema))


def test_columns_beside_pictures_are_left_out_and_said():
    table = {"image": noise(40, 5, 5), "id": [*range(40)], "tags": LISTS["tags"], "label": ["a", "b"] * 20}
    splits = prepared(table)
    assert splits.train.schema.shape == (1, 5, 5)
    assert splits.notes == ["Inputs are the pictures of column 'image'; 'id', 'tags' are left out."]
    assert read_labelled(in_memory(table), splits.train.schema).inputs.shape == (40, 1, 5, 5)


def test_lists_of_labels_are_targets():
    table = {"size": [*range(40)], "tags": [[i % 2, i % 3 == 0] for i in range(40)]}
    schema = prepare(ClassificationDataConfig(data=in_memory(table), target="tags"), 0).train.schema
    assert schema.labels == ("tags 0", "tags 1")
    assert read_labelled(in_memory(table), schema).targets[:3].tolist() == [[0, 1], [1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([[1, 2], [3]], "column 'tags' of {} must hold as many numbers in each row, but got 2 in row 0 and 1 in row 1"),
        ([[], [3, 4]], "column 'tags' of {} must hold as many numbers in each row, but got 0 in row 0 and 2 in row 1"),
        (
            [["red"], ["red", "new"]],
            "column 'tags' of {} must hold a number or a text in each row, but got lists",
        ),
        (
            [[1, 2], None],
            "column 'tags' must hold numbers, texts, pictures, arrays or lists of texts alone, "
            "but got nothing in row 1",
        ),
    ],
)
def test_lists_that_are_no_columns_are_refused_with_their_row(tmp_path: Path, rows: list[Any], sentence: str):
    table = {"size": [1.5, 2.5] * 20, "tags": rows * 20, "kind": ["a", "b"] * 20}
    lines = [json.dumps(dict(zip(table, row, strict=True))) for row in zip(*table.values(), strict=True)]
    path = write_text(tmp_path / "a.jsonl", *lines)
    for data, name in ((table, "the mapping in memory"), (path, "a.jsonl")):
        assert (
            refusal(lambda data=data: prepared(data, target="kind")) == f"{sentence.format(name)}: add --ignore tags."
        )
    assert prepared(path, target="kind", ignore=("tags",)).train.schema.shape == (1,)


def test_new_lists_of_other_lengths_are_refused_with_their_row():
    schema, table = prepared(LISTS, target="kind").train.schema, {"size": [1.5, 2.5], "tags": [[1, 2], [3]]}
    assert refusal(inputs_of, table, schema) == (
        "column 'tags' of the mapping in memory must hold as many numbers in each row, "
        "but got 2 in row 0 and 1 in row 1."
    )
    shorter = {"size": [1.5, 2.5], "tags": [[1], [3]]}
    assert refusal(inputs_of, shorter, schema) == (
        "mapping in memory must have the column 'tags 1', but got size, tags 0: did you mean 'tags 0'?"
    )


def test_a_column_of_the_name_that_a_list_takes_is_refused():
    table = {"tags": LISTS["tags"], "tags 0": [*range(40)], "kind": LISTS["kind"]}
    sentence = "each column must have a name of its own, but got 'tags 0' twice: rename one."
    assert refusal(lambda: prepared(table, target="kind")) == sentence
    assert prepared(table, target="kind", ignore=("tags",)).train.schema.shape == (1,)


class Odd:
    """What no column can hold."""


@pytest.mark.parametrize(
    "unused",
    [
        {},
        {"id": [Odd(), Odd()], "note": [{"a": 1}, None]},
        {"id": [np.zeros(3), np.ones(4)], "note": np.zeros((2, 2))},
    ],
)
def test_columns_that_the_model_does_not_use_may_hold_anything_or_be_missing(unused: dict[str, Any]):
    table = {"size": [1.5, 2.5] * 20, "id": [*range(40)], "note": [Odd() for _ in range(40)], "kind": ["a", "b"] * 20}
    schema = prepare(DataConfig(data=in_memory(table), target="kind", ignore=("note",)), 0).train.schema
    assert [column.name for column in schema.columns] == ["size"]
    new = {**unused, "size": [1.5, 2.5]}
    assert inputs_of(new, schema).tolist() == [[1.5], [2.5]]
    assert read_labelled(in_memory({**new, "kind": ["a", "b"]}), schema).inputs.tolist() == [[1.5], [2.5]]
    assert read_labelled(in_memory((new, ["a", "b"])), schema).targets.tolist() == [0, 1]


def test_a_column_that_is_asked_for_must_be_readable():
    table = {"size": [1.5, 2.5] * 20, "note": [Odd() for _ in range(40)], "kind": ["a", "b"] * 20}
    sentence = "column 'note' must hold numbers, texts, pictures, arrays or lists of texts alone, but got a Odd."
    assert (
        refusal(prepare, DataConfig(data=in_memory(table), target="kind"), 0) == f"{sentence[:-1]}: add --ignore note."
    )
    assert refusal(in_memory, {"note": table["note"]}) == sentence
    assert refusal(in_memory(table).texts, "note") == sentence


def test_pictures_in_memory_are_brought_to_the_shape_of_the_model():
    schema = Schema(kind="image", shape=(1, 8, 8), classes=("a", "b"))
    pictures = [Image.fromarray(noise(16, 16)), Image.fromarray(noise(8, 8))]
    assert inputs_of(iter(pictures), schema).shape == (2, 1, 8, 8)
    assert len(read_labelled(in_memory((pictures, ["b", "a"])), schema)) == 2


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (
            SOME,
            {},
            "the array in memory must come with labels, but got array in memory (x 40×3 float64): give a pair (X, y).",
        ),
        (
            FRAME,
            {},
            "the table DataFrame in memory needs a target, the column to predict: choose from a, b, c, colour, kind.",
        ),
        (
            FRAME,
            {"target": "kin"},
            "DataFrame in memory must have the column 'kin', but got a, b, c, colour, kind: did you mean 'kind'?",
        ),
        (
            FRAME.assign(a=np.where(FRAME.index == 7, np.inf, FRAME["a"])),
            {"target": "kind"},
            "row 7, column 'a' of DataFrame in memory must hold a finite number, but got 'inf'.",
        ),
        (
            (np.where(SOME[4, 0] == SOME, np.inf, SOME), np.arange(40) % 2),
            {},
            "x of arrays in memory must be finite numbers, but got inf at [4, 0]: fill it in or remove its row.",
        ),
        (
            (SOME, np.eye(4)[np.arange(40) % 4]),
            {},
            "arrays in memory must have one target here, but got label 0, label 1, label 2, label 3.",
        ),
        (
            ([*SOME[:20], *SOME[20:, :2]], np.arange(40) % 2),
            {},
            "x of the lists in memory must have one shape in all rows, but got 3 in row 0 and 2 in row 20.",
        ),
        ((SOME, ["a"] * 40), {}, "arrays in memory must have at least 2 classes, but got only 'a'."),
        (
            (noise(4, 5, 5), [0, 1, 0, 1]),
            {"ignore": ("id",)},
            "--ignore names columns of a table, but got id for pictures in memory: leave it out.",
        ),
        (
            (SOME, np.arange(40) % 2),
            {"ignore": ("a", "b")},
            "--ignore names columns of a table, but got a, b for arrays in memory: leave it out.",
        ),
        (
            FRAME,
            {"target": "kind", "encoding": "cp1252"},
            "--encoding is that of a CSV or TSV, but got 'cp1252' for DataFrame in memory: leave it out.",
        ),
        (
            (FRAME, np.arange(40) % 2),
            {"target": "kind"},
            "what to predict is given once of the DataFrame in memory, but got answers apart and the target 'kind': "
            "leave one of them out.",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused(data: Any, options: dict[str, Any], sentence: str):
    assert refusal(lambda: prepared(data, **options)) == sentence


def test_labels_that_were_not_learned_are_refused_by_their_place():
    sentence = refusal(read_labelled, in_memory((SOME[:2], [1, 7])), NUMBERS)
    assert sentence == (
        "each label must be a class of the training data, but got '7' (arrays in memory[1]): the classes are 0, 1, 2."
    )


def test_examples_without_a_label_are_left_out_and_counted():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    splits = prepared((rows, [None if i % 7 == 0 else "ab"[i % 2] for i in range(60)]))
    assert splits.train.schema.classes == ("a", "b")
    assert splits.notes == ["9 of 60 examples have no target and are left out (first: row 0)."]
    kept = torch.cat([part.inputs for part in (splits.train, splits.validation, splits.test)])
    assert len(kept) == 51
    assert not torch.isin(torch.from_numpy(rows[::7, 0]).float(), kept[:, 0].float()).any()


def test_what_is_masked_is_missing():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    hidden = np.random.default_rng(1).random((60, 3)) < 0.2
    masked, gaps = np.ma.masked_array(np.where(hidden, 1e6, rows), hidden), np.where(hidden, np.nan, rows)
    labels = ["a", "b"] * 30
    assert same(prepared((masked, labels)), prepared((gaps, labels)))
    schema = prepared((gaps, labels)).train.schema
    assert torch.equal(inputs_of(masked, schema), inputs_of(gaps, schema))


def test_parts_of_arrays_are_kept_as_they_are():
    labels = np.arange(40) % 3
    splits = prepare(DataConfig(data=in_memory(((SOME, labels), (SOME[:6] + 9, labels[:6])), parts=True)), 0)
    assert (len(splits.train), len(splits.validation)) == (36, 4)
    np.testing.assert_allclose(splits.test.inputs, SOME[:6] + 9, rtol=1e-6)
    assert splits.test.targets.tolist() == labels[:6].tolist()
    given = {"train": (SOME, labels), "validation": (SOME[:3] - 9, labels[:3]), "test": (SOME[:6] + 9, labels[:6])}
    splits = prepare(DataConfig(data=in_memory(given, parts=True)), 0)
    assert [len(part) for part in splits.parts.values()] == [40, 3, 6]


def test_parts_of_a_table_are_read_by_the_columns_of_the_training_part():
    test = pd.DataFrame(
        {"id": ["x"] * 2, "kind": ["y", "x"], "colour": ["red", "red"], "a": 1.0, "b": 2.0, "c": [3, None]}
    )
    train = FRAME.assign(c=FRAME["c"].where(FRAME.index > 0))
    splits = prepare(DataConfig(data=in_memory({"train": train, "test": test}, parts=True), target="kind"), 0)
    assert splits.test.schema.classes == ("x", "y")
    assert splits.test.targets.tolist() == [1, 0]
    assert [column.name for column in splits.test.schema.columns] == ["a", "b", "c", "colour"]
    assert splits.test.inputs[:, [0, 1, 3, 4, 5]].tolist() == [[1, 2, 0, 0, 1], [1, 2, 1, 0, 1]]
    assert splits.train.source == "42 rows of 6 features in 2 classes (DataFrame in memory)"


def test_what_parts_share_is_said():
    labels = np.arange(40) % 2
    splits = prepare(DataConfig(data=in_memory(((SOME, labels), (SOME[:9], labels[:9])), parts=True), validation=0), 0)
    assert splits.notes == ["9 of 9 examples of the test part are in the training part too."]


def test_a_part_with_a_class_that_was_not_learned_is_refused():
    data = in_memory(((SOME, ["a", "b"] * 20), (SOME[:2], ["a", "c"])), parts=True)
    assert refusal(prepare, DataConfig(data=data), 0) == (
        "each label must be a class of the training data, but got 'c' (test part of arrays in memory[1]): the classes "
        "are a, b."
    )


def test_arrays_that_must_not_be_written_to_are_taken_without_a_warning():
    images, labels = (each[:40].copy() for each in digits())
    images.flags.writeable = labels.flags.writeable = False
    torch.set_warn_always(True)  # and not once in the life of a process; warnings are errors here
    try:
        train = prepare(DataConfig(data=in_memory((images, labels))), 0).train
        found = inputs_of(images, train.schema)
    finally:
        torch.set_warn_always(False)
    found += 1
    assert (found.numpy()[:, 0] == images.astype(np.uint8) + 1).all()
