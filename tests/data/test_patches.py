import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from neuropil.data.patches import MOST_PATCHES_A_SIDE, choose_patch, filled_shape, resize, usual_patch


@pytest.mark.parametrize(
    ("height", "width", "patch"),
    [(8, 8, 2), (28, 28, 4), (32, 32, 4), (64, 48, 8), (224, 224, 28), (7, 7, None), (61, 47, None)],
)
def test_the_patch_follows_the_size(height: int, width: int, patch: int | None):
    assert choose_patch((3, height, width)) == patch


@given(st.integers(1, 300), st.integers(1, 300))
def test_every_size_can_be_filled_with_few_patches(height: int, width: int):
    shape = (1, height, width)
    chosen = choose_patch(shape)
    patch = chosen or usual_patch(shape)
    filled = filled_shape(shape, patch)
    assert filled[1] % patch == filled[2] % patch == 0
    assert chosen is None or filled == shape
    assert max(filled[1:]) // patch <= MOST_PATCHES_A_SIDE
    assert all(abs(new - old) <= max(patch / 2, patch - old) for new, old in zip(filled[1:], shape[1:], strict=True))


def test_pictures_are_resized_about_as_pillow_does():
    picture = torch.randint(0, 256, (1, 1, 30, 22), dtype=torch.uint8)
    expected = Image.fromarray(picture[0, 0].numpy()).resize((20, 24), Image.Resampling.BILINEAR)
    ours = resize(picture, (1, 24, 20))
    difference = ours[0, 0].int() - torch.from_numpy(np.array(expected)).int()
    assert difference.abs().max() <= 1


def test_nothing_stays_nothing_and_the_same_stays_the_same():
    pictures = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8)
    assert torch.equal(resize(pictures, (1, 8, 8)), pictures)
    assert resize(pictures[:0], (1, 4, 6)).shape == (0, 1, 4, 6)
