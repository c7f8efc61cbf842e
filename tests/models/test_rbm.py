"""What is true of a restricted Boltzmann machine, beside sums over all of its states."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.rbm import RBM, ContrastiveDivergence, RBMConfig, binary_states
from neuropil.protocols import Batch
from neuropil.training.config import TrainingConfig
from neuropil.training.loop import fit
from real_data import digits

KINDS = pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])


def machine(num_visible: int, num_hidden: int, *, spread: float = 1.0, seed: int = 0, **options: Any) -> RBM:
    """In double precision, with weights and biases that are not small, and inputs that are visible states."""
    generator = torch.Generator().manual_seed(seed)
    model = RBM(RBMConfig(hidden_size=num_hidden, shape=(num_visible,), **options)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator, dtype=torch.double))
        if not model.gaussian:
            model.scale.fit(torch.tensor([[0.0], [1.0]]).expand(-1, num_visible))
    return model


def all_states(visible: int, hidden: int) -> tuple[Tensor, Tensor]:
    """Every pair of a visible and a hidden state, as [2ⁿ, 1, n] and [2ᵐ, m]."""
    return binary_states(visible, 0, 2**visible)[:, None], binary_states(hidden, 0, 2**hidden)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- energies ---------------------------------------------------------------------------------------------------------


def test_the_energy_is_the_sum_over_units_and_their_pairs():
    model = machine(3, 4)
    v, h = torch.tensor([1.0, 0.0, 1.0]).double(), torch.tensor([0.0, 1.0, 1.0, 0.0]).double()
    pairs = sum((v[i] * model.weight[i, j] * h[j]).item() for i, j in itertools.product(range(3), range(4)))
    expected = -pairs - (model.visible_bias @ v).item() - (model.hidden_bias @ h).item()
    assert model.energy(v, h).item() == pytest.approx(expected)


def test_the_energy_of_gaussian_units_has_a_square_for_each():
    model = machine(3, 2, visible="gaussian", sigma=0.5)
    v, h = torch.tensor([0.3, -2.0, 1.0]).double(), torch.tensor([1.0, 0.0]).double()
    pairs = sum((v[i] * model.weight[i, j] * h[j]).item() for i, j in itertools.product(range(3), range(2))) / 0.25
    squares = (v - model.visible_bias).square().sum().item() / 0.5
    assert model.energy(v, h).item() == pytest.approx(squares - pairs - (model.hidden_bias @ h).item())


@KINDS
def test_energy_gaps_are_differences_of_energies(visible: Any):
    model = machine(3, 4, visible=visible, sigma=0.7)
    v, h = torch.rand(5, 3, generator=generator()).double(), torch.rand(5, 4, generator=generator()).round().double()
    for unit in range(4):
        on, off = h.clone(), h.clone()
        on[:, unit], off[:, unit] = 1, 0
        torch.testing.assert_close(model.hidden_gap(v)[:, unit], model.energy(v, on) - model.energy(v, off))
    if visible == "bernoulli":
        for unit in range(3):
            on, off = v.clone(), v.clone()
            on[:, unit], off[:, unit] = 1, 0
            torch.testing.assert_close(model.visible_gap(h)[:, unit], model.energy(on, h) - model.energy(off, h))


@KINDS
@given(size=st.tuples(st.integers(1, 5), st.integers(1, 6)), seed=st.integers(0, 1000))
def test_the_free_energy_is_the_sum_over_hidden_states(visible: Any, size: tuple[int, int], seed: int):
    model = machine(*size, seed=seed, visible=visible, sigma=0.8)
    v = torch.rand(4, size[0], generator=generator(seed)).double()
    h = binary_states(size[1], 0, 2 ** size[1])
    # F(v) = −ln Σ_h e^{−E(v, h)}
    torch.testing.assert_close(model.free_energy(v), -(-model.energy(v[:, None], h)).logsumexp(1))


@KINDS
@torch.no_grad()
def test_under_autocast_energies_and_samples_keep_all_digits(visible: Any):
    model = machine(20, 30, visible=visible, sigma=0.7).float()
    v, h = torch.rand(6, 20, generator=generator()), torch.rand(6, 30, generator=generator()).round()
    particles = torch.rand(9, 20, generator=generator(1)).round()

    def energies() -> list[Tensor]:
        return [model.energy(v, h), model.free_energy(v), model(v), model(v, particles)]

    expected = energies()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(energies(), expected)
        assert model.gibbs_step(v).dtype == model.hidden_mean(v).dtype == torch.float32
        assert ContrastiveDivergence(model).particles(v).dtype == torch.float32


@KINDS
def test_the_gradient_under_autocast_is_the_same(visible: Any):
    model = machine(20, 30, visible=visible, sigma=0.7).float()
    v, particles = (torch.rand(count, 20, generator=generator(count)).round() for count in (6, 9))
    model(v, particles).backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(v, particles)
    loss.backward()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected)


def test_the_model_answers_with_free_energies():
    model, x = machine(4, 3), torch.rand(2, 4).double()
    torch.testing.assert_close(model(x), model.free_energy(model.encode(x)))


# --- likelihoods ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(3, 5), (6, 2), (4, 4)])
def test_the_partition_function_is_the_sum_over_all_states(size: tuple[int, int]):
    model = machine(*size)
    torch.testing.assert_close(model.log_partition(), (-model.energy(*all_states(*size))).logsumexp((0, 1)))


def test_the_partition_function_of_gaussian_units_is_an_integral():
    model = machine(2, 3, visible="gaussian", sigma=0.6)
    grid = torch.linspace(-8, 8, 401, dtype=torch.double)
    densities = (-model.free_energy(torch.cartesian_prod(grid, grid))).exp()
    torch.testing.assert_close(model.log_partition(), (densities.sum() * (grid[1] - grid[0]) ** 2).log())


def test_a_sum_in_pieces_is_the_same_sum():
    model = machine(18, 16, spread=0.3)
    whole = model._log_visible_sums(binary_states(16, 0, 2**16)).logsumexp(0)
    torch.testing.assert_close(model.log_partition(), whole)


def test_the_likelihoods_of_all_states_sum_to_one():
    model = machine(5, 3)
    likelihoods = model.log_likelihood(binary_states(5, 0, 32), model.log_partition()).exp()
    assert likelihoods.sum().item() == pytest.approx(1)


def test_the_pseudo_likelihood_is_that_of_each_unit_given_all_others():
    model, v = machine(5, 3), binary_states(5, 0, 32)
    joint = model.log_likelihood(v, model.log_partition()).exp()
    total = torch.zeros(32).double()
    for unit in range(5):
        # q(v_i | v_others) = q(v) / (q(v) + q(v with unit i flipped)), whose number differs by one bit
        expected = (joint / (joint + joint[torch.arange(32) ^ 2**unit])).log()
        torch.testing.assert_close(model.pseudo_likelihood(v, torch.full((32,), unit)), 5 * expected)
        total += expected.detach()
    torch.testing.assert_close(model.pseudo_likelihood(v), total)


# --- learning ---------------------------------------------------------------------------------------------------------


def slopes(model: RBM, value: Tensor) -> Tensor:
    return torch.cat([slope.flatten() for slope in torch.autograd.grad(value, list(model.parameters()))])


def exact_slope(model: RBM, v: Tensor) -> Tensor:
    """Of the mean of −ln q(v), by autograd."""
    return slopes(model, -model.log_likelihood(v, model.log_partition()).mean())


@given(size=st.tuples(st.integers(1, 4), st.integers(1, 4)), seed=st.integers(0, 1000))
def test_the_gradient_is_the_difference_of_two_mean_energy_gradients(size: tuple[int, int], seed: int):
    """E_{q(h|v)}[∇E] − E_{q(v,h)}[∇E], with both expectations as sums over all states."""
    model = machine(*size, seed=seed)
    data = torch.randint(0, 2, (3, size[0]), generator=generator(seed)).double()
    v, h = all_states(*size)
    energies, given = model.energy(v, h), model.energy(data[:, None], h)
    free_running = (-energies).flatten().softmax(0).reshape(energies.shape).detach()
    clamped = (-given).softmax(1).detach()
    difference = (clamped * given).sum(1).mean() - (free_running * energies).sum()
    torch.testing.assert_close(slopes(model, difference), exact_slope(model, data))


@KINDS
def test_the_contrast_of_mean_energies_has_the_gradient_of_the_difference_of_free_energies(visible: Any):
    model = machine(4, 5, visible=visible, sigma=0.7)
    data, particles = (
        torch.rand(6, 4, generator=generator()).double(),
        torch.rand(3, 4, generator=generator(1)).double(),
    )
    difference = model(data).mean() - model.free_energy(particles).mean()
    torch.testing.assert_close(slopes(model, model(data, particles)), slopes(model, difference))


@KINDS
def test_the_weighted_energy_is_that_over_the_hidden_states_given_the_visible_ones(visible: Any):
    model, h = machine(3, 4, visible=visible, sigma=0.7), binary_states(4, 0, 16)
    v, weights = binary_states(3, 0, 8), torch.randn(8, generator=generator()).double()
    energies = model.energy(v[:, None], h)
    expected = weights @ ((-energies).softmax(1) * energies).sum(1)
    torch.testing.assert_close(model.weighted_energy(v, weights), expected)


def test_with_particles_of_the_model_the_loss_has_the_exact_gradient():
    """As many copies of every visible state as q(v) says."""
    model, data = machine(3, 4), torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).double()
    v = binary_states(3, 0, 8)
    shares = model.log_likelihood(v, model.log_partition()).exp().detach()
    copies = (shares * 200_000).round().long()
    contrast = model(data, v.repeat_interleave(copies, 0))
    torch.testing.assert_close(slopes(model, contrast), exact_slope(model, data), atol=1e-4, rtol=1e-3)


def learner(model: RBM, chains: int, steps: int) -> ContrastiveDivergence:
    model.config = replace(model.config, chains=chains, steps=steps)
    return ContrastiveDivergence(model)


DATA = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]]).double()


def distance(model: RBM, loss: Tensor) -> float:
    """Of the gradient of a loss to that of the likelihood of the data, in units of that."""
    exact = exact_slope(model, DATA)
    return float((slopes(model, loss) - exact).norm() / exact.norm())


def distance_to_exact(model: RBM, steps: int) -> float:
    torch.manual_seed(0)
    return distance(model, learner(model, 0, steps).loss({"input": DATA.repeat(20_000, 1)}))


def two_modes(weight: float) -> RBM:
    """All units on, or all off, is what it likes: the larger the weight, the longer it takes from one to the other."""
    model = machine(4, 3)
    with torch.no_grad():
        model.weight.fill_(weight)
        model.visible_bias.fill_(-1.5 * weight)
        model.hidden_bias.fill_(-2 * weight)
    return model


def test_contrastive_divergence_approaches_the_gradient_as_steps_grow():
    distances = [distance_to_exact(two_modes(2.0), steps) for steps in (1, 4, 16, 64, 256)]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.8
    assert distances[-1] < 0.02


def test_persistent_chains_approach_the_gradient_with_one_step_for_each_update():
    model, data = two_modes(1.2), {"input": DATA}
    objective = learner(model, chains=40_000, steps=1)
    torch.manual_seed(0)
    distances = [distance(model, objective.loss(data)) for _ in range(64)]
    assert distances[0] > 0.3
    assert distances[-1] < 0.02


def test_contrastive_divergence_begins_at_the_data_and_persistent_chains_where_they_were():
    model = machine(6, 2, spread=0.01)
    with torch.no_grad():
        model.visible_bias.zero_()
        model.weight[:, 0], model.hidden_bias[0] = 40.0, -20.0  # one unit that knows whether all pixels are on
    model.visible_bias.data -= 20
    on, off = torch.ones(5, 6).double(), torch.zeros(5, 6).double()
    from_data = learner(model, chains=0, steps=1)
    assert torch.equal(from_data.particles(on), on)
    assert torch.equal(from_data.particles(off), off)
    assert from_data.state_dict() == {}
    chains = learner(model, chains=3, steps=2)
    first = chains.particles(on)
    assert first.shape == (3, 6)
    assert torch.equal(chains.particles(off), first)
    assert torch.equal(chains.state_dict()["chains"], first)


def test_mean_field_particles_are_probabilities_and_their_chains_are_samples():
    model = machine(6, 4, mean_field=True)
    x = torch.randint(0, 2, (5, 6), generator=generator()).double()
    for chains in (0, 5):
        objective = learner(model, chains=chains, steps=3)
        particles = objective.particles(x)
        assert ((particles > 0) & (particles < 1)).all()
        if objective.chains is not None:
            assert set(objective.chains.unique().tolist()) == {0.0, 1.0}


def test_pixels_are_probabilities_that_are_sampled_in_training_if_asked():
    x = torch.randint(0, 256, (1, 1, 8, 8), dtype=torch.uint8, generator=generator()).expand(2000, -1, -1, -1)
    plain, sampled = RBM(RBMConfig()), RBM(RBMConfig(binarize=True))
    torch.testing.assert_close(plain.encode(x), x.flatten(1) / 255)
    drawn = sampled.encode(x)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert (drawn.mean(0) - x[0].flatten() / 255).abs().max() < 0.06
    torch.testing.assert_close(sampled.eval().encode(x), x.flatten(1) / 255)
    torch.testing.assert_close(sampled.decode(sampled.encode(x)), x.float())


def test_marginals_are_the_best_model_without_weights():
    images = torch.from_numpy(digits()[0])[:, None]
    model = RBM(RBMConfig())
    model.fit_marginals(images)
    nothing = torch.zeros(1, 256)
    shares = (images / 255).flatten(1).mean(0)
    torch.testing.assert_close(model.visible_mean(nothing)[0], shares.clamp(0.01, 0.99))


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_units_are_stochastic_with_the_probability_of_their_gap_and_temperature(temperature: float):
    model = machine(3, 2)
    v = torch.tensor([1.0, 0.0, 1.0]).double()
    energies = torch.stack([model.energy(v, h) for h in binary_states(2, 0, 4)])
    joint = (-energies / temperature).softmax(0)
    expected = torch.stack([joint[1] + joint[3], joint[2] + joint[3]])
    torch.testing.assert_close(model.hidden_mean(v, temperature), expected)
    samples = model.sample_hidden(v.expand(40_000, -1), temperature, generator())
    torch.testing.assert_close(samples.mean(0), expected, atol=0.01, rtol=0)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_gaussian_units_vary_around_their_means_by_sigma_and_temperature(temperature: float):
    model = machine(2, 3, visible="gaussian", sigma=0.7)
    h = torch.tensor([1.0, 0.0, 1.0]).double()
    v = model.sample_visible(h.expand(40_000, -1), temperature, generator())
    mean = model.visible_bias + model.weight[:, 0] + model.weight[:, 2]
    torch.testing.assert_close(v.mean(0), mean, atol=0.02, rtol=0)
    torch.testing.assert_close(v.std(0), torch.full((2,), 0.7 * math.sqrt(temperature)).double(), rtol=0.02, atol=0)


def test_gaussian_units_model_a_mixture_of_gaussians():
    """One hidden unit: N(b, σ²) and N(b + w, σ²), the second e^{c + (‖b + w‖² − ‖b‖²) / 2σ²} times as often."""
    model = machine(1, 1, visible="gaussian", sigma=0.5)
    b, w, c = (parameter.item() for parameter in (model.visible_bias, model.weight, model.hidden_bias))
    odds = math.exp(c + ((b + w) ** 2 - b**2) / 0.5)
    x = torch.linspace(-2, 2, 9, dtype=torch.double)

    def normal(mean: float) -> np.ndarray:
        return np.exp(-((x.numpy() - mean) ** 2) / 0.5) / math.sqrt(0.5 * math.pi)

    expected = (normal(b) + odds * normal(b + w)) / (1 + odds)
    found = model.log_likelihood(x[:, None], model.log_partition()).exp().detach()
    np.testing.assert_allclose(found.numpy(), expected)


# --- training ---------------------------------------------------------------------------------------------------------


class DigitBatches:
    def __init__(self, size: int, count: int = 500):
        self.images, self.size = torch.from_numpy(digits()[0][:count])[:, None], size

    def __len__(self) -> int:
        return len(self.images) // self.size

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = torch.randperm(len(self.images), generator=generator(number))
        for index in range(start, len(self)):
            yield {"input": self.images[order[index * self.size : (index + 1) * self.size]]}


def trained(
    folder: Path, *, epochs: int = 10, rate: float = 0.05, checkpoint_seconds: float = 20.0, **options: Any
) -> tuple[RBM, list[dict[str, Any]]]:
    torch.manual_seed(0)
    model, batches = RBM(RBMConfig(hidden_size=64, **options)), DigitBatches(50)
    model.fit_marginals(batches.images)
    how: dict[str, Any] = {"schedule": "constant", "warmup": 0, "momentum": 0.9, "weight_decay": 1e-4, "keep": "last"}
    config = TrainingConfig(
        epochs=epochs, optimizer="momentum", learning_rate=rate, checkpoint_seconds=checkpoint_seconds, **how
    )
    rows = fit(ContrastiveDivergence(model), batches, batches, config, seed=0, folder=folder, show_progress=False)
    return model, [row for row in rows if row["kind"] == "validation"]


def without_weights() -> dict[str, float]:
    """What the best model of independent pixels reaches."""
    model, images = RBM(RBMConfig(hidden_size=64)), DigitBatches(50).images
    model.fit_marginals(images)
    model.weight.data.zero_()
    return {
        name: values.mean().item() for name, values in ContrastiveDivergence(model).metrics({"input": images}).items()
    }


@pytest.mark.parametrize(("chains", "steps"), [(0, 1), (50, 5)])
def test_the_one_loop_trains_it_by_contrastive_divergence(chains: int, steps: int, tmp_path: Path):
    _, rows = trained(tmp_path, chains=chains, steps=steps)
    last, unlearned = rows[-1], without_weights()
    assert last["pseudo_likelihood"] > unlearned["pseudo_likelihood"] + 3
    assert last["reconstruction_error"] < 0.6 * unlearned["reconstruction_error"]
    assert last["loss"] == -last["pseudo_likelihood"]


def test_gaussian_units_learn_to_reconstruct_standardised_pixels(tmp_path: Path):
    _, rows = trained(tmp_path, rate=0.002, visible="gaussian")
    assert rows[-1]["reconstruction_error"] < 0.3  # of a variance of 1
    assert "pseudo_likelihood" not in rows[-1]


def test_a_run_that_was_killed_goes_on_with_its_chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole, _ = trained(tmp_path / "whole", epochs=2)
    losses: list[Tensor] = []
    loss = ContrastiveDivergence.loss

    def fatal(self: ContrastiveDivergence, batch: Batch) -> Tensor:
        losses.append(loss(self, batch))
        if len(losses) == 13:
            raise KeyboardInterrupt
        return losses[-1]

    with monkeypatch.context() as patched:
        patched.setattr(ContrastiveDivergence, "loss", fatal)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "killed", epochs=2, checkpoint_seconds=0.0)
    again, rows = trained(tmp_path / "killed", epochs=2)
    assert [row["step"] for row in rows] == [10, 20]
    for expected, found in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(found, expected)


def test_a_reconstruction_is_a_picture_like_its_input(tmp_path: Path):
    model, _ = trained(tmp_path, chains=0)
    images = DigitBatches(50).images[:20]
    found = model.reconstruct(images).detach()
    assert found.shape == images.shape
    assert ((found >= 0) & (found <= 255)).all()
    mean = DigitBatches(50).images.float().mean(0)
    assert (found - images).square().mean() < 0.6 * (mean - images).square().mean()


# --- what is refused --------------------------------------------------------------------------------------------------


def message(call: Any, *arguments: Any) -> str:
    with pytest.raises(InputError) as error:
        call(*arguments)
    return str(error.value)


def test_a_large_layer_cannot_be_enumerated_and_the_message_says_what_can():
    assert message(RBM(RBMConfig(hidden_size=21)).log_partition) == (
        "the exact partition function needs a layer of at most 20 binary units, but got 21: estimate it by annealed "
        "importance sampling."
    )


def test_gaussian_units_have_no_energy_gap():
    model = machine(2, 3, visible="gaussian")
    assert message(model.visible_gap, torch.zeros(1, 3).double()) == (
        "an energy gap needs visible units of two states, but got Gaussian ones."
    )


def test_another_shape_of_inputs_is_refused():
    assert message(RBM(RBMConfig()), torch.zeros(2, 1, 9, 9)) == (
        "inputs must have the shape [batch, 1, 8, 8] that the model was made for, but got [2, 1, 9, 9]."
    )
