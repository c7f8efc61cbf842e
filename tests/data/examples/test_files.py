import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from data.written_files import noise, refusal, write_idx, write_images, write_mnist, write_text
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.files import (
    ClassificationDataConfig,
    DataConfig,
    format_of,
    inputs_of,
    prepare,
    read_inputs,
    read_labelled,
)
from neuropil.data.formats.memory import in_memory
from neuropil.data.splits import Splits
from real_data import diabetes, digits

GREY = Schema(kind="image", shape=(1, 4, 5), classes=("cat", "dog"))
ROWS = ("age,colour,answer", *["1,red,yes", "2,blue,no", "3,red,yes", "4,blue,no"] * 5)


def parts_of(path: Path, seed: int = 0, **options: Any) -> Splits[Examples]:
    return prepare(DataConfig(data=path, **options), seed)


def sizes(splits: Splits[Examples]) -> tuple[int, int, int]:
    return len(splits.train), len(splits.validation), len(splits.test)


def rows_of(examples: Examples) -> set[tuple[float, ...]]:
    return set(map(tuple, examples.inputs.flatten(1).tolist()))


def write_npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy's stub takes the names for its own options
    return path


def write_diabetes(path: Path) -> Path:
    names, features, targets = diabetes()
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*names, "progress"], *np.column_stack([features, targets]).tolist()])
    return path


def write_years(path: Path, first: int) -> Path:
    """A second after another, in random order, and numbers to predict that are as large."""
    seconds = np.random.default_rng(0).permutation(400)
    rows = [f"{first + second},{first + np.sin(second / 9):.5f}" for second in seconds]
    path.write_text("\n".join(["time,y", *rows]))
    return path


def test_large_numbers_keep_the_digits_that_tell_them_apart(tmp_path: Path):
    plain, far = (
        parts_of(write_years(tmp_path / f"{first}.csv", first), target="y", task="regression")
        for first in (0, 1_600_000_000)
    )
    schema = far.train.schema
    assert (plain.train.schema.offsets, plain.train.schema.target_offset) == ((), 0.0)
    assert schema.target_offset == 1_600_000_000
    for near, distant in zip(plain.parts.values(), far.parts.values(), strict=True):
        torch.testing.assert_close(distant.inputs + (schema.offsets[0] - 1_600_000_000), near.inputs)
        torch.testing.assert_close(distant.targets, near.targets, atol=2e-5, rtol=0)  # written with five decimals
    path = tmp_path / "1600000000.csv"
    assert torch.equal(read_inputs([path], schema)[0][:3], torch.tensor(_first_times(path), dtype=torch.double))
    assert len(read_labelled(path, schema).inputs.unique()) == 400


def _first_times(path: Path) -> list[list[float]]:
    return [[float(row.split(",")[0])] for row in path.read_text().splitlines()[1:4]]


def test_missing_values_are_imputed_by_the_mean_of_the_training_part_alone(tmp_path: Path):
    generator = np.random.default_rng(0)
    ages, sizes_ = generator.normal(40, 10, 200).round(3), generator.normal(1.7, 0.1, 200).round(3)
    rows = [
        f"{'' if i % 5 == 0 else age},{size},{i % 2}" for i, (age, size) in enumerate(zip(ages, sizes_, strict=True))
    ]
    path = write_text(tmp_path / "a.csv", "age,size,y", *rows)
    splits = parts_of(path, target="y")
    schema, train = splits.train.schema, splits.train.inputs
    missing = train[:, 1] == 1
    mean = train[~missing, 0].double().mean().item()
    whole = np.mean([age for i, age in enumerate(ages) if i % 5])
    assert abs(mean - whole) > 0.01
    assert schema.imputed[0] == pytest.approx(mean, rel=1e-6)
    for part in splits.parts.values():
        gaps = part.inputs[:, 1] == 1
        assert gaps.any()
        torch.testing.assert_close(part.inputs[gaps, 0], torch.full((int(gaps.sum()),), mean))
    new = write_text(tmp_path / "new.csv", "size,age,y", "1.5,,1", "1.5,30,0")
    expected = torch.tensor([[mean, 1, 1.5], [30, 0, 1.5]])
    torch.testing.assert_close(read_labelled(new, schema).inputs, expected)
    torch.testing.assert_close(inputs_of(read_inputs([new], schema)[0], schema), expected)
    torch.testing.assert_close(inputs_of(np.array([[np.nan, 1.5], [30, 1.5]]), schema), expected)
    torch.testing.assert_close(inputs_of([30, 1.5], schema), expected[1:])
    assert splits.notes[0].startswith("Missing values: 40 in 'age'; ")


