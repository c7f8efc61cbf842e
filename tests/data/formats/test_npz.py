import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from data.written_files import noise, refusal
from neuropil.data.examples.dataset import Labels, LabelSets
from neuropil.data.formats.arrays import describe_array
from neuropil.data.formats.npz import read_array_inputs, read_arrays


def write(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy's stub takes the names for its own options
    return path


@pytest.mark.parametrize(
    ("x", "y"), [("x", "y"), ("X", "Y"), ("images", "labels"), ("inputs", "targets"), ("data", "target")]
)
def test_pairs_are_known_by_many_names(tmp_path: Path, x: str, y: str):
    pixels = noise(3, 4, 5)
    (part,) = read_arrays(write(tmp_path / "a.npz", **{x: pixels, y: np.array([2, 0, 1])})).parts.values()
    np.testing.assert_array_equal(part.inputs.values.numpy(), pixels[:, None])
    assert part.labels.values.tolist() == [2, 0, 1]
    assert part.inputs.name(2) == "a.npz[2]"


@pytest.mark.parametrize(
    "keys",
    [("x_train", "y_train", "x_test", "y_test"), ("train_images", "train_labels", "val_images", "val_labels")],
    ids=["keras", "medmnist"],
)
def test_parts_are_known_by_their_names(tmp_path: Path, keys: tuple[str, ...]):
    arrays = dict(zip(keys, (noise(3, 4, 4), np.arange(3)[:, None], noise(2, 4, 4), np.arange(2)), strict=True))
    parts = read_arrays(write(tmp_path / "a.npz", **arrays, unrelated=np.zeros(7))).parts
    assert [len(part.inputs) for part in parts.values()] == [3, 2]
    assert list(parts) == ["train", "test" if "x_test" in keys else "validation"]


@pytest.mark.parametrize("axes", ["NHWC", "NCHW"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_may_be_last_or_second(tmp_path: Path, axes: str, channels: int):
    first = noise(2, channels, 8, 9)
    stored = first if axes == "NCHW" else first.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(read_array_inputs(write(tmp_path / "a.npz", x=stored)).values.numpy(), first)


@pytest.mark.parametrize(
    "as_stored",
    [
        lambda x: x.astype(np.int64),
        lambda x: x.astype(np.float32),
        lambda x: x / 255,
        lambda x: (x / 255).astype(np.float32),
    ],
    ids=["int64", "float32", "fractions", "fractions32"],
)
def test_bytes_in_other_clothes_are_the_same_bytes(tmp_path: Path, as_stored):
    pixels = noise(2, 16, 16)
    np.testing.assert_array_equal(
        read_array_inputs(write(tmp_path / "a.npz", x=as_stored(pixels))).values.numpy()[:, 0], pixels
    )


def test_black_and_white_is_zero_and_255(tmp_path: Path):
    assert read_array_inputs(write(tmp_path / "a.npz", x=np.array([[[False, True]]]))).values.tolist() == [[[[0, 255]]]]


def test_rows_of_features_are_a_table_of_numbered_columns(tmp_path: Path):
    reading = read_arrays(write(tmp_path / "a.npz", x=np.array([[1.5, 2], [3, 4]]), y=np.array([0.5, 1.5])))
    assert [column.name for column in reading.columns] == ["feature 0", "feature 1"]
    assert reading.target == "y"
    assert reading.parts["train"].inputs.values.tolist() == [[1.5, 2], [3, 4]]


def test_a_single_axis_is_one_feature_of_each_example(tmp_path: Path):
    assert read_array_inputs(write(tmp_path / "a.npz", x=np.array([1.0, 2.0]))).values.tolist() == [[1], [2]]


@pytest.mark.parametrize("kind", ["U", "S"])
def test_labels_may_be_text(tmp_path: Path, kind: str):
    labels = (
        read_arrays(write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.array(["dog", "cat", "dog"]).astype(kind)))
        .parts["train"]
        .labels
    )
    assert (labels.values.tolist(), labels.names) == ([1, 0, 1], ("cat", "dog"))


def test_inputs_alone_are_the_test_part_or_the_only_array(tmp_path: Path):
    several = write(tmp_path / "a.npz", x_train=noise(3, 4, 4), x_test=noise(2, 4, 4))
    single = write(tmp_path / "b.npz", arr_0=noise(5, 4, 4))
    assert len(read_array_inputs(several)) == 2
    assert len(read_array_inputs(single)) == 5


def test_unknown_names_are_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", pictures=noise(3, 4, 4), y=np.arange(3))
    assert refusal(read_arrays, path) == (
        "a.npz must hold x and y, images and labels, inputs and targets, or x_train, y_train, x_test and y_test, "
        "but got pictures, y: rename the arrays."
    )
    assert (
        refusal(read_array_inputs, path)
        == "a.npz must hold x, images or inputs, but got pictures, y: rename the array of inputs."
    )
    assert refusal(read_array_inputs, write(tmp_path / "b.npz")) == (
        "b.npz must hold x, images or inputs, but got no arrays: rename the array of inputs."
    )


def test_inputs_without_labels_are_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", x_train=noise(3, 4, 4), y_test=np.arange(3))
    assert refusal(read_arrays, path) == "a.npz must hold the labels of x_train, but got x_train, y_test."


def test_two_arrays_for_one_thing_are_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), images=noise(3, 4, 4), y=np.arange(3))
    assert refusal(read_arrays, path) == "a.npz must hold each thing once, but got x and images: remove one of the two."


