"""Variational autoencoder: a decoder of noise, learned with an encoder that says which noise an input may come from.

    z ~ N(0, I),  x ~ p(x|z)                              the model: a code is drawn, and decoded
    q(z|x) = N(μ(x), σ²(x)),  z = μ + σ ⊙ ε               the encoder; so drawn, z lets gradients pass (reparameterised)
    −ln p(x) ≤ KL(q(z|x) ‖ p(z)) − E_q[ln p(x|z)]         the bound, of which both terms are learned at once
    KL = ½ Σ (σ² + μ² − ln σ² − 1)
    Gaussian     −ln p(x|z) = ‖u − û‖² / 2s² + D ln s + (D/2) ln 2π            û = logistic(a),  s fixed or learned
    Bernoulli    −ln p(x|z) = −Σ [u ln û + (1 − u) ln(1 − û)]

a = g(z) are the decoder's logits, u the input in the unit range. The trained loss is β KL − E_q[ln p(x|z)]: β grows
from zero in a warm-up, and free bits λ take the gradient from a dimension whose KL is below λ, so that the decoder
learns to use the code before the prior takes it away. The bound becomes tight with k samples (Burda 2016):

    ln p(x) ≥ E ln (1/k) Σ p(x|zᵢ) p(zᵢ) / q(zᵢ|x)  →  ln p(x)
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.parts.coders.coder import CoderConfig, decoder_for, encoder_for
from neuropil.parts.coders.dense import dense
from neuropil.parts.losses import at_least_single, bernoulli_cross_entropy, squared_error, weighted_mean
from neuropil.parts.objectives import Objective, loss_weights, measured_weight
from neuropil.parts.parameters import Model
from neuropil.parts.standardize import UnitRange
from neuropil.protocols import Batch
from neuropil.randomness import seeded

DECODED_AT_ONCE, NUMBERS_AT_ONCE = 4096, 2**24
"""Rows, and numbers in them, of the importance-weighted likelihood: what bounds its memory."""
EXAMPLES_AT_ONCE = 64
FIRST_SIGMA = 0.1
"""Of a Gaussian likelihood that is learned: from 1, most of the run would pass before an error counts beside the KL."""
COLLAPSED = 0.01
"""Nats: a latent dimension whose mean KL is below says nothing about its input."""


class VAEConfig(CoderConfig):
    hidden_sizes: tuple[int, ...] = option(
        (512, 512), "dense: hidden sizes of the encoder, one for each layer; the decoder has them in reverse", low=1
    )
    latent_size: int = option(32, "latent dimensions", low=1)
    likelihood: Literal["bernoulli", "gaussian"] = option("bernoulli", "distribution of the outputs given the code")
    sigma: float | None = option(None, "Gaussian likelihood: standard deviation; learned if it is not given", above=0)


class Posterior(NamedTuple):
    """q(z|x), one normal distribution for each dimension."""

    mean: Float[Tensor, "batch latent"]
    log_variance: Float[Tensor, "batch latent"]

    def at(self, noise: Float[Tensor, "*sample batch latent"]) -> Float[Tensor, "*sample batch latent"]:
        # z = μ + σ ⊙ ε
        return self.mean + (0.5 * self.log_variance).exp() * noise

    @property
    def kl(self) -> Float[Tensor, "batch latent"]:
        """Of each dimension to the prior N(0, 1), in nats."""
        # KL = ½ (σ² + μ² − ln σ² − 1)
        mean, log_variance = at_least_single(self.mean), at_least_single(self.log_variance)
        return 0.5 * (log_variance.exp() + mean.square() - log_variance - 1)


class VAEOutput(NamedTuple):
    outputs: Float[Tensor, "batch *shape"]
    """a: the logits of the decoder."""
    posterior: Posterior


class VAE(Model):
    def __init__(self, config: VAEConfig):
        super().__init__()
        self.config = config
        self.unit_range = UnitRange(config.shape)
        self.encoder = encoder_for(config)
        self.mean = dense(self.encoder.features, config.latent_size, "identity")
        self.log_variance = dense(self.encoder.features, config.latent_size, "identity")
        self.decoder = decoder_for(config)
        learned = config.likelihood == "gaussian" and config.sigma is None
        log_sigma = torch.tensor(math.log(config.sigma or FIRST_SIGMA))
        self.log_sigma = nn.Parameter(log_sigma) if learned else nn.Buffer(log_sigma, persistent=False)

    def forward(self, x: Num[Tensor, "batch *shape"], noise: Float[Tensor, "batch latent"] | None = None) -> VAEOutput:
        """`noise` is ε; where it is not given it is drawn in training, and zero otherwise."""
        q = self.posterior(x)
        if noise is None:
            noise = torch.randn_like(q.mean) if self.training else torch.zeros_like(q.mean)
        return VAEOutput(self.decoder(q.at(noise)), q)

    def posterior(self, x: Num[Tensor, "batch *shape"]) -> Posterior:
        h = self.encoder(self.unit_range(x))  # batch feature
        return Posterior(self.mean(h), self.log_variance(h))

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch latent"]:
        """The most probable code, μ."""
        return self.posterior(x).mean

    def decode(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]:
        """The mean of p(x|z), in the unit range."""
        return self.decoder(z).sigmoid()

    def generate(self, count: int, *, generator: torch.Generator | None = None) -> Float[Tensor, "count *shape"]:
        """Means of p(x|z) for codes drawn from the prior."""
        return self.decode(self._noise(count, generator=generator))

    def reconstruction_error(
        self, logits: Float[Tensor, "*sample_batch_shape"], u: Float[Tensor, "batch *shape"]
    ) -> Float[Tensor, "*sample batch"]:
        """−ln p(x|z) in nats, given what the decoder makes of z, or of several for each input."""
        logits, u = logits.flatten(-len(self.config.shape)), u.flatten(1)
        if self.config.likelihood == "bernoulli":
            return bernoulli_cross_entropy(logits, u.clamp(0, 1).expand_as(logits))  # probabilities
        # ‖u − û‖² / 2s² + D ln s + (D/2) ln 2π
        squares = squared_error(at_least_single(logits).sigmoid(), u.expand_as(logits))
        return squares * (-2 * self.log_sigma).exp() + u.shape[1] * (self.log_sigma + 0.5 * math.log(2 * math.pi))

    @torch.no_grad()
    def log_likelihood(
        self, x: Num[Tensor, "batch *shape"], samples: int = 5000, *, generator: torch.Generator | None = None
    ) -> Float[Tensor, " batch"]:
        """Importance-weighted estimate of ln p(x) in nats, a few samples at a time: memory does not grow with them."""
        pieces = x.split(min(EXAMPLES_AT_ONCE, self._rows_at_once))
        return torch.cat([self._log_likelihood(piece, samples, generator) for piece in pieces])

    def _log_likelihood(self, x: Tensor, samples: int, generator: torch.Generator | None) -> Float[Tensor, " batch"]:
        u, q = self.unit_range(x), self.posterior(x)
        at_once = max(1, self._rows_at_once // len(x))
        total = u.new_full((len(x),), -math.inf)
        for begin in range(0, samples, at_once):
            noise = self._noise(min(at_once, samples - begin), len(x), generator=generator)  # sample batch latent
            z = q.at(noise)
            logits = self.decoder(rearrange(z, "sample batch latent -> (sample batch) latent"))
            likelihood = -self.reconstruction_error(logits.unflatten(0, z.shape[:2]), u)  # sample batch
            # ln p(z) − ln q(z|x) = ½ Σ (ε² − z² + ln σ²)
            prior = 0.5 * (noise.square() - z.square() + q.log_variance).sum(-1)
            total = torch.logaddexp(total, (likelihood + prior).logsumexp(0))
        # ln (1/k) Σ w
        return total - math.log(samples)

    @property
    def _rows_at_once(self) -> int:
        return max(1, min(DECODED_AT_ONCE, NUMBERS_AT_ONCE // math.prod(self.config.shape)))

    def _noise(self, *sizes: int, generator: torch.Generator | None) -> Float[Tensor, "*sizes latent"]:
        """Drawn where the generator lives, so that a seed means the same on every device."""
        return torch.randn(*sizes, self.config.latent_size, generator=generator).to(self.mean.weight)


class ELBOConfig(Config):
    beta: float = option(1.0, "weight β of the KL term", low=0)
    kl_warmup: float = option(
        0.1, "fraction of the run in which the weight of the KL term rises from 0 to β", low=0, high=1
    )
    free_bits: float = option(0.0, "free bits λ: nats of KL in each latent dimension that cost nothing", low=0)
    binarize: bool = option(False, "dynamic binarisation: draw each pixel as 0 or 1, with its value as probability")


class EvidenceLowerBound(Objective[VAE]):
    """The negative evidence lower bound (ELBO), in nats. A batch has `input`; what else it has is not looked at."""

    phase = "evidence lower bound"

    def __init__(self, model: VAE, config: ELBOConfig | None = None):
        super().__init__(model)
        self.config = config or ELBOConfig()
        self.beta = self.config.beta
        self.whole: Callable[[Tensor], Tensor] | None = None

    def begin_update(self, share: float) -> None:
        warm = min(1.0, share / self.config.kl_warmup) if self.config.kl_warmup else 1.0
        self.beta = self.config.beta * warm

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        x = self.observed(batch["input"])
        kl, reconstruction = self._terms(x, noise=None)
        weights = loss_weights(batch, reconstruction)
        rest = weighted_mean(reconstruction, weights)
        if self.whole is not None:
            kl, weights = self.whole(kl), None if weights is None else self.whole(weights)
        # Σⱼ max(λ, mean KLⱼ)
        kl = torch.stack([weighted_mean(each, weights) for each in kl.mT]) if weights is not None else kl.mean(0)
        return self.beta * kl.clamp(min=self.config.free_bits).sum() + rest

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """With β and without free bits, so that the loss compares along a run; the noise is always the same."""
        generator = seeded("evidence lower bound")
        x = self.observed(batch["input"], generator)
        noise = torch.randn(len(x), self.model.config.latent_size, generator=generator).to(self.model.mean.weight)
        kl, reconstruction = self._terms(x, noise)
        kl = kl.sum(1)
        found = {"loss": self.config.beta * kl + reconstruction, "kl": kl, "reconstruction": reconstruction}
        return found | measured_weight(loss_weights(batch, kl))

    def observed(
        self, x: Num[Tensor, "batch *shape"], generator: torch.Generator | None = None
    ) -> Num[Tensor, "batch *shape"]:
        """What the model is shown of the data: itself, or pixels that are drawn black or white."""
        if not self.config.binarize:
            return x
        u = self.model.unit_range(x).clamp(0, 1)
        drawn = torch.rand(u.shape, generator=generator).to(u) < u
        return self.model.unit_range.inverse(drawn.to(u.dtype))

    def _terms(self, x: Tensor, noise: Tensor | None) -> tuple[Float[Tensor, "batch latent"], Float[Tensor, " batch"]]:
        logits, q = self.model(x, noise)
        return q.kl, self.model.reconstruction_error(logits, self.model.unit_range(x))


@torch.no_grad()
def kl_of_dimensions(model: VAE, x: Num[Tensor, "example *shape"]) -> Float[Tensor, " latent"]:
    """What each latent dimension says about an input on average, in nats."""
    sums = [model.posterior(piece).kl.double().sum(0) for piece in x.split(DECODED_AT_ONCE)]
    return (torch.stack(sums).sum(0) / len(x)).float()


def collapsed_dimensions(kl: Float[Tensor, " latent"], threshold: float = COLLAPSED) -> list[int]:
    """The dimensions whose posterior is the prior, whatever the input: the decoder has learned to ignore them."""
    return (kl < threshold).nonzero().flatten().tolist()


SIZES = {
    "small": VAEConfig(hidden_sizes=(64,), latent_size=8),
    "base": VAEConfig(),
    "convolutional": VAEConfig(network="convolutional"),
}
