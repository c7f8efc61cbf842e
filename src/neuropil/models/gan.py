"""Generative adversarial network: a generator learns from a discriminator, which learns to tell its samples from data.

    x̂ = G(z),  z ~ N(0, I)                                the generator makes a sample of noise
    D(x) = logistic(d(x))                                  the discriminator's probability that x is real
    L_D = −E[ln D(x)] − E[ln(1 − D(G(z)))] + R₁            discriminator: 1 for what is real, 0 for what is generated
    L_G = −E[ln D(G(z))]                                   generator, non-saturating: its samples should be called real
    R₁ = (γ/2) E ‖∇ₓ d(x)‖²                                penalty: at real examples D has no slope to follow

The two play in turn, each with its own optimiser. The generator's loss is that of a targeted attack on D, with target
1: −∇_x̂ L_G is the change of the sample itself that would deceive D best, and J = ∂G/∂φ brings it to the weights,

    Δφ = −κ Jᵀ ∇_x̂ L_G,    Δx̂ ≈ −κ J Jᵀ ∇_x̂ L_G

so each sample moves as the attack says, as far as the weights that all samples share allow. One-sided label smoothing ε
replaces the target 1 of real examples by 1 − ε; spectral normalisation divides each of D's weights by its largest
singular value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from neuropil.config import Config, option
from neuropil.parts.coders.coder import CoderConfig, decoder_for, encoder_for
from neuropil.parts.coders.dense import dense
from neuropil.parts.losses import bernoulli_cross_entropy
from neuropil.parts.parameters import Model
from neuropil.parts.standardize import UnitRange
from neuropil.protocols import Batch, OptimizerName, Phase
from neuropil.randomness import seeded

R1_OF_TABLES, R1_OF_PICTURES = 0.003, 0.03
"""γ, where it is not given: modes of tables may be narrow, and then D has to be steep."""


class GANConfig(CoderConfig):
    hidden_sizes: tuple[int, ...] = option(
        (256, 256),
        "dense: hidden sizes of the discriminator, one for each layer; the generator's are the reverse",
        low=1,
    )
    latent_size: int = option(64, "latent dimensions", low=1)
    spectral_norm: bool = option(False, "spectral normalisation of the discriminator's weights")


class Generator(nn.Module):
    """Pictures are bounded by black and white, and so have logistic outputs; columns of tables are not."""

    def __init__(self, config: GANConfig):
        super().__init__()
        self.decoder, self.bounded = decoder_for(config), len(config.shape) > 1

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]:
        a = self.decoder(z)
        return a.sigmoid() if self.bounded else a


class Discriminator(nn.Module):
    def __init__(self, config: GANConfig):
        super().__init__()
        self.encoder = encoder_for(config)
        self.output = dense(self.encoder.features, 1, "identity")
        if config.spectral_norm:
            for layer in (*self.encoder.layers, self.output):
                spectral_norm(layer)

    def forward(self, u: Float[Tensor, "batch *shape"]) -> Float[Tensor, " batch"]:
        return self.output(self.encoder(2 * u - 1)).squeeze(1)


class GAN(Model):
    def __init__(self, config: GANConfig):
        super().__init__()
        self.config = config
        self.unit_range = UnitRange(config.shape)
        self.generator = Generator(config)
        self.discriminator = Discriminator(config)

    def forward(
        self, z: Float[Tensor, "batch latent"], real: Float[Tensor, "real *shape"] | None = None
    ) -> Float[Tensor, " example"]:
        """d(G(z)). With real examples, which are in the unit range, it is the discriminator's turn: their logits come
        first, and no gradient goes back to the generator."""
        if real is None:
            return self.discriminator(self.generator(z))
        with torch.no_grad():
            fake = self.generator(z)
        return self.discriminator(torch.cat([real, fake]))

    def decode(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]:
        return self.generator(z).clamp(0, 1)

    def generate(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "count *shape"]:
        return self.decode(self.noise(count, generator=generator))

    def noise(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "count latent"]:
        """Drawn where the generator lives, so that a seed means the same on every device."""
        z = torch.randn(count, self.config.latent_size, generator=generator)
        return z.to(self.unit_range.low)


# --- the game ---------------------------------------------------------------------------------------------------------


class GameConfig(Config):
    ratio: int = option(1, "discriminator updates for each update of the generator", low=1)
    r1: float | None = option(
        None,
        "R₁ penalty γ on the discriminator's gradient at real examples; 0 for none; "
        f"by default {R1_OF_TABLES:g} for tables and {R1_OF_PICTURES:g} for pictures",
        low=0,
    )
    label_smoothing: float = option(
        0.0, "one-sided label smoothing: real examples have the target 1 − ε", low=0, high=0.5
    )
    discriminator_optimizer: OptimizerName | None = option(None, "optimiser of the discriminator; by default the run's")
    generator_optimizer: OptimizerName | None = option(None, "optimiser of the generator; by default the run's")
    discriminator_learning_rate: float | None = option(
        None, "peak learning rate of the discriminator; by default the run's", above=0
    )
    generator_learning_rate: float | None = option(
        None, "peak learning rate of the generator; by default the run's", above=0
    )


class AdversarialGame:
    """A learner of two phases. A batch has `input`; what else it has is not looked at."""

    def __init__(self, model: GAN, config: GameConfig | None = None):
        self.model, self.config = model, config or GameConfig()
        usual = R1_OF_TABLES if len(model.config.shape) == 1 else R1_OF_PICTURES
        self.r1 = usual if self.config.r1 is None else self.config.r1

    def phases(self) -> Sequence[Phase]:
        game, model = self.config, self.model
        return [
            Phase(
                "discriminator",
                dict(model.discriminator.named_parameters(prefix="discriminator")),
                self.discriminator_loss,
                game.discriminator_optimizer,
                game.discriminator_learning_rate,
            ),
            Phase(
                "generator",
                dict(model.generator.named_parameters(prefix="generator")),
                self.generator_loss,
                game.generator_optimizer,
                game.generator_learning_rate,
                every=game.ratio,
            ),
        ]

    def discriminator_loss(self, batch: Batch) -> Float[Tensor, ""]:
        real = self.model.unit_range(batch["input"])
        d_real, d_fake = self.model(self.model.noise(len(real)), real).chunk(2)
        # L_D = −E[ln D(x)] − E[ln(1 − D(G(z)))] + R₁
        loss = against(d_real, 1 - self.config.label_smoothing).mean() + against(d_fake, 0.0).mean()
        return loss + self.r1 * r1_penalty(self.model.discriminator, real) if self.r1 else loss

    def generator_loss(self, batch: Batch) -> Float[Tensor, ""]:
        # L_G = −E[ln D(G(z))]
        return against(self.model(self.model.noise(len(batch["input"]))), 1.0).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Of as many samples as there are examples, of noise that is always the same. Spread and distance are those of
        the whole batch."""
        real = self.model.unit_range(batch["input"])
        z = self.model.noise(len(real), generator=seeded("adversarial game"))
        d_real, d_fake = self.model(z, real).chunk(2)
        of_batch = sample_statistics(self.model.decode(z), real)
        return {
            "discriminator_loss": against(d_real, 1.0) + against(d_fake, 0.0),
            "generator_loss": against(d_fake, 1.0),
            **{name: torch.full_like(d_real, value) for name, value in of_batch.items()},
        }

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        found = diagnose(metrics)
        return None if found is None else f"{found.name}: {found.evidence}; {found.cure}."


