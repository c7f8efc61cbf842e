from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from neuropil.data.examples.files import ImageDataConfig
from neuropil.data.examples.unlabelled import prepare_unlabelled, read_unlabelled
from neuropil.data.formats.memory import in_memory
from neuropil.errors import InputError


def draw(folder: Path, count: int, size: tuple[int, int] = (10, 10), mode: str = "L") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(len(str(folder)))
    for index in range(count):
        pixels = numbers.integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).convert(mode).save(folder / f"{index}.png")


def test_without_data_the_embedded_digits_keep_their_classes():
    splits = prepare_unlabelled(ImageDataConfig(), 0)
    assert splits.train.schema.classes == tuple("0123456789")
    assert splits.train.schema.shape == (1, 8, 8)


def test_images_in_one_folder_need_no_classes(tmp_path: Path):
    draw(tmp_path / "faces", 20, mode="RGB")
    splits = prepare_unlabelled(ImageDataConfig(data=tmp_path / "faces"), 0)
    assert splits.train.schema.classes == ()
    assert splits.train.schema.shape == (3, 10, 10)
    assert [len(part) for part in splits.parts.values()] == [14, 2, 4]
    assert splits.train.source == "20 colour images of 10×10 without labels (faces)"


def test_a_single_folder_in_the_folder_is_no_class(tmp_path: Path):
    draw(tmp_path / "all" / "faces", 20)
    assert prepare_unlabelled(ImageDataConfig(data=tmp_path / "all"), 0).train.schema.classes == ()


def test_folders_of_classes_are_labels(tmp_path: Path):
    draw(tmp_path / "a", 10)
    draw(tmp_path / "b", 10)
    splits = prepare_unlabelled(ImageDataConfig(data=tmp_path), 0)
    assert splits.train.schema.classes == ("a", "b")


def test_folders_of_parts_are_kept_as_they_are(tmp_path: Path):
    draw(tmp_path / "train", 12)
    draw(tmp_path / "test", 5)
    splits = prepare_unlabelled(ImageDataConfig(data=tmp_path, validation=0), 0)
    assert (len(splits.train), len(splits.test)) == (12, 5)


@pytest.mark.parametrize("labelled", [True, False])
def test_images_get_the_size_that_is_asked_for(tmp_path: Path, labelled: bool):
    for name in "ab":
        draw(tmp_path / name if labelled else tmp_path, 6, size=(30 if name == "a" else 40, 20))
    splits = prepare_unlabelled(ImageDataConfig(data=tmp_path, image_size=16), 0)
    assert splits.train.schema.shape == (1, 16, 16)
    noted = splits.train.source if labelled else splits.notes[0]
    assert "resized to 16×16" in noted


def test_a_size_is_for_folders_of_images(tmp_path: Path):
    np.savez(tmp_path / "x.npz", x=np.zeros((9, 8, 8), np.uint8))
    for data, named in ((tmp_path / "x.npz", "x.npz"), (None, "the embedded digits")):
        with pytest.raises(InputError) as error:
            prepare_unlabelled(ImageDataConfig(data=data, image_size=16), 0)
        assert str(error.value) == f"--image-size is for a folder of images, but got 16 for {named}: leave it out."


def test_arrays_need_no_labels(tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (30, 9, 9), dtype=np.uint8)
    np.savez(tmp_path / "plain.npz", images=images)
    splits = prepare_unlabelled(ImageDataConfig(data=tmp_path / "plain.npz"), 0)
    assert splits.train.schema.shape == (1, 9, 9)
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).normal(size=(30, 2)))
    rows = prepare_unlabelled(ImageDataConfig(data=tmp_path / "rows.npz"), 0)
    assert rows.train.schema.kind == "table"
    assert rows.train.inputs.dtype == torch.float32
    memory = prepare_unlabelled(ImageDataConfig(data=in_memory(images)), 0)
    assert torch.equal(memory.train.inputs, splits.train.inputs)


def test_parts_of_arrays_in_memory_are_kept():
    images = np.random.default_rng(0).integers(0, 256, (30, 9, 9), dtype=np.uint8)
    parts = in_memory({"train": images[:20], "test": images[20:]}, parts=True)
    splits = prepare_unlabelled(ImageDataConfig(data=parts), 0)
    assert torch.equal(splits.test.inputs[:, 0], torch.from_numpy(images[20:]))
    assert len(splits.train) + len(splits.validation) == 20


def test_tables_are_refused(tmp_path: Path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(InputError) as error:
        prepare_unlabelled(ImageDataConfig(data=tmp_path / "rows.csv"), 0)
    assert str(error.value) == (
        "the data must be a folder of images, IDX or NPZ, but got the table rows.csv: write columns of numbers by "
        "numpy.savez('rows.npz', x=rows)."
    )


def test_an_empty_folder_is_refused(tmp_path: Path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError) as error:
        prepare_unlabelled(ImageDataConfig(data=tmp_path / "nothing"), 0)
    assert str(error.value) == "the folder nothing must hold images, but got an empty folder."


def test_examples_to_score_may_have_labels_or_not(tmp_path: Path):
    splits = prepare_unlabelled(ImageDataConfig(), 0)
    images = splits.test.inputs.numpy()
    np.savez(tmp_path / "both.npz", x=images, y=np.zeros(len(images)))
    np.savez(tmp_path / "alone.npz", x=images)
    for data in (tmp_path / "both.npz", tmp_path / "alone.npz", in_memory(images)):
        assert torch.equal(read_unlabelled(data, splits.train.schema).inputs, splits.test.inputs)


def test_rows_of_a_file_are_those_of_memory(tmp_path: Path):
    """Centred, where float32 would lose digits."""
    rows = 1.7e9 + np.random.default_rng(0).normal(size=(50, 2))
    np.savez(tmp_path / "rows.npz", x=rows)
    schema = prepare_unlabelled(ImageDataConfig(data=tmp_path / "rows.npz"), 0).train.schema
    of_file, of_memory = (read_unlabelled(source, schema).inputs for source in (tmp_path / "rows.npz", in_memory(rows)))
    assert any(schema.offsets)
    assert torch.equal(of_file, of_memory)
    assert of_file.abs().max() < 10
