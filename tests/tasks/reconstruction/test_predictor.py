import numpy as np
import pytest
import torch

from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.embedded import load_digits
from neuropil.errors import InputError
from neuropil.models.autoencoder import Autoencoder, AutoencoderConfig
from neuropil.tasks.reconstruction.predictor import AT_ONCE, Reconstructor


@pytest.fixture(scope="module")
def reconstructor() -> Reconstructor:
    torch.manual_seed(0)
    model = Autoencoder(AutoencoderConfig(hidden_sizes=(8,), latent_size=3)).eval()
    model.unit_range.fit(load_digits().inputs)
    return Reconstructor(model, Schema(kind="image", shape=(1, 8, 8), classes=()))


def test_reconstructions_are_bytes_of_what_the_model_decodes(reconstructor: Reconstructor):
    digits = load_digits().inputs[:5]
    made = reconstructor.reconstruct(digits)
    expected = 255 * reconstructor.model(digits).outputs
    torch.testing.assert_close(made.values.float(), expected, atol=0.5001, rtol=0)
    assert made.values.dtype == torch.uint8
    assert made.originals is not None
    assert torch.equal(made.originals, digits)


def test_an_array_and_a_tensor_are_the_same_and_batches_do_not_show(reconstructor: Reconstructor):
    digits = load_digits().inputs[: AT_ONCE + 3]
    codes = reconstructor.encode(digits)
    torch.testing.assert_close(codes, reconstructor.encode(digits.numpy()))
    torch.testing.assert_close(codes[-1:], reconstructor.encode(digits[-1:]))


def test_an_interpolation_begins_and_ends_at_the_reconstructions(reconstructor: Reconstructor):
    digits = load_digits().inputs[:2]
    way = reconstructor.interpolate(digits[:1], digits[1:], steps=5)
    ends = reconstructor.reconstruct(digits).values
    assert len(way) == 5
    assert torch.equal(way.values[[0, -1]], ends)


def test_an_interpolation_between_several_is_refused(reconstructor: Reconstructor):
    digits = np.zeros((3, 8, 8), np.uint8)
    with pytest.raises(InputError) as error:
        reconstructor.interpolate(digits[:1], digits[1:])
    assert str(error.value) == "interpolation goes from one example to one other, but got 1 and 2."


def test_the_error_of_an_evaluation_is_that_of_the_model(reconstructor: Reconstructor):
    digits = load_digits()
    errors = (reconstructor.model(digits.inputs).outputs - digits.inputs / 255).square().mean()
    assert reconstructor.evaluate(digits)["reconstruction_error"] == pytest.approx(errors.item(), rel=1e-5)
