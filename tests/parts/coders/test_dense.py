import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from neuropil.parts.coders.dense import DenseDecoder, DenseEncoder
from neuropil.parts.parameters import count_parameters, parameter_rows

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)
SIZES = st.lists(st.integers(1, 7), max_size=3).map(tuple)


@given(shape=SHAPES, sizes=SIZES, latent=st.integers(1, 4))
def test_any_shape_becomes_features_and_a_code_becomes_the_shape_again(
    shape: tuple[int, ...], sizes: tuple[int, ...], latent: int
):
    encoder = DenseEncoder(shape, sizes, "relu")
    h = encoder(torch.rand(3, *shape))
    assert h.shape == (3, encoder.features) == (3, *(sizes[-1:] or (math.prod(shape),)))
    assert encoder.shapes == [shape, *((size,) for size in sizes)]
    assert DenseDecoder(latent, sizes, shape, "relu")(torch.randn(3, latent)).shape == (3, *shape)


def test_they_are_the_layers_of_torch():
    encoder, decoder = DenseEncoder((1, 2, 3), (5, 4), "tanh"), DenseDecoder(2, (4, 5), (1, 2, 3), "tanh")
    u, z = torch.rand(7, 1, 2, 3), torch.randn(7, 2)
    first, second = encoder.layers
    plain = nn.Sequential(nn.Flatten(), first, nn.Tanh(), second, nn.Tanh())
    torch.testing.assert_close(encoder(u), plain(u))
    third, fourth = decoder.layers
    expected = F.linear(nn.Sequential(third, nn.Tanh(), fourth, nn.Tanh())(z), decoder.output.weight)
    torch.testing.assert_close(decoder(z).flatten(1), expected)  # first biases are zero


def test_their_parameters_are_counted():
    holder = nn.Module()
    holder.encoder, holder.decoder = DenseEncoder((6,), (5, 4), "relu"), DenseDecoder(2, (4, 5), (6,), "relu")
    rows = list(parameter_rows(holder))
    assert sum(row.count for row in rows) == count_parameters(holder)
    assert [str(row) for row in rows[:1]] == ["n·m + m with n = 6, m = 5"]
