"""The pieces of the CNN beside scipy, torch and the written-out formulas."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import convolve2d, correlate2d
from torch import nn
from torch.nn import functional as F

from neuropil.models.cnn import CNN, CNNConfig, ResidualBlock, convolve, correlate

DOUBLE = torch.double


@settings(deadline=None, max_examples=30)
@given(
    channels=st.integers(1, 3),
    kernels=st.integers(1, 4),
    a=st.integers(1, 4),
    b=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
)
def test_correlation_equals_torchs_convolution(channels: int, kernels: int, a: int, b: int, stride: int, padding: int):
    picture, kernel = torch.randn(channels, 7, 6, dtype=DOUBLE), torch.randn(kernels, channels, a, b, dtype=DOUBLE)
    expected = F.conv2d(picture[None], kernel, stride=stride, padding=padding)[0]
    torch.testing.assert_close(correlate(picture, kernel, stride, padding), expected)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 5), st.integers(1, 5))
def test_convolution_and_correlation_equal_scipys(a: int, b: int):
    picture, kernel = torch.randn(1, 8, 9, dtype=DOUBLE), torch.randn(1, 1, a, b, dtype=DOUBLE)
    np.testing.assert_allclose(
        convolve(picture, kernel)[0], convolve2d(picture[0], kernel[0, 0], mode="valid"), atol=1e-12
    )
    np.testing.assert_allclose(
        correlate(picture, kernel)[0], correlate2d(picture[0], kernel[0, 0], mode="valid"), atol=1e-12
    )


def test_a_one_by_one_kernel_is_a_linear_layer_at_every_place():
    picture, kernel = torch.randn(3, 5, 5), torch.randn(4, 3, 1, 1)
    expected = F.linear(picture.movedim(0, -1), kernel[:, :, 0, 0]).movedim(-1, 0)
    torch.testing.assert_close(correlate(picture, kernel), expected)


def normalised(z: torch.Tensor, norm: nn.BatchNorm2d) -> torch.Tensor:
    """γ (z − mean) / √(var + ε) + β, with the batch's own mean and variance."""
    mean, variance = z.mean((0, 2, 3), keepdim=True), z.var((0, 2, 3), correction=0, keepdim=True)
    gamma, beta = norm.weight[:, None, None], norm.bias[:, None, None]
    return gamma * (z - mean) / torch.sqrt(variance + norm.eps) + beta


def test_a_residual_block_is_its_equation():
    torch.manual_seed(0)
    for channels, width, stride in ((3, 3, 1), (3, 6, 2)):
        block = ResidualBlock(channels, width, stride, kernel=3).double()
        for norm in (block.norm1, block.norm2):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
        x = torch.randn(5, channels, 7, 7, dtype=DOUBLE)

        def written_out(picture: torch.Tensor, layer: nn.Module, step: int, padding: int) -> torch.Tensor:
            return torch.stack([correlate(one, layer.get_parameter("weight"), step, padding) for one in picture])

        z = F.relu(normalised(written_out(x, block.convolution1, stride, 1), block.norm1))
        z = normalised(written_out(z, block.convolution2, 1, 1), block.norm2)
        shortcut = x if channels == width else written_out(x, block.shortcut, stride, 0)
        torch.testing.assert_close(block(x), F.relu(z + shortcut))


def test_running_statistics_follow_the_batches_and_serve_evaluation():
    model = CNN(CNNConfig(shape=(1, 6, 6))).double()
    norm, batches = model.stem_norm, [torch.randn(10, 1, 6, 6, dtype=DOUBLE) for _ in range(3)]
    mean, variance = torch.zeros(32, dtype=DOUBLE), torch.ones(32, dtype=DOUBLE)
    for batch in batches:
        model(batch)
        z = model.stem(batch)
        # r ← 0.9 r + 0.1 s, with the unbiased variance
        mean, variance = 0.9 * mean + 0.1 * z.mean((0, 2, 3)), 0.9 * variance + 0.1 * z.var((0, 2, 3))
    torch.testing.assert_close((norm.running_mean, norm.running_var), (mean.detach(), variance.detach()))
    z = model.stem(batches[0])
    expected = (z - mean[:, None, None]) / torch.sqrt(variance[:, None, None] + norm.eps)
    torch.testing.assert_close(norm.eval()(z), expected)


def test_the_layout_in_memory_changes_no_answer():
    torch.manual_seed(0)
    model, x = CNN(CNNConfig()).double().eval(), torch.rand(4, 1, 8, 8, dtype=DOUBLE)
    h = F.relu(model.stem_norm(model.stem(model.standardize(x))))
    torch.testing.assert_close(model(x), model.output(model.blocks(h).mean((2, 3))))
