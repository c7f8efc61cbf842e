"""Samples of predictive coding against what is known of linear networks in closed form."""

import pytest
import torch

from neuropil.errors import InputError
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.sampling.predictive_coding import LayerNoise, ancestral_samples, fit_noise


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(direction: str = "down", hidden_sizes: tuple[int, ...] = (5, 4)) -> PredictiveCoding:
    torch.manual_seed(0)
    config = PredictiveCodingConfig(shape=(6,), outputs=3, hidden_sizes=hidden_sizes, activation="identity")
    return PredictiveCoding(config.override(direction=direction)).double()


def spread_noise(units: int, seed: int) -> LayerNoise:
    return LayerNoise(*(torch.randn(*size, generator=generator(seed)).double() for size in ((units,), (units, units))))


def test_noise_has_the_mean_and_covariance_of_the_errors():
    errors = torch.randn(50, 4, generator=generator()).double() @ torch.randn(4, 4, generator=generator(1)).double()
    noise = LayerNoise.of(errors + 3)
    torch.testing.assert_close(noise.mean, errors.mean(0) + 3)
    torch.testing.assert_close(noise.root @ noise.root.mT, errors.mT.cov())
    drawn = noise.draw(200_000, generator(2))
    torch.testing.assert_close(drawn.mean(0), noise.mean, atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.mT.cov(), errors.mT.cov(), atol=0.1, rtol=0.02)


def test_samples_of_a_linear_network_have_the_mean_and_covariance_of_the_closed_form():
    """x² = t A + a + e,  x¹ = x² B + b + f,  x⁰ = x¹ C + c: Gaussian, with Σ₀ = Cᵀ (Bᵀ Σ₂ B + Σ₁) C."""
    model, noises = network(), [spread_noise(4, 1), spread_noise(5, 2)]
    target = torch.tensor([[0.0, 1.0, 0.0]]).double()
    x = ancestral_samples(model, target.expand(400_000, -1), noises, generator()).double()
    mean, covariance = target[0], torch.zeros(3, 3).double()
    for connection, noise in zip(model.connections, [*noises, None], strict=True):
        weight = connection.weight.detach()
        mean, covariance = connection(mean[None])[0].detach(), weight.mT @ covariance @ weight
        if noise is not None:
            mean, covariance = mean + noise.mean, covariance + noise.root @ noise.root.mT
    size = covariance.diagonal().max().sqrt().item()
    torch.testing.assert_close(x.mean(0), mean, atol=0.01 * size, rtol=0)
    torch.testing.assert_close(x.mT.cov(), covariance, atol=0.01 * size**2, rtol=0)


def test_the_noise_of_each_hidden_layer_is_that_of_settled_errors():
    """At rest a linear network of one hidden layer has x¹ = (t A + x⁰ Cᵀ) (I + C Cᵀ)⁻¹, biases being zero at first."""
    model = network(hidden_sizes=(5,))
    model.config = model.config.override(rate=10.0)  # as far as is stable
    upper, lower = (connection.weight.detach() for connection in model.connections)
    x, labels = torch.randn(40, 6, generator=generator()).double(), torch.arange(40) % 3
    predicted = model.encode_target(labels) @ upper
    settled = (predicted + x @ lower.mT) @ torch.linalg.inv(torch.eye(5).double() + lower @ lower.mT)
    (noise,) = fit_noise(model, x, labels)
    torch.testing.assert_close(noise.mean, (settled - predicted).mean(0), atol=1e-4, rtol=0)
    torch.testing.assert_close(noise.root @ noise.root.mT, (settled - predicted).mT.cov(), atol=1e-4, rtol=0)


def test_predictions_that_only_go_up_make_no_examples():
    for call in (
        lambda: fit_noise(network("up"), torch.zeros(2, 6), torch.zeros(2).long()),
        lambda: ancestral_samples(network("up"), torch.zeros(2, 3).double(), [], generator()),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == (
            "predictive coding makes examples by predictions that go down, but got direction='up': "
            "train it with direction='both'."
        )
