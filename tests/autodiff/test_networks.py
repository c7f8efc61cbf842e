"""The engine learns: each network reads held-out handwritten digits nearly as well as logistic regression (97 %), or
better."""

from collections.abc import Callable

import numpy as np
import pytest

from neuropil.autodiff import graph, ops
from neuropil.autodiff.modules import Module
from neuropil.autodiff.networks import ImageCNN, ImageMLP, RowAttention, RowRNN, accuracy, train
from real_data import digits

NUM_TRAIN = 1400


def shuffled_digits():
    pixels, labels = digits()
    order = np.random.default_rng(0).permutation(len(pixels))
    return pixels[order] / 255, labels[order]


@pytest.mark.parametrize(
    ("network", "epochs", "bar"),
    [(ImageMLP, 10, 0.96), (RowRNN, 7, 0.95), (ImageCNN, 5, 0.94), (RowAttention, 8, 0.93)],
    ids=["mlp", "rnn", "cnn", "attention"],
)
def test_a_network_learns_to_read_digits(network: Callable[..., Module], epochs: int, bar: float):
    images, labels = shuffled_digits()
    model = network(8, 8, 10, np.random.default_rng(0))
    assert accuracy(model, images[NUM_TRAIN:], labels[NUM_TRAIN:]) < 0.3
    losses = list(train(model, images[:NUM_TRAIN], labels[:NUM_TRAIN], epochs=epochs, batch_size=64, rate=6e-3))
    assert len(losses) == epochs
    assert losses[-1] < losses[0] / 4
    assert accuracy(model, images[NUM_TRAIN:], labels[NUM_TRAIN:]) >= bar


def test_training_is_a_function_of_its_seeds():
    images, labels = (part[:100] for part in shuffled_digits())
    models = [ImageMLP(8, 8, 10, np.random.default_rng(3)) for _ in range(3)]
    runs = [
        list(train(model, images, labels, epochs=2, seed=seed)) for model, seed in zip(models, (1, 1, 2), strict=True)
    ]
    assert runs[0] == runs[1] != runs[2]
    assert np.array_equal(models[0].output.weight.val, models[1].output.weight.val)


@pytest.mark.parametrize("network", [ImageMLP, ImageCNN, RowRNN, RowAttention])
def test_every_parameter_gets_a_gradient(network: Callable[..., Module]):
    images, labels = (part[:20] for part in shuffled_digits())
    model = network(8, 8, 10, np.random.default_rng(0))
    loss = ops.cross_entropy(model(images), labels)
    loss.backward()
    silent = [name for name, var in model.parameters().items() if np.abs(var.grad).max() < 1e-12]
    assert silent == (
        [] if network is not RowAttention else ["head.key.bias"]
    )  # it shifts all scores of a query, and softmax forgets that
    assert set(model.parameters().values()) == {
        var for var in graph(loss).vars if var.creator is None and not var.constant
    }
