"""The process of denoising diffusion against what probability theory says of it, and the objective that learns from
it."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from neuropil.data.examples.embedded import load_digits
from neuropil.errors import InputError
from neuropil.models.diffusion import (
    Denoising,
    Diffusion,
    DiffusionConfig,
    LossName,
    NoiseSchedule,
    PredictionName,
    VarianceName,
)

SCHEDULES = {"linear": NoiseSchedule.linear(1_000), "cosine": NoiseSchedule.cosine(1_000)}
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
times = st.integers(1, 1_000)


def small(**options: Any) -> Diffusion:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"channels": (8, 16), "depth": 1, "attention_levels": (1,), "groups": 4, "shape": (1, 8, 8)}
    sizes |= {"classes": 10, **options}
    model = Diffusion(DiffusionConfig(**sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model.eval()


def near(mine: Tensor, other: Tensor, within: float = 1e-12) -> None:
    torch.testing.assert_close(mine, other, atol=within, rtol=within)


# --- the process ------------------------------------------------------------------------------------------------------


@every_schedule
def test_the_closed_form_is_the_chain_of_single_steps(schedule: NoiseSchedule):
    x0 = torch.tensor([[0.7, -0.3]], dtype=torch.float64)
    mean, variance = x0, torch.zeros(1, 1, dtype=torch.float64)
    for number in range(1, schedule.timesteps + 1):
        t = torch.tensor([number])
        step = schedule.transition(mean, t)
        # Of a linear map of a Gaussian: E[a x + noise] = a E[x],  V[a x + noise] = a² V[x] + V[noise]
        mean, variance = step.mean, (1 - step.variance) * variance + step.variance
        closed = schedule.noised(x0, t)
        near(mean, closed.mean)
        near(variance, closed.variance)


@every_schedule
@settings(max_examples=20)
@given(t=times, steps=st.integers(1, 1_000))
def test_the_posterior_is_bayes_rule(schedule: NoiseSchedule, t: int, steps: int):
    s = max(t - steps, 0)
    x0, x = torch.tensor([[0.4]], dtype=torch.float64), torch.tensor([[-1.1]], dtype=torch.float64)
    found = schedule.posterior(x0, x, torch.tensor([t]), torch.tensor([s]))
    a_s, a_t = schedule.alpha_bar[s].item(), schedule.alpha_bar[t].item()
    if s == 0:
        near(found.mean, x0)
        near(found.variance, torch.zeros_like(x0))
        return
    # q(x_s | x_0) = N(√ᾱ_s x_0, 1 − ᾱ_s),  q(x_t | x_s) = N(a x_s, 1 − a²): precisions add up
    a = math.sqrt(a_t / a_s)
    precision = 1 / (1 - a_s) + a**2 / (1 - a**2)
    near(found.variance, torch.full_like(x0, 1 / precision), 1e-9)
    near(found.mean, (math.sqrt(a_s) * x0 / (1 - a_s) + a * x / (1 - a**2)) / precision, 1e-9)


def test_a_posterior_is_of_the_step_before_unless_another_is_named():
    schedule, x = SCHEDULES["cosine"], torch.randn(3, 2, dtype=torch.float64)
    t = torch.tensor([2, 500, 1_000])
    for mine, other in zip(schedule.posterior(2 * x, x, t), schedule.posterior(2 * x, x, t, t - 1), strict=True):
        assert torch.equal(mine, other)


@every_schedule
def test_a_picture_ends_as_noise_and_its_signal_only_falls(schedule: NoiseSchedule):
    assert schedule.alpha_bar[0] == 1
    assert schedule.alpha_bar[-1] < 1e-4
    assert (schedule.snr.diff() < 0).all()
    assert torch.isinf(schedule.snr[0])


def test_the_cosine_is_as_nichol_and_dhariwal_wrote_it():
    schedule = NoiseSchedule.cosine(10)
    f = [math.cos((t / 10 + 0.008) / 1.008 * math.pi / 2) ** 2 for t in range(11)]
    near(schedule.alpha_bar[:10], torch.tensor([f[t] / f[0] for t in range(10)], dtype=torch.float64))
    assert schedule.beta[-1] == 0.999


@every_schedule
@settings(max_examples=20)
@given(t=times, kind=st.sampled_from(["epsilon", "x0", "v"]))
def test_each_prediction_gives_the_noise_and_the_picture_back(schedule: NoiseSchedule, t: int, kind: PredictionName):
    torch.manual_seed(t)
    x0, epsilon, time = torch.randn(2, 3).double(), torch.randn(2, 3).double(), torch.tensor([t, t])
    x = schedule.add_noise(x0, epsilon, time)
    target = schedule.target(kind, x0, epsilon, time)
    near(schedule.x0(kind, target, x, time), x0, 1e-9)
    near(schedule.epsilon(kind, target, x, time), epsilon, 1e-9)


@every_schedule
@settings(max_examples=20)
@given(t=times)
def test_single_precision_loses_nothing_where_there_is_little_noise(schedule: NoiseSchedule, t: int):
    time, like = torch.tensor([t]), torch.zeros(1, 1)
    for mine, exact in zip(schedule.alpha_sigma(time, like), schedule.alpha_sigma(time, like.double()), strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-7, atol=0)


# --- the bound and the simple loss ------------------------------------------------------------------------------------


@every_schedule
@pytest.mark.parametrize("variance", ["small", "large"])
@settings(max_examples=20)
@given(t=st.integers(2, 1_000))
def test_a_weight_of_the_bound_is_what_noise_costs_in_kullback_and_leibler(
    schedule: NoiseSchedule, variance: VarianceName, t: int
):
    x0, epsilon, guess = (torch.tensor([[value]], dtype=torch.float64) for value in (0.3, -0.8, 0.5))
    time = torch.tensor([t])
    x = schedule.add_noise(x0, epsilon, time)
    true = schedule.posterior(x0, x, time)
    sigma2 = true.variance if variance == "small" else schedule.beta[t].view(1, 1)

    def cost(noise: Tensor) -> Tensor:
        mean = schedule.posterior(schedule.x0("epsilon", noise, x, time), x, time).mean
        return kl_divergence(Normal(true.mean, true.variance.sqrt()), Normal(mean, sigma2.sqrt()))

    weight = schedule.bound_weights(variance)[t]
    torch.testing.assert_close(cost(guess) - cost(epsilon), weight * (epsilon - guess) ** 2, rtol=1e-6, atol=0)
    if variance == "small":
        near(cost(epsilon), torch.zeros(1, 1, dtype=torch.float64))


@every_schedule
def test_a_weight_of_the_bound_is_half_the_loss_of_signal(schedule: NoiseSchedule):
    # λ_t ‖ε − ε̂‖² = ½ (SNR(t−1) − SNR(t)) ‖x_0 − x̂_0‖²,  ‖ε − ε̂‖² = SNR(t) ‖x_0 − x̂_0‖²
    expected = (schedule.snr[1:-1] - schedule.snr[2:]) / 2
    torch.testing.assert_close(schedule.bound_weights()[2:] * schedule.snr[2:], expected, rtol=1e-6, atol=0)


def test_the_weight_of_the_first_step_has_the_variance_of_the_second():
    schedule = SCHEDULES["linear"]
    b1, b2 = schedule.beta[1].item(), schedule.beta[2].item()
    variance = b2 * b1 / (1 - (1 - b1) * (1 - b2))
    weights = schedule.bound_weights()
    assert weights[0] == 0
    assert weights[1].item() == pytest.approx(b1**2 / (2 * variance * (1 - b1) * b1), rel=1e-9)


def batch(count: int = 6) -> dict[str, Tensor]:
    digits = load_digits()
    return {"input": digits.inputs[:count], "target": digits.targets[:count]}


@pytest.mark.parametrize("kind", ["epsilon", "x0", "v"])
def test_the_losses_are_their_equations_written_out(kind: PredictionName):
    model, data = small(prediction=kind), batch()
    torch.manual_seed(3)
    told = Denoising(model).loss(data).item()
    torch.manual_seed(3)
    t = torch.randint(1, 1_001, (6,))
    x0 = data["input"] / 127.5 - 1
    epsilon = torch.randn(6, 1, 8, 8)
    alpha, sigma = (
        root.view(-1, 1, 1, 1).float()
        for root in (model.schedule.alpha_bar[t].sqrt(), (1 - model.schedule.alpha_bar[t]).sqrt())
    )
    x = alpha * x0 + sigma * epsilon
    predicted = model(x, t, data["target"])
    target = {"epsilon": epsilon, "x0": x0, "v": alpha * epsilon - sigma * x0}[kind]
    assert told == pytest.approx((target - predicted).square().mean().item(), rel=1e-5)
    noise = {"epsilon": predicted, "x0": (x - alpha * predicted) / sigma, "v": sigma * x + alpha * predicted}[kind]
    weighted = 1_000 * model.schedule.bound_weights()[t] * (epsilon - noise).square().mean((1, 2, 3))
    objective = Denoising(small(prediction=kind, loss="bound"))
    torch.manual_seed(3)
    bounded = objective.loss(data).item()
    assert bounded == pytest.approx(weighted.mean().item(), rel=1e-4)


def test_the_loss_is_a_weighted_mean():
    objective, data, count = Denoising(small()), batch(), len(batch()["input"])

    def loss(weights: torch.Tensor | None) -> float:
        torch.manual_seed(3)
        return objective.loss(data if weights is None else {**data, "weight": weights}).item()

    alone = [loss(row) for row in torch.eye(count)]
    assert loss(None) == pytest.approx(sum(alone) / count, rel=1e-5)
    weights = torch.arange(float(count))
    expected = (weights * torch.tensor(alone)).sum() / weights.sum()
    assert loss(weights) == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("loss", ["simple", "bound"])
def test_what_is_measured_depends_on_the_example_alone(loss: LossName):
    objective, data = Denoising(small(loss=loss)), batch()
    with torch.no_grad():
        whole = objective.metrics(data)
        torch.manual_seed(99)
        alone = [objective.metrics({name: values[5:] for name, values in data.items()}) for _ in range(2)]
    assert list(whole) == ["loss", "bound"]
    assert torch.equal(whole["loss"], whole["bound"]) == (loss == "bound")
    for name, values in whole.items():
        assert torch.equal(alone[0][name], alone[1][name])
        torch.testing.assert_close(alone[0][name], values[5:], rtol=1e-4, atol=1e-6)
    assert len(set(whole["loss"].tolist())) == 6


def test_what_is_measured_is_what_training_sees_on_average():
    objective, data = Denoising(small()), batch(100)
    torch.manual_seed(0)
    with torch.no_grad():
        trained = torch.stack([objective.loss(data) for _ in range(10)]).mean()
        measured = objective.metrics(data)["loss"].mean()
    assert measured.item() == pytest.approx(trained.item(), rel=0.05)


def test_training_sees_other_times_and_noise_at_every_seed():
    objective, data, losses = Denoising(small()), batch(), []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        losses.append(objective.loss(data).item())
    assert losses[0] == losses[2] != losses[1]


def test_a_model_without_classes_needs_no_target():
    objective = Denoising(small(classes=0))
    assert torch.isfinite(objective.loss({"input": batch()["input"]}))


# --- the model --------------------------------------------------------------------------------------------------------


def test_pictures_come_back_from_the_scale_inside():
    model, pictures = small(), batch()["input"]
    x0 = model.scaled(pictures)
    assert (x0.min().item(), x0.max().item()) == (-1.0, 1.0)
    torch.testing.assert_close(model.pictures(x0), pictures.float(), atol=1e-3, rtol=0)
    assert model.pictures(torch.tensor([[[[-3.0, 3.0]]]])).tolist() == [[[[0.0, 255.0]]]]


def test_numbers_of_another_range_come_back_too():
    model = small()
    data = torch.randn(20, 1, 8, 8)
    model.unit_range.fit(data)
    x0 = model.scaled(data)
    assert (x0.min().item(), x0.max().item()) == pytest.approx((-1.0, 1.0), abs=1e-6)
    torch.testing.assert_close(model.pictures(x0), data, atol=1e-5, rtol=0)


def test_the_network_counts_times_from_zero():
    model, x, t = small(), torch.randn(2, 1, 8, 8), torch.tensor([1, 1_000])
    with torch.no_grad():
        assert torch.equal(model(x, t, t * 0), model.unet(x, t - 1, t * 0))


def test_a_schedule_that_leaves_a_picture_behind_is_refused():
    with pytest.raises(InputError) as caught:
        DiffusionConfig(timesteps=100, beta_schedule="linear")
    assert str(caught.value) == (
        "a noise schedule must end with ᾱ_T below 0.1, but got 0.36: choose more timesteps, a larger beta_end, or the "
        "cosine schedule."
    )
    assert DiffusionConfig(timesteps=100, beta_schedule="linear", beta_end=0.2).noise_schedule.alpha_bar[-1] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["epsilon", "x0", "v"])
@pytest.mark.parametrize(("loss", "share"), [("simple", 0.5), ("bound", 0.9)])
def test_it_learns_to_take_noise_from_digits(kind: PredictionName, loss: LossName, share: float):
    """By the bound it learns more slowly: few times t have nearly all of its weight."""
    model = small(prediction=kind, loss=loss)
    objective, digits = Denoising(model.train()), load_digits()
    held_out = {"input": digits.inputs[1_600:], "target": digits.targets[1_600:]}

    def measured() -> float:
        with torch.no_grad():
            return objective.metrics(held_out)["loss"].mean().item()

    before, optimizer = measured(), torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(150):
        torch.manual_seed(step)
        chosen = torch.randint(1_600, (64,))
        loss_value = objective.loss({"input": digits.inputs[chosen], "target": digits.targets[chosen]})
        optimizer.zero_grad()
        loss_value.backward()
        optimizer.step()
    assert measured() < share * before
