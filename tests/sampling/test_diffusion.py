"""Samplers of diffusion models, with the best prediction that there is: that for data which are one Gaussian."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.diffusion import NoiseSchedule, PredictionName
from neuropil.sampling.diffusion import (
    DiffusionSamplingConfig,
    Estimate,
    Noise,
    Predict,
    SamplerName,
    SeededNoise,
    SpacingName,
    ancestral_step,
    ddim_step,
    dpm_solver_step,
    guided,
    sample,
    sampling_times,
    trajectory,
)

MEAN = torch.tensor([0.6, -0.4], dtype=torch.float64)
COVARIANCE = torch.tensor([[0.30, 0.18], [0.18, 0.20]], dtype=torch.float64)
SCHEDULES = {"linear": NoiseSchedule.linear(1_000), "cosine": NoiseSchedule.cosine(1_000)}
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
every_prediction = pytest.mark.parametrize("kind", ["epsilon", "x0", "v"])


def best(schedule: NoiseSchedule, kind: PredictionName = "epsilon") -> Predict:
    """E[ε | x_t], or E[x_0 | x_t] or E[v | x_t], for x_0 ~ N(m, C)."""

    def predict(x: Tensor, t: Tensor) -> Tensor:
        alpha_bar = schedule.alpha_bar[t[0]].item()
        alpha, variance = math.sqrt(alpha_bar), 1 - alpha_bar
        # x_t ~ N(α m, α² C + σ² I):   E[x_0 | x_t] = m + α C (α² C + σ² I)⁻¹ (x_t − α m)
        gain = alpha * COVARIANCE @ torch.linalg.inv(alpha_bar * COVARIANCE + variance * torch.eye(2).double())
        x0 = MEAN + (x - alpha * MEAN) @ gain.mT
        epsilon = (x - alpha * x0) / math.sqrt(variance)
        return {"x0": x0, "epsilon": epsilon, "v": alpha * epsilon - math.sqrt(variance) * x0}[kind]

    return predict


def gaussian(count: int, seed: int = 0) -> Noise:
    generator = torch.Generator().manual_seed(seed)
    return lambda: torch.randn(count, 2, generator=generator, dtype=torch.float64)


def config(
    sampler: SamplerName, steps: int, eta: float = 0.0, spacing: SpacingName = "even"
) -> DiffusionSamplingConfig:
    return DiffusionSamplingConfig(sampler=sampler, steps=steps, eta=eta, spacing=spacing, clip=False)


# --- data that are one Gaussian ---------------------------------------------------------------------------------------


@every_schedule
@pytest.mark.parametrize(
    ("sampler", "steps", "eta"), [("ddpm", 250, 0.0), ("ddim", 100, 0.0), ("ddim", 250, 0.5), ("dpm_solver", 50, 0.0)]
)
def test_with_the_best_prediction_samples_are_the_data(
    schedule: NoiseSchedule, sampler: SamplerName, steps: int, eta: float
):
    count = 10_000
    drawn = sample(best(schedule), gaussian(count), schedule, config(sampler, steps, eta))
    # Of the means of n numbers: V = σ²/n; of their variances: V = 2 σ⁴ / n, of a covariance (C_ij² + C_ii C_jj) / n.
    # Five such deviations, and 0.5 % for the steps, which are not infinitely small.
    off = (drawn.mean(0) - MEAN).abs()
    assert (off <= 5 * (COVARIANCE.diagonal() / count).sqrt() + 0.005).all()
    variances = COVARIANCE.diagonal()
    deviation = ((COVARIANCE**2 + variances[:, None] * variances) / count).sqrt()
    assert ((drawn.T.cov() - COVARIANCE).abs() <= 5 * deviation + 0.005).all()


def exact_error(sampler: SamplerName, steps: int, schedule: NoiseSchedule, spacing: SpacingName) -> float:
    """Of the covariance that a sampler without noise makes of the true distribution of x_T. It is an affine map here,
    known by what becomes of a base."""
    left = schedule.alpha_bar[-1]
    root = torch.linalg.cholesky(left * COVARIANCE + (1 - left) * torch.eye(2).double())
    base = left.sqrt() * MEAN + torch.cat([torch.zeros(1, 2).double(), root.mT])
    mean, *columns = sample(best(schedule), lambda: base, schedule, config(sampler, steps, 0.0, spacing))
    torch.testing.assert_close(mean, MEAN)
    matrix = torch.stack([column - mean for column in columns], 1)
    return (matrix @ matrix.mT - COVARIANCE).norm().item()


@every_schedule
@pytest.mark.parametrize("spacing", ["even", "quadratic"])
@pytest.mark.parametrize("sampler", ["ddim", "dpm_solver"])
def test_twice_the_steps_leave_at_most_half_of_the_error(
    schedule: NoiseSchedule, sampler: SamplerName, spacing: SpacingName
):
    errors = [exact_error(sampler, steps, schedule, spacing) for steps in (20, 40, 80, 160)]
    assert all(later < 0.55 * earlier for earlier, later in pairwise(errors))


@every_schedule
@pytest.mark.parametrize("spacing", ["even", "quadratic"])
def test_twenty_steps_of_the_solver_are_better_than_eighty_of_ddim(schedule: NoiseSchedule, spacing: SpacingName):
    assert exact_error("dpm_solver", 20, schedule, spacing) < exact_error("ddim", 80, schedule, spacing)


@every_prediction
@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm_solver"])
def test_a_sample_does_not_depend_on_what_the_network_predicts(sampler: SamplerName, kind: PredictionName):
    schedule = SCHEDULES["linear"]
    first = sample(best(schedule), gaussian(5), schedule, config(sampler, 20))
    second = sample(best(schedule, kind), gaussian(5), schedule, config(sampler, 20), prediction=kind)
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


# --- how the samplers hang together -----------------------------------------------------------------------------------


def estimate(t: int, seed: int = 0) -> Estimate:
    generator = torch.Generator().manual_seed(seed)
    x, x0 = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    return Estimate(t, x, x0)


@every_schedule
@settings(max_examples=20)
@given(t=st.integers(2, 1_000), data=st.data())
def test_ddim_with_all_its_noise_is_ancestral_sampling(schedule: NoiseSchedule, t: int, data: st.DataObject):
    s, now = data.draw(st.integers(0, t - 1)), estimate(t)
    noise = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(t))
    first, second = ancestral_step(schedule, now, s, lambda: noise), ddim_step(schedule, now, s, lambda: noise, 1.0)
    torch.testing.assert_close(first, second, rtol=1e-6, atol=1e-6)


@every_schedule
@settings(max_examples=20)
@given(t=st.integers(2, 1_000), data=st.data())
def test_the_first_step_of_the_solver_is_ddim(schedule: NoiseSchedule, t: int, data: st.DataObject):
    s, now = data.draw(st.integers(0, t - 1)), estimate(t)
    first, second = dpm_solver_step(schedule, now, None, s), ddim_step(schedule, now, s, unused)
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


def unused() -> Tensor:
    raise AssertionError("this sampler draws no noise")


def test_a_later_step_of_the_solver_is_exact_where_the_picture_moves_with_the_signal():
    """x̂_0 = a + b λ along the way: then Taylor's series in λ ends after the first derivative, taken at the middle."""
    schedule = SCHEDULES["linear"]
    log_snr = 0.5 * schedule.snr.log()
    a, b = torch.randn(2, 1, 3, dtype=torch.float64)
    before, now = (Estimate(t, torch.ones(1, 3).double(), a + b * log_snr[t]) for t in (600, 500))
    found = dpm_solver_step(schedule, now, before, 400)
    h = (log_snr[400] - log_snr[500]).item()
    middle = a + b * (log_snr[500] + h / 2)
    alpha, sigma = schedule.alpha_bar.sqrt(), (1 - schedule.alpha_bar).sqrt()
    torch.testing.assert_close(found, sigma[400] / sigma[500] * now.x - alpha[400] * (math.exp(-h) - 1) * middle)


