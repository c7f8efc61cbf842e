from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from neuropil.data.examples.dataset import Column, Schema
from neuropil.errors import InputError
from neuropil.tasks.generated_examples import GeneratedExamples

GREY = Schema(kind="image", shape=(1, 8, 8), classes=("a", "b"))
ROWS = Schema(kind="table", shape=(2,), classes=())


def pictures(count: int, shape: tuple[int, ...] = (1, 8, 8)) -> torch.Tensor:
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_grid_shows_every_pixel_of_every_picture_enlarged_by_a_whole_factor():
    values = pictures(5)
    grid = GeneratedExamples(values, GREY).grid()
    assert grid.shape == (2 * 66 + 2, 3 * 66 + 2, 3)
    for index in range(5):
        row, column = divmod(index, 3)
        cell = grid[2 + row * 66 : 66 + row * 66, 2 + column * 66 : 66 + column * 66]
        assert (cell[::8, ::8, 0] == values[index, 0].numpy()).all()
        assert (cell[7::8, 7::8, 2] == values[index, 0].numpy()).all()
    assert (grid[68:, 2 + 2 * 66 :] == 255).all()


def test_what_was_made_stands_to_the_right_of_its_original():
    made, originals = pictures(2), 255 - pictures(2)
    grid = GeneratedExamples(made, GREY, originals=originals).grid()
    assert (grid[2:66:8, 2:66:8, 0] == originals[0, 0].numpy()).all()
    assert (grid[2:66:8, 68:132:8, 0] == made[0, 0].numpy()).all()


def test_colours_are_kept(tmp_path: Path):
    colour = Schema(kind="image", shape=(3, 70, 64), classes=())
    values = pictures(1, (3, 70, 64))
    saved = GeneratedExamples(values, colour).save(tmp_path / "one.png")
    array = np.array(Image.open(saved))
    assert (array[2:72, 2:66] == values[0].permute(1, 2, 0).numpy()).all()


def test_arrays_are_saved_with_the_names_of_their_classes(tmp_path: Path):
    values = pictures(3)
    path = GeneratedExamples(values, GREY, names=("a", "b", "a")).save(tmp_path / "some.npz")
    with np.load(path, allow_pickle=False) as bundle:
        assert (bundle["x"] == values.numpy()).all()
        assert bundle["y"].tolist() == ["a", "b", "a"]
    alone = GeneratedExamples(values, GREY).save(tmp_path / "some.npy")
    assert (np.load(alone, allow_pickle=False) == values.numpy()).all()


def test_rows_of_numbers_cannot_be_drawn_and_nothing_is_written(tmp_path: Path):
    rows = GeneratedExamples(torch.rand(3, 2), ROWS)
    with pytest.raises(InputError) as error:
        rows.save(tmp_path / "grid.png")
    expected = "a grid is drawn of pictures, but got rows of 2 numbers: give --out a name that ends in .npz."
    assert str(error.value) == expected
    assert not list(tmp_path.iterdir())
    assert rows._repr_png_() is None


def test_rows_come_back_as_the_data_had_them():
    """With the offset of a column far from zero, and without the feature that says what was missing."""
    columns = (Column(name="time", kind="number"), Column(name="weight", kind="number", missing=True))
    schema = Schema(kind="table", shape=(3,), classes=(), columns=columns, offsets=(1.7e9, 0.0, 0.0))
    given = torch.tensor([[2.0, 3.0, 0.0]])
    made = GeneratedExamples.of(torch.tensor([[0.25, 1.0, 0.5]]), schema, originals=given)
    given.zero_()
    assert made.values.tolist() == [[1.7e9 + 0.25, 1.0]]
    assert made.originals is not None
    assert made.originals.tolist() == [[1.7e9 + 2, 3.0]]


@pytest.mark.parametrize(
    ("count", "columns", "name", "message"),
    [
        (
            30_000,
            None,
            "a.png",
            "a grid has at most 100,000,000 pixels, but got 11,418×11,484: write the examples to .npz.",
        ),
        (
            300,
            300,
            "a.webp",
            "a picture of this format has at most 16,383 pixels in a row, but got 68×19,802: name it .png.",
        ),
    ],
)
def test_a_grid_that_no_file_can_hold_is_refused(
    count: int, columns: int | None, name: str, message: str, tmp_path: Path
):
    values = torch.zeros(1, 1, 8, 8, dtype=torch.uint8).expand(count, -1, -1, -1)
    with pytest.raises(InputError) as error:
        GeneratedExamples(values, GREY, columns=columns).save(tmp_path / name)
    assert str(error.value) == message
    assert not list(tmp_path.iterdir())


def test_another_ending_is_refused():
    with pytest.raises(InputError) as error:
        GeneratedExamples(pictures(1), GREY).save("samples.tiff")
    assert str(error.value) == (
        "generated examples are written to .png, .jpg, .webp, .npz or .npy, but got 'samples.tiff': "
        "name it samples.png, or .npz for arrays."
    )


def test_a_notebook_shows_the_grid():
    encoded = GeneratedExamples(pictures(4), GREY)._repr_png_()
    assert encoded is not None
    assert encoded.startswith(b"\x89PNG")
