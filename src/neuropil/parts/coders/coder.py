"""Encoder and decoder of a model: dense for inputs of any shape, or convolutional for pictures of at least 8×8."""

from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, from_data, option
from neuropil.parts.activations import ActivationName
from neuropil.parts.coders.convolutional import ConvolutionalDecoder, ConvolutionalEncoder, require_picture
from neuropil.parts.coders.dense import DenseDecoder, DenseEncoder

NetworkName = Literal["dense", "convolutional"]


@runtime_checkable
class Encoder(Protocol):
    """Any module that makes so many `features` of an input in the unit range."""

    features: int

    def __call__(self, u: Float[Tensor, "batch *shape"], /) -> Float[Tensor, "batch feature"]: ...


class CoderConfig(Config):
    """What every model with an encoder or a decoder has."""

    network: NetworkName = option("dense", "layers of encoder and decoder; convolutional for pictures only")
    hidden_sizes: tuple[int, ...] = option(
        (512, 256), "dense: hidden sizes of the encoder, one for each layer; the decoder has them in reverse", low=1
    )
    width: int = option(32, "convolutional: channels of the first stage; each further stage doubles them", low=1)
    activation: ActivationName = option("relu", "activation of the hidden units")
    latent_size: int = option(16, "latent dimensions", low=1)
    shape: tuple[int, ...] = from_data((1, 8, 8), "axes of one input: features, or channels, height, width")

    def validate(self) -> None:
        if self.network == "convolutional":
            require_picture(self.shape)


def encoder_for(config: CoderConfig) -> DenseEncoder | ConvolutionalEncoder:
    if config.network == "convolutional":
        return ConvolutionalEncoder(config.shape, config.width, config.activation)
    return DenseEncoder(config.shape, config.hidden_sizes, config.activation)


def decoder_for(config: CoderConfig) -> DenseDecoder | ConvolutionalDecoder:
    if config.network == "convolutional":
        return ConvolutionalDecoder(config.latent_size, config.shape, config.width, config.activation)
    return DenseDecoder(config.latent_size, config.hidden_sizes[::-1], config.shape, config.activation)