def test_values_that_float32_cannot_tell_apart_are_said(tmp_path: Path):
    values = np.random.default_rng(0).normal(size=(400, 2)).round(6)
    rows = [f"{x},{y}" for x, y in values]
    assert parts_of(write_text(tmp_path / "a.csv", "x,y", *rows), target="y").notes == []
    for far in (
        [f"{1e15 * (i % 2) + i},{i / 7}" for i in range(400)],
        [f"{i * 1e7 ** (i % 7 == 0)},{y}" for i, (x, y) in enumerate(values)],
    ):
        (note,) = parts_of(write_text(tmp_path / "a.csv", "spread,y", *far), target="y").notes
        assert re.fullmatch(r"Column 'spread' has 288 different values, of which float32 tells only \d+ apart\.", note)
    rows = [f"{i / 7},{1e15 * (i % 2) + i}" for i in range(400)]
    (note,) = parts_of(write_text(tmp_path / "a.csv", "x,y", *rows), target="y").notes
    assert re.fullmatch(r"The target 'y' has 288 different values, of which float32 tells only \d+ apart\.", note)


def test_a_table_that_is_not_utf_8_is_read_and_said(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_bytes("\n".join(["größe,farbe,y", *["1,grün,0", "2,blau,1"] * 5]).encode("latin-1"))
    splits = parts_of(path, target="y")
    assert splits.notes == ["a.csv is not UTF-8 and was read as Latin-1 (cp1252); --encoding names another."]
    assert splits.train.schema.columns[1].values == ("blau", "grün")
    other = parts_of(path, target="y", encoding="cp1250")
    assert (other.notes, other.train.schema.encoding) == ([], "cp1250")
    path.write_bytes("größe,farbe,y\n3,grün,0".encode("cp1250"))
    assert read_labelled(path, other.train.schema).inputs.tolist() == [[3, 0, 1]]


def test_unreadable_pictures_are_left_out_and_said(tmp_path: Path):
    write_images(tmp_path / "pets", {"cat": list(noise(6, 4, 4)), "dog": list(noise(6, 4, 4, seed=1))})
    (tmp_path / "pets" / "dog" / "3.png").write_bytes(b"")
    splits = parts_of(tmp_path / "pets", skip_unreadable=True)
    assert sum(sizes(splits)) == 11
    assert splits.notes == ["1 of 12 images cannot be read and is left out: dog/3.png."]


def test_copies_of_rows_and_of_pictures_are_in_one_part(tmp_path: Path):
    pictures, labels = noise(50, 4, 4), np.arange(50) % 5
    arrays = write_npz(tmp_path / "a.npz", x=np.concatenate([pictures, pictures]), y=np.concatenate([labels, labels]))
    rows = [f"{index},{index % 7},{index % 2}" for index in range(60)]
    for splits in (
        parts_of(arrays),
        parts_of(write_text(tmp_path / "a.csv", "a,b,c", *rows, *rows), target="c"),
    ):
        train, validation, test = (rows_of(part) for part in splits.parts.values())
        assert not train & test
        assert not train & validation
        assert not validation & test
        assert abs(sizes(splits)[2] - 0.2 * sum(sizes(splits))) <= 2


def test_the_embedded_digits_are_split_by_class_and_by_seed():
    first, again, other = (prepare(DataConfig(), seed) for seed in (0, 0, 1))
    assert sizes(first) == (1294, 144, 359)
    assert all(abs(int(count) - 36) <= 1 for count in first.test.targets.bincount())
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert not torch.equal(first.train.inputs, other.train.inputs)
    whole = torch.cat([part.inputs for part in (first.train, first.validation, first.test)])
    assert sorted(whole.flatten(1).tolist()) == sorted(torch.from_numpy(digits()[0]).flatten(1).tolist())


def test_the_test_part_does_not_depend_on_the_size_of_the_validation_part():
    none, half = prepare(DataConfig(validation=0), 0), prepare(DataConfig(validation=0.5), 0)
    assert torch.equal(none.test.inputs, half.test.inputs)
    assert sizes(none) == (1438, 0, 359)
    assert sizes(half) == (719, 719, 359)


def test_the_same_digits_are_read_from_idx_from_pictures_and_from_npz(tmp_path: Path):
    images, labels = (array[:60] for array in digits())
    write_images(tmp_path / "pictures", {str(label): list(images[labels == label]) for label in range(10)})
    (tmp_path / "idx").mkdir()
    write_mnist(tmp_path / "idx", "train", images, labels.tolist(), packed=True)
    paths = {
        "idx": tmp_path / "idx",
        "pictures": tmp_path / "pictures",
        "a.npz": write_npz(tmp_path / "a.npz", x=images, y=labels),
    }
    expected = {(label, *pixels.flatten().tolist()) for pixels, label in zip(images, labels.tolist(), strict=True)}
    for name, path in paths.items():
        splits = parts_of(path)
        found = [
            torch.cat([part.targets[:, None], part.inputs.flatten(1)], dim=1)
            for part in (splits.train, splits.validation, splits.test)
        ]
        assert set(map(tuple, torch.cat(found).tolist())) == expected
        assert splits.train.source == f"60 grey images of 8×8 in 10 classes ({name})"
        assert splits.train.schema == Schema(kind="image", shape=(1, 8, 8), classes=tuple("0123456789"))


def test_data_that_brings_its_own_test_part_keeps_it(tmp_path: Path):
    write_mnist(tmp_path, "train", noise(20, 4, 4), [0, 1] * 10)
    write_mnist(tmp_path, "t10k", noise(4, 4, 4, seed=1), [1, 0, 0, 1])
    splits = parts_of(tmp_path)
    assert sizes(splits) == (18, 2, 4)
    assert torch.equal(splits.test.inputs[:, 0], torch.from_numpy(noise(4, 4, 4, seed=1)))
    assert splits.test.targets.tolist() == [1, 0, 0, 1]


def test_data_that_brings_its_own_validation_part_keeps_it(tmp_path: Path):
    write_images(tmp_path / "train", {"cat": list(noise(10, 4, 4)), "dog": list(noise(10, 4, 4))})
    write_images(tmp_path / "val", {"dog": list(noise(3, 4, 4))})
    splits = parts_of(tmp_path)
    assert sizes(splits) == (16, 3, 4)
    assert splits.validation.targets.tolist() == [1, 1, 1]


def test_resizing_is_said_in_the_source(tmp_path: Path):
    write_images(tmp_path / "pets", {"cat": [noise(10, 8, 3)] * 2, "dog": [noise(12, 8, 3)] * 2})
    assert (
        parts_of(tmp_path / "pets").train.source
        == "4 colour images of 11×8 in 2 classes (pets, resized from several sizes)"
    )


def test_a_table_of_classes(tmp_path: Path):
    splits = parts_of(write_text(tmp_path / "a.csv", *ROWS), target="answer")
    assert splits.train.source == "20 rows of 3 features in 2 classes (a.csv)"
    assert splits.train.schema.classes == ("no", "yes")
    assert splits.train.targets.dtype == torch.int64
    assert splits.test.targets.bincount().tolist() == [5, 5]  # of each class one of two rows, with its copies


def test_a_table_of_quantities(tmp_path: Path):
    splits = parts_of(write_diabetes(tmp_path / "diabetes.csv"), target="progress")
    assert splits.train.source == "442 rows of 10 features (diabetes.csv)"
    assert splits.train.schema.task == "regression"
    assert splits.train.targets.shape == (len(splits.train), 1)
    assert sizes(splits) == (319, 35, 88)
    assert not rows_of(splits.train) & rows_of(splits.test)
    assert not rows_of(splits.train) & rows_of(splits.validation)
    names, features, _ = diabetes()
    assert [column.name for column in splits.train.schema.columns] == names
    expected = set(map(tuple, features.astype(np.float32).tolist()))
    assert rows_of(splits.train) | rows_of(splits.validation) | rows_of(splits.test) == expected


def test_the_task_may_be_set_against_what_the_labels_suggest(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,y", *["1,0", "2,1", "3,2"] * 4)
    assert parts_of(path, target="y").train.schema.classes == ("0", "1", "2")
    assert parts_of(path, target="y", task="regression").train.schema.task == "regression"


def test_images_with_quantities_are_a_regression(tmp_path: Path):
    splits = parts_of(write_npz(tmp_path / "a.npz", images=noise(10, 4, 4), targets=np.linspace(0, 1, 10)))
    assert splits.train.schema == Schema(kind="image", shape=(1, 4, 4), classes=())
    assert splits.train.targets.shape == (7, 1)


# Evaluating a trained model on other data


def test_labelled_data_is_read_in_the_order_of_the_models_classes(tmp_path: Path):
    write_images(tmp_path / "pets", {"dog": [noise(4, 5)] * 2, "cat": [noise(4, 5)]})
    reversed_classes = Schema(kind="image", shape=(1, 4, 5), classes=("dog", "cat"))
    assert read_labelled(tmp_path / "pets", GREY).targets.tolist() == [0, 1, 1]
    assert read_labelled(tmp_path / "pets", reversed_classes).targets.tolist() == [1, 0, 0]
    assert read_labelled(tmp_path / "pets", GREY).source == "3 grey images of 4×5 in 2 classes (pets)"


def test_a_model_is_scored_on_the_test_part_of_labelled_data(tmp_path: Path):
    write_images(tmp_path / "test", {"dog": [noise(4, 5)]})
    assert len(read_labelled(tmp_path, GREY)) == 1
    write_images(tmp_path / "train", {"dog": [noise(4, 5)] * 5, "cat": [noise(4, 5)]})
    assert len(read_labelled(tmp_path, GREY)) == 1


def test_labelled_pictures_of_another_size_are_resized_and_arrays_are_refused(tmp_path: Path):
    write_images(tmp_path / "pets", {"dog": [noise(9, 9, 3)]})
    assert read_labelled(tmp_path / "pets", GREY).inputs.shape == (1, 1, 4, 5)
    path = write_npz(tmp_path / "a.npz", x=noise(2, 9, 9), y=np.array(["cat", "dog"]))
    assert refusal(read_labelled, path, GREY) == (
        "a.npz must hold grey images of 4×5, as the training data did, but got grey images of 9×9."
    )


def test_a_labelled_table_is_read_by_the_names_of_its_columns_and_classes(tmp_path: Path):
    schema = parts_of(write_text(tmp_path / "a.csv", *ROWS), target="answer").train.schema
    examples = read_labelled(
        write_text(tmp_path / "b.csv", "answer;note;colour;age", "yes;x;blue;7", "no;y;red;8"), schema
    )
    assert examples.inputs.tolist() == [[7, 1, 0], [8, 0, 1]]
    assert examples.targets.tolist() == [1, 0]
    assert refusal(read_labelled, write_text(tmp_path / "c.csv", "age,colour,answer", "1,red,yse"), schema) == (
        "each label must be a class of the training data, but got 'yse' (c.csv row 2): did you mean 'yes'?"
    )
    assert refusal(read_labelled, write_text(tmp_path / "c.csv", "age,colour", "1,red"), schema) == (
        "c.csv must have the column 'answer', but got age, colour."
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["size;colour;answer", "1,5;red;yes", "2,5;blue;no"],
        ["id;note;size;colour;answer", "7;;1,5;red;yes", "7;;2,5;blue;no"],
        ["size;note;note;id;colour;answer", "1,5;2;text;1.234;red;yes", "2,5;2020-01-01;;2.471;blue;no"],
    ],
)
def test_columns_that_the_model_does_not_use_may_hold_anything_or_be_missing(tmp_path: Path, lines: list[str]):
    rows = [f"{i % 2 + 1},5;{['red', 'blue'][i % 2]};{i};text {i};{['yes', 'no'][i % 2]}" for i in range(40)]
    path = write_text(tmp_path / "a.csv", "size;colour;id;note;answer", *rows)
    schema = parts_of(path, target="answer", ignore=("note",)).train.schema
    assert [column.name for column in schema.columns] == ["size", "colour"]
    new = write_text(tmp_path / "b.csv", *lines)
    assert read_labelled(new, schema).inputs.tolist() == [[1.5, 0, 1], [2.5, 1, 0]]
    assert read_inputs([new], schema)[0].tolist() == [[1.5, 0, 1], [2.5, 1, 0]]


def test_booleans_are_classes_in_whatever_case_they_are_written(tmp_path: Path):
    lines = [f"{i},{['TRUE', 'false', 'true', 'FALSE'][i % 4]}" for i in range(40)]
    splits = parts_of(write_text(tmp_path / "a.csv", "size,answer", *lines), target="answer")
    assert splits.train.schema.classes == ("FALSE", "TRUE")
    assert splits.notes == [
        "The target holds 'FALSE', 'false', which are one value.",
        "The target holds 'TRUE', 'true', which are one value.",
    ]
    new = write_text(tmp_path / "b.csv", "size,answer", "1,True", "2,False")
    assert read_labelled(new, splits.train.schema).targets.tolist() == [1, 0]
    truth = in_memory(({"size": [1.0, 2.0]}, [True, False]))
    assert read_labelled(truth, splits.train.schema).targets.tolist() == [1, 0]


def test_numbers_are_classes_however_they_are_written(tmp_path: Path):
    schema = parts_of(write_text(tmp_path / "a.csv", "x,y", *["1,0", "2,1", "3,2"] * 4), target="y").train.schema
    assert read_labelled(write_text(tmp_path / "b.csv", "x,y", "1,2.0", "2,0"), schema).targets.tolist() == [2, 0]


def test_a_labelled_table_of_quantities(tmp_path: Path):
    path = write_diabetes(tmp_path / "diabetes.csv")
    schema = parts_of(path, target="progress").train.schema
    examples = read_labelled(path, schema)
    np.testing.assert_allclose(examples.targets[:, 0].numpy(), diabetes()[2])


# Predicting


def test_pictures_are_fitted_to_the_model_and_named_by_their_files(tmp_path: Path):
    write_images(tmp_path / "pets", {"cat": [noise(4, 5), noise(40, 30, 3)]})
    cats = tmp_path / "pets" / "cat"
    images, names = read_inputs([cats / "1.png", cats / "0.png"], GREY)
    assert names == ["1.png", "0.png"]
    assert images.shape == (2, 1, 4, 5)
    np.testing.assert_array_equal(images[1, 0], noise(4, 5))
    assert read_inputs([tmp_path / "pets"], GREY)[1] == ["pets/cat/0.png", "pets/cat/1.png"]


def test_inputs_of_several_kinds_are_joined(tmp_path: Path):
    write_images(tmp_path, {"cat": [noise(4, 5)]})
    write_idx(tmp_path / "digits-idx3-ubyte", noise(2, 4, 5, seed=1))
    write_npz(tmp_path / "a.npz", arr=noise(1, 4, 5, seed=2))
    images, names = read_inputs([tmp_path / "cat" / "0.png", tmp_path / "digits-idx3-ubyte", tmp_path / "a.npz"], GREY)
    assert names == ["0.png", "digits-idx3-ubyte[0]", "digits-idx3-ubyte[1]", "a.npz[0]"]
    np.testing.assert_array_equal(
        images[:, 0], np.concatenate([noise(1, 4, 5), noise(2, 4, 5, seed=1), noise(1, 4, 5, seed=2)])
    )


def test_rows_need_no_target_and_are_named_as_in_a_spreadsheet(tmp_path: Path):
    schema = parts_of(write_text(tmp_path / "a.csv", *ROWS), target="answer").train.schema
    rows, names = read_inputs([write_text(tmp_path / "rows.csv", "colour,age", "red,5", "", "blue,6")], schema)
    assert rows.tolist() == [[5, 0, 1], [6, 1, 0]]
    assert names == ["rows.csv row 2", "rows.csv row 4"]


def test_a_model_of_rows_takes_arrays_of_features(tmp_path: Path):
    schema = parts_of(write_text(tmp_path / "a.csv", *ROWS), target="answer").train.schema
    assert read_inputs([write_npz(tmp_path / "a.npz", x=np.ones((2, 3)))], schema)[0].tolist() == [[1, 1, 1]] * 2
    assert refusal(read_inputs, [write_npz(tmp_path / "a.npz", x=np.ones((2, 4)))], schema) == (
        "a.npz must hold rows of 3 features, as the training data did, but got rows of 4 features."
    )


# Refusals


def test_a_path_that_does_not_exist_is_offered_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    rule = "the data must be a file or folder that exists"
    assert refusal(parts_of, Path("data/mnits")) == f"{rule}, but got 'data/mnits': did you mean 'data/mnist'?"
    assert refusal(parts_of, Path("dta/mnist")) == f"{rule}, but got 'dta/mnist': did you mean 'data'?"
    assert refusal(parts_of, Path("data/xyz")) == f"{rule}, but got 'data/xyz'."
    assert (
        refusal(read_labelled, Path("data/mnits"), GREY) == f"{rule}, but got 'data/mnits': did you mean 'data/mnist'?"
    )
    assert (
        refusal(read_inputs, [Path("data/mnits")], GREY) == f"{rule}, but got 'data/mnits': did you mean 'data/mnist'?"
    )


def test_the_current_folder_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_images(tmp_path / "pets", {"cat": [noise(4, 4)] * 3, "dog": [noise(4, 4)] * 3})
    monkeypatch.chdir(tmp_path / "pets")
    assert parts_of(Path(".")).train.source == "6 grey images of 4×4 in 2 classes (pets)"


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "notes.docx", "no data")
    assert (
        refusal(parts_of, path) == "the data must be IDX, NPZ, CSV, TSV, JSONL, Parquet or images, but got notes.docx: "
        "rename it if it is one of these."
    )


