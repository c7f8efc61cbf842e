import gzip
import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from data.written_files import IDX_CODES, idx_bytes, noise, refusal, write_idx, write_mnist
from neuropil.data.formats.idx import read_array, read_idx, read_idx_inputs, read_images

shapes = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)
any_array = st.sampled_from(sorted(IDX_CODES)).flatmap(lambda dtype: arrays.arrays(dtype, shapes))


@settings(deadline=None, max_examples=60)
@given(any_array, st.booleans())
def test_an_array_of_any_type_comes_back_as_it_was_written(array: np.ndarray, packed: bool):
    with tempfile.TemporaryDirectory() as folder:
        read = read_array(write_idx(Path(folder) / "array-idx", array, packed=packed))
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("shape", [(5, 4, 3), (5, 4, 3, 3)])
def test_images_come_with_channels_first(tmp_path: Path, shape: tuple[int, ...]):
    pixels = noise(*shape)
    images = read_images(write_idx(tmp_path / "images", pixels))
    assert images.shape == (5, 1 if len(shape) == 3 else 3, 4, 3)
    np.testing.assert_array_equal(images.numpy().transpose(0, 2, 3, 1).reshape(shape), pixels)


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
        ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte"),
        ("train-images.idx3-ubyte", "train-labels.idx1-ubyte.gz"),
        ("emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte"),
        ("my-images.bin", "my-labels.bin"),
    ],
)
def test_the_labels_are_found_beside_the_images(tmp_path: Path, images: str, labels: str):
    write_idx(tmp_path / images, noise(3, 2, 2), packed=images.endswith(".gz"))
    write_idx(tmp_path / labels, np.array([7, 8, 9], dtype=np.uint8), packed=labels.endswith(".gz"))
    part = read_idx(tmp_path / images).parts["train"]
    assert part.labels.values.tolist() == [7, 8, 9]
    assert part.inputs.name(1) == f"{images}[1]"


def test_packed_files_are_known_by_how_they_begin_and_not_by_their_names(tmp_path: Path):
    pixels = noise(3, 2, 2)
    write_idx(tmp_path / "plain.gz", pixels)
    write_idx(tmp_path / "packed", pixels, packed=True)
    assert torch.equal(read_images(tmp_path / "plain.gz"), read_images(tmp_path / "packed"))


def test_a_folder_brings_its_own_test_part(tmp_path: Path):
    write_mnist(tmp_path, "train", noise(6, 2, 2), [0, 1, 0, 1, 0, 1])
    write_mnist(tmp_path, "t10k", noise(2, 2, 2, seed=1), [1, 0], packed=True)
    reading = read_idx(tmp_path)
    assert {name: part.labels.values.tolist() for name, part in reading.parts.items()} == {
        "train": [0, 1, 0, 1, 0, 1],
        "test": [1, 0],
    }
    assert torch.equal(read_idx_inputs(tmp_path).values, reading.parts["test"].inputs.values)


def test_a_file_that_is_there_packed_and_unpacked_counts_once(tmp_path: Path):
    for packed in (True, False):
        write_mnist(tmp_path, "train", noise(2, 2, 2), [0, 1], packed=packed)
    assert len(read_idx(tmp_path).parts["train"].inputs) == 2


def test_two_training_files_in_a_folder_are_refused(tmp_path: Path):
    folder = tmp_path / "emnist"
    folder.mkdir()
    for name in ("letters-train", "digits-train"):
        write_mnist(folder, name, noise(2, 2, 2), [0, 1])
    assert refusal(read_idx, folder) == (
        "the folder emnist must hold one IDX file of images for each part, but got digits-train-images-idx3-ubyte and "
        "letters-train-images-idx3-ubyte: give the file that you want."
    )


def test_a_folder_of_labels_alone_is_refused(tmp_path: Path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    write_idx(folder / "train-labels-idx1-ubyte", np.zeros(3, dtype=np.uint8))
    assert (
        refusal(read_idx, folder)
        == "the folder mnist must hold IDX images, but got labels only: add train-images-idx3-ubyte."
    )


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path):
    path = tmp_path / "images-idx3-ubyte"
    content = idx_bytes(noise(10, 4, 4))
    path.write_bytes(content[:100])
    assert refusal(read_images, path) == (
        "images-idx3-ubyte must be 176 bytes long for 10×4×4 values, as its header says, "
        "but got 100: copy or download it again."
    )
    path.write_bytes(content[:9])
    assert (
        refusal(read_images, path)
        == "images-idx3-ubyte must hold a whole IDX header of 16 bytes, but got 9: copy or download it again."
    )
    path.write_bytes(content + b"more")
    assert refusal(read_images, path) == (
        "images-idx3-ubyte must be 176 bytes long for 10×4×4 values, as its header says, "
        "but got more: copy or download it again."
    )


