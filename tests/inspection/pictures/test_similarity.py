import numpy as np
import pytest
import torch

from neuropil.errors import InputError
from neuropil.inspection.pictures.similarity import similarity_matrix


def test_a_caption_a_row_a_picture_a_column_and_its_own_is_framed():
    similarity = torch.tensor([[0.9, 0.1], [-0.2, 0.5], [0.3, 0.4]])  # three pictures, two captions
    figure = similarity_matrix(
        similarity, [np.zeros((4, 4), dtype=np.uint8)] * 3, ["a seven", "a two left of a five and a nine below it"]
    )
    *pictures, cells = figure.axes
    assert len(pictures) == 3
    np.testing.assert_allclose(np.asarray(cells.images[0].get_array()), similarity.T)
    written = [text.get_text() for text in cells.texts]
    assert written == [
        "0.90",
        "−0.20",
        "0.30",
        "0.10",
        "0.50",
        "0.40",
        "a seven",
        "a two left of a five and a nine\nbelow it",
    ]
    assert [patch.get_xy() for patch in cells.patches] == [(-0.47, -0.47), (0.53, 0.53)]  # type: ignore[attr-defined]


def test_the_pictures_stand_over_their_columns():
    figure = similarity_matrix(torch.eye(8), [np.zeros((4, 4), dtype=np.uint8)] * 8, ["a"] * 8)
    *pictures, cells = figure.axes
    left, width = cells.get_position().x0, cells.get_position().width / 8
    for place, axes in enumerate(pictures):
        box = axes.get_position(original=True)
        assert (box.x0 + box.x1) / 2 == pytest.approx(left + (place + 0.5) * width)


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(InputError) as error:
        similarity_matrix(torch.rand(2, 3), [np.zeros((4, 4))] * 2, ["a", "b"])
    assert str(error.value) == (
        "a picture of similarities needs a number for each image with each caption, but got 2×3 numbers, 2 images and 2 captions."
    )
