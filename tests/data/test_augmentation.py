import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.augmentation import Augment
from neuropil.errors import InputError
from neuropil.randomness import seeded

sides = st.integers(1, 12)
SLOPE = 6.0


def noise(batch: int, channels: int, height: int, width: int) -> torch.Tensor:
    return torch.randint(
        0, 256, (batch, channels, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def ramps(batch: int, height: int = 24, width: int = 36) -> torch.Tensor:
    """Pictures that grow brighter to the right."""
    row = (128 + SLOPE * (torch.arange(width) - (width - 1) / 2)).round().clamp(0, 255).to(torch.uint8)
    return row.expand(batch, 1, height, width)


def planes(images: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The plane nearest to the middle of each picture: its value at the centre, its slopes to the right and down."""
    _, _, height, width = images.shape
    y, x = np.mgrid[:height, :width] - np.array([(height - 1) / 2, (width - 1) / 2])[:, None, None]
    middle = (np.abs(x) < 4) & (np.abs(y) < 4)
    design = np.stack([np.ones(middle.sum()), x[middle], y[middle]], axis=1)
    values = images[:, 0].numpy()[:, middle].T.astype(float)
    return tuple(np.linalg.lstsq(design, values)[0])


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 5),
    st.sampled_from([1, 3]),
    sides,
    sides,
    st.floats(0, 5),
    st.floats(0, 180),
    st.floats(0, 0.9),
    st.booleans(),
)
def test_shape_and_type_stay_and_values_stay_within_those_of_the_images(
    batch: int, channels: int, height: int, width: int, shift: float, rotate: float, zoom: float, flip: bool
):
    images = noise(batch, channels, height, width)
    moved = Augment(shift=shift, rotate=rotate, zoom=zoom, flip=flip)(images, seeded(1))
    assert moved.shape == images.shape
    assert moved.dtype == torch.uint8
    if batch:
        assert images.min() <= moved.min()
        assert moved.max() <= images.max()


@settings(deadline=None)
@given(st.integers(1, 5), sides, sides)
def test_nothing_asked_is_nothing_done(batch: int, height: int, width: int):
    images = noise(batch, 3, height, width)
    assert torch.equal(Augment()(images, seeded(0)), images)


@settings(deadline=None)
@given(sides, sides)
def test_a_mirrored_image_is_exactly_mirrored_and_about_half_of_them_are(height: int, width: int):
    images = noise(200, 3, height, width + 1)
    images[..., 0], images[..., -1] = 0, 255
    moved = Augment(flip=True)(images, seeded(2))
    mirrored = (moved == images.flip(-1)).flatten(1).all(1)
    unchanged = (moved == images).flatten(1).all(1)
    assert (mirrored ^ unchanged).all()
    assert 60 < mirrored.sum() < 140


def test_a_shift_moves_the_whole_picture_by_up_to_so_many_pixels():
    centre, right, down = planes(Augment(shift=3)(ramps(500), seeded(0)))
    pixels = (centre - 128) / SLOPE
    assert np.abs(pixels).max() < 3.05
    assert np.ptp(pixels) > 5.5
    np.testing.assert_allclose(right, SLOPE, atol=0.15)
    np.testing.assert_allclose(down, 0, atol=0.15)


def test_a_rotation_turns_without_bending_also_where_the_picture_is_not_square():
    centre, right, down = planes(Augment(rotate=60)(ramps(500), seeded(0)))
    angles = np.degrees(np.arctan2(down, right))
    np.testing.assert_allclose(np.hypot(right, down), SLOPE, atol=0.15)
    np.testing.assert_allclose(centre, 128, atol=0.5)
    assert np.abs(angles).max() < 61
    assert np.ptp(angles) > 110


def test_a_zoom_enlarges_and_shrinks_by_up_to_its_share():
    _, right, down = planes(Augment(zoom=0.5)(ramps(500), seeded(0)))
    scale = SLOPE / right
    assert 0.48 < scale.min() < 0.55
    assert 1.45 < scale.max() < 1.55
    np.testing.assert_allclose(down, 0, atol=0.3)


def test_what_comes_in_from_outside_repeats_the_edge():
    white = torch.full((20, 1, 8, 8), 255, dtype=torch.uint8)
    assert torch.equal(Augment(shift=4, rotate=90, zoom=0.5)(white, seeded(0)), white)


def test_a_share_of_more_than_nine_tenths_is_refused():
    with pytest.raises(InputError) as caught:
        Augment(zoom=1)
    assert str(caught.value) == "zoom must be at most 0.9, but got 1."
