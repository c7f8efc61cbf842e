import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import energy_distance
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.data.examples.mixtures import GaussianMixture, grid, ring
from neuropil.models.gan import (
    GAN,
    R1_OF_PICTURES,
    R1_OF_TABLES,
    SIZES,
    AdversarialGame,
    Discriminator,
    GameConfig,
    GANConfig,
    diagnose,
    r1_penalty,
    sample_statistics,
    targeted_attack,
)
from neuropil.protocols import Batch
from neuropil.randomness import initialised, seeded
from neuropil.training.config import TrainingConfig
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit
from neuropil.training.weights import read_tensors


def points(**options: Any) -> GAN:
    torch.manual_seed(0)
    config = GANConfig(shape=(2,), hidden_sizes=(16,), latent_size=3, activation="tanh", **options)
    model = GAN(config).double()
    model.unit_range.fit(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]).double())
    return model


class PointBatches:
    def __init__(self, mixture: GaussianMixture, count: int, size: int, seed: int):
        self.points, self.size, self.seed = mixture.draw(count, seeded("points", seed)), size, seed

    def __len__(self) -> int:
        return len(self.points) // self.size

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        order = torch.randperm(len(self.points), generator=seeded(self.seed, number))
        for index in order.split(self.size)[start : len(self)]:
            yield {"input": self.points[index]}