def against(logits: Float[Tensor, " batch"], target: float) -> Float[Tensor, " batch"]:
    """Cross-entropy of D with the target."""
    return bernoulli_cross_entropy(logits.unsqueeze(1), torch.full_like(logits.unsqueeze(1), target))


def r1_penalty(discriminator: Discriminator, real: Float[Tensor, "batch *shape"]) -> Float[Tensor, ""]:
    """With γ = 1 (Mescheder 2018)."""
    real = real.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(discriminator(real).sum(), real, create_graph=True)
    # R₁ = ½ E ‖∇ₓ d(x)‖²
    return 0.5 * slope.flatten(1).square().sum(1).mean()


# --- how it goes ------------------------------------------------------------------------------------------------------


def sample_statistics(samples: Float[Tensor, "sample *shape"], real: Float[Tensor, "real *shape"]) -> dict[str, float]:
    """How far samples are apart, as a share of how far real examples are; and the energy distance between both, from 0
    for the same distribution to 1 for two points (Székely and Rizzo 2013):

    (2 E‖x − x̂‖ − E‖x − x'‖ − E‖x̂ − x̂'‖) / 2 E‖x − x̂‖
    """
    x, y = real.flatten(1).double(), samples.flatten(1).double()
    between, among, sampled = torch.cdist(x, y).mean(), mean_distance(x), mean_distance(y)
    tiny = torch.finfo(torch.double).tiny
    return {
        "sample_spread": (sampled / among.clamp(min=tiny)).item() if len(x) > 1 else 1.0,
        "energy_distance": ((2 * between - among - sampled) / (2 * between).clamp(min=tiny)).item(),
    }


