import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from neuropil.inspection.word_map import linear_map, word_map


def test_groups_of_words_stay_together():
    """Each of 60 words has its nearest neighbours on the map in its own group of 20."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(3, 30, generator=generator).repeat_interleave(20, 0)
    vectors = centres + 0.2 * torch.randn(60, 30, generator=generator)
    places = torch.from_numpy(word_map(vectors))
    near = torch.cdist(places, places).topk(6, largest=False).indices[:, 1:]
    assert (near // 20 == torch.arange(60)[:, None] // 20).all()


def test_places_are_from_0_to_1_and_the_same_each_time():
    vectors = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    places = word_map(vectors)
    assert np.array_equal(places.min(0), [0, 0])
    assert np.array_equal(places.max(0), [1, 1])
    assert np.array_equal(places, word_map(4 * vectors)), "their length has no part in it"  # 4 rounds nothing


def test_a_few_words_are_where_pca_has_them():
    vectors = torch.nn.functional.normalize(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    expected = PCA(2, svd_solver="full").fit_transform(vectors.numpy())
    expected = (expected - expected.min(0)) / (expected.max(0) - expected.min(0))
    assert word_map(vectors) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (12, 1), (12, 2)])
def test_hardly_any_words_or_dimensions_are_no_trouble(shape: tuple[int, int]):
    places = word_map(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    assert places.shape == (shape[0], 2)
    assert np.isfinite(places).all()


def test_the_linear_map_is_that_of_pca():
    vectors = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    expected = PCA(2, svd_solver="full").fit_transform(vectors.numpy())
    expected = (expected - expected.min(0)) / (expected.max(0) - expected.min(0))
    assert linear_map(3 * vectors) == pytest.approx(expected, abs=1e-5)
