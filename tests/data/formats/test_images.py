import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.written_files import noise, refusal, write_images
from neuropil import memory, progress
from neuropil.data.formats.images import images_below, read_image_folder, read_images, read_picture
from neuropil.errors import InputError


def pixels_of(path: Path, channels: int, height: int, width: int) -> np.ndarray:
    return read_picture(path, (channels, height, width)).numpy().transpose(1, 2, 0)


def test_a_folder_of_grey_pictures_is_read_pixel_for_pixel(tmp_path: Path):
    cats, dogs = noise(3, 5, 7), noise(2, 5, 7, seed=1)
    found = read_image_folder(write_images(tmp_path, {"dog": list(dogs), "cat": list(cats)}))
    part = found.parts["train"]
    assert part.labels.names == ("cat", "dog")
    assert part.labels.values.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(part.inputs.values.numpy(), np.concatenate([cats, dogs])[:, None])
    assert [part.inputs.name(index) for index in (0, 4)] == ["cat/0.png", "dog/1.png"]
    assert found.note == ""


def test_one_coloured_picture_makes_all_of_them_coloured(tmp_path: Path):
    grey, colour = noise(4, 4), noise(4, 4, 3)
    (images,) = [
        part.inputs.values
        for part in read_image_folder(write_images(tmp_path, {"a": [grey], "b": [colour]})).parts.values()
    ]
    assert images.shape == (2, 3, 4, 4)
    np.testing.assert_array_equal(images[0], np.stack([grey] * 3))
    np.testing.assert_array_equal(images[1], colour.transpose(2, 0, 1))


def test_pictures_of_several_sizes_meet_at_the_median_and_the_report_says_so(tmp_path: Path):
    found = read_image_folder(write_images(tmp_path, {"a": [noise(10, 20), noise(12, 26)], "b": [noise(50, 30)]}))
    assert found.parts["train"].inputs.shape == (1, 12, 26)
    assert found.note == "resized from several sizes"


def test_large_pictures_are_reduced_and_keep_their_proportions(tmp_path: Path):
    mixed = read_image_folder(
        write_images(tmp_path / "mixed", {"a": [noise(100, 200)], "b": [noise(101, 200), noise(100, 200)]})
    )
    large = read_image_folder(write_images(tmp_path / "large", {"a": [noise(300, 600)], "b": [noise(300, 600)]}))
    assert mixed.parts["train"].inputs.shape == (1, 32, 64)
    assert (large.parts["train"].inputs.shape, large.note) == ((1, 32, 64), "resized from 300×600")


def test_pictures_are_brought_to_the_shape_that_a_model_wants(tmp_path: Path):
    found = read_image_folder(write_images(tmp_path, {"a": [noise(10, 20)], "b": [noise(30, 5)]}), (3, 6, 8))
    assert found.parts["train"].inputs.shape == (3, 6, 8)


@pytest.mark.parametrize(
    ("name", "part"), [("test", "test"), ("Testing", "test"), ("val", "validation"), ("valid", "validation")]
)
def test_a_folder_may_bring_its_own_parts(tmp_path: Path, name: str, part: str):
    write_images(tmp_path / "train", {"a": [noise(4, 4)] * 2, "b": [noise(4, 4)]})
    write_images(tmp_path / name, {"a": [noise(4, 4)], "b": [noise(4, 4)]})
    parts = read_image_folder(tmp_path).parts
    assert {name: len(part.inputs) for name, part in parts.items()} == {"train": 3, part: 2}
    assert parts["train"].inputs.name(0) == "train/a/0.png"


def test_a_class_may_be_called_train(tmp_path: Path):
    found = read_image_folder(write_images(tmp_path, {"car": [noise(4, 4)], "train": [noise(4, 4)]}))
    assert found.parts["train"].labels.names == ("car", "train")


def test_hidden_files_and_files_that_are_no_pictures_are_passed_over(tmp_path: Path):
    write_images(
        tmp_path,
        {"a": [noise(4, 4)], "b": [noise(4, 4)], ".cache": [noise(4, 4)], "b/.ipynb_checkpoints": [noise(4, 4)]},
    )
    (tmp_path / "a" / "._0.png").write_bytes(b"left by another system")
    (tmp_path / "a" / "notes.txt").write_text("cats")
    (tmp_path / "__MACOSX").mkdir()
    assert [path.relative_to(tmp_path).as_posix() for path in images_below(tmp_path)] == ["a/0.png", "b/0.png"]
    assert len(read_image_folder(tmp_path).parts["train"].inputs) == 2


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path):
    Image.fromarray(np.array([[0, 257, 257 * 100, 65535]], dtype=np.uint16)).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(pixels_of(tmp_path / "deep.png", 1, 1, 4)[..., 0], [[0, 1, 100, 255]])