@pytest.mark.parametrize("variance", ["small", "large"])
def test_ancestral_noise_has_the_variance_that_was_chosen(variance):
    schedule, now = SCHEDULES["linear"], estimate(500)
    ones = torch.ones(4, 3, dtype=torch.float64)
    spread = ancestral_step(schedule, now, 490, lambda: ones, variance) - ancestral_step(
        schedule, now, 490, lambda: 0 * ones, variance
    )
    beta = 1 - schedule.alpha_bar[500] / schedule.alpha_bar[490]
    small = beta * (1 - schedule.alpha_bar[490]) / (1 - schedule.alpha_bar[500])
    torch.testing.assert_close(spread**2, (small if variance == "small" else beta) * ones)


def test_the_last_step_of_all_draws_no_noise():
    schedule, now = SCHEDULES["cosine"], estimate(1)
    for x in (
        ancestral_step(schedule, now, 0, unused, "large"),
        ddim_step(schedule, now, 0, unused, 1.0),
        dpm_solver_step(schedule, now, estimate(20), 0),
    ):
        torch.testing.assert_close(x, now.x0, rtol=1e-9, atol=1e-9)


# --- the way ----------------------------------------------------------------------------------------------------------


def test_the_trajectory_leads_from_the_noise_to_the_sample():
    schedule = SCHEDULES["cosine"]
    way = list(trajectory(best(schedule), gaussian(3), schedule, config("ddim", 4)))
    assert [step.t for step in way] == [1_000, 750, 500, 250, 0]
    assert torch.equal(way[0].x, gaussian(3)())
    assert torch.equal(way[-1].x, sample(best(schedule), gaussian(3), schedule, config("ddim", 4)))
    assert torch.equal(way[-1].x, way[-1].x0)
    alone = schedule.x0("epsilon", best(schedule)(way[1].x, torch.full((3,), 750)), way[1].x, torch.full((3,), 750))
    assert torch.equal(way[1].x0, alone)


def test_times_can_be_chosen():
    schedule = SCHEDULES["cosine"]
    way = list(trajectory(best(schedule), gaussian(3), schedule, config("ddim", 4), times=[900, 7]))
    assert [step.t for step in way] == [900, 7, 0]


