import copy

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.autoencoder import (
    Autoencoder,
    AutoencoderConfig,
    Corruption,
    ReconstructionConfig,
    ReconstructionLoss,
)
from neuropil.parts.parameters import count_parameters
from real_data import digits

LINEAR = AutoencoderConfig(
    hidden_sizes=(), activation="identity", output="identity", tied=True, latent_size=5, shape=(64,)
)


def digit_rows() -> Tensor:
    """In the unit range."""
    return torch.from_numpy(digits()[0]).flatten(1).double() / 255


def linear_autoencoder(rows: Tensor) -> Autoencoder:
    torch.manual_seed(0)
    model = Autoencoder(LINEAR).double()
    model.unit_range.fit(torch.stack([torch.zeros(64), torch.ones(64)]).double())
    assert torch.equal(model.unit_range(rows), rows)
    return model


def test_a_linear_tied_autoencoder_learns_to_be_as_good_as_pca():
    rows = digit_rows()
    pca = PCA(5).fit(rows.numpy())
    expected = ((pca.inverse_transform(pca.transform(rows.numpy())) - rows.numpy()) ** 2).sum(1).mean() / 2
    model = linear_autoencoder(rows)
    learner = ReconstructionLoss(model)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=300, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = learner.loss({"input": rows})
        value.backward()
        return value

    optimizer.step(loss)
    assert loss().item() == pytest.approx(expected, rel=1e-4)


def test_the_components_of_pca_are_its_optimum():
    rows = digit_rows()
    pca = PCA(5).fit(rows.numpy())
    model = linear_autoencoder(rows)
    components, mean = torch.from_numpy(pca.components_), torch.from_numpy(pca.mean_)
    with torch.no_grad():
        # z = W (u − m),  û = Wᵀ z + m
        model.bottleneck.weight.copy_(components)
        model.bottleneck.bias.copy_(-components @ mean)
        model.decoder.get_parameter("biases.0").copy_(mean)
    given = model(rows)
    np.testing.assert_allclose(given.code.detach().numpy(), pca.transform(rows.numpy()), atol=1e-9)
    expected = pca.inverse_transform(pca.transform(rows.numpy()))
    np.testing.assert_allclose(given.outputs.detach().numpy(), expected, atol=1e-9)
    ReconstructionLoss(model).loss({"input": rows}).backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() < 1e-9


def test_tied_dense_weights_are_one_parameter_that_both_uses_pull_at():
    torch.manual_seed(0)
    config = AutoencoderConfig(hidden_sizes=(7,), activation="tanh", tied=True, latent_size=3, shape=(6,))
    model, x = Autoencoder(config).double(), torch.rand(9, 6, dtype=torch.double)
    model.unit_range.fit(torch.stack([torch.zeros(6), torch.ones(6)]).double())
    W, V = (model.get_parameter(name).detach().clone() for name in ("encoder.layers.0.weight", "bottleneck.weight"))
    # Untied copies of both, and the same computed out: the gradient is the sum of those of both uses.
    uses = [W, V, W.clone(), V.clone()]
    for use in uses:
        use.requires_grad_()
    z = torch.tanh(x @ uses[0].T) @ uses[1].T
    expected = torch.sigmoid(torch.tanh(z @ uses[3]) @ uses[2])
    (0.5 * (expected - x).square().sum(1).mean()).backward()
    given = model(x)
    torch.testing.assert_close(given.outputs, expected)
    ReconstructionLoss(model).loss({"input": x}).backward()
    first, second, third, fourth = (torch.zeros(()) if use.grad is None else use.grad for use in uses)
    torch.testing.assert_close(model.get_parameter("encoder.layers.0.weight").grad, first + third)
    torch.testing.assert_close(model.bottleneck.weight.grad, second + fourth)


@pytest.mark.parametrize("network", ["dense", "convolutional"])
def test_tied_weights_count_once(network):
    sizes = {"network": network, "hidden_sizes": (20, 10), "width": 4, "latent_size": 3, "shape": (2, 20, 18)}
    tied, free = (Autoencoder(AutoencoderConfig(**sizes, tied=tied)) for tied in (True, False))
    weights = sum(parameter.numel() for parameter in tied.parameters() if parameter.ndim > 1)
    assert count_parameters(free) - count_parameters(tied) == weights
    assert [str(row) for row in tied.parameter_table() if row.name == "decoder"] == [
        f"n with n = {sum(p.numel() for p in tied.decoder.parameters())}"
    ]


def test_a_tied_convolutional_decoder_is_the_encoders_layers_transposed():
    torch.manual_seed(0)
    config = AutoencoderConfig(network="convolutional", width=4, tied=True, latent_size=3, shape=(2, 20, 17))
    model, z = Autoencoder(config), torch.randn(5, 3)
    first, second, third = (model.get_parameter(f"encoder.layers.{number}.weight") for number in range(3))
    h = F.relu(z @ model.bottleneck.weight).unflatten(1, (16, 2, 2))
    h = F.relu(F.conv_transpose2d(h, third, stride=2, padding=1, output_padding=(1, 0)))
    h = F.relu(F.conv_transpose2d(h, second, stride=2, padding=1))
    a = F.conv_transpose2d(h, first, stride=2, padding=1, output_padding=(0, 1))
    torch.testing.assert_close(model.decode(z), a.sigmoid())  # first biases are zero


