import math
from pathlib import Path
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence

from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.embedded import load_digits
from neuropil.models import vae
from neuropil.models.vae import (
    VAE,
    ELBOConfig,
    EvidenceLowerBound,
    Posterior,
    VAEConfig,
    collapsed_dimensions,
    kl_of_dimensions,
)
from neuropil.protocols import ScheduledLearner
from neuropil.randomness import initialised, seeded
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit

Likelihood = Literal["bernoulli", "gaussian"]
LIKELIHOODS: list[Likelihood] = ["bernoulli", "gaussian"]


def small(
    likelihood: Likelihood = "bernoulli", *, latent_size: int = 1, sigma: float | None = None, seed: int = 0
) -> VAE:
    """Of six numbers in the unit range, with weights large enough that its posteriors are no normal distributions."""
    torch.manual_seed(seed)
    config = VAEConfig(
        hidden_sizes=(8,), activation="tanh", latent_size=latent_size, shape=(6,), likelihood=likelihood, sigma=sigma
    )
    model = VAE(config).double().eval()
    model.unit_range.fit(torch.stack([torch.zeros(6), torch.ones(6)]).double())
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter += torch.randn_like(parameter)
        model.log_variance.weight *= 0.3
    return model


def inputs(count: int = 4) -> Tensor:
    return torch.randint(0, 2, (count, 6), generator=torch.Generator().manual_seed(1)).double()


# --- the bound --------------------------------------------------------------------------------------------------------


@given(st.floats(-3, 3), st.floats(-4, 2))
def test_the_kl_is_that_of_torch(mean: float, log_variance: float):
    q = Posterior(torch.tensor([[mean]]).double(), torch.tensor([[log_variance]]).double())
    expected = kl_divergence(Normal(q.mean, (q.log_variance / 2).exp()), Normal(0.0, 1.0))
    torch.testing.assert_close(q.kl, expected, check_dtype=False)


def test_the_kl_is_the_mean_of_the_log_ratio_of_both_densities():
    torch.manual_seed(0)
    q = Posterior(torch.tensor([[0.7, -1.2]]), torch.tensor([[-1.0, 0.5]]))
    z = q.at(torch.randn(400_000, 1, 2))
    ratio = Normal(q.mean, (q.log_variance / 2).exp()).log_prob(z) - Normal(0.0, 1.0).log_prob(z)
    error = ratio.std(0) / math.sqrt(len(z))
    assert ((ratio.mean(0) - q.kl).abs() < 4 * error).all()
    assert error.max() < 0.003