def test_idx_is_known_by_how_it_begins(tmp_path: Path):
    assert format_of(write_idx(tmp_path / "anything", noise(1, 2, 2), packed=True)) == "IDX"


def test_a_single_picture_has_no_label(tmp_path: Path):
    write_images(tmp_path, {"cat": [noise(4, 4)]})
    assert refusal(parts_of, tmp_path / "cat" / "0.png") == (
        "labelled images must come in one folder for each class, but got the single image 0.png."
    )


def test_a_target_for_images_is_refused(tmp_path: Path):
    write_images(tmp_path / "pets", {"cat": [noise(4, 4)] * 2, "dog": [noise(4, 4)] * 2})
    assert refusal(prepare, DataConfig(data=tmp_path / "pets", target="kind"), 0) == (
        "a target is a column of a CSV or TSV, but got 'kind' for pets: leave it out."
    )
    assert refusal(prepare, DataConfig(target="kind"), 0) == (
        "a target is a column of a CSV or TSV, but got 'kind' for the embedded digits: leave it out."
    )
    assert refusal(prepare, DataConfig(data=tmp_path / "pets", ignore=("a", "b")), 0) == (
        "--ignore names columns of a table, but got a, b for pets: leave it out."
    )
    assert refusal(prepare, DataConfig(encoding="utf-16"), 0) == (
        "--encoding is that of a CSV or TSV, but got 'utf-16' for the embedded digits: leave it out."
    )


