import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from neuropil.data.examples.planar import PLANAR_NAMES, PlanarName, planar_points


@pytest.mark.parametrize("name", PLANAR_NAMES)
def test_points_lie_in_the_window_with_both_classes_alike(name: PlanarName):
    points, labels = planar_points(name, 200, noise=0.0)
    assert points.shape == (200, 2)
    assert points.abs().max() <= 1.1
    assert labels.bincount().tolist() == [100, 100]


@pytest.mark.parametrize("name", PLANAR_NAMES)
def test_neighbours_are_alike_but_only_blobs_are_parted_by_a_line(name: PlanarName):
    points, labels = planar_points(name, 400, noise=0.02)
    line = LogisticRegression().fit(points, labels).score(points, labels)
    near = KNeighborsClassifier(3).fit(points[:300], labels[:300]).score(points[300:], labels[300:])
    assert near > 0.95
    assert (line > 0.99) == (name == "blobs")


def test_points_depend_on_the_seed_alone_and_noise_moves_them():
    first, again = (planar_points("moons", 50, noise=0.2, seed=4)[0] for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, planar_points("moons", 50, noise=0.2, seed=5)[0])
    deviation = (planar_points("xor", 5000, noise=0.2)[0] - planar_points("xor", 5000, noise=0.0)[0]).std()
    assert deviation.item() == pytest.approx(0.2, rel=0.05)
