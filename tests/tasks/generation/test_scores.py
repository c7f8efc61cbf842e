import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from sklearn.neighbors import NearestNeighbors

from neuropil.randomness import seeded
from neuropil.tasks.generation.scores import (
    class_coverage,
    frechet_distance,
    gaussian_examples,
    gaussian_frechet,
    memorised_share,
    names_of_missing,
    nearest,
    precision_and_recall,
    spread_labels,
)


def some_covariance(size: int, key: int) -> torch.Tensor:
    a = torch.randn(size, size, generator=seeded(key), dtype=torch.double)
    return a @ a.mT / size


def test_the_frechet_distance_of_gaussians_is_that_of_its_formula_with_scipys_square_root():
    m, n = torch.randn(2, 6, generator=seeded("means"), dtype=torch.double)
    c, d = some_covariance(6, 1), some_covariance(6, 2)
    root = np.real(np.asarray(sqrtm((c @ d).numpy())))
    expected = ((m - n) ** 2).sum().item() + np.trace((c + d).numpy() - 2 * root)
    assert gaussian_frechet(m, c, n, d) == pytest.approx(expected, rel=1e-9)


def test_gaussians_on_a_line_are_apart_by_their_means_and_standard_deviations():
    one = torch.ones(1, 1, dtype=torch.double)
    found = gaussian_frechet(0 * one[0], 4 * one, 3 * one[0], 25 * one)
    assert found == pytest.approx(3**2 + (5 - 2) ** 2)


def test_a_singular_covariance_has_a_distance_too():
    flat = torch.tensor([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    assert frechet_distance(flat, flat) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(flat, flat + torch.tensor([0.0, 2.0])) == pytest.approx(4)


def test_samples_of_one_gaussian_are_nearer_than_samples_of_two():
    x, y = torch.randn(2, 2_000, 5, generator=seeded("samples"))
    assert frechet_distance(x, y) < 0.05 < 4 < frechet_distance(x, y + 1)


def test_precision_and_recall_are_those_of_scikit_learns_neighbours():
    generated, real = torch.randn(60, 3, generator=seeded(1)), 0.5 + torch.randn(80, 3, generator=seeded(2))

    def within(points: np.ndarray, manifold: np.ndarray) -> float:
        radii = NearestNeighbors(n_neighbors=4).fit(manifold).kneighbors(manifold)[0][:, -1]
        apart = np.linalg.norm(points[:, None] - manifold[None], axis=-1)
        return float((apart <= radii).any(1).mean())

    ours = precision_and_recall(generated, real)
    assert ours == (within(generated.numpy(), real.numpy()), within(real.numpy(), generated.numpy()))


def test_a_model_that_makes_one_thing_is_precise_and_recalls_little():
    real = torch.randn(300, 2, generator=seeded("real"))
    precision, recall = precision_and_recall(real[:1] + 1e-3 * torch.randn(300, 2, generator=seeded("one")), real)
    assert precision == 1
    assert recall < 0.05


def test_class_coverage_is_what_the_shares_of_the_classes_have_in_common():
    real = torch.tensor([0, 0, 1, 2])
    assert class_coverage(real, real, 3) == 1
    assert class_coverage(torch.tensor([0, 0, 0, 0]), real, 3) == pytest.approx(0.5)
    assert names_of_missing(torch.tensor([0, 2]), ["a", "b", "c"]) == ["b"]


def test_the_nearest_training_example_is_found_whatever_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch):
    x, train = torch.rand(7, 1, 3, 3, generator=seeded(3)), torch.rand(50, 1, 3, 3, generator=seeded(4))
    apart = (x.flatten(1)[:, None] - train.flatten(1)[None]).norm(dim=-1)
    monkeypatch.setattr("neuropil.tasks.generation.scores.AT_ONCE", 100)
    distances, which = nearest(x, train)
    torch.testing.assert_close(distances.float(), apart.min(1).values)
    assert torch.equal(which, apart.argmin(1))


def test_copies_count_as_memorised_and_fresh_examples_hardly():
    train, real, fresh = torch.randn(3, 400, 4, generator=seeded("memorised"))
    of_real = nearest(real, train)[0]
    assert memorised_share(nearest(train[:50], train)[0], of_real) == 1
    assert memorised_share(nearest(fresh, train)[0], of_real) < 0.04


def test_copies_of_numbers_far_from_zero_count_as_memorised_too():
    """Years, whose spread is small beside their mean: products of float32 would leave no digit of a distance."""
    train, real = 2e4 + torch.rand(2, 400, 2, generator=seeded("years"))
    of_real = nearest(real, train)[0]
    assert of_real.median() > 0.01
    assert memorised_share(nearest(train[:50], train)[0], of_real) == 1


def test_one_feature_has_a_distance_and_a_gaussian():
    x = torch.randn(500, 1, generator=seeded("one"))
    assert frechet_distance(x, x + 3) == pytest.approx(9)
    assert gaussian_examples(x, 2_000, seeded("drawn")).std() == pytest.approx(x.std().item(), rel=0.1)


def test_the_gaussian_of_large_pictures_needs_no_covariance_of_their_pixels():
    train = torch.randint(0, 256, (5, 3, 256, 256), generator=seeded("large")).to(torch.uint8)
    assert gaussian_examples(train, 2, seeded("drawn")).shape == (2, 3, 256, 256)


def test_the_gaussian_baseline_has_the_mean_and_covariance_of_the_data():
    train = 0.5 + 0.05 * torch.randn(3_000, 2, 2, generator=seeded("train")) * torch.tensor([[1.0, 2.0], [1.0, 1.0]])
    drawn = gaussian_examples(train, 20_000, seeded("drawn"))
    assert drawn.shape == (20_000, 2, 2)
    torch.testing.assert_close(drawn.mean(0), train.mean(0), atol=2e-3, rtol=0)
    torch.testing.assert_close(drawn.flatten(1).mT.cov(), train.flatten(1).mT.cov(), atol=3e-4, rtol=0)


@pytest.mark.parametrize("count", [1, 7, 10, 101])
def test_labels_are_asked_for_in_the_proportions_of_the_data(count: int):
    targets = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)
    labels = spread_labels(targets, 3, count)
    assert len(labels) == count
    for number, share in enumerate((0.5, 0.3, 0.2)):
        assert abs((labels == number).sum().item() - share * count) <= 1 + math.ulp(1)