def test_only_a_folder_of_pictures_has_unreadable_ones_to_skip(tmp_path: Path):
    table = write_text(tmp_path / "a.csv", *ROWS)
    arrays = write_npz(tmp_path / "a.npz", x=noise(9, 4, 4), y=np.arange(9) % 2)
    memory = in_memory((np.zeros((4, 2)), [0, 1, 0, 1]))
    for data, name in (
        (table, "a.csv"),
        (arrays, "a.npz"),
        (memory, "arrays in memory"),
        (None, "the embedded digits"),
    ):
        assert refusal(prepare, DataConfig(data=data, skip_unreadable=True), 0) == (
            f"--skip-unreadable leaves out pictures of a folder, but got {name}: leave it out."
        )


def test_the_embedded_digits_are_no_regression():
    assert refusal(prepare, DataConfig(task="regression"), 0) == (
        "the embedded digits are classes, but got task 'regression': give data of your own."
    )


def test_a_class_of_one_example_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,kind", "1,cat", "2,cat", "3,dog", "4,mouse", "5,mouse")
    assert refusal(prepare, DataConfig(data=path, target="kind"), 0) == (
        "a.csv must hold at least 2 examples of each class, one to learn from and one to score, "
        "but got 1 of class 'dog': "
        "add more, or remove the class."
    )


