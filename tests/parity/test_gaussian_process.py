"""Gaussian processes and their kernels beside scikit-learn's: equal to 1e-6 for any points, hyperparameters and
noise."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from torch.nn import functional as F

from neuropil.models.gaussian_process import (
    GaussianProcess,
    GaussianProcessConfig,
    LearnedAttention,
    attended_mean,
    smooth,
)
from neuropil.parts.attention import Smoothing, attention_weights
from neuropil.parts.kernels import Gaussian, KernelName, Laplacian, RationalQuadratic, build_kernel

PERIOD = 1.6


def sklearn_kernel(name: KernelName, length: float) -> Any:
    return {
        "gaussian": lambda: kernels.RBF(length),
        "laplacian": lambda: kernels.Matern(length, nu=0.5),
        "matern": lambda: kernels.Matern(length, nu=1.5),
        "rational_quadratic": lambda: kernels.RationalQuadratic(length, alpha=1.0),
        "periodic": lambda: kernels.ExpSineSquared(length, PERIOD),
    }[name]()


def sklearn_process(kernel: Any, x: np.ndarray, y: np.ndarray, alpha: float = 0.0, **options: Any) -> Any:
    """Without options, the hyperparameters stay as they are."""
    arguments: dict[str, Any] = {"optimizer": None} | options
    return GaussianProcessRegressor(kernel, alpha=alpha, **arguments).fit(x, y)


NAMES: list[KernelName] = ["gaussian", "laplacian", "matern", "rational_quadratic", "periodic"]
problems = given(
    count=st.integers(1, 25),
    queries=st.integers(1, 10),
    width=st.integers(1, 3),
    length=st.floats(0.05, 5),
    height=st.floats(0.1, 10),
    noise=st.floats(1e-3, 2),
    seed=st.integers(0, 10_000),
)


def drawn(count: int, queries: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)), rng.normal(size=count), 1.5 * rng.normal(size=(queries, width))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=15)
@given(
    count=st.integers(1, 8),
    queries=st.integers(1, 8),
    width=st.integers(1, 3),
    length=st.floats(0.05, 5),
    seed=st.integers(0, 1000),
)
def test_kernels_equal_scikit_learns(name: KernelName, count: int, queries: int, width: int, length: float, seed: int):
    x, _, query = drawn(count, queries, width, seed)
    ours = build_kernel(name, length, period=PERIOD)(torch.from_numpy(query), torch.from_numpy(x))
    np.testing.assert_allclose(ours.numpy(), sklearn_kernel(name, length)(query, x), rtol=1e-9, atol=1e-12)


def test_kernels_with_other_shapes_equal_scikit_learns():
    x, _, query = drawn(6, 5, 2, 0)
    ours = RationalQuadratic(0.7, alpha=2.3)(torch.from_numpy(query), torch.from_numpy(x))
    theirs: Any = kernels.RationalQuadratic(0.7, alpha=2.3)
    np.testing.assert_allclose(ours.numpy(), theirs(query, x), rtol=1e-10)
    ours = Gaussian(0.7)(torch.from_numpy(query), torch.from_numpy(x))
    np.testing.assert_allclose(ours.numpy(), rbf_kernel(query, x, gamma=1 / (2 * 0.7**2)), rtol=1e-10)
    ours = Laplacian(0.7)(torch.from_numpy(query[:, :1]), torch.from_numpy(x[:, :1]))  # theirs adds up the axes
    np.testing.assert_allclose(ours.numpy(), laplacian_kernel(query[:, :1], x[:, :1], gamma=1 / 0.7), rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20)
@problems
def test_mean_variance_and_likelihood_equal_scikit_learns(
    name: KernelName, count: int, queries: int, width: int, length: float, height: float, noise: float, seed: int
):
    x, y, query = drawn(count, queries, 1 if name == "periodic" else width, seed)
    config = GaussianProcessConfig(kernel=name, length=length, height=height, noise=noise, period=PERIOD)
    ours = GaussianProcess(config).fit(torch.from_numpy(x), torch.from_numpy(y))
    kernel = kernels.ConstantKernel(height) * sklearn_kernel(name, length)
    theirs = sklearn_process(kernel, x, y, noise)

    mean, deviation = theirs.predict(query, return_std=True)
    predicted = ours.predict(torch.from_numpy(query))
    np.testing.assert_allclose(predicted.mean.numpy(), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(predicted.variance.numpy(), deviation**2, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        ours.log_likelihood().item(), theirs.log_marginal_likelihood_value_, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_the_likelihood_equal_scikit_learns(name: KernelName):
    x, y, _ = drawn(20, 1, 1, 3)
    ours = GaussianProcess(GaussianProcessConfig(kernel=name, length=0.6, height=1.4, noise=0.3, period=PERIOD))
    ours.fit(torch.from_numpy(x), torch.from_numpy(y)).log_likelihood().backward()
    kernel = kernels.ConstantKernel(1.4) * sklearn_kernel(name, 0.6) + kernels.WhiteKernel(0.3)
    theirs = sklearn_process(kernel, x, y)
    _, gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    found = dict(zip([parameter.name for parameter in theirs.kernel_.hyperparameters], gradient, strict=True))
    prior = ours.prior
    for parameter, place in (
        (prior.log_height, "constant_value"),
        (prior.log_length, "length_scale"),
        (prior.log_noise, "noise_level"),
    ):
        assert parameter.grad is not None
        (expected,) = [value for key, value in found.items() if key.endswith(place)]
        np.testing.assert_allclose(parameter.grad.item(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern"])
def test_samples_of_the_posterior_have_scikit_learns_mean_and_covariance(name: KernelName):
    x, y, query = drawn(6, 4, 1, 1)
    ours = GaussianProcess(GaussianProcessConfig(kernel=name, length=0.9, noise=0.1)).fit(
        torch.from_numpy(x), torch.from_numpy(y)
    )
    samples = ours.sample(torch.from_numpy(query), 40_000, torch.Generator().manual_seed(0)).numpy()
    mean, covariance = sklearn_process(sklearn_kernel(name, 0.9), x, y, 0.1).predict(query, return_cov=True)
    np.testing.assert_allclose(samples.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(samples.T), covariance, atol=0.03)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern"])
@pytest.mark.parametrize("seed", range(3))
def test_learning_finds_a_likelihood_as_high_as_scikit_learns(name: KernelName, seed: int):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, size=(40, 1))
    y = 20 + 5 * np.sin(2 * x[:, 0]) + rng.normal(size=40)
    ours = GaussianProcess(GaussianProcessConfig(kernel=name)).fit(torch.from_numpy(x), torch.from_numpy(y)).learn()
    kernel = kernels.ConstantKernel(10.0, (1e-3, 1e6)) * sklearn_kernel(name, 1.0) + kernels.WhiteKernel(
        1.0, (1e-6, 1e3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of theirs, where a start runs against a bound
        theirs = sklearn_process(
            kernel, x, y - y.mean(), optimizer="fmin_l_bfgs_b", n_restarts_optimizer=3, random_state=0
        )
    assert ours.log_likelihood().item() > theirs.log_marginal_likelihood_value_ - 1e-3


@settings(deadline=None, max_examples=30)
@given(
    count=st.integers(1, 12),
    queries=st.integers(1, 6),
    width=st.integers(1, 3),
    length=st.floats(0.3, 4),
    seed=st.integers(0, 1000),
)
def test_smoothing_is_the_formula_of_nadaraya_and_watson(
    count: int, queries: int, width: int, length: float, seed: int
):
    x, y, query = drawn(count, queries, width, seed)
    k = rbf_kernel(query, x, gamma=1 / (2 * length**2))
    expected = k @ y / k.sum(1)
    ours = smooth(torch.from_numpy(query), torch.from_numpy(x), torch.from_numpy(y), Gaussian(length))
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6, atol=1e-8)
    weights = attention_weights(torch.from_numpy(query), torch.from_numpy(x), score=Smoothing(Gaussian(length)))
    np.testing.assert_allclose(weights.numpy(), k / k.sum(1, keepdims=True), rtol=1e-6, atol=1e-9)


@settings(deadline=None, max_examples=20)
@problems
def test_one_operation_gives_smoothing_the_mean_of_a_process_and_attention(
    count: int, queries: int, width: int, length: float, height: float, noise: float, seed: int
):
    """Softmax of a score, times values: y and ln k for Nadaraya and Watson; (K + σ²I)⁻¹ y, and the sum of k put back,
    for the process; W^Q φ, W^K φ and W^V [y, φ] for attention."""
    x, y, query = drawn(count, queries, width, seed)
    ours_x, ours_y, asked = (torch.from_numpy(each) for each in (x, y, query))
    k = rbf_kernel(query, x, gamma=1 / (2 * length**2))
    if (k.sum(1) > 1e-200).all():
        expected = k @ y / k.sum(1)
        np.testing.assert_allclose(smooth(asked, ours_x, ours_y, Gaussian(length)), expected, rtol=1e-6, atol=1e-8)
    options = {"kernel": "gaussian", "length": length, "height": height, "noise": noise}
    process = GaussianProcess(GaussianProcessConfig(**options)).fit(ours_x, ours_y)
    theirs = sklearn_process(height * kernels.RBF(length), x, y, alpha=noise)
    np.testing.assert_allclose(attended_mean(process, asked), theirs.predict(query), rtol=1e-6, atol=1e-6)
    covariance = height * rbf_kernel(x, gamma=1 / (2 * length**2))
    weights = covariance @ np.linalg.inv(covariance + noise * np.eye(count))  # K (K + σ²I)⁻¹, not normalised
    np.testing.assert_allclose(process.weights(ours_x), weights, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(attended_mean(process, ours_x), weights @ y, rtol=1e-6, atol=1e-6)
    attention = LearnedAttention(ours_x, ours_y, length, waves=3)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.double))
        q, keys = attention.project(asked)
        values = attention.values()[:, None]
        torch.testing.assert_close(attention(asked), F.scaled_dot_product_attention(q, keys, values)[:, 0])
