"""The RBM beside scikit-learn's BernoulliRBM with the same weights."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.neural_network import BernoulliRBM
from torch import Tensor

from neuropil.models.rbm import RBM, RBMConfig
from real_data import digits

X = digits()[0][:300].reshape(300, 64) / 255


@pytest.fixture(scope="module")
def theirs() -> BernoulliRBM:
    return BernoulliRBM(n_components=30, n_iter=3, random_state=0).fit(X)


@pytest.fixture(scope="module")
def ours(theirs: BernoulliRBM) -> RBM:
    model = RBM(RBMConfig(hidden_size=30, shape=(64,), chains=10)).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(theirs.components_.T))
        model.visible_bias.copy_(torch.from_numpy(theirs.intercept_visible_))
        model.hidden_bias.copy_(torch.from_numpy(theirs.intercept_hidden_))
    model.scale.fit(torch.tensor([[0.0], [1.0]]).expand(-1, 64))
    return model


@pytest.fixture(scope="module")
def v() -> Tensor:
    return torch.from_numpy(X)


def test_free_energies_agree(ours: RBM, theirs: BernoulliRBM, v: Tensor):
    np.testing.assert_allclose(ours(v).detach(), theirs._free_energy(X), rtol=1e-12)


def test_features_agree(ours: RBM, theirs: BernoulliRBM, v: Tensor):
    np.testing.assert_allclose(ours.hidden_mean(v).detach(), theirs.transform(X), rtol=1e-12)


def test_means_of_a_gibbs_step_agree(ours: RBM, theirs: BernoulliRBM, v: Tensor):
    h = (X @ theirs.components_.T > 0).astype(float)
    expected = expit(h @ theirs.components_ + theirs.intercept_visible_)
    np.testing.assert_allclose(ours.visible_mean(torch.from_numpy(h)).detach(), expected, rtol=1e-12)
    # and samples of both have the same mean, within four standard errors of a difference
    torch.manual_seed(0)
    count, one = 4000, X[:1]
    found = ours.gibbs_step(v[:1].expand(count, -1)).numpy().mean(0)
    reference = np.mean([theirs.gibbs(np.repeat(one, 500, 0)).mean(0) for _ in range(count // 500)], axis=0)
    error = np.sqrt((found * (1 - found) + reference * (1 - reference)) / count)
    assert (np.abs(found - reference) <= 4 * error + 1e-3).all()


def test_pseudo_likelihoods_agree_for_the_same_flipped_units(ours: RBM, theirs: BernoulliRBM, v: Tensor):
    """`score_samples` draws them from its random state, as here."""
    units = np.random.RandomState(0).randint(0, 64, len(X))
    found = ours.pseudo_likelihood(v, torch.from_numpy(units))
    np.testing.assert_allclose(found.detach(), theirs.score_samples(X), rtol=1e-10)


def test_the_update_is_theirs_for_the_same_particles(ours: RBM, theirs: BernoulliRBM, v: Tensor):
    """`_fit` moves by the learning rate along what the gradient of our loss is, with the same batch and particles."""
    batch, particles = v[:10], (v[10:20] > 0.5).double()
    h, h_particles = (theirs._mean_hiddens(part.numpy()) for part in (batch, particles))
    loss = ours(batch, particles)
    slopes = torch.autograd.grad(loss, [ours.weight, ours.visible_bias, ours.hidden_bias])
    expected = [
        (batch.numpy().T @ h - particles.numpy().T @ h_particles) / 10,
        (batch - particles).mean(0).numpy(),
        (h - h_particles).mean(0),
    ]
    for slope, other in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(-slope, other, atol=1e-12)