def test_a_single_row_is_refused(tmp_path: Path):
    path = write_text(tmp_path / "a.csv", "x,y", "1,0.5")
    assert refusal(prepare, DataConfig(data=path, target="y"), 0) == (
        "a.csv must hold at least 2 examples, one to learn from and one to score, but got 1."
    )


def test_a_single_class_is_refused(tmp_path: Path):
    write_images(tmp_path / "pets", {"cat": [noise(4, 4)] * 3})
    assert refusal(parts_of, tmp_path / "pets") == "pets must have at least 2 classes, but got only 'cat'."


def test_a_class_that_only_the_test_part_has_is_refused(tmp_path: Path):
    write_mnist(tmp_path, "train", noise(4, 4, 4), [0, 1, 0, 1])
    write_mnist(tmp_path, "t10k", noise(2, 4, 4), [1, 2])
    assert refusal(parts_of, tmp_path) == (
        "each label must be a class of the training data, "
        "but got '2' (t10k-images-idx3-ubyte[1]): the classes are 0, 1."
    )


def test_a_test_part_of_another_size_is_refused(tmp_path: Path):
    path = write_npz(
        tmp_path / "a.npz", x=noise(4, 4, 4), y=np.array([0, 1, 0, 1]), x_test=noise(2, 5, 5), y_test=np.array([0, 1])
    )
    assert refusal(parts_of, path) == (
        "the test part of a.npz must hold grey images of 4×4, as the training data did, but got grey images of 5×5."
    )


