"""Kernels beside their formulas, and what smoothing and Gaussian processes ask of them."""

import math
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.parts.kernels import (
    KERNELS,
    Epanechnikov,
    Gaussian,
    KernelName,
    Periodic,
    RationalQuadratic,
    build_kernel,
)

NAMES = get_args(KernelName)
POSITIVE_DEFINITE = [name for name in NAMES if name not in ("epanechnikov", "boxcar")]
FORMULAS: dict[KernelName, Callable[[np.ndarray, float], np.ndarray]] = {
    "gaussian": lambda d, length: np.exp(-(d**2) / (2 * length**2)),
    "laplacian": lambda d, length: np.exp(-d / length),
    "matern": lambda d, length: (1 + math.sqrt(3) * d / length) * np.exp(-math.sqrt(3) * d / length),
    "rational_quadratic": lambda d, length: 1 / (1 + d**2 / (2 * length**2)),
    "periodic": lambda d, length: np.exp(-2 * np.sin(np.pi * d / 1.7) ** 2 / length**2),
    "epanechnikov": lambda d, length: np.maximum(0, 1 - d**2 / length**2),
    "boxcar": lambda d, length: (d <= length).astype(float),
}


def points(count: int, width: int, seed: int) -> Tensor:
    return torch.randn(count, width, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=15)
@given(
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    width=st.integers(1, 3),
    length=st.floats(0.1, 5),
    seed=st.integers(0, 1000),
)
def test_a_kernel_is_its_formula(name: KernelName, queries: int, keys: int, width: int, length: float, seed: int):
    x, z = points(queries, width, seed), points(keys, width, seed + 1)
    distance = np.array([[math.dist(a, b) for b in z.tolist()] for a in x.tolist()])
    ours = build_kernel(name, length, period=1.7)(x, z)
    np.testing.assert_allclose(ours.numpy(), FORMULAS[name](distance, length), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_equal_points_are_wholly_alike_and_likeness_is_mutual(name: KernelName):
    x = points(7, 2, 0)
    alike = build_kernel(name, 0.8)(x, x)
    torch.testing.assert_close(alike.diagonal(), torch.ones(7, dtype=torch.double))
    torch.testing.assert_close(alike, alike.T)
    assert ((alike >= 0) & (alike <= 1)).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "periodic"])
def test_likeness_falls_with_distance_and_grows_with_length(name: KernelName):
    distance = torch.linspace(0, 4, 50, dtype=torch.double)
    assert (build_kernel(name, 1.3).of_distance(distance).exp().diff() <= 0).all()
    assert (
        build_kernel(name, 2.0).of_distance(distance).exp() >= build_kernel(name, 1.0).of_distance(distance).exp()
    ).all()


@pytest.mark.parametrize("name", POSITIVE_DEFINITE)
@settings(deadline=None, max_examples=20)
@given(count=st.integers(1, 30), width=st.integers(1, 3), length=st.floats(0.05, 5), seed=st.integers(0, 1000))
def test_a_matrix_of_a_positive_definite_kernel_has_no_negative_eigenvalue(
    name: KernelName, count: int, width: int, length: float, seed: int
):
    kernel = build_kernel(name, length, period=0.9)
    assert kernel.positive_definite
    x = points(count, 1 if name == "periodic" else width, seed)
    assert torch.linalg.eigvalsh(kernel(x, x)).min() > -1e-10


@pytest.mark.parametrize("name", ["epanechnikov", "boxcar"])
def test_those_that_end_have_negative_eigenvalues(name: KernelName):
    kernel, x = build_kernel(name, 1.0), torch.linspace(0, 4, 60, dtype=torch.double)[:, None]
    assert not kernel.positive_definite
    assert torch.linalg.eigvalsh(kernel(x, x)).min() < -0.1


def test_the_periodic_kernel_is_positive_definite_on_a_line_and_not_in_a_plane():
    kernel = Periodic(length=1.0, period=1.0)
    on_a_line, in_a_plane = points(60, 1, 0), points(60, 2, 0)
    assert torch.linalg.eigvalsh(kernel(on_a_line, on_a_line)).min() > -1e-10
    assert torch.linalg.eigvalsh(kernel(in_a_plane, in_a_plane)).min() < -0.1


def test_the_periodic_kernel_repeats_itself():
    kernel = build_kernel("periodic", 0.5, period=2.5)
    distance = torch.linspace(0, 2.5, 20, dtype=torch.double)
    torch.testing.assert_close(kernel.of_distance(distance), kernel.of_distance(distance + 5.0))


def test_a_rational_quadratic_kernel_of_large_alpha_is_gaussian():
    x, z = points(5, 2, 0), points(6, 2, 1)
    torch.testing.assert_close(RationalQuadratic(0.7, alpha=1e7)(x, z), Gaussian(0.7)(x, z), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern", "rational_quadratic"])
def test_the_logarithm_tells_points_apart_where_the_kernel_is_zero(name: KernelName):
    far = torch.tensor([[0.0]]), torch.tensor([[1e3], [1e4]])
    nearer, further = build_kernel(name, 1.0).log(*far)[0]
    assert torch.isfinite(further)
    assert nearer > further


def test_points_far_from_the_origin_keep_their_distance():
    x, z = torch.tensor([[1e6]], dtype=torch.float32), torch.tensor([[1e6 + 1]], dtype=torch.float32)
    assert Gaussian(1.0)(x, z).item() == pytest.approx(math.exp(-0.5), rel=1e-6)


@pytest.mark.parametrize("name", POSITIVE_DEFINITE)
def test_a_length_may_be_learned(name: KernelName):
    x, z = points(4, 1, 0), points(3, 1, 1)
    length = torch.tensor(0.8, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda length: build_kernel(name, length, period=1.3)(x, z), length)


def test_a_kernel_that_ends_has_finite_gradients_beyond_its_end():
    length = torch.tensor(1.0, dtype=torch.double, requires_grad=True)
    x, z = torch.zeros(1, 1, dtype=torch.double), torch.tensor([[0.5], [1.0], [3.0]], dtype=torch.double)
    alike = Epanechnikov(length)(x, z)
    assert alike.tolist() == [[0.75, 0.0, 0.0]]
    alike.sum().backward()
    assert length.grad is not None
    assert length.grad.item() == pytest.approx(0.5)  # 2 d² / ℓ³ of the one that is inside


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [0.0, -1.0, math.nan])
def test_a_length_must_be_above_zero(name: KernelName, length: float):
    with pytest.raises(InputError) as error:
        build_kernel(name, length)
    kind = type(build_kernel(name, 1.0)).__name__
    assert str(error.value) == f"{kind} needs a length above zero, but got {length:g}."


def test_every_kernel_has_a_name():
    assert set(KERNELS) == set(NAMES)