def test_differing_counts_are_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.arange(2))
    assert refusal(read_arrays, path) == "x and y of a.npz must belong together, but got 3 examples and 2 labels."


def test_python_objects_are_never_unpickled(tmp_path: Path):
    path = write(tmp_path / "a.npz", x=np.array([{}, []], dtype=object), y=np.arange(2))
    assert refusal(read_arrays, path) == (
        "the arrays of a.npz must hold numbers or text, "
        "but got Python objects, which could run code when they are read: "
        "give the array a dtype before np.savez."
    )


@pytest.mark.parametrize("content", [b"", b"no zip", None], ids=["empty", "text", "cut off"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes | None):
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.arange(3))
    path.write_bytes(path.read_bytes()[:200] if content is None else content)
    assert (
        refusal(read_arrays, path)
        == "a.npz must be a whole NPZ file, but got a damaged or different one: write it with np.savez."
    )


def test_a_single_array_under_the_name_of_a_bundle_is_refused(tmp_path: Path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.arange(3))
    assert refusal(read_arrays, tmp_path / "a.npz") == (
        "a.npz must be a whole NPZ file, but got a damaged or different one: write it with np.savez."
    )


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.zeros((2, 3, 3, 3, 3)), "2×3×3×3×3 values of type float64"),
        (np.zeros((0, 3)), "0×3 values of type float64"),
        (np.array(["a", "b"]), "2 values of type str32"),
        (np.array(1.0), "a single value of type float64"),
    ],
)
def test_inputs_of_other_shapes_and_types_are_refused(tmp_path: Path, array: np.ndarray, got: str):
    assert (
        refusal(read_array_inputs, write(tmp_path / "a.npz", x=array))
        == f"x of a.npz must be images or rows of features, but got {got}."
    )


def test_images_of_other_channels_are_refused(tmp_path: Path):
    assert refusal(read_array_inputs, write(tmp_path / "a.npz", x=noise(2, 8, 9, 7))) == (
        "x of a.npz must be images of 1, 3 or 4 channels, last or second of its axes, "
        "but got 2×8×9×7 values of type uint8."
    )


def test_images_outside_of_bytes_are_refused(tmp_path: Path):
    assert refusal(read_array_inputs, write(tmp_path / "a.npz", x=np.array([[[-1.0, 1.0]]]))) == (
        "x of a.npz must be images with values 0 to 255, or 0 to 1, but got -1 to 1: undo their standardisation, "
        "which is part of the model."
    )


def test_missing_values_of_features_have_an_indicator(tmp_path: Path):
    features = np.array([[1, 2], [np.nan, 3], [4, 5]])
    path = write(tmp_path / "a.npz", x=features, y=np.array([0, 1, 0]))
    reading = read_arrays(path)
    assert [column.missing for column in reading.columns] == [True, False]
    np.testing.assert_array_equal(reading.parts["train"].inputs.values, [[1, 0, 2], [np.nan, 1, 3], [4, 0, 5]])
    assert reading.notes[0].startswith("Missing values: 1 in 'feature 0'; ")
    whole = write(tmp_path / "b.npz", x=np.ones((2, 2)), y=np.array([0, 1]))
    assert read_arrays(whole, reading.columns).held_out.inputs.values.tolist() == [[1, 0, 1], [1, 0, 1]]
    assert read_array_inputs(whole, reading.columns).values.tolist() == [[1, 0, 1], [1, 0, 1]]