@given(timesteps=st.integers(1, 1_200), data=st.data())
def test_a_squared_time_is_denser_at_the_end_and_each_step_has_its_own(timesteps: int, data: st.DataObject):
    steps = data.draw(st.integers(1, timesteps))
    times = [*sampling_times(timesteps, steps, "quadratic"), 0]
    assert (times[0], len(times)) == (timesteps, steps + 1)
    assert all(earlier > later for earlier, later in pairwise(times))
    assert sum(times) <= sum(sampling_times(timesteps, steps))


@given(timesteps=st.integers(1, 1_200), data=st.data())
def test_times_fall_evenly_from_the_last(timesteps: int, data: st.DataObject):
    steps = data.draw(st.integers(1, timesteps))
    times = [*sampling_times(timesteps, steps), 0]
    assert (times[0], len(times)) == (timesteps, steps + 1)
    gaps = [earlier - later for earlier, later in pairwise(times)]
    assert min(gaps) >= 1
    assert max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize("steps", [0, 1_001])
def test_more_steps_than_in_training_are_refused(steps: int):
    with pytest.raises(InputError) as caught:
        sampling_times(1_000, steps)
    assert str(caught.value) == (
        f"sampling takes from 1 to 1000 steps, the number of steps in training, but got {steps}."
    )


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm_solver"])
def test_clipping_keeps_every_predicted_picture_in_range(sampler: SamplerName):
    schedule = SCHEDULES["cosine"]
    for clip in (True, False):
        options = DiffusionSamplingConfig(sampler=sampler, steps=10, clip=clip)
        way = list(trajectory(lambda x, t: 3 * x, gaussian(50), schedule, options))
        assert all((step.x0.abs() <= 1).all() for step in way[:-1]) == clip


def test_looking_at_the_way_leaves_gradients_as_they_were():
    schedule = SCHEDULES["cosine"]
    for step in trajectory(best(schedule), gaussian(3), schedule, config("ddpm", 3)):
        assert torch.is_grad_enabled()
        assert not step.x.requires_grad


# --- noise and guidance -----------------------------------------------------------------------------------------------


def test_a_picture_depends_on_its_number_and_the_seed_and_on_no_other_picture():
    schedule = SCHEDULES["cosine"]

    def drawn(count: int, seed: int, first: int = 0) -> Tensor:
        noise = SeededNoise(count, (2,), seed, first=first)
        return sample(lambda x, t: best(schedule)(x.double(), t).float(), noise, schedule, config("ddpm", 10))

    whole = drawn(6, seed=3)
    torch.testing.assert_close(drawn(2, seed=3, first=4), whole[4:])
    assert not torch.isclose(drawn(6, seed=4), whole).any()
    assert len(whole.unique()) == 12
    assert SeededNoise(0, (2,), 3)().shape == (0, 2)


def test_noise_is_normal_and_new_at_each_call():
    noise = SeededNoise(1_000, (5, 2), 0)
    first, second = noise(), noise()
    assert first.mean().item() == pytest.approx(0, abs=0.05)
    assert first.std().item() == pytest.approx(1, abs=0.05)
    assert torch.stack([first.flatten(), second.flatten()]).corrcoef()[0, 1].item() == pytest.approx(0, abs=0.05)


def test_noise_is_made_where_it_is_wanted():
    assert SeededNoise(2, (3,), 0, device="meta")().device.type == "meta"


def model(x: Tensor, t: Tensor, classes: Tensor | None) -> Tensor:
    return x.sin() if classes is None else x * (1 + classes.view(-1, 1))


def test_guidance_goes_on_from_no_class_to_the_class():
    x, t, classes = torch.randn(3, 2), torch.full((3,), 5), torch.tensor([0, 1, 2])
    with_class, without = model(x, t, classes), model(x, t, None)
    assert torch.equal(guided(model, classes, 1.0)(x, t), with_class)
    torch.testing.assert_close(guided(model, classes, 0.0)(x, t), without)
    # as Ho and Salimans write it, with w = s − 1
    torch.testing.assert_close(guided(model, classes, 3.5)(x, t), 3.5 * with_class - 2.5 * without)


@every_schedule
def test_guidance_is_the_same_for_any_prediction(schedule: NoiseSchedule):
    t, x = torch.full((4,), 300), torch.randn(4, 2).double()
    classes = torch.arange(4)

    def of(kind: PredictionName) -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
        def predict(x: Tensor, t: Tensor, classes: Tensor | None) -> Tensor:
            epsilon = model(x, t, classes)
            x0 = schedule.x0("epsilon", epsilon, x, t)
            return schedule.target(kind, x0, epsilon, t)

        return predict

    pictures = [schedule.x0(kind, guided(of(kind), classes, 4.0)(x, t), x, t) for kind in ("epsilon", "x0", "v")]
    torch.testing.assert_close(pictures[0], pictures[1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(pictures[0], pictures[2], rtol=1e-9, atol=1e-9)