class Rotated(nn.Module):
    features = 4

    def forward(self, u: Tensor) -> Tensor:
        return u.rot90(1, (-2, -1)).flatten(1)


def test_any_module_with_features_can_be_the_encoder():
    config = AutoencoderConfig(hidden_sizes=(8,), latent_size=2, shape=(1, 2, 2))
    model = Autoencoder(config, encoder=Rotated())
    x = torch.randint(0, 256, (3, 1, 2, 2), dtype=torch.uint8)
    torch.testing.assert_close(model.encode(x), model.bottleneck((x / 255).rot90(1, (-2, -1)).flatten(1)))
    assert model(x).outputs.shape == x.shape


def test_an_encoder_without_layers_has_no_transpose():
    with pytest.raises(InputError) as error:
        Autoencoder(AutoencoderConfig(tied=True, shape=(1, 2, 2)), encoder=Rotated())
    assert str(error.value) == (
        "tied weights need an encoder of dense or convolutional layers alone, but got Rotated: leave tied out."
    )


@pytest.mark.parametrize("corruption", ["gaussian", "masking"])
def test_inputs_are_corrupted_in_training_only_and_the_clean_input_is_the_target(corruption):
    torch.manual_seed(0)
    noisy = Autoencoder(AutoencoderConfig(hidden_sizes=(8,), latent_size=2, shape=(30,), corruption=corruption))
    clean = Autoencoder(AutoencoderConfig(hidden_sizes=(8,), latent_size=2, shape=(30,)))
    clean.load_state_dict(noisy.state_dict())
    x, seen = torch.rand(5, 30) * 255, []
    noisy.get_submodule("encoder").register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    assert not torch.equal(noisy(x).outputs, clean(x).outputs)
    assert torch.equal(noisy.eval()(x).outputs, clean.eval()(x).outputs)
    assert torch.equal(noisy.encode(x), clean.encode(x))
    torch.manual_seed(3)
    loss = ReconstructionLoss(noisy.train()).loss({"input": x})
    torch.testing.assert_close(
        loss, 0.5 * (noisy.decode(noisy.bottleneck(noisy.encoder(seen[-1]))) - x / 255).square().sum(1).mean()
    )


def test_gaussian_noise_has_the_level_as_its_spread_and_masking_as_its_share():
    torch.manual_seed(0)
    u = torch.full((200, 500), 0.5)
    noise = Corruption("gaussian", 0.3)(u) - u
    assert noise.mean().abs() < 0.01
    assert noise.std().item() == pytest.approx(0.3, rel=0.02)
    masked = Corruption("masking", 0.3)(u)
    assert set(masked.unique().tolist()) == {0.0, 0.5}
    assert (masked == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)


def test_losses_are_those_of_torch_and_the_metric_is_the_mean_squared_error():
    torch.manual_seed(0)
    model, x = Autoencoder(AutoencoderConfig(hidden_sizes=(8,), latent_size=2)), torch.randint(0, 256, (9, 1, 8, 8))
    u, given = x / 255, model(x)
    entropy = ReconstructionLoss(model, ReconstructionConfig(loss="cross_entropy"))
    torch.testing.assert_close(entropy.loss({"input": x}), 64 * F.binary_cross_entropy(given.outputs, u))
    squared = ReconstructionLoss(model)
    torch.testing.assert_close(squared.loss({"input": x}), 32 * F.mse_loss(given.outputs, u))
    for learner in (entropy, squared):
        metrics = learner.metrics({"input": x})
        torch.testing.assert_close(metrics["squared_error"].mean(), F.mse_loss(given.outputs, u))
        torch.testing.assert_close(metrics["loss"].mean(), learner.loss({"input": x}))


def test_the_cross_entropy_of_linear_outputs_is_refused():
    with pytest.raises(InputError) as error:
        ReconstructionLoss(Autoencoder(LINEAR), ReconstructionConfig(loss="cross_entropy"))
    assert str(error.value) == (
        "the cross-entropy loss needs logistic output units, but got output='identity': use output='logistic'."
    )


def test_masking_more_than_everything_is_refused():
    with pytest.raises(InputError) as error:
        AutoencoderConfig(corruption="masking", corruption_level=1.5)
    assert str(error.value) == "the probability that an input is masked is at most 1, but got 1.5."
    AutoencoderConfig(corruption="gaussian", corruption_level=1.5)


def test_what_is_decoded_stays_in_the_unit_range_also_if_output_units_are_linear():
    model = Autoencoder(LINEAR)
    decoded = model.decode(100 * torch.randn(20, 5))
    assert decoded.min() == 0
    assert decoded.max() == 1


def test_a_tied_copy_shares_nothing_with_its_original():
    model = Autoencoder(AutoencoderConfig(tied=True, hidden_sizes=(8,), latent_size=2))
    twin, z = copy.deepcopy(model), torch.randn(3, 2)
    before = model.decode(z)
    with torch.no_grad():
        twin.bottleneck.weight.zero_()
    assert torch.equal(model.decode(z), before)
    assert not torch.equal(twin.decode(z), before)
