import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from data.written_files import noise, refusal, write_text
from neuropil.data.captions.files import CaptionDataConfig, prepare_captions, read_captions
from neuropil.data.formats.memory import in_memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for index, name in enumerate(("cat.png", "dog.png", "sub/bird.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(noise(5, 7, seed=index)).save(tmp_path / name)
    return tmp_path


def test_a_picture_with_several_captions_is_one_picture(folder: Path):
    path = write_text(
        folder / "captions.csv", "image,caption", "cat.png,a cat", 'dog.png,"a dog, at home"', "cat.png,  an  animal "
    )
    data, notes = read_captions(path)
    assert data.captions == [["a cat", "an animal"], ["a dog, at home"]]
    np.testing.assert_array_equal(data.pictures[1, 0], noise(5, 7, seed=1))
    assert data.source == "2 grey images of 5×7 with 3 captions (captions.csv)"
    assert notes == ["In captions.csv, 'image' names the pictures and 'caption' says what is on them."]


@pytest.mark.parametrize("name", ["captions.tsv.gz", "captions.tsv"])
def test_tabs_and_gzip_and_folders(folder: Path, name: str):
    content = b"text\tlikes\tfile\na bird\t3\tsub/bird.png\na cat\t5\tcat.png\n"
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    data, _ = read_captions(folder / name)
    assert data.captions == [["a bird"], ["a cat"]]
    np.testing.assert_array_equal(data.pictures[0, 0], noise(5, 7, seed=2))


def test_columns_may_be_named_and_pictures_may_lie_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    path = write_text(
        tmp_path_factory.mktemp("other") / "c.csv", "what,which,caption", "a cat,cat.png,no", "a dog,dog.png,no"
    )
    data, notes = read_captions(path, picture_column="which", caption_column="what", folder=folder)
    assert data.texts == ["a cat", "a dog"]
    assert notes == []


def test_of_two_columns_one_name_is_enough(folder: Path):
    path = write_text(folder / "c.csv", "photo,meaning", "cat.png,a cat")
    assert read_captions(path)[0].texts == ["a cat"]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".gif", ".webp", ".tif"])
def test_pictures_of_many_formats_and_sizes_meet_at_one_size(folder: Path, suffix: str):
    Image.fromarray(np.full((30, 20, 3), 200, dtype=np.uint8)).save(folder / f"red{suffix}")
    path = write_text(folder / "c.csv", "image,caption", f"red{suffix},light", "cat.png,a cat")
    data, _ = read_captions(path)
    assert data.shape[1:] == (17, 13)  # the median
    assert data.source.endswith("(c.csv, resized from several sizes)")
    assert read_captions(path, shape=(1, 8, 9))[0].pictures.shape == (2, 1, 8, 9)


def test_what_is_wrong_is_said_with_its_row(folder: Path):
    def refused(*lines: str) -> str:
        return refusal(read_captions, write_text(folder / "c.csv", *lines))

    assert refused("image,caption", "cat.png,a cat", "dog.png, ") == (
        "row 3, column 'caption' of c.csv must say something, but got an empty cell: fill it in or remove the row."
    )
    assert refused("image,caption", "cta.png,a cat") == (
        f"row 2, column 'image' of c.csv must name a picture in {folder.as_posix()}, "
        "but got 'cta.png': did you mean 'cat.png'?"
    )
    assert refused("image,caption", "x/1234567.jpeg,a cat") == (
        f"row 2, column 'image' of c.csv must name a picture in {folder.as_posix()}, but got 'x/1234567.jpeg': "
        "paths are relative to the table, or to the folder given by --pictures."
    )
    assert refused("image,caption", ",a cat") == (
        "row 2, column 'image' of c.csv must name a picture, but got an empty cell: fill it in or remove the row."
    )
    assert refused("a,b,c", "cat.png,a cat,1") == (
        "c.csv must have one column of pictures and one of captions, such as image and caption, but got 3: a, b, c: "
        "name them with --picture-column and --caption-column."
    )
    assert refused("image,caption") == "c.csv must have rows, but got only a header."
    (folder / "broken.png").write_bytes(b"nothing")
    assert refused("image,caption", "broken.png,a cat") == (
        "each image must be readable, "
        f"but got {folder / 'broken.png'}, which is damaged or no image: mend or remove it."
    )


def test_all_pictures_that_are_missing_are_listed(folder: Path):
    path = write_text(folder / "c.csv", "image,caption", "no.png,x", "cat.png,a cat", "sub/none.jpg,y", "no.png,again")
    assert refusal(read_captions, path) == (
        f"c.csv must name pictures in {folder.as_posix()}, but got 2 of 3 that are not there: no.png, sub/none.jpg: "
        "add them or remove their rows."
    )
    path = write_text(folder / "c.csv", "image,caption", *(f"{index}.png,x" for index in range(500)))
    assert refusal(read_captions, path) == (
        f"c.csv must name pictures in {folder.as_posix()}, but got 500 names of which none is there, such as '0.png': "
        "paths are relative to the table, or to the folder given by --pictures."
    )