def test_data_without_a_part_to_train_on_is_refused(tmp_path: Path):
    path = write_npz(tmp_path / "a.npz", x_test=noise(2, 5, 5), y_test=np.array([0, 1]))
    assert refusal(parts_of, path) == "a.npz must have a part to train on, but got only test."


def test_text_to_predict_is_no_regression(tmp_path: Path):
    config = DataConfig(data=write_text(tmp_path / "a.csv", *ROWS), target="answer", task="regression")
    assert (
        refusal(prepare, config, 0)
        == "regression predicts numbers, but got labels such as 'no': use --task classification."
    )


def test_a_model_of_images_refuses_tables_and_a_model_of_rows_refuses_images(tmp_path: Path):
    table = write_text(tmp_path / "a.csv", *ROWS)
    rows = parts_of(table, target="answer").train.schema
    write_images(tmp_path, {"cat": [noise(4, 4, 3)]})
    sentence = "this model was trained on grey images of 4×5, but got the table a.csv: give images, IDX or NPZ."
    assert refusal(read_inputs, [table], GREY) == sentence
    assert refusal(read_labelled, table, GREY) == sentence
    assert refusal(read_inputs, [tmp_path / "cat" / "0.png"], rows) == (
        "this model was trained on rows of 3 features, but got the image 0.png: give a CSV, TSV or NPZ."
    )