def mean_distance(x: Float[Tensor, "example number"]) -> Float[Tensor, ""]:
    """Of two different examples."""
    return torch.cdist(x, x).sum() / max(1, len(x) * (len(x) - 1))


@dataclass(frozen=True)
class Diagnosis:
    """What goes wrong in a game, by its name, what shows it, and the cure."""

    name: str
    evidence: str
    cure: str


EVEN = 2 * math.log(2)
"""L_D of a discriminator that says ½ to everything."""


def diagnose(metrics: Mapping[str, float]) -> Diagnosis | None:
    """From what validation measures of a game that has gone on for a while: at first no generator is any good."""
    spread, distance = metrics["sample_spread"], metrics["energy_distance"]
    loss, cross_entropy = metrics["discriminator_loss"], metrics["generator_loss"]
    if spread < 0.5:
        evidence = f"samples are only {spread:.0%} as far apart as real examples"
        cure = "train for longer, or raise --r1, or --ratio for a discriminator that keeps up"
        return Diagnosis("mode collapse", evidence, cure)
    if loss < 0.1 * EVEN and cross_entropy > 3:
        evidence = (
            f"the discriminator's loss is {loss:.3f}, where {EVEN:.3f} is chance: it leaves no gradient to follow"
        )
        cure = "raise --r1, use --spectral-norm or --label-smoothing 0.1, or lower --discriminator-learning-rate"
        return Diagnosis("discriminator saturation", evidence, cure)
    if distance > 0.05 and loss > 0.9 * EVEN:
        evidence = f"the energy distance is {distance:.3f}, but the discriminator's loss {loss:.3f} is nearly chance"
        cure = "train for longer, lower --r1, or give the discriminator more units, a higher learning rate or --ratio"
        return Diagnosis("weak discriminator", evidence, cure)
    if distance > 0.05:
        evidence = f"the energy distance of samples from real examples is {distance:.3f}, and their spread {spread:.0%}"
        return Diagnosis("missing modes", evidence, "train for longer, or raise --r1")
    return None


# --- the generator's step as an attack --------------------------------------------------------------------------------


class TargetedAttack(NamedTuple):
    """One step of the generator, seen at its samples, beside the step that each sample would take by itself."""

    samples: Float[Tensor, "batch *shape"]
    attack: Float[Tensor, "batch *shape"]
    """−∇_x̂ L_G of each sample: the attack with target 1."""
    step: Float[Tensor, "batch *shape"]
    """Δx̂ / κ of a gradient step of the generator's weights."""
    cosine: Float[Tensor, " batch"]
    """Between the two."""
    logits: Float[Tensor, " batch"]
    attacked_logits: Float[Tensor, " batch"]
    """After a step along the attack that is as long as the generator's."""
    stepped_logits: Float[Tensor, " batch"]
    """After the generator's step."""


def targeted_attack(model: GAN, z: Float[Tensor, "batch latent"], rate: float = 1e-3) -> TargetedAttack:
    """What the generator's step does to the samples of z, and what an attack on the discriminator would. The model is
    left as it is."""
    was_training = model.training
    model.eval()
    weights = {name: weight.detach().requires_grad_() for name, weight in model.generator.named_parameters()}
    with torch.enable_grad():
        samples = functional_call(model.generator, weights, (z,))
        logits = model.discriminator(samples)
        losses = against(logits, 1.0)
        (slope,) = torch.autograd.grad(losses.sum(), samples, retain_graph=True)
        gradients = torch.autograd.grad(losses.mean(), list(weights.values()))
    with torch.no_grad():
        # Δφ = −κ Jᵀ ∇_x̂ L_G
        moved = {name: weights[name] - rate * each for name, each in zip(weights, gradients, strict=True)}
        stepped = functional_call(model.generator, moved, (z,))
        attack, step = -slope, (stepped - samples) / rate
        length = rate * lengths(step) / lengths(attack).clamp(min=torch.finfo(step.dtype).tiny)
        attacked = samples + length.reshape(-1, *[1] * (samples.ndim - 1)) * attack
        cosine = F.cosine_similarity(attack.flatten(1), step.flatten(1))
        after = model.discriminator(attacked), model.discriminator(stepped)
    model.train(was_training)
    return TargetedAttack(samples.detach(), attack, step, cosine, logits.detach(), *after)


def lengths(x: Float[Tensor, "batch *shape"]) -> Float[Tensor, " batch"]:
    return x.flatten(1).norm(dim=1)


SIZES = {
    "points": GANConfig(shape=(2,), hidden_sizes=(128, 128, 128), latent_size=2),
    "base": GANConfig(),
    "convolutional": GANConfig(network="convolutional"),
    "spectral": GANConfig(network="convolutional", spectral_norm=True),
}