@pytest.mark.parametrize("cut", [5, 15, 60])
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path, cut: int):
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx_bytes(noise(10, 4, 4)))[:cut])
    assert refusal(read_images, path) == (
        "images-idx3-ubyte.gz must be a whole gzip file, "
        "but got one that is cut off or damaged: copy or download it again."
    )


def test_something_else_under_the_name_of_idx_is_refused(tmp_path: Path):
    path = tmp_path / "images-idx3-ubyte"
    rule = (
        "images-idx3-ubyte must begin as an IDX file does, with two zero bytes, a type and the number of axes, but got"
    )
    path.write_bytes(b"\x89PNG and so on")
    assert refusal(read_images, path) == f"{rule} the bytes 89 50 4e 47."
    path.write_bytes(b"")
    assert refusal(read_images, path) == f"{rule} an empty file."


def test_labels_where_images_are_expected_are_refused(tmp_path: Path):
    path = write_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(60, dtype=np.uint8))
    assert refusal(read_idx, path) == (
        "train-labels-idx1-ubyte must hold images: bytes on 3 or 4 axes, but got 60 values of type uint8: "
        "give the file of images; its labels are found beside it."
    )


def test_images_where_labels_are_expected_are_refused(tmp_path: Path):
    path = write_idx(tmp_path / "a-images-idx3-ubyte", noise(2, 3, 3))
    write_idx(tmp_path / "a-labels-idx1-ubyte", noise(2, 3, 3))
    assert (
        refusal(read_idx, path)
        == "a-labels-idx1-ubyte must hold labels: one axis of whole numbers, but got 2×3×3 values of type uint8."
    )


def test_images_that_are_no_bytes_are_refused(tmp_path: Path):
    path = write_idx(tmp_path / "images", np.zeros((2, 3, 3), dtype=np.float32))
    assert (
        refusal(read_images, path)
        == "images must hold images: bytes on 3 or 4 axes, but got 2×3×3 values of type float32."
    )


def test_lengths_that_no_memory_has_are_refused_beside_an_axis_of_none(tmp_path: Path):
    path = tmp_path / "images"
    path.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    assert refusal(read_array, path) == ("images must have axes of ordinary lengths, but got 4294967295×4294967295×0.")


def test_no_images_at_all_are_refused(tmp_path: Path):
    path = write_idx(tmp_path / "images", np.zeros((0, 28, 28), dtype=np.uint8))
    assert refusal(read_images, path) == "images must hold at least one image, but got 0×28×28 values of type uint8."


def test_differing_counts_are_refused(tmp_path: Path):
    path = write_mnist(tmp_path, "train", noise(3, 2, 2), [0, 1])
    assert refusal(read_idx, path) == (
        "train-images-idx3-ubyte and train-labels-idx1-ubyte must belong together, but got 3 images and 2 labels."
    )


def test_images_without_labels_are_refused(tmp_path: Path):
    fix = "name the two files as MNIST does, train-images-idx3-ubyte and train-labels-idx1-ubyte."
    path = write_idx(tmp_path / "train-images-idx3-ubyte", noise(3, 2, 2))
    assert refusal(read_idx, path) == (
        f"the labels of train-images-idx3-ubyte must stand beside it, but got no file train-labels-idx1-ubyte: {fix}"
    )
    path = write_idx(tmp_path / "pixels.bin", noise(3, 2, 2))
    assert refusal(read_idx, path) == f"the labels of pixels.bin must stand beside it, but got no such file: {fix}"


def test_no_more_is_unpacked_than_the_header_says(tmp_path: Path):
    """A hundred million zeros after a header that says one."""
    path = tmp_path / "images-idx3-ubyte.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, 1, 1, 1))
        for _ in range(10):
            file.write(bytes(10**7))
    tracemalloc.start()
    sentence = refusal(read_images, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sentence == (
        "images-idx3-ubyte.gz must be 17 bytes long for 1×1×1 values, as its header says, "
        "but got more: copy or download it again."
    )
    assert most < 10**7


def test_a_header_that_says_more_than_there_can_be_is_refused(tmp_path: Path):
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, *(2**32 - 1,) * 3) + b"abc")
    assert refusal(read_images, path) == (
        f"images-idx3-ubyte must be {16 + (2**32 - 1) ** 3:,} bytes long for 4294967295×4294967295×4294967295 values, "
        "as its header says, but got 19: copy or download it again."
    )
