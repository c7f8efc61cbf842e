import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import geometric_slerp
from scipy.stats import norm
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts.coders.latents import PathName, interpolate, latent_grid, plane, traverse


def points(size: int, seed: int) -> tuple[Tensor, Tensor]:
    a, b = torch.randn(2, size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return a, b


@given(size=st.integers(2, 40), steps=st.integers(2, 9), seed=st.integers(0, 99))
def test_the_arc_between_points_of_a_sphere_is_that_of_scipy(size: int, steps: int, seed: int):
    a, b = (each / each.norm() for each in points(size, seed))
    expected = geometric_slerp(a.numpy(), b.numpy(), np.linspace(0, 1, steps))
    np.testing.assert_allclose(interpolate(a, b, steps).numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("path", ["linear", "spherical"])
def test_a_path_begins_and_ends_at_its_points(path: PathName):
    a, b = points(5, 0)
    between = interpolate(a, b, 7, path)
    torch.testing.assert_close(between[[0, -1]], torch.stack([a, b]))
    if path == "linear":
        torch.testing.assert_close(between.diff(dim=0), ((b - a) / 6).expand(6, 5))


def test_the_arc_stays_as_far_from_the_origin_as_its_ends_where_the_line_does_not():
    a, b = points(400, 1)
    arc, line = (interpolate(a, b, 3, path)[1].norm().item() for path in ("spherical", "linear"))
    assert arc == pytest.approx(20, rel=0.05)
    assert line == pytest.approx(20 / math.sqrt(2), rel=0.08)


@pytest.mark.parametrize("scale", [1.0, 0.0, -1.0])
def test_points_that_have_no_arc_are_joined_by_a_line(scale: float):
    a = torch.tensor([1.0, 2.0])
    expected = torch.stack([a, a * (1 + scale) / 2, a * scale])
    torch.testing.assert_close(interpolate(a, scale * a, 3), expected)


def test_a_traversal_changes_one_coordinate():
    z = torch.tensor([5.0, 6.0, 7.0])
    expected = torch.tensor([[5.0, -1.0, 7.0], [5.0, 2.0, 7.0]])
    assert torch.equal(traverse(z, 1, [-1, 2]), expected)
    assert torch.equal(traverse(z, 1, torch.tensor([-1.0, 2.0])), expected)
    assert torch.equal(z, torch.tensor([5.0, 6.0, 7.0]))


def test_a_grid_has_the_quantiles_of_the_normal_distribution_with_the_largest_on_top():
    grid = latent_grid(3)
    low, middle, high = norm.ppf([1 / 6, 3 / 6, 5 / 6])
    np.testing.assert_allclose(grid[:3].numpy(), [[low, high], [middle, high], [high, high]], atol=1e-6)
    np.testing.assert_allclose(grid[-3:].numpy(), [[low, low], [middle, low], [high, low]], atol=1e-6)


def test_a_path_of_one_step_and_an_unknown_dimension_are_refused():
    a, b = points(3, 0)
    with pytest.raises(InputError) as error:
        interpolate(a, b, 1)
    assert str(error.value) == "an interpolation has at least 2 steps, its two ends, but got 1."
    with pytest.raises(InputError) as error:
        traverse(a, 3, [0.0])
    assert str(error.value) == "a latent dimension is a number from 0 to 2, but got 3."


def test_a_plane_goes_through_its_point_row_by_row():
    z = torch.tensor([1.0, 2.0, 3.0])
    found = plane(z, (2, 0), torch.tensor([7.0, 8.0]), torch.tensor([5.0, 4.0, 3.0]))
    assert found.tolist() == [[y, 2, x] for y in (5, 4, 3) for x in (7, 8)]


def test_a_plane_needs_two_axes():
    with pytest.raises(InputError) as refused:
        plane(torch.zeros(3), (1, 1), torch.zeros(1), torch.zeros(1))
    assert str(refused.value) == ("the axes of a plane must be two different dimensions from 0 to 2, but got 1 and 1.")
