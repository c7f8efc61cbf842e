"""The U-Net beside its equations written out with PyTorch's own functions."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.unet.network import PlaceAttention, TimedResidualBlock, UNet, UNetConfig, Upsample
from neuropil.parts.parameters import count_parameters


def config(**options: Any) -> UNetConfig:
    sizes: dict[str, Any] = {"channels": (8, 16), "depth": 1, "attention_levels": (1,), "groups": 4, "shape": (1, 8, 8)}
    return UNetConfig(**(sizes | options))


def shaken(module: nn.Module) -> Any:
    """No bias is zero, and no norm is one."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return module.double().eval()


@settings(max_examples=20)
@given(rows=st.integers(1, 6), columns=st.integers(1, 6), channels=st.integers(1, 5))
def test_upsampling_is_a_convolution_of_the_doubled_picture(rows: int, columns: int, channels: int):
    upsample, h = shaken(Upsample(channels)), torch.randn(2, channels, rows, columns, dtype=torch.float64)
    doubled = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
    expected = upsample.convolution(doubled)
    torch.testing.assert_close(upsample(h), expected)
    direction = torch.randn_like(expected)
    parameters = list(upsample.parameters())
    mine = torch.autograd.grad((upsample(h) * direction).sum(), parameters)
    for gradient, other in zip(mine, torch.autograd.grad((expected * direction).sum(), parameters), strict=True):
        torch.testing.assert_close(gradient, other)


@pytest.mark.parametrize("effect", ["shift", "scale_shift"])
@pytest.mark.parametrize("width", [8, 12])
def test_a_residual_block_is_its_equation(effect, width: int):
    block = shaken(TimedResidualBlock(config(time_effect=effect), 8, width))
    x, e = torch.randn(3, 8, 5, 4, dtype=torch.float64), torch.randn(3, 32, dtype=torch.float64)

    def norm(x: Tensor, layer: nn.GroupNorm) -> Tensor:
        groups = x.reshape(len(x), 4, -1)
        mean, variance = groups.mean(-1, keepdim=True), groups.var(-1, keepdim=True, correction=0)
        unit = ((groups - mean) / (variance + 1e-5).sqrt()).view_as(x)
        return layer.weight.view(-1, 1, 1) * unit + layer.bias.view(-1, 1, 1)

    def phi(z: Tensor) -> Tensor:
        return z * z.sigmoid()

    h = F.conv2d(phi(norm(x, block.norm1)), block.convolution1.weight, block.convolution1.bias, padding=1)
    time = (e @ block.time.weight.T + block.time.bias)[:, :, None, None]
    if effect == "shift":
        h = norm(h + time, block.norm2)
    else:
        h = norm(h, block.norm2) * (1 + time[:, :width]) + time[:, width:]
    h = F.conv2d(phi(h), block.convolution2.weight, block.convolution2.bias, padding=1)
    shortcut = x if width == 8 else F.conv2d(x, block.shortcut.weight, block.shortcut.bias)
    torch.testing.assert_close(block(x, e), shortcut + h)
    assert block.parameter_row("block").count == count_parameters(block)


def test_attention_is_between_all_places():
    layer = shaken(PlaceAttention(config(head_width=4), 8))
    x = torch.randn(2, 8, 3, 5, dtype=torch.float64)
    places = layer.norm(x).flatten(2).mT
    expected, _ = layer.attention.to_torch()(places, places, places)
    torch.testing.assert_close(layer(x), x + expected.mT.reshape_as(x))


def test_a_time_is_cosines_and_sines():
    model = shaken(UNet(config()))
    t = torch.tensor([3.0, 250.0])
    waves = [[math.cos(time * 10_000 ** (-j / 4)) for j in range(4)] for time in t.tolist()]
    for row, time in zip(waves, t.tolist(), strict=True):
        row += [math.sin(time * 10_000 ** (-j / 4)) for j in range(4)]
    inner, outer = model.time.inner, model.time.outer
    expected = outer(F.silu(inner(torch.tensor(waves, dtype=torch.float64))))
    torch.testing.assert_close(model.time(t), expected, atol=1e-5, rtol=1e-5)


def test_looking_without_gradients_changes_no_answer_and_no_input():
    model, x, t = shaken(UNet(config())), torch.randn(2, 1, 8, 8, dtype=torch.float64), torch.tensor([1, 600])
    given_x = x.clone()
    with torch.no_grad():
        watched = model(x, t)
    assert torch.equal(watched, model(x, t))
    assert torch.equal(x, given_x)


@settings(max_examples=20)
@given(rows=st.integers(5, 11), columns=st.integers(5, 11), ends=st.booleans())
def test_pictures_of_any_size_are_padded_and_cropped(rows: int, columns: int, ends: bool):
    model = shaken(UNet(config(channels=(8, 8, 8), attention_levels=(2,), pad_at_ends=ends)))
    x, t = torch.randn(2, 1, rows, columns, dtype=torch.float64), torch.tensor([7, 8])
    answer = model(x, t)
    assert answer.shape == x.shape
    padded = F.pad(x, (0, (4 - columns) % 4, 0, (4 - rows) % 4))
    torch.testing.assert_close(answer, model(padded, t)[..., :rows, :columns])


# --- classes ----------------------------------------------------------------------------------------------------------


def test_a_class_is_left_out_in_training_as_often_as_was_asked():
    embedding = UNet(config(classes=10, class_dropout=0.2)).classes
    assert embedding is not None
    with torch.no_grad():
        embedding.table.weight.copy_(torch.arange(11)[:, None].expand_as(embedding.table.weight))
    classes = torch.arange(10).repeat(500)
    torch.manual_seed(0)
    trained = embedding.train()(classes, 5_000)[:, 0]
    assert (trained == 10).float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert torch.equal(trained[trained != 10], classes[trained != 10].float())
    assert torch.equal(embedding.eval()(classes, 5_000)[:, 0], classes.float())
    assert (embedding(None, 3) == 10).all()


def test_a_model_that_always_knew_the_class_asks_for_it():
    model = UNet(config(classes=3, class_dropout=0.0))
    assert model.classes is not None
    assert model.classes.table.num_embeddings == 3
    with pytest.raises(InputError) as caught:
        model(torch.zeros(1, 1, 8, 8), torch.zeros(1))
    assert str(caught.value) == (
        "a model that was trained with the class of every picture needs classes, but got none."
    )


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"channels": ()}, "channels must be a number for each level, but got none."),
        ({"channels": (8, 10)}, "the 4 groups must divide the channels of every level, but got 10 channels."),
        (
            {"channels": (3, 8), "groups": 1},
            "channels must be even at the first level, for cosines and sines of the time, but got 3.",
        ),
        (
            {"attention_levels": (0, 2)},
            "attention_levels must be from 0 to 1, or from −1 to −2, of 2 levels, but got 2.",
        ),
        (
            {"head_width": 6},
            "head_width must divide the channels of the levels with attention, but got 6 for 16, 16 channels.",
        ),
        (
            {"shape": (1, 3, 8)},
            "a U-Net of 2 levels needs pictures of at least 4×4, but got 3×8: choose fewer levels.",
        ),
        ({"shape": (64,)}, "a U-Net needs pictures of channels, height and width, but got inputs of shape (64,)."),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(options: dict[str, Any], sentence: str):
    with pytest.raises(InputError) as caught:
        config(**options)
    assert str(caught.value) == sentence


def test_the_last_level_is_minus_one():
    config = UNetConfig(channels=(8, 16, 16), groups=4, attention_levels=(-1,))
    assert [config.attends(level) for level in range(3)] == [False, False, True]
