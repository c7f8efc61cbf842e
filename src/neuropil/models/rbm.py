"""Restricted Boltzmann machine: visible units that show the data, hidden units that explain it, one energy for both.

    E(v, h) = −v W hᵀ − b vᵀ − c hᵀ                             Bernoulli visible units, v_i ∈ {0, 1}
    E(v, h) = −v W hᵀ / σ² + ‖v − b‖² / 2σ² − c hᵀ              Gaussian visible units
    q(v, h) = e^{−E(v, h)} / Z

    energy gaps     δE(h_j) = E(h_j = 1) − E(h_j = 0) = −(v W)_j − c_j,       δE(v_i) = −(h Wᵀ)_i − b_i
    stochastic      P(h_j = 1 | v) = 1 / (1 + e^{δE(h_j) / T})                at the temperature T, and v_i likewise
    free energy     F(v) = −ln Σ_h e^{−E(v, h)} = −b vᵀ − Σ_j ln(1 + e^{−δE(h_j)})

There are no connections within a layer, so that all units of one are sampled at once, given the other. Learning lowers
−ln q(v) = F(v) + ln Z, whose gradient is that of a difference of free energies, at the data and at what the model does:

    ∇ −ln q(v) = ∇F(v) − E_{q(v')}[∇F(v')] = E_{q(h|v)}[∇E] − E_{q(v',h)}[∇E]

Contrastive divergence (CD-k, Hinton 2002) takes v' from k steps of Gibbs sampling that begin at the data, persistent
contrastive divergence (PCD, Tieleman 2008) from chains that go on from one update to the next.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.parts.binary_units.bernoulli import bernoulli, bernoulli_
from neuropil.parts.objectives import Objective
from neuropil.parts.parameters import Model
from neuropil.parts.standardize import EXAMPLES_AT_ONCE, Standardize, UnitRange
from neuropil.protocols import Batch
from neuropil.randomness import seeded
from neuropil.ranges import times

Visible: TypeAlias = Float[Tensor, "*batch visible"]
Hidden: TypeAlias = Float[Tensor, "*batch hidden"]
Generator: TypeAlias = torch.Generator | None

MOST_ENUMERATED = 20
"""Units of the layer over whose states ln Z is summed: a million states."""
STATES_AT_ONCE = 2**14
LEAST_SHARE = 0.01
"""Of ink: the bias of a pixel that is never on would be infinite."""


class RBMConfig(Config):
    hidden_size: int = option(256, "hidden units", low=1, tune=times(1 / 2, 1, 2))
    visible: Literal["bernoulli", "gaussian"] = option("bernoulli", "visible units")
    sigma: float = option(1.0, "standard deviation σ of Gaussian visible units, in units of that of the data", above=0)
    steps: int = option(1, "Gibbs steps k in each update", low=1)
    chains: int = option(100, "parallel chains of persistent contrastive divergence; 0: CD, from the data", low=0)
    mean_field: bool = option(False, "v' as probabilities, not as samples, after the last Gibbs step")
    binarize: bool = option(False, "sample pixels to 0 and 1 in each update; else they are used as probabilities")
    shape: tuple[int, ...] = from_data((1, 8, 8), "axes of one input: features, or channels, height, width")

    @property
    def visible_size(self) -> int:
        return math.prod(self.shape)


class RBM(Model):
    """Inputs become visible states in `encode`: probabilities of ink, or standardised numbers for Gaussian units. A
    temperature is that of sampling: energies, and so learning and likelihoods, are those at T = 1."""

    def __init__(self, config: RBMConfig):
        super().__init__()
        self.config = config
        self.gaussian = config.visible == "gaussian"
        self.variance = config.sigma**2 if self.gaussian else 1.0
        self.scale = Standardize(config.shape) if self.gaussian else UnitRange(config.shape)
        self.weight = nn.Parameter(torch.empty(config.visible_size, config.hidden_size))
        nn.init.xavier_normal_(self.weight)
        self.visible_bias = nn.Parameter(torch.zeros(config.visible_size))
        self.hidden_bias = nn.Parameter(torch.zeros(config.hidden_size))

    def forward(
        self, x: Num[Tensor, "batch *shape"], particles: Float[Tensor, "chain visible"] | None = None
    ) -> Float[Tensor, " batch"] | Float[Tensor, ""]:
        """Free energies of inputs. With particles v', the mean energy of the inputs less that of the particles, whose
        gradient is that of the likelihood."""
        v = self.encode(x)
        if particles is None:
            return self.free_energy(v)
        plus, minus = v.new_full((len(v),), 1 / len(v)), v.new_full((len(particles),), -1 / len(particles))
        return self.weighted_energy(torch.cat([v, particles]), torch.cat([plus, minus]))

    # --- energies -----------------------------------------------------------------------------------------------------

    def energy(
        self, v: Float[Tensor, "*#batch visible"], h: Float[Tensor, "*#batch hidden"]
    ) -> Float[Tensor, "*#batch"]:
        with _all_digits(v):
            # E(v, h) = −v W hᵀ − b vᵀ − c hᵀ, with −v W hᵀ / σ² and ‖v − b‖² / 2σ² for Gaussian units
            return self.visible_energy(v) - ((v @ self.weight / self.variance + self.hidden_bias) * h).sum(-1)

    def visible_energy(self, v: Visible) -> Float[Tensor, "*batch"]:
        """What a visible state costs by itself."""
        if self.gaussian:
            return (v - self.visible_bias).square().sum(-1) / (2 * self.variance)
        with _all_digits(v):
            return -(v @ self.visible_bias)

    def hidden_gap(self, v: Visible) -> Hidden:
        """δE(h) = E(h_j = 1) − E(h_j = 0)."""
        return -self._hidden_input(v)

    def visible_gap(self, h: Hidden) -> Visible:
        """δE(v) = E(v_i = 1) − E(v_i = 0), for Bernoulli units."""
        if self.gaussian:
            raise InputError("an energy gap needs visible units of two states", got="Gaussian ones")
        return -self._visible_input(h)

    def free_energy(self, v: Visible) -> Float[Tensor, "*batch"]:
        with _all_digits(v):
            # F(v) = −b vᵀ − Σ_j ln(1 + e^{−δE(h_j)}), and ‖v − b‖² / 2σ² for Gaussian units
            return self.visible_energy(v) - F.softplus(self._hidden_input(v)).sum(-1)

    def weighted_energy(self, v: Float[Tensor, "batch visible"], s: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
        """Σ_n s_n E_{q(h|v_n)}[E(v_n, h)], with q held as it is: its gradient is that of free energies."""
        with torch.no_grad(), _all_digits(v):
            h = self._hidden_input(v).sigmoid_()
            # ∂E/∂W = −Σ_n s_n v_nᵀ h_n / σ²,  ∂E/∂c = −Σ_n s_n h_n
            of_weight, of_bias = (v * (s / -self.variance)[:, None]).mT @ h, -s @ h
        # E is linear in W and c: these times their slopes are the energy, and back-propagation has no more to do
        linear = torch.dot(self.weight.flatten(), of_weight.flatten()) + torch.dot(self.hidden_bias, of_bias)
        return linear + torch.dot(s, self.visible_energy(v))

    def _hidden_input(self, v: Visible) -> Hidden:
        h = F.linear(v if self.variance == 1 else v / self.variance, self.weight.mT, self.hidden_bias)
        return h.to(self.weight.dtype)  # autocast: a product has fewer digits, units and chains have all

    def _visible_input(self, h: Hidden) -> Visible:
        return F.linear(h, self.weight, self.visible_bias).to(self.weight.dtype)

    # --- units --------------------------------------------------------------------------------------------------------

    def hidden_mean(self, v: Visible, temperature: float = 1.0) -> Hidden:
        """P(h = 1 | v): the features of an example."""
        return torch.sigmoid(_cooled(self._hidden_input(v), temperature))

    def visible_mean(self, h: Hidden, temperature: float = 1.0) -> Visible:
        """P(v = 1 | h), or the mean of Gaussian units, b + h Wᵀ."""
        v = self._visible_input(h)
        return v if self.gaussian else torch.sigmoid(_cooled(v, temperature))

    @torch.no_grad()
    def sample_hidden(self, v: Visible, temperature: float = 1.0, generator: Generator = None) -> Hidden:
        mean = _cooled(self._hidden_input(v), temperature).sigmoid_()
        return bernoulli_(mean, generator)

    def sample_visible(self, h: Hidden, temperature: float = 1.0, generator: Generator = None) -> Visible:
        return self.sample_around(self.visible_mean(h, temperature), temperature, generator)

    def sample_around(self, mean: Visible, temperature: float = 1.0, generator: Generator = None) -> Visible:
        """Visible units whose means are known. As all samples they have no gradient."""
        if not self.gaussian:
            return bernoulli(mean, generator)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return mean.detach() + math.sqrt(self.variance * temperature) * noise

    def gibbs_step(self, v: Visible, temperature: float = 1.0, generator: Generator = None) -> Visible:
        """All hidden units given the visible ones, then all visible units given the hidden ones."""
        return self.sample_visible(self.sample_hidden(v, temperature, generator), temperature, generator)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch visible"]:
        """In training pixels are sampled, where they are to be."""
        v = self.scale(x).flatten(1)
        if self.gaussian:
            return v
        v = v.clamp(0, 1)
        return bernoulli(v) if self.config.binarize and self.training else v

    def decode(self, v: Float[Tensor, "batch visible"]) -> Float[Tensor, "batch *shape"]:
        return self.scale.inverse(v.unflatten(1, self.config.shape))

    def reconstruct(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        """Up to the features and down again, with means in place of samples."""
        return self.decode(self.visible_mean(self.hidden_mean(self.encode(x))))

    @torch.no_grad()
    def fit_marginals(self, x: Num[Tensor, "example *shape"]) -> None:
        """Take the scale from the examples, and the visible biases of the best model without weights."""
        self.scale.fit(x)
        if not self.gaussian:  # whose data has a mean of zero
            pieces = (self.scale(piece).flatten(1).clamp(0, 1) for piece in x.split(EXAMPLES_AT_ONCE))
            share = reduce(torch.add, (piece.sum(0) for piece in pieces)) / len(x)
            # b = ln(p / (1 − p))
            self.visible_bias.copy_(share.clamp(LEAST_SHARE, 1 - LEAST_SHARE).logit())

    # --- likelihoods --------------------------------------------------------------------------------------------------

    def log_partition(self) -> Float[Tensor, ""]:
        """ln Z by a sum over all states of one layer, the other being summed in closed form. In double precision."""
        by_visible = not self.gaussian and self.config.visible_size < self.config.hidden_size
        units = self.config.visible_size if by_visible else self.config.hidden_size
        if units > MOST_ENUMERATED:
            rule = f"the exact partition function needs a layer of at most {MOST_ENUMERATED} binary units"
            raise InputError(rule, got=f"{units}", fix="estimate it by annealed importance sampling")
        sums: list[Tensor] = []
        for begin in range(0, 2**units, STATES_AT_ONCE):
            states = binary_states(units, begin, min(begin + STATES_AT_ONCE, 2**units)).to(self.weight.device)
            log_weights = self._log_hidden_sums(states) if by_visible else self._log_visible_sums(states)
            sums.append(log_weights.logsumexp(0))
        return torch.stack(sums).logsumexp(0)

    def _log_hidden_sums(self, v: Float[Tensor, "state visible"]) -> Float[Tensor, " state"]:
        # ln Σ_h e^{−E(v, h)} = b vᵀ + Σ_j ln(1 + e^{c_j + (v W)_j})
        b, c, weight = (parameter.double() for parameter in (self.visible_bias, self.hidden_bias, self.weight))
        return v @ b + F.softplus(v @ weight + c).sum(-1)

    def _log_visible_sums(self, h: Float[Tensor, "state hidden"]) -> Float[Tensor, " state"]:
        b, c, weight = (parameter.double() for parameter in (self.visible_bias, self.hidden_bias, self.weight))
        v = h @ weight.mT + b
        if not self.gaussian:
            # ln Σ_v e^{−E(v, h)} = c hᵀ + Σ_i ln(1 + e^{b_i + (h Wᵀ)_i})
            return h @ c + F.softplus(v).sum(-1)
        # ln ∫ e^{−E(v, h)} dv = c hᵀ + (‖b + h Wᵀ‖² − ‖b‖²) / 2σ² + ½ n ln 2πσ²
        squares = (v.square().sum(-1) - b.square().sum()) / (2 * self.variance)
        return h @ c + squares + 0.5 * len(b) * math.log(2 * math.pi * self.variance)

    def log_likelihood(self, v: Visible, log_partition: float | Tensor) -> Float[Tensor, "*batch"]:
        """ln q(v) = −F(v) − ln Z, with ln Z exact or estimated."""
        return -self.free_energy(v) - log_partition

    def pseudo_likelihood(
        self, v: Float[Tensor, "batch visible"], units: Int64[Tensor, " batch"] | None = None
    ) -> Float[Tensor, " batch"]:
        """Σ_i ln q(v_i | all others), or an estimate of it by one unit of each example."""
        if self.gaussian:
            rule = "the pseudo-likelihood needs visible units of two states"
            raise InputError(rule, got="Gaussian ones", fix="use visible='bernoulli'")
        free = self.free_energy(v)
        if units is not None:
            return v.shape[1] * log_conditional(free, self.free_energy(flipped(v, units)))
        inputs, total = self._hidden_input(v), torch.zeros_like(free)
        before = F.softplus(inputs).sum(-1)
        for unit, (row, bias) in enumerate(zip(self.weight, self.visible_bias, strict=True)):
            change = 1 - 2 * v[:, unit]  # of the unit; its row times that is what hidden units receive more
            after = F.softplus(inputs + torch.outer(change, row)).sum(-1)
            total = total + log_conditional(free, free - change * bias + before - after)
        return total


class ContrastiveDivergence(Objective[RBM]):
    """Of the loss only the gradient means something. What is measured is the pseudo-likelihood or, for Gaussian visible
    units, the squared error of reconstructions. Checkpoints hold the persistent chains."""

    phase = "contrastive divergence"

    def __init__(self, model: RBM):
        super().__init__(model)
        self.chains: Float[Tensor, "chain visible"] | None = None

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return self.model(batch["input"], self.particles(batch["input"]))

    @torch.no_grad()
    def particles(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "chain visible"]:
        """v', after k Gibbs steps from the data, or from where the chains were."""
        model, config = self.model, self.model.config
        v = model.encode(x) if config.chains == 0 else self.chains
        if v is None:  # chains begin at what the visible biases alone would do
            v = model.sample_visible(model.hidden_bias.new_zeros(config.chains, config.hidden_size))
        for _ in range(config.steps - 1):
            v = model.gibbs_step(v)
        mean = model.visible_mean(model.sample_hidden(v))
        if config.chains == 0:
            return mean if config.mean_field else model.sample_around(mean)
        self.chains = model.sample_around(mean)
        return mean if config.mean_field else self.chains

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        v = self.model.encode(batch["input"])
        error = (self.model.visible_mean(self.model.hidden_mean(v)) - v).square().mean(1)
        if self.model.gaussian:
            return {"loss": error, "reconstruction_error": error}
        units = torch.randint(v.shape[1], (len(v),), generator=seeded("flipped units")).to(v.device)
        likelihood = v.shape[1] * log_conditional(self.model(batch["input"]), self.model.free_energy(flipped(v, units)))
        return {"loss": -likelihood, "pseudo_likelihood": likelihood, "reconstruction_error": error}

    def state_dict(self) -> Mapping[str, Tensor]:
        return {} if self.chains is None else {"chains": self.chains}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.chains = state["chains"].to(self.model.weight.device) if state else None


def log_conditional(free: Float[Tensor, " batch"], free_flipped: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    # ln q(v_i | all others) = ln σ(F(v with unit i flipped) − F(v))
    return F.logsigmoid(free_flipped - free)


def flipped(v: Float[Tensor, "batch visible"], units: Int64[Tensor, " batch"]) -> Float[Tensor, "batch visible"]:
    """One unit of each example the other way round."""
    places = units[:, None]
    return v.scatter(1, places, 1 - v.gather(1, places))


def binary_states(units: int, begin: int, end: int) -> Float[Tensor, "state unit"]:
    """Some of the 2ⁿ states of n binary units, by number, in double precision."""
    return (torch.arange(begin, end)[:, None] >> torch.arange(units) & 1).double()


def _all_digits(v: Tensor) -> AbstractContextManager[object]:
    """Without autocast: what is learned and measured are small differences of large energies."""
    return nullcontext() if v.is_meta else torch.autocast(v.device.type, enabled=False)


def _cooled(x: Tensor, temperature: float) -> Tensor:
    return x if temperature == 1 else x / temperature


SIZES = {
    "small": RBMConfig(hidden_size=64),
    "base": RBMConfig(),
    "gaussian": RBMConfig(visible="gaussian"),
}
