"""Pictures that are read when they are needed are those that are all read before."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import neuropil
from neuropil import memory
from neuropil.data.examples import dataset
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.embedded import load_digits
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.data.formats import images, picture_files
from neuropil.data.formats.picture_files import PictureFiles
from neuropil.data.splits import Splits
from neuropil.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits, some of them twice, in deep folders too."""
    root, digits = tmp_path_factory.mktemp("pictures") / "digits", load_digits()
    for index in range(160):
        inside = root / str(int(digits.targets[index]) % 3) / ("deep/er" if index % 5 == 0 else "")
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits.inputs[index, 0].numpy()).save(inside / f"ü{index}.png")
    for copy in range(20):
        shutil.copy(
            root / str(int(digits.targets[1 + 5 * copy]) % 3) / f"ü{1 + 5 * copy}.png", root / "1" / f"{copy}.png"
        )
    return root


@pytest.fixture
def lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the pictures were too many."""
    monkeypatch.setattr(images, "MOST_IN_MEMORY", 1_000)
    monkeypatch.setattr(dataset, "FEW", 10)


def both(path: Path, **options: object) -> tuple[Splits[Examples], Splits[Examples]]:
    return prepare(DataConfig(data=path, **options), 3, lazily=True), prepare(DataConfig(data=path, **options), 3)  # type: ignore[arg-type]


def test_the_parts_are_those_of_pictures_in_memory(folder: Path, lazily: None):
    in_files, in_memory = both(folder)
    for name, part in in_files.parts.items():
        assert isinstance(part.inputs, PictureFiles)
        assert torch.equal(part.inputs[:], in_memory.parts[name].inputs)
        assert torch.equal(part.targets, in_memory.parts[name].targets)
        assert part.schema == in_memory.parts[name].schema
    assert in_files.train.source == in_memory.train.source
    assert in_memory.notes == []
    assert in_files.notes == ["The images would take 11.5 kB and are read from their files when needed."]


def test_batches_are_those_of_pictures_in_memory_from_any_on(folder: Path, lazily: None):
    in_files, in_memory = both(folder, image_size=12)
    for shuffle in (True, False):
        batches = [ExampleBatches(part, 16, 5, shuffle=shuffle) for part in (in_files.train, in_memory.train)]
        for start in (0, 3):
            for a, b in zip(*(each.epoch(2, start) for each in batches), strict=True):
                assert torch.equal(a["input"], b["input"])
                assert torch.equal(a["target"], b["target"])


def test_what_is_taken_by_a_number_a_slice_or_an_index_is_that_of_a_tensor(folder: Path, lazily: None):
    in_files, in_memory = (splits.train.inputs for splits in both(folder))
    index = torch.tensor([5, 0, 40])
    assert isinstance(in_files, PictureFiles)
    assert in_files.shape == in_memory.shape
    assert torch.equal(in_files[7], in_memory[7])
    assert torch.equal(in_files[-1], in_memory[-1])
    assert torch.equal(in_files[20:25], in_memory[20:25])
    assert torch.equal(in_files.index_select(0, index), in_memory[index])
    assert torch.equal(in_files.take(index)[:], in_memory[index])
    assert torch.equal(torch.cat([*in_files.split(13)]), in_memory[:])


def test_a_few_are_read_when_they_are_taken(folder: Path, lazily: None):
    train = both(folder)[0].train
    assert isinstance(train.take(torch.arange(11)).inputs, PictureFiles)
    assert isinstance(train.take(torch.arange(10)).inputs, torch.Tensor)


def test_what_stands_for_all_is_spread_and_bounded(folder: Path, lazily: None, monkeypatch: pytest.MonkeyPatch):
    train = both(folder)[0].train
    assert torch.equal(train.sample.inputs, train.inputs[:])
    monkeypatch.setattr(picture_files, "SAMPLED", 12)
    assert train.inputs.spread.diff().max() <= 2 * train.inputs.spread.diff().min()
    monkeypatch.setattr(picture_files, "SAMPLED_BYTES", 64 * 5)
    assert len(train.sample) == 5


def test_a_run_on_pictures_in_files_ends_with_the_same_weights(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = {"data": folder, "updates": 12, "report": False, "show_progress": False, "batch_size": 32}
    in_memory = neuropil.train("cnn", out=tmp_path / "memory", **options)
    monkeypatch.setattr(images, "MOST_IN_MEMORY", 1_000)
    monkeypatch.setattr(dataset, "FEW", 10)
    in_files = neuropil.train("cnn", out=tmp_path / "files", **options)
    for name, weights in in_memory.model.state_dict().items():
        assert torch.equal(weights, in_files.model.state_dict()[name]), name
    assert in_memory.metrics == in_files.metrics
    # A run knows again what it learned from, however it was read.
    for run in (in_memory, in_files):
        with pytest.warns(UserWarning, match="130 of 180 examples were in the training part of this run."):
            run.evaluate(folder)


def test_the_names_of_many_pictures_are_those_that_a_walk_would_find(tmp_path: Path):
    for name in (
        "b/1.png",
        "b-c/2.PNG",
        "b/a/3.jpg",
        "b/a.jpg",
        ".hidden/4.png",
        "b/.5.png",
        "b/6.txt",
        "é/7.gif",
        "10.png",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "folder.png").mkdir()
    found = images.images_below(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        "10.png",
        "b/1.png",
        "b/a/3.jpg",
        "b/a.jpg",
        "b-c/2.PNG",
        "é/7.gif",
    ]
    assert found == sorted(found)


# --- copies -----------------------------------------------------------------------------------------------------------


def written(folder: Path, **contents: bytes) -> PictureFiles:
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return PictureFiles(
        folder, picture_files.as_names([*contents]), (1, 1, 1), lambda path, shape: torch.zeros(1, 1, 1)
    )


def test_keys_are_equal_for_equal_files_alone(tmp_path: Path):
    large = bytes(range(256)) * 2_000
    other, between = large[:-100] + b"*" * 100, large[:10_000] + b"*" * 100 + large[10_100:]  # where no piece is
    found = written(
        tmp_path, a=b"same", b=b"same", c=b"else", d=b"longer", e=large, f=large, g=other, h=between, i=between
    )
    keys = found.keys
    assert keys[0] == keys[1]
    assert keys[4] == keys[5]
    assert keys[7] == keys[8]
    assert len({*keys}) == 6
    assert found.take(torch.tensor([6, 0])).keys[1] != keys[6]


def test_the_data_is_known_again_by_names_and_sizes(tmp_path: Path):
    found = written(tmp_path, a=b"one", b=b"two")
    before = found.fingerprint
    assert torch.equal(found.fingerprint, before)
    (tmp_path / "b").write_bytes(b"three")
    assert not torch.equal(found.fingerprint, before)


# --- bad pictures -----------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for number in range(40):
        inside = tmp_path / "mixed" / ("a" if number % 2 else "b")
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 255, (30, 30), np.uint8)).save(inside / f"{number:02}.png")
    bad = tmp_path / "mixed" / "a" / "11.png"
    bad.write_bytes(bad.read_bytes()[:300])
    return tmp_path / "mixed"


def test_a_bad_picture_is_named_when_it_is_met(damaged: Path, lazily: None):
    train = prepare(DataConfig(data=damaged, validation=0.0, test=0.1), 0, lazily=True).train
    sentence = f"each image must be readable, but got {damaged / 'a/11.png'}, which is damaged or no image: "
    with pytest.raises(InputError) as error:
        for _ in ExampleBatches(train, 8, 0, shuffle=True).epoch(0):
            pass
    assert str(error.value) == f"{sentence}mend or remove it."


def test_bad_pictures_are_found_before_where_they_are_to_be_left_out(damaged: Path, lazily: None):
    config = DataConfig(data=damaged, skip_unreadable=True)
    in_files, in_memory = prepare(config, 0, lazily=True), prepare(config, 0)
    assert in_files.notes[0] == in_memory.notes[0] == "1 of 40 images cannot be read and is left out: a/11.png."
    assert torch.equal(in_files.train.inputs[:], in_memory.train.inputs)


def test_of_many_pictures_some_tell_the_size(damaged: Path, lazily: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(images, "LOOKED_AT", 7)
    splits = prepare(DataConfig(data=damaged, image_size=20), 0, lazily=True)
    assert splits.train.schema.shape == (1, 20, 20)
    assert splits.notes == [
        "The images would take 16 kB and are read from their files when needed; 7 of them tell the common size."
    ]


def test_pictures_that_fit_nowhere_are_refused_before_they_are_read(
    damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "meminfo").write_text("MemAvailable:  10 kB\n")
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    with pytest.raises(InputError) as error:
        prepare(DataConfig(data=damaged), 0)
    assert str(error.value) == (
        "40 images of 30×30 must fit into memory, but got at least 36 kB, of 10.2 kB free: choose smaller sizes."
    )
