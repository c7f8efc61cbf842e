import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from neuropil.errors import InputError
from neuropil.parts.coders.convolutional import ConvolutionalDecoder, ConvolutionalEncoder, stages, transposed
from neuropil.parts.parameters import count_parameters, parameter_rows

SIDES = st.integers(8, 40)


@given(channels=st.integers(1, 3), height=SIDES, width=SIDES, latent=st.integers(1, 3))
def test_pictures_of_any_size_become_features_and_a_code_becomes_such_a_picture(
    channels: int, height: int, width: int, latent: int
):
    shape = (channels, height, width)
    encoder, decoder = ConvolutionalEncoder(shape, 2, "relu"), ConvolutionalDecoder(latent, shape, 2, "relu")
    assert encoder(torch.rand(2, *shape)).shape == (2, encoder.features)
    assert decoder(torch.randn(2, latent)).shape == (2, *shape)
    assert min(encoder.shapes[-1][1:]) <= 3


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 8, 8), [(1, 8, 8), (4, 4, 4), (8, 2, 2)]),
        ((1, 28, 28), [(1, 28, 28), (4, 14, 14), (8, 7, 7), (16, 3, 3)]),
        ((3, 64, 32), [(3, 64, 32), (4, 32, 16), (8, 16, 8), (16, 8, 4), (32, 4, 2)]),
    ],
)
def test_each_stage_halves_the_grid_and_doubles_the_channels(shape: tuple[int, ...], expected: list[tuple[int, ...]]):
    assert stages(shape, 4) == expected


@given(height=SIDES, width=SIDES)
def test_the_way_back_through_a_layer_is_its_transpose(height: int, width: int):
    """⟨w ⋆ u, h⟩ = ⟨u, w ⋆ᵀ h⟩ for every u and h: that is what a transpose is."""
    encoder = ConvolutionalEncoder((2, height, width), 3, "identity").double()
    layer, u = encoder.layers[0], torch.randn(1, 2, height, width, dtype=torch.double)
    h = layer(u)
    back = transposed(h.detach(), layer, torch.zeros(2, dtype=torch.double), (2, height, width))
    torch.testing.assert_close((u * back).sum(), (h * h.detach()).sum())  # first biases are zero


def test_depth_leaves_the_size_of_the_signal_alone():
    torch.manual_seed(0)
    shape = (3, 64, 64)
    h = ConvolutionalEncoder(shape, 16, "relu")(torch.randn(16, *shape))
    y = ConvolutionalDecoder(32, shape, 16, "relu")(torch.randn(64, 32))
    assert 0.3 < h.square().mean() < 3
    assert 0.3 < y.square().mean() < 3


def test_their_parameters_are_counted():
    holder = nn.Module()
    holder.encoder = ConvolutionalEncoder((3, 30, 18), 4, "relu")
    holder.decoder = ConvolutionalDecoder(5, (3, 30, 18), 4, "relu")
    rows = list(parameter_rows(holder))
    assert all(row.count == count_parameters(holder.get_submodule(row.name)) for row in rows)
    assert sum(row.count for row in rows) == count_parameters(holder)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (
            (13,),
            "convolutional coders need pictures of channels, height and width, but got inputs of shape (13,): "
            "use --network dense.",
        ),
        (
            (1, 7, 20),
            "convolutional coders need pictures of at least 8×8 pixels, but got 7×20: use --network dense.",
        ),
    ],
)
def test_what_is_no_picture_or_too_small_is_refused(shape: tuple[int, ...], sentence: str):
    with pytest.raises(InputError) as error:
        ConvolutionalEncoder(shape, 4, "relu")
    assert str(error.value) == sentence