def test_a_prediction_of_nothing_is_refused(tmp_path: Path):
    assert refusal(read_inputs, [], GREY) == "a prediction needs at least one file, but got none."
    (tmp_path / "empty").mkdir()
    assert refusal(read_inputs, [tmp_path / "empty"], GREY) == "the folder empty must hold images, but got none."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"validation": 0.6}, "validation must be at most 0.5, but got 0.6."),
        ({"test": 0.0}, "test must be at least 0.01, but got 0.0."),
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, Any], sentence: str):
    assert refusal(lambda: DataConfig(**options)) == sentence


# --- weights --------------------------------------------------------------------------------------------------------

WEIGHTED = ("age,colour,w,answer", *["1,red,2,yes", "2,blue,0.5,no", "3,red,1,", "4,blue,0,no", "5,red,3,yes"] * 5)


def weighted(source: Any, **options: Any) -> Splits[Examples]:
    return prepare(ClassificationDataConfig(data=source, target="answer", **options), 0)


def test_a_column_of_weights_is_no_input_and_stays_with_its_rows(tmp_path: Path):
    path = write_text(tmp_path / "rows.csv", *WEIGHTED)
    splits = weighted(path, weight_column="w")
    assert [column.name for column in splits.train.schema.columns] == ["age", "colour"]
    assert splits.notes[-2:] == [
        "5 of 25 rows have no target and are left out (first: row 4).",
        "5 of 20 examples have a weight of 0 and are left out (first: rows.csv row 5).",
    ]
    for part in splits.parts.values():
        assert part.weights is not None
        expected = {1.0: 2.0, 2.0: 0.5, 5.0: 3.0}
        assert part.weights.tolist() == [expected[age] for age in part.inputs[:, 0].tolist()]
    assert sum(sizes(splits)) == 15
    plain = weighted(path, ignore=("w",))
    assert plain.train.weights is None


