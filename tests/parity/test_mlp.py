"""The MLP beside scikit-learn's and beside nn.Sequential, with the same weights."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor
from torch import nn

from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.activations import ActivationName
from real_data import digits

SKLEARN_NAMES: dict[ActivationName, str] = {
    "relu": "relu",
    "tanh": "tanh",
    "logistic": "logistic",
    "identity": "identity",
}


def with_weights_of(reference: MLPClassifier | MLPRegressor, model: MLP) -> MLP:
    model.double()
    layers = [*(model.get_submodule(f"hidden.{i}") for i in range(len(model.hidden))), model.output]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, reference.coefs_, reference.intercepts_, strict=True):
            layer.get_parameter("weight").copy_(torch.from_numpy(weight.T))
            layer.get_parameter("bias").copy_(torch.from_numpy(bias))
    return model.eval()


@pytest.mark.parametrize("activation", SKLEARN_NAMES)
def test_scikit_learns_classifier_gives_the_same_probabilities(activation: ActivationName):
    images, labels = digits()
    x = images.reshape(len(images), -1) / 255
    reference = MLPClassifier(
        hidden_layer_sizes=(20, 15), activation=SKLEARN_NAMES[activation], max_iter=5, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # five passes are enough to have weights
        reference.fit(x, labels)
    model = with_weights_of(reference, MLP(MLPConfig(hidden_sizes=(20, 15), activation=activation, shape=(64,))))
    ours = torch.softmax(model(torch.from_numpy(x)), -1)
    np.testing.assert_allclose(ours.detach().numpy(), np.asarray(reference.predict_proba(x), dtype=float), atol=1e-12)


def test_scikit_learns_regressor_gives_the_same_numbers():
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(100, 4)), rng.normal(size=100)
    reference = MLPRegressor(hidden_layer_sizes=(7,), max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reference.fit(x, target)
    model = with_weights_of(reference, MLP(MLPConfig(hidden_sizes=(7,), shape=(4,), outputs=1)))
    np.testing.assert_allclose(
        model(torch.from_numpy(x))[:, 0].detach().numpy(), np.asarray(reference.predict(x), dtype=float), atol=1e-12
    )


def test_it_is_a_sequential_of_torchs_layers_bit_by_bit_in_training_too():
    torch.manual_seed(0)
    model = MLP(
        MLPConfig(hidden_sizes=(20, 15), activation="relu", dropout=0.3, batch_norm=True, shape=(6,), outputs=3)
    )
    (first, second), (norm1, norm2) = model.hidden, model.norms
    reference = nn.Sequential(
        first, norm1, nn.ReLU(), nn.Dropout(0.3), second, norm2, nn.ReLU(), nn.Dropout(0.3), model.output
    )
    x = torch.randn(8, 6)
    torch.manual_seed(1)
    ours = model(x)
    torch.manual_seed(1)
    assert torch.equal(ours, reference(x))
