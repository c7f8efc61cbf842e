"""Sampling from a diffusion model: from noise x_T to a picture x_0, in as many steps as there is time for.

    ancestral       x_s ~ N(μ_q(x̂_0, x_t), σ² I)                                   Ho 2020
    DDIM            x_s = √ᾱ_s x̂_0 + √(1−ᾱ_s−σ²) ε̂ + σ z,   σ² = η² β̃              Song 2021
    DPM-Solver++    x_s = (σ_s/σ_t) x_t − α_s (e^{−h} − 1) D                       Lu 2022: second order, multistep (2M)
                    D = x̂_0 + (x̂_0 − x̂_0') h / 2h',   h = λ_s − λ_t,   λ = ln(α/σ),   α = √ᾱ,   σ = √(1−ᾱ)

Each step goes from a time t to an earlier one, s, by one prediction at x_t, from which x̂_0 and ε̂ follow; x̂_0' and h'
are those of the step before. DDIM with η = 0 and DPM-Solver++ draw no noise, so that x_0 is a function of x_T; DDIM
with η = 1 is ancestral sampling.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.models.diffusion import NoiseSchedule, PredictionName, VarianceName
from neuropil.randomness import seeded

Pictures: TypeAlias = Float[Tensor, "batch *shape"]
Times: TypeAlias = Int64[Tensor, " batch"]
Predict: TypeAlias = Callable[[Pictures, Times], Pictures]
"""From x_t and t to what the network predicts: ε, x_0 or v."""
Noise: TypeAlias = Callable[[], Pictures]
"""New numbers from N(0, I) at each call; the first are x_T."""
SamplerName = Literal["ddpm", "ddim", "dpm_solver"]
SpacingName = Literal["even", "quadratic"]


class DiffusionSamplingConfig(Config):
    sampler: SamplerName = option("dpm_solver", "sampler: ddpm (ancestral), ddim, or dpm_solver (DPM-Solver++ 2M)")
    steps: int = option(20, "number of sampling steps; at most as many as in training", low=1)
    spacing: SpacingName = option("quadratic", "times of the steps: even, or quadratic, which is denser at the end")
    eta: float = option(0.0, "η of DDIM: 0 draws no noise, 1 as much as ancestral sampling", low=0, high=1)
    clip: bool = option(True, "clip each predicted x_0 to −1 … 1")
    guidance: float = option(1.0, "scale of classifier-free guidance; 1 for none", low=0, high=1e6)


class Estimate(NamedTuple):
    """x_t, and the x_0 that was predicted from it."""

    t: int
    x: Pictures
    x0: Pictures


def sample(
    predict: Predict,
    noise: Noise,
    schedule: NoiseSchedule,
    config: DiffusionSamplingConfig,
    *,
    prediction: PredictionName = "epsilon",
    variance: VarianceName = "small",
) -> Pictures:
    """x_0; `variance` is that of ancestral sampling."""
    *_, last = trajectory(predict, noise, schedule, config, prediction=prediction, variance=variance)
    return last.x


def trajectory(
    predict: Predict,
    noise: Noise,
    schedule: NoiseSchedule,
    config: DiffusionSamplingConfig,
    *,
    prediction: PredictionName = "epsilon",
    variance: VarianceName = "small",
    times: Sequence[int] | None = None,
) -> Iterator[Estimate]:
    """x_t at each of the times, which fall, and at last x_0, as they come. `times` are spaced as `config` says."""
    times = sampling_times(schedule.timesteps, config.steps, config.spacing) if times is None else times
    x, before = noise(), None
    for t, s in pairwise((*times, 0)):
        with torch.no_grad():
            at_t = x.new_full((len(x),), t, dtype=torch.int64)
            x0 = schedule.x0(prediction, predict(x, at_t), x, at_t)
            now = Estimate(t, x, x0.clamp(-1, 1) if config.clip else x0)
        yield now
        with torch.no_grad():
            if config.sampler == "ddpm":
                x = ancestral_step(schedule, now, s, noise, variance)
            elif config.sampler == "ddim":
                x = ddim_step(schedule, now, s, noise, config.eta)
            else:
                x = dpm_solver_step(schedule, now, before, s)
        before = now
    yield Estimate(0, x, x)


def sampling_times(timesteps: int, steps: int, spacing: SpacingName = "even") -> list[int]:
    """From T down, to above 0."""
    if not 1 <= steps <= timesteps:
        rule = f"sampling takes from 1 to {timesteps} steps, the number of steps in training"
        raise InputError(rule, got=f"{steps}")
    # t_i = T i/S,  or T (i/S)² where that leaves a time for each step
    power = 1 if spacing == "even" else 2
    return [max(number, round(timesteps * (number / steps) ** power)) for number in range(steps, 0, -1)]


def ancestral_step(
    schedule: NoiseSchedule, now: Estimate, s: int, noise: Noise, variance: VarianceName = "small"
) -> Pictures:
    times = (now.x.new_full((len(now.x),), time, dtype=torch.int64) for time in (now.t, s))
    mean, small = schedule.posterior(now.x0, now.x, *times)
    if s == 0:
        return mean
    # σ² = β̃, or β = 1 − ᾱ_t / ᾱ_s
    large = 1 - schedule.alpha_bar[now.t] / schedule.alpha_bar[s]
    return mean + (small if variance == "small" else large.to(now.x)).sqrt() * noise()


def ddim_step(schedule: NoiseSchedule, now: Estimate, s: int, noise: Noise, eta: float = 0.0) -> Pictures:
    alpha_bar, earlier = schedule.alpha_bar[now.t].item(), schedule.alpha_bar[s].item()
    # ε̂ = (x_t − √ᾱ_t x̂_0) / √(1−ᾱ_t)
    epsilon = (now.x - alpha_bar**0.5 * now.x0) / (1 - alpha_bar) ** 0.5
    # σ² = η² β̃,   β̃ = (1−ᾱ_s) / (1−ᾱ_t) · (1 − ᾱ_t/ᾱ_s)
    variance = eta**2 * (1 - earlier) / (1 - alpha_bar) * (1 - alpha_bar / earlier)
    # x_s = √ᾱ_s x̂_0 + √(1−ᾱ_s−σ²) ε̂ + σ z
    x = earlier**0.5 * now.x0 + (1 - earlier - variance) ** 0.5 * epsilon
    return x + variance**0.5 * noise() if variance else x


def dpm_solver_step(schedule: NoiseSchedule, now: Estimate, before: Estimate | None, s: int) -> Pictures:
    if s == 0:  # where h is infinite
        return now.x0
    alpha, sigma = schedule.alpha_bar.sqrt(), (1 - schedule.alpha_bar).sqrt()
    log_snr = (alpha / sigma).log()
    h = (log_snr[s] - log_snr[now.t]).item()
    difference = now.x0
    if before is not None:
        # D = x̂_0 + (x̂_0 − x̂_0') h / 2h'
        h_before = (log_snr[now.t] - log_snr[before.t]).item()
        difference = difference + h / (2 * h_before) * (now.x0 - before.x0)
    # x_s = (σ_s/σ_t) x_t − α_s (e^{−h} − 1) D
    return (sigma[s] / sigma[now.t]).item() * now.x - alpha[s].item() * math.expm1(-h) * difference


class SeededNoise:
    """A generator for each picture: what becomes of it depends on the seed and its number, and on no other picture."""

    def __init__(
        self, count: int, shape: Sequence[int], seed: int, *, device: torch.device | str = "cpu", first: int = 0
    ):
        self.shape, self.device = tuple(shape), device
        self.generators = [seeded(seed, "diffusion", number) for number in range(first, first + count)]

    def __call__(self) -> Pictures:
        rows = [torch.randn(self.shape, generator=generator) for generator in self.generators]
        return torch.stack(rows).to(self.device) if rows else torch.empty(0, *self.shape, device=self.device)


def guided(predict: Callable[[Pictures, Times, Times | None], Pictures], classes: Times, scale: float) -> Predict:
    """Classifier-free guidance (Ho and Salimans 2022): a class is exaggerated by what the model would do without it.
    With a scale of 1, the model is asked as it is, and with 0 without the class."""

    def predicted(x: Pictures, t: Times) -> Pictures:
        if scale == 1:
            return predict(x, t, classes)
        with_class, without = predict(x, t, classes), predict(x, t, None)
        # ŷ = ŷ(x, ∅) + s (ŷ(x, y) − ŷ(x, ∅))
        return without + scale * (with_class - without)

    return predicted