def exact(model: VAE, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ln p(x), E_q[ln p(x|z)] and KL(q(z|x) ‖ p(z|x)), by quadrature over a latent space of one dimension."""
    z = torch.linspace(-12, 12, 48_001, dtype=torch.double)[:, None]
    step = z[1, 0] - z[0, 0]
    u, q = model.unit_range(x), model.posterior(x)
    given_z = -model.reconstruction_error(model.decoder(z).unsqueeze(1).expand(-1, len(x), -1), u)  # point batch
    joint = given_z + Normal(0.0, 1.0).log_prob(z)
    log_p = joint.logsumexp(0) + step.log()
    log_q = Normal(q.mean.T, (q.log_variance.T / 2).exp()).log_prob(z)
    expected = (log_q.exp() * given_z).sum(0) * step
    gap = (log_q.exp() * (log_q - (joint - log_p))).sum(0) * step
    return log_p, expected, gap


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@torch.no_grad()
def test_minus_the_log_likelihood_is_below_the_bound_by_the_kl_to_the_true_posterior(likelihood: Likelihood):
    """−ln p(x) ≤ KL(q ‖ p(z)) − E_q[ln p(x|z)], and the rest is KL(q ‖ p(z|x))."""
    model, x = small(likelihood), inputs(8)
    log_p, expected, gap = exact(model, x)
    bound = model.posterior(x).kl.sum(1) - expected
    assert (-log_p < bound).all()
    assert gap.min() > 0.01
    torch.testing.assert_close(bound + log_p, gap)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@torch.no_grad()
def test_the_importance_weighted_bound_rises_with_its_samples_to_the_log_likelihood(likelihood: Likelihood):
    model, x = small(likelihood), inputs(1)
    (log_p,), (expected,), _ = exact(model, x)
    elbo = expected - model.posterior(x).kl.sum()
    many, means = x.expand(4096, -1), []
    for samples in (1, 4, 16, 64):
        estimates = model.log_likelihood(many, samples, generator=seeded(samples))
        means.append(estimates.mean().item())
        if samples == 1:
            assert means[0] == pytest.approx(elbo.item(), abs=4 * estimates.std().item() / 64)
    assert means == sorted(means)
    assert means[-1] < log_p
    assert model.log_likelihood(x.expand(16, -1), 5000, generator=seeded(0)).mean().item() == pytest.approx(
        log_p.item(), abs=0.01
    )


def test_with_the_true_posterior_one_sample_is_enough():
    """A decoder that ignores its code has the prior as its posterior: every sample has the same weight."""
    model, x = small(), inputs()
    with torch.no_grad():
        for layer in (model.mean, model.log_variance, model.get_submodule("decoder.layers.0")):
            layer.get_parameter("weight").zero_()
            layer.get_parameter("bias").zero_()
    expected = Independent(Bernoulli(logits=model.decoder(torch.zeros(1, 1).double())), 1).log_prob(x)
    torch.testing.assert_close(model.log_likelihood(x, 1), expected)
    torch.testing.assert_close(model.log_likelihood(x, 9), expected)


@torch.no_grad()
def test_samples_are_taken_a_few_at_a_time_without_a_difference(monkeypatch: pytest.MonkeyPatch):
    model, x, noise = small(latent_size=2), inputs(3), torch.randn(50, 3, 2).double()
    q = model.posterior(x)
    z = q.mean + (q.log_variance / 2).exp() * noise
    weights = Independent(Bernoulli(logits=model.decoder(z.flatten(0, 1)).unflatten(0, (50, 3))), 1).log_prob(x)
    weights += Independent(Normal(0.0, 1.0 + torch.zeros(2)), 1).log_prob(z)
    weights -= Independent(Normal(q.mean, (q.log_variance / 2).exp()), 1).log_prob(z)
    left, rows = iter(noise), []

    def drawn(count: int, batch: int, *, generator: torch.Generator | None) -> Tensor:
        rows.append(count * batch)
        return torch.stack([next(left) for _ in range(count)])

    monkeypatch.setattr(model, "_noise", drawn)
    monkeypatch.setattr(vae, "DECODED_AT_ONCE", 21)
    torch.testing.assert_close(model.log_likelihood(x, 50), weights.logsumexp(0) - math.log(50))
    assert rows == [21] * 7 + [3]


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("likelihood", "sigma"), [("bernoulli", None), ("gaussian", None), ("gaussian", 0.3)])
def test_loss_and_gradient_are_those_of_torchs_distributions(likelihood: Likelihood, sigma: float | None):
    model, x = small(likelihood, latent_size=3, sigma=sigma).train(), inputs(5)
    torch.manual_seed(7)
    loss = EvidenceLowerBound(model, ELBOConfig(beta=0.7)).loss({"input": x})
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    torch.manual_seed(7)
    h = model.encoder(x)
    q = Normal(model.mean(h), model.log_variance(h).exp().sqrt())
    logits = model.decoder(q.rsample())
    s = model.log_sigma.exp() if sigma is None else sigma
    p = Bernoulli(logits=logits) if likelihood == "bernoulli" else Normal(logits.sigmoid(), s)
    expected = (0.7 * kl_divergence(q, Normal(0.0, 1.0)).sum(1) - p.log_prob(x).sum(1)).mean()
    torch.testing.assert_close(loss, expected)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, list(model.parameters())), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_metrics_are_the_parts_of_the_bound_and_repeatable():
    learner = EvidenceLowerBound(small("gaussian", latent_size=2), ELBOConfig(beta=2.0, free_bits=5.0))
    learner.begin_update(0.01)
    batch = {"input": inputs(6)}
    first, second = learner.metrics(batch), learner.metrics(batch)
    assert all(torch.equal(first[name], second[name]) for name in ("loss", "kl", "reconstruction"))
    torch.testing.assert_close(first["loss"], 2 * first["kl"] + first["reconstruction"])
    torch.testing.assert_close(first["kl"], learner.model.posterior(batch["input"]).kl.sum(1))


def test_the_weight_of_the_kl_rises_along_the_warm_up():
    learner = EvidenceLowerBound(small(), ELBOConfig(beta=3.0, kl_warmup=0.2))
    assert isinstance(learner, ScheduledLearner)
    weights = []
    for share in (0.0, 0.1, 0.2, 1.0):
        learner.begin_update(share)
        weights.append(learner.beta)
    assert weights == pytest.approx([0.0, 1.5, 3.0, 3.0])
    model, batch = learner.model, {"input": inputs()}
    learner.begin_update(0.05)
    reconstruction = model.reconstruction_error(model(batch["input"]).outputs, batch["input"]).mean()
    torch.testing.assert_close(
        learner.loss(batch), 0.75 * model.posterior(batch["input"]).kl.sum(1).mean() + reconstruction
    )
    cold = EvidenceLowerBound(small(), ELBOConfig(beta=3.0, kl_warmup=0.0))
    cold.begin_update(0.0)
    assert cold.beta == 3.0


def test_free_bits_take_the_pull_of_the_prior_from_dimensions_that_say_less():
    torch.manual_seed(0)
    model, x = small(latent_size=2), inputs(6)
    kl = model.posterior(x).kl.mean(0)
    quiet, loud = kl.argsort().tolist()
    learner = EvidenceLowerBound(model, ELBOConfig(free_bits=kl.mean().item(), kl_warmup=0.0))
    without = EvidenceLowerBound(model, ELBOConfig(kl_warmup=0.0))
    (gradient,), (full,) = (
        torch.autograd.grad(each.loss({"input": x}), [model.mean.bias]) for each in (learner, without)
    )
    pull = model.posterior(x).mean.mean(0)  # ∂KL/∂μ = μ
    torch.testing.assert_close((full - gradient)[quiet], pull[quiet])
    torch.testing.assert_close((full - gradient)[loud], torch.zeros(()).double())


def test_a_learned_sigma_is_best_at_the_root_mean_square_error():
    model, x = small("gaussian"), inputs(50)
    with torch.no_grad():
        logits, u = model(x).outputs, model.unit_range(x)
        model.log_sigma.copy_((logits.sigmoid() - u).square().mean().sqrt().log())
    (slope,) = torch.autograd.grad(model.reconstruction_error(logits, u).mean(), [model.log_sigma])
    assert slope.abs() < 1e-9


def test_binarised_pixels_are_black_or_white_with_the_pixel_as_probability():
    torch.manual_seed(0)
    model = VAE(VAEConfig(hidden_sizes=(4,), latent_size=2))
    learner = EvidenceLowerBound(model, ELBOConfig(binarize=True))
    x = torch.randint(0, 256, (1, 1, 8, 8), dtype=torch.uint8)
    drawn = learner.observed(x.expand(20_000, -1, -1, -1))
    assert drawn.unique().tolist() == [0.0, 255.0]
    torch.testing.assert_close(drawn.mean(0), x[0].float(), atol=0.02 * 255, rtol=0)
    assert torch.equal(learner.observed(x, seeded(1)), learner.observed(x, seeded(1)))
    batch = {"input": x.expand(9, -1, -1, -1)}
    assert torch.equal(learner.metrics(batch)["loss"], learner.metrics(batch)["loss"])
    assert torch.equal(EvidenceLowerBound(model).observed(x), x)


def test_a_dimension_that_no_input_moves_is_collapsed():
    model, x = small(latent_size=4), inputs(64)
    with torch.no_grad():
        for layer in (model.mean, model.log_variance):
            layer.weight[[0, 2]] = 0
            layer.bias[[0, 2]] = 0
    kl = kl_of_dimensions(model, x)
    torch.testing.assert_close(kl.double(), model.posterior(x).kl.mean(0), atol=1e-6, rtol=1e-5)
    assert collapsed_dimensions(kl) == [0, 2]
    assert collapsed_dimensions(kl, threshold=100) == [0, 1, 2, 3]


def test_samples_depend_on_the_seed_alone_and_are_in_the_unit_range():
    model = small(latent_size=3)
    first, again, other = (model.generate(5, generator=seeded(seed)) for seed in (1, 1, 2))
    assert first.shape == (5, 6)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 0 <= first.min() < first.max() <= 1


def test_noise_is_drawn_in_training_and_left_out_otherwise():
    model, x = small(latent_size=2), inputs()
    torch.testing.assert_close(model(x).outputs, model.decoder(model.encode(x)))
    assert not torch.equal(model.train()(x).outputs, model(x).outputs)
    noise = torch.randn(4, 2).double()
    torch.testing.assert_close(model(x, noise).outputs, model.decoder(model.posterior(x).at(noise)))


@pytest.mark.slow
def test_it_learns_the_digits_better_than_pixels_that_know_nothing_of_each_other(tmp_path: Path):
    digits = load_digits()
    train, test = digits.take(torch.arange(1400)), digits.take(torch.arange(1400, 1797))
    model = initialised(lambda: VAE(VAEConfig(hidden_sizes=(256,), latent_size=16)), 0)
    learner = EvidenceLowerBound(model, ELBOConfig(binarize=True))
    config = TrainingConfig(updates=3000, learning_rate=2e-3, weight_decay=0.0, keep="last")
    fit(learner, ExampleBatches(train, 64, 0, shuffle=True), None, config, seed=0, folder=tmp_path, show_progress=False)
    x = learner.observed(test.inputs, seeded("test"))
    probability = (train.inputs / 255).mean(0).clamp(0.01, 0.99)
    independent = Bernoulli(probability).log_prob(x / 255).flatten(1).sum(1).mean().item()
    found = model.log_likelihood(x, 500, generator=seeded(0)).mean().item()
    assert found > independent + 3
