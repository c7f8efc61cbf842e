import pytest
import torch

from neuropil.errors import InputError
from neuropil.models.cnn import CNN, CNNConfig, convolve, correlate
from real_data import accuracy_after_learning_digits


@pytest.mark.parametrize(
    ("side", "stem_stride", "widths"),
    [
        (1, 1, [32]),
        (7, 1, [32]),
        (8, 1, [32, 64]),
        (16, 1, [32, 64, 128]),
        (28, 2, [32, 64]),
        (32, 2, [32, 64, 128]),
        (64, 4, [32, 64, 128]),
        (224, 4, [32, 64, 128, 256]),
    ],
)
def test_stages_adapt_to_the_size_of_the_picture(side: int, stem_stride: int, widths: list[int]):
    config = CNNConfig(shape=(3, side, side))
    assert config.stem_stride == stem_stride
    assert [width for _, width, _ in config.blocks] == widths
    model = CNN(config).eval()
    x = torch.zeros(2, 3, side, side, dtype=torch.uint8)
    places = model.blocks(model.stem(model.standardize(x))).shape[-1]
    assert places <= 7
    assert model(x).shape == (2, 10)


def test_normalisation_after_the_activation_is_the_equation_of_its_order():
    """h = BN(φ(w ⋆ x)),  y = BN(φ(w₂ ⋆ BN(φ(w₁ ⋆ h)) + S h))"""
    torch.manual_seed(0)
    model = CNN(CNNConfig(width=3, dropout=0.0, norm_order="after")).train()
    x = torch.randn(5, 1, 8, 8)

    def norm(values: torch.Tensor) -> torch.Tensor:
        mean, var = values.mean((0, 2, 3), keepdim=True), values.var((0, 2, 3), keepdim=True, correction=0)
        return (values - mean) / (var + 1e-5).sqrt()  # γ = 1 and β = 0, as long as nothing is learned

    h = norm(model.stem(x).relu())
    for block in model.blocks:
        z = norm(block.get_submodule("convolution1")(h).relu())
        h = norm((block.get_submodule("convolution2")(z) + block.get_submodule("shortcut")(h)).relu())
    torch.testing.assert_close(model(x), model.output(h.mean((2, 3))), atol=1e-5, rtol=1e-4)
    other = CNN(CNNConfig(width=3, dropout=0.0))
    other.load_state_dict(model.state_dict())
    assert not torch.allclose(other(x), model(x), atol=1e-3)


@pytest.mark.parametrize("options", [{"depth": 3}, {"kernel": 5}, {"kernel": 1}, {"width": 4}, {"shape": (1, 30, 9)}])
def test_every_option_gives_logits(options: dict):
    config = CNNConfig(**options)
    assert CNN(config)(torch.zeros(2, *config.shape)).shape == (2, 10)


def test_convolution_is_correlation_with_a_turned_kernel():
    picture = torch.zeros(1, 5, 5)
    picture[0, 2, 2] = 1
    kernel = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert torch.equal(convolve(picture, kernel)[0], kernel[0, 0])  # a point is spread into the kernel
    assert torch.equal(correlate(picture, kernel)[0], kernel[0, 0].rot90(2))


def test_convolution_commutes_and_correlation_does_not():
    one, other = torch.randn(1, 4, 4), torch.randn(1, 4, 4)
    torch.testing.assert_close(convolve(one, other[None], padding=3), convolve(other, one[None], padding=3))
    assert not torch.allclose(correlate(one, other[None], padding=3), correlate(other, one[None], padding=3))


def test_a_moved_picture_gives_a_moved_answer():
    picture, kernels = torch.randn(2, 9, 9), torch.randn(3, 2, 3, 3)
    moved = correlate(picture.roll(1, dims=-1), kernels)
    torch.testing.assert_close(moved[..., 1:], correlate(picture, kernels)[..., :-1])


def test_batch_norm_uses_the_batch_in_training_and_running_values_after():
    model, x = CNN(CNNConfig()), torch.randint(0, 256, (32, 1, 8, 8), dtype=torch.uint8)
    model.standardize.fit(x)
    for _ in range(100):
        model(x)
    model.dropout.p = 0.0
    torch.testing.assert_close(model.eval()(x), model.train()(x), atol=0.05, rtol=0.05)


def test_it_learns_real_digits_from_bytes():
    torch.manual_seed(0)
    assert accuracy_after_learning_digits(CNN(CNNConfig(width=8, dropout=0.0)), 0.01, passes=3) > 0.8


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError) as error:
        CNNConfig(kernel=4)
    assert str(error.value) == "kernel must be odd, but got 4: use 5."
    with pytest.raises(InputError) as error:
        CNNConfig(shape=(64,))
    assert str(error.value) == "a CNN needs pictures of channels, height and width, but got inputs of shape (64,)."