def test_missing_pixels_are_refused(tmp_path: Path):
    pixels = np.ones((2, 3, 3))
    pixels[1, 2, 0] = np.nan
    assert refusal(read_array_inputs, write(tmp_path / "a.npz", x=pixels)) == (
        "x of a.npz must be finite numbers, but got nan at [1, 2, 0]: fill it in or remove its row."
    )


@pytest.mark.parametrize("key", ["classes", "class_names", "target_names"])
def test_class_names_are_those_of_the_file(tmp_path: Path, key: str):
    names, labels = np.array(["setosa", "virginica", "iris"]), np.array([2, 0, 1, 0])
    found = read_arrays(write(tmp_path / "a.npz", x=noise(4, 4, 4), y=labels, **{key: names})).parts["train"].labels
    assert isinstance(found, Labels)
    assert [found.named()[1][place] for place in found.named()[0]] == ["iris", "setosa", "virginica", "setosa"]


def test_class_names_that_do_not_fit_are_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.array([0, 1, 2]), classes=np.array(["cat", "dog"]))
    assert refusal(read_arrays, path) == "y of a.npz must number its 2 class names from 0 to 1, but got 2 at [2]."
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.array([0, 1, 1]), classes=np.array(["cat", "cat"]))
    assert refusal(read_arrays, path) == (
        "classes of a.npz must hold a different name for each class, but got 2 values of type str96."
    )


@pytest.mark.parametrize(("bad", "numbers"), [(np.inf, "finite numbers"), (1e300, "numbers within ±3.4e38")])
def test_a_number_that_single_precision_does_not_hold_is_named_with_its_place(tmp_path: Path, bad: float, numbers: str):
    features = np.ones((3, 4))
    features[2, 1] = bad
    assert refusal(read_array_inputs, write(tmp_path / "a.npz", x=features)) == (
        f"x of a.npz must be {numbers}, but got {bad} at [2, 1]: fill it in or remove its row."
    )
    path = write(tmp_path / "a.npz", x=np.ones((3, 4)), y=np.array([0, bad, 1]))
    assert (
        refusal(read_arrays, path)
        == f"y of a.npz must be {numbers}, but got {bad} at [1]: fill it in or remove its row."
    )


def test_columns_of_zeros_and_ones_are_labels(tmp_path: Path):
    y = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]])
    labels = read_arrays(
        write(tmp_path / "a.npz", x=noise(3, 4, 4), y=y, classes=np.array(["a", "b", "c"]))
    ).held_out.labels
    assert isinstance(labels, LabelSets)
    assert (labels.values.tolist(), labels.names) == (y.astype(bool).tolist(), ("a", "b", "c"))
    assert refusal(read_arrays, write(tmp_path / "b.npz", x=noise(3, 4, 4), y=y * 2)) == (
        "y of b.npz must hold 0 and 1, as there are several columns of it, but got 2 at [0, 0]."
    )
    assert refusal(read_arrays, write(tmp_path / "c.npz", x=noise(3, 4, 4), y=y, classes=np.array(["a", "b"]))) == (
        "y of c.npz must have a column for each of its 2 names, but got 3."
    )


def test_arrays_are_put_in_words():
    assert describe_array(np.zeros((2, 3), dtype=np.int16)) == "2×3 values of type int16"


DAMAGED = "a.npz must be a whole NPZ file, but got a damaged or different one: write it with np.savez."


def zipped(path: Path, method: int, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_packings_that_numpy_does_not_write_are_refused(tmp_path: Path, method: int):
    """A few bytes of them unpack to any number."""
    assert refusal(read_arrays, zipped(tmp_path / "a.npz", method, x=b"\0" * 10_000, y=b"")) == DAMAGED


def test_a_member_that_promises_more_than_its_bytes_can_hold_is_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.arange(3))
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)
    tracemalloc.start()
    assert refusal(read_arrays, path) == DAMAGED
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_is_there_twice_is_refused(tmp_path: Path):
    path = write(tmp_path / "a.npz", x=noise(3, 4, 4), y=np.arange(3))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", archive.read("x.npy"))
    assert refusal(read_arrays, path) == "a.npz must hold each array once, but got 'x' twice: remove one of the two."