def test_weights_of_tables_and_arrays_in_memory_are_those_of_files(tmp_path: Path):
    path = write_text(tmp_path / "rows.csv", *WEIGHTED)
    table = pd.read_csv(path)
    by_name = weighted(in_memory(table), weight_column="w")
    given = table[table.answer.notna()]
    apart = prepare(
        ClassificationDataConfig(data=in_memory((given[["age", "colour"]], given.answer, given.w)), target=None), 0
    )
    for splits in (by_name, apart):
        for part, same in zip(splits.parts.values(), weighted(path, weight_column="w").parts.values(), strict=True):
            torch.testing.assert_close(part.weights, same.weights)
            torch.testing.assert_close(part.inputs, same.inputs)
    arrays = (np.arange(20.0)[:, None], np.arange(20) % 2, np.arange(20))
    splits = prepare(ClassificationDataConfig(data=in_memory(arrays)), 0)
    for part in splits.parts.values():
        assert part.weights is not None
        assert part.weights.tolist() == part.inputs[:, 0].tolist()
    assert sum(sizes(splits)) == 19


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("-1", "a weight must be a finite number, 0 or more, but got -1 (rows.csv row 2)."),
        ("nan", "row 2, column 'w' of rows.csv must hold a value, but got 'nan': fill it in or remove the row."),
        ("much", "row 2, column 'w' of rows.csv must hold a finite number, but got 'much'."),
    ],
)
def test_bad_weights_are_refused_with_their_row(tmp_path: Path, cell: str, message: str):
    path = write_text(tmp_path / "rows.csv", WEIGHTED[0], f"1,red,{cell},yes", *WEIGHTED[2:])
    assert refusal(lambda: weighted(path, weight_column="w")) == message


def test_weights_are_a_column_of_their_own(tmp_path: Path):
    path = write_text(tmp_path / "rows.csv", *WEIGHTED)
    same = "the column of weights cannot be predicted, but got 'answer' for both."
    assert refusal(lambda: weighted(path, weight_column="answer")) == same
    ignored = "the column of weights cannot be ignored, but got 'w' for both."
    assert refusal(lambda: weighted(path, weight_column="w", ignore=("w",))) == ignored
    none = write_text(tmp_path / "none.csv", WEIGHTED[0], *["1,red,0,yes", "2,blue,0,no"] * 5)
    assert refusal(lambda: weighted(none, weight_column="w")) == (
        "some weight of none.csv must be above 0, but got 0 for every example."
    )
    unknown = refusal(lambda: weighted(path, weight_column="weight"))
    assert "'weight'" in unknown
    assert "rows.csv" in unknown
    short = (np.zeros((4, 2)), np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0]))
    assert refusal(lambda: in_memory(short)) == (
        "x and weights of the arrays in memory must be equally long, but got 4 and 3."
    )
