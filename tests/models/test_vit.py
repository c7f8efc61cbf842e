from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from transformers import ViTForImageClassification

from neuropil.errors import InputError
from neuropil.models.vit import SIZES, ViT, ViTConfig
from neuropil.parts.parameters import count_parameters
from real_data import accuracy_after_learning_digits


def pair(folder: Path, shape: tuple[int, ...] = (2, 8, 8)) -> tuple[ViT, ViTForImageClassification]:
    """The same weights here and there, carried over by a folder."""
    torch.manual_seed(0)
    model = ViT(ViTConfig(width=24, heads=2, layers=2, feed_forward=40, classes=3, patch=2, shape=shape)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model, ViTForImageClassification.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ViT, ViTForImageClassification]:
    return pair(tmp_path_factory.mktemp("vit"))


@given(rows=st.integers(1, 7), columns=st.integers(1, 7))
@settings(deadline=None, max_examples=15)
def test_positions_are_interpolated_as_hugging_face_does(
    both: tuple[ViT, ViTForImageClassification], rows: int, columns: int
):
    model, theirs = both
    pictures = torch.randn(2, 2, 2 * rows, 2 * columns)
    with torch.no_grad():
        expected = theirs(pictures, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(model(pictures), expected, atol=1e-4, rtol=1e-4)


def test_a_picture_is_standardised_inside(tmp_path: Path):
    model, theirs = pair(tmp_path, (3, 8, 8))
    pictures = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    model.standardize.fit(pictures)
    with torch.no_grad():
        expected = theirs((pictures - model.standardize.mean) / model.standardize.std).logits
        torch.testing.assert_close(model(pictures), expected, atol=1e-4, rtol=1e-4)


def test_the_embedding_is_the_equation_written_out(tmp_path: Path):
    model, _ = pair(tmp_path, (1, 4, 6))
    picture = torch.randn(1, 1, 4, 6)
    weight, bias, patches = model.patches.projection.weight, model.patches.projection.bias, model.patches
    assert bias is not None
    rows = [patches.whole + patches.positions[0]]
    for place in range(6):
        row, column = divmod(place, 3)
        piece = picture[0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].flatten()
        rows.append(weight.flatten(1) @ piece + bias + patches.positions[1 + place])
    torch.testing.assert_close(patches(picture)[0], torch.stack(rows))


def test_without_positions_it_is_a_bag_of_patches(tmp_path: Path):
    model, _ = pair(tmp_path, (1, 4, 6))
    with torch.no_grad():
        model.patches.positions.zero_()
        picture = torch.randn(1, 1, 4, 6)
        pieces = F.unfold(picture, 2, stride=2)
        shuffled = F.fold(pieces[..., torch.randperm(6)], (4, 6), 2, stride=2)
        torch.testing.assert_close(model(picture), model(shuffled), atol=1e-5, rtol=1e-4)
        model.patches.positions.normal_()
        assert not torch.allclose(model(picture), model(shuffled), atol=1e-3)


@pytest.mark.parametrize(("name", "count"), [("base_16", 86_567_656), ("large_16", 304_326_632)])
def test_the_published_sizes_have_the_published_numbers_of_parameters(name: str, count: int):
    with torch.device("meta"):
        assert count_parameters(ViT(SIZES[name])) == count


def test_it_learns_real_digits_from_bytes():
    torch.manual_seed(0)
    model = ViT(ViTConfig(width=32, heads=2, layers=2, feed_forward=64, patch=4, shape=(1, 8, 8), classes=10))
    assert accuracy_after_learning_digits(model, 0.01, passes=6) > 0.6


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError) as error:
        ViTConfig(patch=16, shape=(3, 30, 32))
    assert str(error.value) == (
        "pictures must be channels of rows and columns that patches of 16 pixels fill, but got the shape [3, 30, 32]."
    )
    with pytest.raises(InputError) as error:
        ViT(SIZES["tiny"])(torch.zeros(2, 1, 9, 8))
    assert (
        str(error.value)
        == "pictures must be channels of rows and columns that patches of 2 pixels fill, but got the shape [1, 9, 8]."
    )
    with pytest.raises(InputError) as error:
        ViTConfig(width=10, heads=3)
    assert str(error.value) == "the heads must divide the width, but got 3 heads for a width of 10."
