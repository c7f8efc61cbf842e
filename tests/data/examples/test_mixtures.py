import math

import pytest
import torch
from scipy.stats import chi2, norm

from neuropil.data.examples.mixtures import NEAR, GaussianMixture, grid, ring
from neuropil.randomness import seeded


def test_a_ring_has_its_modes_on_the_unit_circle_and_a_grid_two_apart():
    assert torch.allclose(ring(8).centres.norm(dim=1), torch.ones(8))
    assert torch.allclose(
        (ring(8).centres - ring(8).centres.roll(1, 0)).norm(dim=1), torch.tensor(2 * math.sin(math.pi / 8))
    )
    distances = torch.pdist(grid(5).centres)
    assert (len(grid(5).centres), distances.min(), distances.max()) == (25, 2, pytest.approx(8 * math.sqrt(2)))
    assert torch.equal(grid(5).centres.mean(0), torch.zeros(2))


@pytest.mark.parametrize("mixture", [ring(), grid()], ids=["ring", "grid"])
def test_points_of_the_mixture_itself_find_every_mode_and_are_as_good_as_they_can_be(mixture: GaussianMixture):
    coverage = mixture.coverage(mixture.draw(20_000, seeded(0)))
    assert coverage.found == len(mixture.centres)
    assert coverage.good_share == pytest.approx(chi2.cdf(NEAR**2, df=2), abs=0.003)
    assert coverage.counts.float().std() < 0.1 * coverage.counts.float().mean()


def test_points_have_the_spread_that_they_should():
    one = GaussianMixture(torch.tensor([[1.0, -2.0]]), 0.3)
    points = one.draw(50_000, seeded(1)).numpy()
    spread = points - [1.0, -2.0]
    assert -norm.logpdf(spread, scale=0.3).mean() == pytest.approx(norm.entropy(scale=0.3), abs=0.01)
    assert points.mean(0) == pytest.approx([1.0, -2.0], abs=0.01)


def test_a_mode_counts_as_found_from_a_fifth_of_its_share_on_and_points_between_modes_not_at_all():
    mixture = ring(4, sigma=0.01)
    few, enough, rest, between = 4, 5, 41, 50  # of 100 samples, of which each mode should have 25
    a, b, c, _ = mixture.centres
    samples = torch.cat([a.expand(few, 2), b.expand(enough, 2), c.expand(rest, 2), torch.zeros(between, 2)])
    coverage = mixture.coverage(samples)
    assert coverage.counts.tolist() == [4, 5, 41, 0]
    assert coverage.found == 2
    assert coverage.good_share == 0.5