def test_columns_that_cannot_be_are_refused(folder: Path):
    path = write_text(folder / "c.csv", "image,caption", "cat.png,a cat")
    assert refusal(lambda: read_captions(path, picture_column="imag")) == (
        "c.csv must have the column 'imag', but got image, caption: did you mean 'image'?"
    )
    assert refusal(lambda: read_captions(path, picture_column="image", caption_column="image")) == (
        "pictures and captions must be different columns, but got 'image' for both."
    )


def test_what_is_no_table_is_refused(folder: Path):
    (folder / "sub" / "c.csv").write_text("image,caption\n")
    assert refusal(read_captions, folder / "sub") == (
        "captions are read from a CSV or TSV, "
        f"but got the folder '{(folder / 'sub').as_posix()}': give {folder / 'sub' / 'c.csv'}."
    )
    assert refusal(read_captions, folder / "cat.png") == (
        "captions are read from a CSV or TSV, but got cat.png: rename it if it is one of these."
    )
    assert refusal(read_captions, folder / "caption.csv") == (
        f"texts are read from files that exist, but got '{(folder / 'caption.csv').as_posix()}'."
    )


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


def test_copies_of_a_picture_are_always_in_the_same_part(tmp_path: Path):
    """Under whatever names, and whatever is said of them."""
    rows = []
    for index in range(30):
        for copy, text in enumerate(("Good film", "good  film", "another one")):
            Image.fromarray(noise(4, 4, seed=index)).save(tmp_path / f"{index}-{copy}.png")
            rows.append(f"{index}-{copy}.png,{text} {index}")
    path = write_text(tmp_path / "c.csv", "image,caption", *rows)
    splits = prepare_captions(CaptionDataConfig(data=path, validation=0.2, test=0.3), seed=0)
    parts = [{int(text.split()[-1]) for text in part.texts} for part in (splits.train, splits.validation, splits.test)]
    assert not (parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2])
    assert [*map(len, parts)] == [15, 6, 9]


@pytest.mark.parametrize("captions", [["a cat", "a  dog", "an animal"], pd.Series(["a cat", "a  dog", "an animal"])])
@pytest.mark.parametrize("form", ["pictures", "arrays", "array"])
def test_captions_in_memory_are_those_of_a_table(folder: Path, form: str, captions: list[str]):
    arrays = [noise(5, 7, seed=index) for index in (0, 1, 0)]
    pictures = {"pictures": [*map(Image.fromarray, arrays)], "arrays": arrays, "array": np.stack(arrays)}[form]
    data, notes = read_captions(in_memory((pictures, captions)))
    assert data.captions == [["a cat", "an animal"], ["a dog"]]
    np.testing.assert_array_equal(data.pictures[:, 0], np.stack(arrays[:2]))
    assert data.source.startswith("2 grey images of 5×7 with 3 captions (")
    assert notes == ()


def test_a_picture_in_memory_may_have_several_captions_and_be_of_any_size():
    rows = [{"image": Image.fromarray(noise(5, 7)), "caption": ["a cat", "an animal"], "id": 3}] * 2
    rows.append({"image": Image.fromarray(noise(9, 9)), "caption": ["a dog"], "id": 4})
    data, _ = read_captions(in_memory(rows), shape=(1, 4, 4))
    assert data.captions == [["a cat", "an animal"] * 2, ["a dog"]]
    assert data.shape == (1, 4, 4)


def test_parts_of_captions_are_kept_as_they_are():
    pairs = [(Image.fromarray(noise(5, 7, seed=seed)), f"picture {seed}") for seed in range(20)]
    given = {"train": pairs[:18], "test": pairs[18:]}
    splits = prepare_captions(CaptionDataConfig(data=in_memory(given, parts=True)), 0)
    assert (len(splits.train), len(splits.validation), splits.test.texts) == (17, 1, ["picture 18", "picture 19"])


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        (
            [("cat.png", "a cat")] * 2,
            {},
            "column 'x' of the list in memory must hold pictures, but got list in memory (x 2 text, y 2 text): give "
            "arrays or images of PIL, or the path of a table of files.",
        ),
        (
            (np.zeros((2, 3)), ["a", "b"]),
            {},
            "column 'x' of the arrays in memory must hold pictures, but got rows of 3 features.",
        ),
        (
            (noise(2, 5, 5), ["a cat", " "]),
            {},
            "row 1, column 'y' of arrays in memory must say something, but got an empty cell: fill it in or remove the "
            "row.",
        ),
        (
            (noise(2, 5, 5), ["a", "b"]),
            {"shape": (1, 4, 4)},
            "column 'x' of the arrays in memory must hold grey images of 4×4, but got grey images of 5×5.",
        ),
        (
            (noise(2, 5, 5), ["a", "b"]),
            {"folder": Path("here")},
            "--pictures is the folder of picture files, but got 'here' for arrays in memory: leave it out.",
        ),
    ],
)
def test_captions_in_memory_that_do_not_fit_are_refused(given: Any, options: dict[str, Any], sentence: str):
    assert refusal(lambda: read_captions(in_memory(given), **options)) == sentence
