from pathlib import Path

import pytest
import torch
from PIL import Image

from data.written_files import noise, refusal, write_text
from neuropil.data.captions.sources import CaptionDataConfig, prepare_captions


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = []
    for index in range(12):
        Image.fromarray(noise(4, 4, seed=index)).save(tmp_path / f"{index}.png")
        rows += [
            f"{index}.png,picture {index}, said once".replace(", said", " said"),
            f"{index}.png,picture {index} again",
        ]
    return write_text(tmp_path / "c.csv", "image,caption", *rows)


def test_a_picture_is_in_one_part_with_all_its_captions(table: Path):
    splits = prepare_captions(CaptionDataConfig(data=table, validation=0.2, test=0.3), seed=1)
    parts = (splits.train, splits.validation, splits.test)
    assert sum(map(len, parts)) == 12
    assert all(len(captions) == 2 for part in parts for captions in part.captions)
    numbers = [{text.split()[1] for text in part.texts} for part in parts]
    assert not numbers[0] & numbers[1]
    assert not numbers[0] & numbers[2]
    assert not numbers[1] & numbers[2]
    assert min(map(len, numbers)) >= 1


def test_the_same_seed_gives_the_same_parts(table: Path):
    config = CaptionDataConfig(data=table)
    first, again = prepare_captions(config, seed=3), prepare_captions(config, seed=3)
    assert first.test.captions == again.test.captions
    assert torch.equal(first.train.pictures, again.train.pictures)


def test_the_embedded_scenes_are_as_many_as_are_asked_for():
    splits = prepare_captions(CaptionDataConfig(scenes=100, validation=0.0, test=0.2), seed=0)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [80, 0, 20]


def test_one_picture_is_too_few(tmp_path: Path):
    Image.fromarray(noise(4, 4)).save(tmp_path / "a.png")
    path = write_text(tmp_path / "c.csv", "image,caption", "a.png,one", "a.png,two")
    assert refusal(prepare_captions, CaptionDataConfig(data=path), 0) == (
        "c.csv must name at least 2 pictures, one to learn from and one to score, but got 1."
    )


def test_columns_belong_to_data_of_ones_own():
    assert refusal(prepare_captions, CaptionDataConfig(picture_column="image"), 0) == (
        "--picture-column belongs to captions of your own, but got the embedded scenes: leave it out or give --data."
    )