def test_transparent_pictures_are_laid_on_white(tmp_path: Path):
    Image.fromarray(np.array([[[0, 0, 0, 0], [10, 20, 30, 255]]], dtype=np.uint8)).save(tmp_path / "clear.png")
    np.testing.assert_array_equal(pixels_of(tmp_path / "clear.png", 3, 1, 2), [[[255, 255, 255], [10, 20, 30]]])


def test_a_photograph_taken_sideways_is_turned_upright(tmp_path: Path):
    upright = np.kron(np.array([[255, 0], [0, 0], [0, 0]], dtype=np.uint8), np.ones((16, 16), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.fromarray(np.rot90(upright)).save(tmp_path / name / "photo.jpg", exif=exif, quality=95)
    images = read_image_folder(tmp_path).parts["train"].inputs.values
    assert images.shape == (2, 1, 48, 32)
    np.testing.assert_allclose(images[0, 0].numpy(), upright, atol=12)


def test_a_large_photograph_is_reduced_as_pillow_reduces_the_whole_of_it(tmp_path: Path):
    path = tmp_path / "large.jpg"
    Image.fromarray(np.kron(noise(8, 6, 3), np.ones((100, 100, 1), dtype=np.uint8))).save(path, quality=95)
    with Image.open(path) as image:
        reference = np.array(image.resize((12, 16), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(pixels_of(path, 3, 16, 12).astype(int), reference.astype(int), atol=8)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".gif", ".pgm", ".PNG"])
def test_many_formats_are_read(tmp_path: Path, suffix: str):
    pixels = noise(6, 5)
    found = read_image_folder(write_images(tmp_path, {"a": [pixels], "b": [pixels]}, suffix), (1, 6, 5))
    np.testing.assert_array_equal(found.parts["train"].inputs.values[0, 0], pixels)


def test_a_long_reading_shows_progress_and_the_same_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    write_images(tmp_path, {"a": list(noise(5, 4, 4))})
    paths = images_below(tmp_path)
    quick = read_images(paths, (1, 4, 4)).values
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    slow = read_images(paths, (1, 4, 4)).values
    assert torch.equal(quick, slow)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Reading images" in captured.err


@pytest.mark.parametrize("content", [b"", b"no picture", None])
def test_an_unreadable_picture_is_named(tmp_path: Path, content: bytes | None):
    write_images(tmp_path, {"cat": [noise(40, 40)] * 2, "dog": [noise(40, 40)]})
    bad = tmp_path / "cat" / "1.png"
    bad.write_bytes(bad.read_bytes()[:300] if content is None else content)
    assert refusal(read_image_folder, tmp_path) == (
        f"each image must be readable, but got {bad}, which is damaged or no image: "
        "mend or remove it, or add --skip-unreadable."
    )


def test_all_unreadable_pictures_are_named_at_once(tmp_path: Path):
    """One of them is found when it is opened, the other when its pixels are read."""
    write_images(tmp_path, {"cat": [noise(40, 40)] * 3, "dog": [noise(40, 40)]})
    empty, cut = tmp_path / "cat" / "0.png", tmp_path / "cat" / "2.png"
    empty.write_bytes(b"")
    cut.write_bytes(cut.read_bytes()[:300])
    named = (
        f"each image must be readable, but got 2 that are damaged or no images ({empty}, {cut}): mend or remove them"
    )
    assert refusal(read_image_folder, tmp_path) == f"{named}, or add --skip-unreadable."
    assert refusal(read_images, [empty, cut], (1, 4, 4)) == f"{named}."


def test_unreadable_pictures_may_be_left_out_and_are_listed(tmp_path: Path):
    pixels = [noise(40, 40, seed=seed) for seed in range(4)]
    write_images(tmp_path, {"cat": pixels[:3], "dog": pixels[3:]})
    (tmp_path / "cat" / "0.png").write_bytes(b"")
    (tmp_path / "cat" / "1.png").write_bytes((tmp_path / "cat" / "1.png").read_bytes()[:300])
    reading = read_image_folder(tmp_path, skip_unreadable=True)
    assert reading.notes == ("2 of 4 images cannot be read and are left out: cat/0.png, cat/1.png.",)
    part = reading.parts["train"]
    np.testing.assert_array_equal(part.inputs.values[:, 0], pixels[2:])
    assert [part.inputs.name(index) for index in range(2)] == ["cat/2.png", "dog/0.png"]
    assert part.labels.values.tolist() == [0, 1]


def test_a_folder_without_a_readable_picture_is_refused(tmp_path: Path):
    write_images(tmp_path, {"cat": [noise(4, 4)]})
    bad = tmp_path / "cat" / "0.png"
    bad.write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read_image_folder(tmp_path, skip_unreadable=True)
    assert str(caught.value) == (
        f"each image must be readable, but got {bad}, which is damaged or no image: mend or remove it."
    )


FIX = "sort the images into folders named after their classes, or give the path of a file."


def test_an_empty_folder_is_refused(tmp_path: Path):
    (tmp_path / "pets").mkdir()
    assert refusal(read_image_folder, tmp_path / "pets") == (
        f"the folder pets must hold one folder of images for each class, but got an empty folder: {FIX}"
    )


def test_pictures_without_classes_are_refused(tmp_path: Path):
    write_images(tmp_path, {"pets": [noise(4, 4)] * 3})
    assert refusal(read_image_folder, tmp_path / "pets") == (
        "the folder pets must hold one folder of images for each class, "
        f"but got 3 images with no class, such as 0.png: {FIX}"
    )


def test_a_folder_of_other_files_is_refused_with_what_it_holds(tmp_path: Path):
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets" / "pets.csv").write_text("a,b\n")
    assert refusal(read_image_folder, tmp_path / "pets") == (
        f"the folder pets must hold one folder of images for each class, but got pets.csv: {FIX}"
    )


def test_a_class_without_pictures_is_refused(tmp_path: Path):
    write_images(tmp_path / "pets", {"cat": [noise(4, 4)], "dog": []})
    assert refusal(read_image_folder, tmp_path / "pets") == (
        "each folder in pets must hold the images of one class, but got 'dog' with none: "
        "add images (.bmp, .gif, .jpeg, .jpg, .pgm, .png, .ppm, .tif, .tiff, .webp) or remove it."
    )


@pytest.mark.parametrize(
    ("highest", "kind", "name"),
    [
        (1, np.float32, "a.tiff"),
        (255, np.float32, "a.tiff"),
        (65_535, np.float32, "a.tiff"),
        (255, np.int32, "a.tiff"),
        (65_535, np.int32, "a.tiff"),
        (65_535, np.uint16, "a.png"),
    ],
)
def test_grey_values_of_more_than_eight_bits_keep_their_levels(tmp_path: Path, highest: float, kind: type, name: str):
    levels = (np.arange(64) * 4).reshape(8, 8)
    Image.fromarray((levels / 255 * highest).astype(kind)).save(tmp_path / name)
    np.testing.assert_allclose(pixels_of(tmp_path / name, 1, 8, 8)[:, :, 0], levels, atol=1)


@pytest.mark.parametrize("bad", [-1.0, 70_000.0, np.nan])
def test_grey_values_outside_of_every_usual_range_are_refused(tmp_path: Path, bad: float):
    Image.fromarray(np.array([[0, bad]], np.float32)).save(tmp_path / "a.tiff")
    assert refusal(read_images, [tmp_path / "a.tiff"], (1, 1, 2)).startswith(
        "a.tiff must have grey values 0 to 1, 0 to 255 or 0 to 65535, but got "
    )


def test_a_model_of_strange_channels_does_not_read_pictures(tmp_path: Path):
    write_images(tmp_path, {"a": [noise(4, 4)]})
    assert refusal(read_images, [tmp_path / "a" / "0.png"], (2, 4, 4)) == (
        "a model of 2 channels must get its images as arrays, but got 0.png."
    )


def test_a_picture_that_promises_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path):
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5\n8200 8200\n255\n")
    tracemalloc.start()
    assert refusal(read_picture, path, (1, 8, 8)) == (
        "a picture may have 67,108,864 pixels, but got 8,200×8,200 in a.pgm: reduce its size."
    )
    path.write_bytes(b"P5\n1 300000\n255\n")
    assert refusal(read_picture, path, (1, 8, 8)) == (
        "a side of a picture may have 262,144 pixels, but got 1×300,000 in a.pgm: cut it into pieces."
    )
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_a_picture_needs_memory_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "meminfo").write_text("MemAvailable: 1000 kB\n")
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "meminfo")
    Image.new("L", (2_000, 1_000)).save(tmp_path / "a.png")
    assert refusal(read_picture, tmp_path / "a.png", (1, 8, 8)) == (
        "the picture a.png must fit into memory, but got at least 40 MB, of 1.02 MB free: choose smaller sizes."
    )


def test_formats_that_start_programs_are_not_read(tmp_path: Path):
    """EPS is a program, for which PIL would start Ghostscript."""
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(path, "EPS")
    with Image.open(path) as image:
        assert image.format == "EPS"
    assert refusal(read_picture, path, (1, 4, 4)) == (
        f"each image must be readable, but got {path}, which is damaged or no image: mend or remove it."
    )
