"""Autoencoder: a network that learns to say its input again after a bottleneck, and so learns a short code for it.

    z = f(u)                              encoder: the code, with fewer numbers than the input
    û = φ(a),  a = g(z)                   decoder: the reconstruction
    L = ½ ‖û − u‖²                        or Bernoulli cross-entropy of the logits a
    g = Wᵀ after Wᵀ …                     tied: the decoder goes back through the encoder's own weights, transposed

u is the input in the unit range. With linear layers the best code of d numbers is that of PCA with d components; what
layers with activations reach beyond it is their worth. A denoising autoencoder (Vincent 2008) is shown a corrupted
input in training, f(u + ε) or f(u ⊙ m), and has to say the clean one.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.parts.activations import ACTIVATIONS, ActivationName
from neuropil.parts.coders.coder import CoderConfig, Encoder, decoder_for, encoder_for
from neuropil.parts.coders.convolutional import ConvolutionalEncoder, transposed
from neuropil.parts.coders.dense import DenseEncoder, dense
from neuropil.parts.losses import at_least_single, bernoulli_cross_entropy, squared_error, weighted_mean
from neuropil.parts.objectives import Objective, loss_weights, measured_weight
from neuropil.parts.parameters import Model, ParameterRow
from neuropil.parts.standardize import UnitRange
from neuropil.protocols import Batch

CorruptionName = Literal["none", "gaussian", "masking"]


class AutoencoderConfig(CoderConfig):
    tied: bool = option(False, "tied weights: those of the decoder are the encoder's, transposed")
    output: Literal["logistic", "identity"] = option("logistic", "activation of the output units")
    corruption: CorruptionName = option("none", "denoising: corruption of the inputs in training")
    corruption_level: float = option(
        0.3, "denoising: standard deviation of the Gaussian noise, or probability that an input is masked", low=0
    )

    def validate(self) -> None:
        super().validate()
        if self.corruption == "masking" and self.corruption_level > 1:
            raise InputError("the probability that an input is masked is at most 1", got=f"{self.corruption_level:g}")


class AutoencoderOutput(NamedTuple):
    outputs: Float[Tensor, "batch *shape"]
    """û, in the unit range."""
    logits: Float[Tensor, "batch *shape"]
    """a, of which φ makes û."""
    code: Float[Tensor, "batch latent"]


class Autoencoder(Model):
    def __init__(self, config: AutoencoderConfig, encoder: Encoder | None = None):
        """`encoder` is any module with `features`, in place of the one that the configuration names."""
        super().__init__()
        self.config = config
        self.unit_range = UnitRange(config.shape)
        self.corrupt = Corruption(config.corruption, config.corruption_level)
        self.encoder = encoder or encoder_for(config)
        self.bottleneck = dense(self.encoder.features, config.latent_size, "identity")
        self.decoder = TransposedDecoder(*self._way(), config.activation) if config.tied else decoder_for(config)
        self.output = ACTIVATIONS[config.output]

    def forward(self, x: Num[Tensor, "batch *shape"]) -> AutoencoderOutput:
        u = self.corrupt(self.unit_range(x))  # batch *shape
        z = self.bottleneck(self.encoder(u))  # batch latent
        a = self._logits(z)  # batch *shape
        return AutoencoderOutput(self.output(a), a, z)

    def encode(self, x: Num[Tensor, "batch *shape"]) -> Float[Tensor, "batch latent"]:
        return self.bottleneck(self.encoder(self.unit_range(x)))

    def decode(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]:
        """Within the unit range, also where the output units are linear."""
        return self.output(self._logits(z)).clamp(0, 1)

    def _logits(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch *shape"]:
        return self.decoder(z, self._way()[0]) if isinstance(self.decoder, TransposedDecoder) else self.decoder(z)

    def _way(self) -> "tuple[Layers, Sequence[tuple[int, ...]]]":
        """The layers from the input to the code, and the shape of what enters each."""
        if not isinstance(self.encoder, DenseEncoder | ConvolutionalEncoder):
            rule = "tied weights need an encoder of dense or convolutional layers alone"
            raise InputError(rule, got=type(self.encoder).__name__, fix="leave tied out")
        return [*self.encoder.layers, self.bottleneck], self.encoder.shapes


Layers = Sequence[nn.Linear | nn.Conv2d]


class TransposedDecoder(nn.Module):
    """The way back through given layers. Their weights stay theirs: it learns nothing but biases."""

    def __init__(self, layers: Layers, shapes: Sequence[tuple[int, ...]], activation: ActivationName):
        super().__init__()
        self.shapes, self.activation = shapes, ACTIVATIONS[activation]
        entering = (layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels for layer in layers)
        self.biases = nn.ParameterList(torch.zeros(size) for size in entering)

    def forward(self, z: Float[Tensor, "batch latent"], layers: Layers) -> Float[Tensor, "batch *shape"]:
        h = z
        for number in reversed(range(len(layers))):
            # hˡ⁻¹ = φ(Wˡᵀ hˡ + cˡ), and without φ at the input
            h = transpose(h, layers[number], self.biases[number], self.shapes[number])
            h = self.activation(h) if number else h
        return h

    def parameter_row(self, name: str) -> ParameterRow:
        return ParameterRow(name, "n", {"n": sum(bias.numel() for bias in self.biases)})


def transpose(
    h: Float[Tensor, "batch *leaving"],
    layer: nn.Linear | nn.Conv2d,
    bias: Float[Tensor, " entering"],
    shape: Sequence[int],
) -> Float[Tensor, "batch *shape"]:
    """From what leaves a layer to the shape of what enters it."""
    if isinstance(layer, nn.Conv2d):
        return transposed(h, layer, bias, shape)
    return F.linear(h, layer.weight.T, bias).unflatten(1, tuple(shape))


class Corruption(nn.Module):
    """Gaussian noise on every input, or some inputs at zero; in training only."""

    def __init__(self, kind: CorruptionName, level: float):
        super().__init__()
        self.kind, self.level = kind, level

    def forward(self, u: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
        if not self.training or self.kind == "none":
            return u
        if self.kind == "gaussian":
            # u + ε,  ε ~ N(0, σ²)
            return u + self.level * torch.randn_like(u)
        # u ⊙ m,  m = 0 with probability p
        return u * (torch.rand_like(u) >= self.level)


class ReconstructionConfig(Config):
    loss: Literal["squared_error", "cross_entropy"] = option("squared_error", "reconstruction loss")


class ReconstructionLoss(Objective[Autoencoder]):
    """How far the output is from the clean input. A batch has `input`; what else it has is not looked at."""

    phase = "reconstruction"

    def __init__(self, model: Autoencoder, config: ReconstructionConfig | None = None):
        super().__init__(model)
        self.config = config or ReconstructionConfig()
        if self.config.loss == "cross_entropy" and model.config.output != "logistic":
            rule = "the cross-entropy loss needs logistic output units"
            raise InputError(rule, got=f"output={model.config.output!r}", fix="use output='logistic'")

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        losses = self._errors(batch, self.model(batch["input"]))
        return weighted_mean(losses, loss_weights(batch, losses))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """The squared error is the mean over the numbers of an input, in the unit range."""
        given = self.model(batch["input"])
        u, reconstruction = self.model.unit_range(batch["input"]), at_least_single(given.outputs)
        squares = (reconstruction - u).square().flatten(1).mean(1)
        return {"loss": self._errors(batch, given), "squared_error": squares} | measured_weight(
            loss_weights(batch, squares)
        )

    def _errors(self, batch: Batch, given: AutoencoderOutput) -> Float[Tensor, " batch"]:
        u = self.model.unit_range(batch["input"]).flatten(1)
        if self.config.loss == "cross_entropy":
            return bernoulli_cross_entropy(given.logits.flatten(1), u)
        return squared_error(given.outputs.flatten(1), u)


SIZES = {
    "linear": AutoencoderConfig(hidden_sizes=(), activation="identity", output="identity", tied=True),
    "small": AutoencoderConfig(hidden_sizes=(64,), latent_size=8),
    "base": AutoencoderConfig(),
    "convolutional": AutoencoderConfig(network="convolutional"),
    "tied": AutoencoderConfig(network="convolutional", tied=True),
}
