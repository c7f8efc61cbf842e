"""Denoising diffusion (Ho 2020): noise is added to a picture in T small steps, and a network learns to take it away.

    q(x_t | x_{t−1}) = N(√(1−β_t) x_{t−1}, β_t I)              α_t = 1 − β_t,   ᾱ_t = α_1 α_2 … α_t
    q(x_t | x_0) = N(√ᾱ_t x_0, (1−ᾱ_t) I)                      x_t = √ᾱ_t x_0 + √(1−ᾱ_t) ε,   ε ~ N(0, I)
    q(x_{t−1} | x_t, x_0) = N(μ_q, β̃_t I)                      μ_q = (√ᾱ_{t−1} β_t x_0 + √α_t (1−ᾱ_{t−1}) x_t) / (1−ᾱ_t)
    p(x_{t−1} | x_t) = N(μ_q of the predicted x_0, σ_t² I)     β̃_t = β_t (1−ᾱ_{t−1}) / (1−ᾱ_t)

The bound on −ln p(x_0) is a sum over t of KL(q(x_{t−1} | x_t, x_0) ‖ p(x_{t−1} | x_t)) = λ_t ‖ε − ε̂(x_t, t)‖², with

    λ_t = β_t² / (2 σ_t² α_t (1−ᾱ_t))

The simple loss is the mean of ‖ε − ε̂‖² without λ_t, which is largest where there is least noise: so what a picture
shows is learned before its finest grain. Times count from 1, and x_0 is a picture with values from −1 to 1.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Self, TypeAlias

import torch
from einops import reduce
from jaxtyping import Float, Float64, Int64, Num
from torch import Tensor

from neuropil.config import option
from neuropil.errors import InputError
from neuropil.models.unet import network as unet
from neuropil.models.unet.network import UNet, UNetConfig
from neuropil.parts.losses import weighted_mean
from neuropil.parts.objectives import Objective, loss_weights, measured_weight
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.parts.standardize import UnitRange
from neuropil.protocols import Batch
from neuropil.randomness import seeded

ScheduleName = Literal["linear", "cosine"]
PredictionName = Literal["epsilon", "x0", "v"]
VarianceName = Literal["small", "large"]
LossName = Literal["simple", "bound"]
Pictures: TypeAlias = Float[Tensor, "batch *shape"]
Times: TypeAlias = Int64[Tensor, " batch"]

COSINE_OFFSET, LARGEST_BETA = 0.008, 0.999
MOST_SIGNAL = 0.1
"""ᾱ_T at most: sampling begins with noise alone."""
DRAWS = 4
"""Of times and noise for each example, when a model is measured."""


class DiffusionConfig(UNetConfig):
    timesteps: int = option(1_000, "number of diffusion steps T in training", low=2, high=100_000)
    beta_schedule: ScheduleName = option("cosine", "noise schedule: linear β_t, or ᾱ_t as a squared cosine")
    beta_start: float = option(1e-4, "β_1 of the linear schedule", above=0, high=LARGEST_BETA)
    beta_end: float = option(0.02, "β_T of the linear schedule", above=0, high=LARGEST_BETA)
    prediction: PredictionName = option("epsilon", "what the network predicts: the noise ε, x_0, or the velocity v")
    variance: VarianceName = option("small", "variance σ_t² of the reverse steps: small is β̃_t, large is β_t")
    loss: LossName = option("simple", "training loss: the simple one, or the bound with its weights λ_t")

    def validate(self) -> None:
        super().validate()
        signal = self.noise_schedule.alpha_bar[-1].item()
        if signal > MOST_SIGNAL:
            fix = "choose more timesteps, a larger beta_end, or the cosine schedule"
            raise InputError(f"a noise schedule must end with ᾱ_T below {MOST_SIGNAL:g}", got=f"{signal:.2g}", fix=fix)

    @property
    def noise_schedule(self) -> "NoiseSchedule":
        if self.beta_schedule == "cosine":
            return NoiseSchedule.cosine(self.timesteps)
        return NoiseSchedule.linear(self.timesteps, self.beta_start, self.beta_end)


class IsotropicGaussian(NamedTuple):
    """N(mean, variance I), with one variance for all of a picture."""

    mean: Float[Tensor, "batch *shape"]
    variance: Float[Tensor, "batch *one"]


@dataclass(frozen=True, eq=False)
class NoiseSchedule:
    """β_t and what follows from it, in double precision, for t = 0 … T: at 0 there is no noise, and β_0 = 0."""

    beta: Float64[Tensor, " time"]

    @classmethod
    def linear(cls, timesteps: int, start: float = 1e-4, end: float = 0.02) -> Self:
        return cls._from_first(torch.linspace(start, end, timesteps, dtype=torch.float64, device="cpu"))

    @classmethod
    def cosine(cls, timesteps: int) -> Self:
        """Nichol and Dhariwal (2021)."""
        time = torch.arange(timesteps + 1, dtype=torch.float64, device="cpu") / timesteps
        # ᾱ_t = f(t) / f(0),   f(t) = cos²((t/T + s) / (1 + s) · π/2),   β_t = 1 − ᾱ_t / ᾱ_{t−1}, at most 0.999
        f = torch.cos((time + COSINE_OFFSET) / (1 + COSINE_OFFSET) * math.pi / 2) ** 2
        return cls._from_first((1 - f[1:] / f[:-1]).clamp(max=LARGEST_BETA))

    @classmethod
    def _from_first(cls, beta: Float64[Tensor, " time"]) -> Self:
        return cls(torch.cat([torch.zeros_like(beta[:1]), beta]))

    @property
    def timesteps(self) -> int:
        return len(self.beta) - 1

    @cached_property
    def alpha_bar(self) -> Float64[Tensor, " time"]:
        # ᾱ_t = α_1 α_2 … α_t
        return (1 - self.beta).cumprod(0)

    @cached_property
    def snr(self) -> Float64[Tensor, " time"]:
        """The signal-to-noise ratio; infinite at t = 0."""
        return self.alpha_bar / (1 - self.alpha_bar)

    def transition(self, x: Pictures, t: Times) -> IsotropicGaussian:
        """q(x_t | x_{t−1}), for x = x_{t−1}."""
        beta = _at(self.beta, t, x)
        return IsotropicGaussian((1 - beta).sqrt().to(x) * x, beta.to(x))

    def noised(self, x0: Pictures, t: Times) -> IsotropicGaussian:
        """q(x_t | x_0)"""
        alpha, sigma = self.alpha_sigma(t, x0)
        return IsotropicGaussian(alpha * x0, sigma.square())

    def add_noise(self, x0: Pictures, epsilon: Pictures, t: Times) -> Pictures:
        alpha, sigma = self.alpha_sigma(t, x0)
        # x_t = √ᾱ_t x_0 + √(1−ᾱ_t) ε
        return alpha * x0 + sigma * epsilon

    def posterior(self, x0: Pictures, x: Pictures, t: Times, s: Times | None = None) -> IsotropicGaussian:
        """q(x_s | x_t, x_0), for s = t − 1 or any earlier time."""
        alpha_bar, earlier = _at(self.alpha_bar, t, x), _at(self.alpha_bar, t - 1 if s is None else s, x)
        # the steps from s to t as one:  α = ᾱ_t / ᾱ_s,  β = 1 − α
        alpha = alpha_bar / earlier
        beta = 1 - alpha
        # μ_q = (√ᾱ_s β x_0 + √α (1−ᾱ_s) x_t) / (1−ᾱ_t),   β̃ = β (1−ᾱ_s) / (1−ᾱ_t)
        of_x0, of_x = (c / (1 - alpha_bar) for c in (earlier.sqrt() * beta, alpha.sqrt() * (1 - earlier)))
        return IsotropicGaussian(of_x0.to(x) * x0 + of_x.to(x) * x, (beta * (1 - earlier) / (1 - alpha_bar)).to(x))

    def bound_weights(self, variance: VarianceName = "small") -> Float64[Tensor, " time"]:
        """λ_t for t = 0 … T, of which λ_0 = 0. Since β̃_1 = 0, the variance β̃_2 stands for it, as in published code."""
        beta, alpha_bar = self.beta[1:], self.alpha_bar[1:]
        small = beta * (1 - self.alpha_bar[:-1]) / (1 - alpha_bar)
        sigma2 = beta if variance == "large" else torch.cat([small[1:2], small[1:]])
        # λ_t = β_t² / (2 σ_t² α_t (1−ᾱ_t))
        return torch.cat([self.beta[:1], beta**2 / (2 * sigma2 * (1 - beta) * (1 - alpha_bar))])

    # --- what a network may predict, and ε and x_0 from it, where x_t is known ---

    def alpha_sigma(self, t: Times, like: Tensor) -> tuple[Float[Tensor, "batch *one"], Float[Tensor, "batch *one"]]:
        """√ᾱ_t and √(1−ᾱ_t): how much of x_0 and of ε there is in x_t."""
        alpha_bar = _at(self.alpha_bar, t, like)
        return alpha_bar.sqrt().to(like), (1 - alpha_bar).sqrt().to(like)

    def target(self, kind: PredictionName, x0: Pictures, epsilon: Pictures, t: Times) -> Pictures:
        if kind != "v":
            return epsilon if kind == "epsilon" else x0
        alpha, sigma = self.alpha_sigma(t, x0)
        # v = √ᾱ_t ε − √(1−ᾱ_t) x_0
        return alpha * epsilon - sigma * x0

    def x0(self, kind: PredictionName, predicted: Pictures, x: Pictures, t: Times) -> Pictures:
        if kind == "x0":
            return predicted
        alpha, sigma = self.alpha_sigma(t, x)
        # x_0 = (x_t − √(1−ᾱ_t) ε) / √ᾱ_t = √ᾱ_t x_t − √(1−ᾱ_t) v
        return (x - sigma * predicted) / alpha if kind == "epsilon" else alpha * x - sigma * predicted

    def epsilon(self, kind: PredictionName, predicted: Pictures, x: Pictures, t: Times) -> Pictures:
        if kind == "epsilon":
            return predicted
        alpha, sigma = self.alpha_sigma(t, x)
        # ε = (x_t − √ᾱ_t x_0) / √(1−ᾱ_t) = √(1−ᾱ_t) x_t + √ᾱ_t v
        return (x - alpha * predicted) / sigma if kind == "x0" else sigma * x + alpha * predicted


def _at(values: Float64[Tensor, " time"], t: Times, like: Tensor) -> Float64[Tensor, "batch *one"]:
    """The value at each time, with as many axes as `like`. Differences such as 1 − ᾱ_t need its double precision."""
    return values[t.cpu()].reshape(-1, *(1 for _ in like.shape[1:]))


class Diffusion(PretrainedModel):
    """`classes` are None for pictures of any class, and the class number for each picture otherwise."""

    family = "unet2d"

    def __init__(self, config: DiffusionConfig):
        super().__init__()
        self.config = config
        self.schedule = config.noise_schedule
        self.bound_weights = self.schedule.bound_weights(config.variance)
        self.unit_range = UnitRange(config.shape)
        self.unet = UNet(config)

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        t: Int64[Tensor, " batch"],
        classes: Int64[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch channel height width"]:
        """What is predicted from x_t: ε, x_0 or v. Published networks count times from 0."""
        return self.unet(x, t - 1, classes)

    def scaled(self, pictures: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        """x_0, from −1 to 1."""
        return 2 * self.unit_range(pictures) - 1

    def pictures(self, x0: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        """In the units of the data, none beyond its range."""
        return self.unit_range.inverse((x0.clamp(-1, 1) + 1) / 2)


class Denoising(Objective[Diffusion]):
    """A time and noise for each picture, and what is predicted there beside what is true. The target of a batch is the
    class; a model without classes needs none.

        simple    E_t ‖y − ŷ(x_t, t)‖² / D               y is ε, x_0 or v; D the number of pixels and channels
        bound     T E_t [λ_t ‖ε − ε̂(x_t, t)‖²] / D       nats for each of them
    """

    phase = "denoising"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        x0 = self.model.scaled(batch["input"])
        t = torch.randint(1, self.model.schedule.timesteps + 1, (len(x0),), device=x0.device)
        losses = self._errors(x0, torch.randn_like(x0), t, batch, self.model.config.loss)[0]
        return weighted_mean(losses, loss_weights(batch, losses))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Times and noise depend on the example alone, so that one evaluation compares with the next."""
        x0, name = self.model.scaled(batch["input"]), self.model.config.loss
        drawn = [_drawn(example, self.model.schedule.timesteps) for example in batch["input"].cpu()]
        times, noises = (torch.stack(parts, 1).to(x0.device) for parts in zip(*drawn, strict=True))
        errors = [self._errors(x0, each.to(x0), t, batch, name, "bound") for t, each in zip(times, noises, strict=True)]
        loss, bound = (torch.stack(values).mean(0) for values in zip(*errors, strict=True))
        return {"loss": loss, "bound": bound} | measured_weight(loss_weights(batch, loss))

    def _errors(
        self, x0: Pictures, epsilon: Pictures, t: Times, batch: Batch, *names: LossName
    ) -> list[Float[Tensor, " batch"]]:
        """Under each of the names, from one prediction."""
        schedule, kind = self.model.schedule, self.model.config.prediction
        x = schedule.add_noise(x0, epsilon, t)
        predicted = self.model(x, t, batch["target"] if self.model.config.classes else None)

        def error(name: LossName) -> Float[Tensor, " batch"]:
            if name == "simple":
                return _mean_square(schedule.target(kind, x0, epsilon, t) - predicted)
            weight = schedule.timesteps * self.model.bound_weights[t.cpu()].to(x0)
            return weight * _mean_square(epsilon - schedule.epsilon(kind, predicted, x, t))

        return [error(name) for name in names]


def _mean_square(x: Float[Tensor, "batch *shape"]) -> Float[Tensor, " batch"]:
    return reduce(x.square(), "batch ... -> batch", "mean")


def _drawn(
    example: Num[Tensor, "*shape"], timesteps: int
) -> tuple[Int64[Tensor, " draw"], Float[Tensor, "draw *shape"]]:
    """Times spread evenly over 1 … T from a random one on, and noise for each."""
    generator = seeded("measured noise", hashlib.blake2b(example.numpy().tobytes(), digest_size=8).hexdigest())
    start = torch.rand(1, generator=generator, dtype=torch.float64)
    spread = (start + torch.arange(DRAWS) / DRAWS) % 1
    return 1 + (timesteps * spread).long(), torch.randn(DRAWS, *example.shape, generator=generator)


SIZES = {name: DiffusionConfig.from_dict(unet.SIZES[name].to_dict()) for name in ("tiny", "small")}