# --- the losses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_players_losses_are_cross_entropies_and_each_moves_its_own_weights(smoothing: float):
    model, x = points(), torch.rand(7, 2).double()
    game = AdversarialGame(model, GameConfig(r1=0.0, label_smoothing=smoothing))
    real, d = model.unit_range(x), model.discriminator
    torch.manual_seed(5)
    fake = model.generator(torch.randn(7, 3).double())
    targets = torch.full((7,), 1 - smoothing).double(), torch.zeros(7).double()
    expected = F.binary_cross_entropy(d(real).sigmoid(), targets[0]) + F.binary_cross_entropy(
        d(fake).sigmoid(), targets[1]
    )
    torch.manual_seed(5)
    loss = game.discriminator_loss({"input": x})
    torch.testing.assert_close(loss, expected, check_dtype=False, atol=1e-6, rtol=1e-6)
    loss.backward()
    assert all(parameter.grad is None for parameter in model.generator.parameters())
    ours = [parameter.grad for parameter in d.parameters()]
    for mine, theirs in zip(ours, torch.autograd.grad(expected, list(d.parameters())), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-6)
    torch.manual_seed(5)
    cheating = game.generator_loss({"input": x})
    expected = F.binary_cross_entropy(d(fake).sigmoid(), torch.ones(7).double())
    torch.testing.assert_close(cheating, expected, check_dtype=False, atol=1e-6, rtol=1e-6)
    parameters = list(model.generator.parameters())
    for mine, theirs in zip(
        torch.autograd.grad(cheating, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-6)


def test_the_generators_gradient_does_not_vanish_where_it_is_easily_found_out():
    """That of ln(1 − D), the first idea of a loss, does: with D = logistic(d) it is D, and that of −ln D is 1 − D."""
    logit = torch.tensor([-20.0], requires_grad=True)
    (saturating,) = torch.autograd.grad(F.logsigmoid(-logit).sum(), logit)
    model = points()
    with torch.no_grad():
        model.discriminator.output.weight.zero_()
        model.discriminator.output.bias.fill_(-20)
    loss = AdversarialGame(model).generator_loss({"input": torch.zeros(4, 2)})
    (slope,) = torch.autograd.grad(loss, [model.discriminator.output.bias])
    assert slope.item() == pytest.approx(-1, abs=1e-6)
    assert abs(saturating.item()) < 1e-8


def test_the_r1_penalty_of_a_linear_discriminator_is_half_its_squared_slope():
    d = Discriminator(GANConfig(shape=(3,), hidden_sizes=()))
    penalty = r1_penalty(d, torch.rand(6, 3))
    # d(u) = w·(2u − 1) + b
    torch.testing.assert_close(penalty, 0.5 * (2 * d.output.weight).square().sum())
    (gradient,) = torch.autograd.grad(penalty, [d.output.weight])
    torch.testing.assert_close(gradient, 4 * d.output.weight)


def test_the_r1_penalty_is_that_of_finite_differences_and_enters_the_discriminators_loss():
    model, x = points(), torch.rand(5, 2).double()
    real = model.unit_range(x)
    step = 1e-6 * torch.eye(2).double()
    slopes = [(model.discriminator(real + each) - model.discriminator(real - each)) / 2e-6 for each in step]
    expected = 0.5 * (slopes[0] ** 2 + slopes[1] ** 2).mean()
    torch.testing.assert_close(r1_penalty(model.discriminator, real), expected, atol=1e-8, rtol=1e-6)
    losses = []
    for gamma in (0.0, 3.0):
        torch.manual_seed(1)
        losses.append(AdversarialGame(model, GameConfig(r1=gamma)).discriminator_loss({"input": x}))
    torch.testing.assert_close(losses[1] - losses[0], 3 * expected, check_dtype=False, atol=1e-6, rtol=1e-5)


def test_the_penalty_follows_the_data_where_it_is_not_given():
    assert AdversarialGame(points()).r1 == R1_OF_TABLES
    assert AdversarialGame(GAN(GANConfig())).r1 == R1_OF_PICTURES
    assert AdversarialGame(points(), GameConfig(r1=0.0)).r1 == 0


def test_spectral_normalisation_leaves_weights_with_a_largest_singular_value_of_one():
    torch.manual_seed(0)
    model = GAN(GANConfig(network="convolutional", width=4, latent_size=3, spectral_norm=True))
    for _ in range(200):
        model(torch.randn(2, 3))
    layers = [*model.discriminator.encoder.layers, model.discriminator.output]
    norms = [torch.linalg.matrix_norm(layer.weight.flatten(1), 2) for layer in layers]
    torch.testing.assert_close(torch.stack(norms), torch.ones(len(layers)), atol=1e-3, rtol=0)


# --- the game in the loop ---------------------------------------------------------------------------------------------


class Killed(AdversarialGame):
    """Sends its own process the signal of Ctrl-C in an update of the generator."""

    left = 5

    def generator_loss(self, batch: Batch) -> Tensor:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().generator_loss(batch)


def test_a_game_that_was_interrupted_goes_on_to_the_same_weights(tmp_path: Path):
    batches, config = PointBatches(ring(), 200, 20, 0), TrainingConfig(epochs=3, average=0.9, optimizer="rmsprop")
    how: dict[str, Any] = {"seed": 0, "show_progress": False}

    def game(kind: type[AdversarialGame]) -> AdversarialGame:
        model = initialised(lambda: GAN(GANConfig(shape=(2,), hidden_sizes=(8,), latent_size=3, spectral_norm=True)), 0)
        return kind(model, GameConfig(ratio=2))

    whole = game(AdversarialGame)
    fit(whole, batches, None, config, folder=tmp_path, **how)
    broken = tmp_path / "broken"
    broken.mkdir()
    with pytest.raises(Interrupted):
        fit(game(Killed), batches, None, config, folder=broken, **how)
    resumed = game(AdversarialGame)
    fit(resumed, batches, None, config, folder=broken, **how)
    state = resumed.model.state_dict()
    assert any("_u" in name for name in state)
    assert all(torch.equal(value, state[name]) for name, value in whole.model.state_dict().items())


def test_the_phases_have_their_own_rates_and_cadence(tmp_path: Path):
    model = GAN(GANConfig(shape=(2,), hidden_sizes=(8,), latent_size=3))
    options = {"generator_optimizer": "adam", "discriminator_learning_rate": 0.002}
    game = AdversarialGame(model, GameConfig(ratio=3, **options))
    assert [(phase.name, phase.every) for phase in game.phases()] == [("discriminator", 1), ("generator", 3)]
    config = TrainingConfig(epochs=1, optimizer="rmsprop", learning_rate=1e-3, schedule="constant", warmup=0.0)
    rows = fit(game, PointBatches(ring(), 140, 10, 0), None, config, seed=0, folder=tmp_path, show_progress=False)
    tensors, _ = read_tensors(tmp_path / "checkpoint.safetensors")
    names = {name.split("/")[1]: name for name in tensors if name.startswith("optimizer/") and name.endswith("/step")}
    assert {phase: tensors[name].item() for phase, name in names.items()} == {"discriminator": 14, "generator": 4}
    assert any(name.startswith("optimizer/generator/") and name.endswith("exp_avg") for name in tensors)
    assert rows[-1]["discriminator_learning_rate"] == pytest.approx(0.002)
    assert rows[-1]["generator_learning_rate"] == pytest.approx(0.001)


def test_metrics_are_repeatable_and_do_not_move_the_model():
    model = points(spectral_norm=True).eval()
    game, batch = AdversarialGame(model), {"input": torch.rand(30, 2).double()}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first, second = game.metrics(batch), game.metrics(batch)
    assert list(first) == ["discriminator_loss", "generator_loss", "sample_spread", "energy_distance"]
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(value.isfinite().all() for value in game.metrics({"input": torch.rand(1, 2).double()}).values())


# --- how it goes ------------------------------------------------------------------------------------------------------


def test_the_energy_distance_is_that_of_scipy():
    torch.manual_seed(0)
    x, y = torch.rand(40, 1).double(), torch.rand(30, 1).double() ** 2
    among, sampled = (torch.pdist(each).mean() for each in (x, y))
    between = torch.cdist(x, y).mean()
    # scipy's means have the pairs of an example with itself in them.
    theirs = 2 * between - among * 39 / 40 - sampled * 29 / 30
    assert theirs.sqrt().item() == pytest.approx(energy_distance(x[:, 0].numpy(), y[:, 0].numpy()))
    ours = sample_statistics(y, x)
    assert ours["energy_distance"] == pytest.approx(((2 * between - among - sampled) / (2 * between)).item())
    assert ours["sample_spread"] == pytest.approx((sampled / among).item())


def test_samples_of_the_same_distribution_have_its_spread_and_no_distance_and_a_point_has_neither():
    real, same = (ring().draw(2000, seeded(seed)) for seed in (0, 1))
    close, point = sample_statistics(same, real), sample_statistics(torch.ones(500, 2), real)
    assert close["sample_spread"] == pytest.approx(1, abs=0.02)
    assert abs(close["energy_distance"]) < 0.002
    assert point["sample_spread"] == 0
    assert point["energy_distance"] > 0.3


HEALTHY = {"sample_spread": 0.95, "energy_distance": 0.004, "discriminator_loss": 1.3, "generator_loss": 0.8}


@pytest.mark.parametrize(
    ("changed", "name", "evidence"),
    [
        ({"sample_spread": 0.03}, "mode collapse", "samples are only 3% as far apart as real examples"),
        (
            {"discriminator_loss": 0.01, "generator_loss": 7.0},
            "discriminator saturation",
            "the discriminator's loss is 0.010, where 1.386 is chance: it leaves no gradient to follow",
        ),
        (
            {"energy_distance": 0.2, "discriminator_loss": 1.38},
            "weak discriminator",
            "the energy distance is 0.200, but the discriminator's loss 1.380 is nearly chance",
        ),
        (
            {"energy_distance": 0.12, "discriminator_loss": 0.9, "sample_spread": 0.74},
            "missing modes",
            "the energy distance of samples from real examples is 0.120, and their spread 74%",
        ),
    ],
)
def test_what_goes_wrong_has_a_name_and_a_cure(changed: dict[str, float], name: str, evidence: str):
    diagnosis = diagnose(HEALTHY | changed)
    assert diagnosis is not None
    assert (diagnosis.name, diagnosis.evidence) == (name, evidence)
    assert "--" in diagnosis.cure


def test_a_game_that_goes_well_has_no_diagnosis():
    assert diagnose(HEALTHY) is None


# --- the generator's step as an attack --------------------------------------------------------------------------------


def test_the_attack_is_the_gradient_of_the_targeted_loss_at_the_sample():
    model, z = points(), torch.randn(6, 3).double()
    found = targeted_attack(model, z)
    samples = model.generator(z).detach().requires_grad_()
    loss = nn.BCEWithLogitsLoss(reduction="sum")(model.discriminator(samples), torch.ones(6).double())
    (slope,) = torch.autograd.grad(loss, samples)
    torch.testing.assert_close(found.samples, samples.detach())
    torch.testing.assert_close(found.attack, -slope)


def test_the_generators_step_follows_the_attack_through_its_jacobian():
    """Δx̂ = −κ J Jᵀ ∇L, so that all samples together move along the attack by κ ‖Jᵀ ∇L‖²."""
    model, z = points(), torch.randn(6, 3).double()
    found = targeted_attack(model, z, rate=1e-7)
    weights = list(model.generator.parameters())
    jacobian = torch.stack(
        [
            torch.cat([each.flatten() for each in torch.autograd.grad(u, weights, retain_graph=True)])
            for u in model.generator(z).flatten()
        ]
    )
    expected = (jacobian @ (jacobian.T @ found.attack.flatten())).reshape(6, 2) / 6  # the loss is a mean of six
    torch.testing.assert_close(found.step, expected, atol=1e-5, rtol=1e-5)
    along = (found.step * found.attack).sum()
    torch.testing.assert_close(along, (jacobian.T @ found.attack.flatten()).square().sum() / 6, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.cosine, F.cosine_similarity(found.attack, found.step))


def test_both_steps_deceive_the_discriminator_and_none_better_than_the_attack():
    model, z = points(spectral_norm=True), torch.randn(64, 3).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = targeted_attack(model, z, rate=1e-3)
    assert found.stepped_logits.mean() > found.logits.mean()
    assert (found.attacked_logits >= found.stepped_logits - 1e-6).all()
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


# --- modes ------------------------------------------------------------------------------------------------------------


def learned(
    mixture: GaussianMixture, seed: int, folder: Path, updates: int, **game: Any
) -> tuple[GAN, dict[str, float]]:
    model = initialised(lambda: GAN(SIZES["points"]), seed)
    batches = PointBatches(mixture, 20_000, 256, seed)
    model.unit_range.fit(batches.points)
    training = TrainingConfig(
        updates=updates, learning_rate=2e-3, optimizer="rmsprop", weight_decay=0.0, average=0.999, keep="last"
    )
    learner = AdversarialGame(model, GameConfig(**game))
    fit(learner, batches, None, training, seed=seed, folder=folder, show_progress=False)
    with torch.no_grad():
        metrics = learner.metrics({"input": batches.points[:1000]})
    return model, {name: value.mean().item() for name, value in metrics.items()}


@pytest.mark.slow
def test_without_a_penalty_the_generator_collapses_and_the_diagnosis_says_so(tmp_path: Path):
    model, metrics = learned(ring(), 0, tmp_path, 2500, r1=0.0)
    assert ring().coverage(model.unit_range.inverse(model.generate(2500, generator=seeded(0)))).found < 4
    diagnosis = diagnose(metrics)
    assert diagnosis is not None
    assert diagnosis.name == "mode collapse"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mixture", "updates", "seed"),
    [*((ring(), 2500, seed) for seed in range(5)), *((grid(), 5000, seed) for seed in range(2))],
    ids=[*(f"ring-{seed}" for seed in range(5)), *(f"grid-{seed}" for seed in range(2))],
)
def test_every_mode_is_found_whatever_the_seed(mixture: GaussianMixture, updates: int, seed: int, tmp_path: Path):
    model, metrics = learned(mixture, seed, tmp_path, updates)
    samples = model.unit_range.inverse(model.generate(2500, generator=seeded("samples", seed)))
    coverage = mixture.coverage(samples)
    assert coverage.found == len(mixture.centres)
    assert coverage.good_share > 0.5
    assert diagnose(metrics) is None
