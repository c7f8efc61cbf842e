"""The average of the weights, against its formula."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from neuropil.training.averages import WeightAverage


def trained_with(updates: int) -> tuple[nn.Module, WeightAverage]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    average = WeightAverage(model, 0.5)
    for step in range(1, updates + 1):
        model(torch.randn(8, 3) + step)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(1.0)
        average.update(step)
    return model, average


def test_the_average_forgets_the_first_weights_faster_than_the_decay():
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    average = WeightAverage(model, 0.999)
    expected = model.weight.item()
    for step in range(1, 6):
        with torch.no_grad():
            model.weight.add_(1.0)
        decay = (1 + step) / (10 + step)
        expected = decay * expected + (1 - decay) * model.weight.item()
        average.update(step)
    torch.testing.assert_close(average.average["weight"], torch.tensor([[expected]]))


def test_the_statistics_of_batch_normalisation_are_averaged_like_the_weights():
    model, average = trained_with(6)
    own = model.state_dict()["1.running_mean"].clone()
    means = []
    again = nn.BatchNorm1d(4)
    torch.manual_seed(0)
    linear = nn.Linear(3, 4)
    for step in range(1, 7):
        again(linear(torch.randn(8, 3) + step))
        means.append(again.running_mean.clone() if again.running_mean is not None else torch.empty(0))
        with torch.no_grad():
            for weight in linear.parameters():
                weight.add_(1.0)
    expected = torch.zeros(4)
    for step, mean in enumerate(means, start=1):
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * mean
    with average.in_place():
        torch.testing.assert_close(model.state_dict()["1.running_mean"], expected)
    assert torch.equal(model.state_dict()["1.running_mean"], own)


def test_the_singular_vectors_of_spectral_normalisation_are_those_of_the_model():
    torch.manual_seed(0)
    layer = spectral_norm(nn.Linear(6, 5))
    average = WeightAverage(nn.Sequential(layer), 0.9)
    original = layer.get_parameter("parametrizations.weight.original")
    for step in range(1, 30):
        layer(torch.randn(8, 6))
        with torch.no_grad():  # the vectors turn, and an average of them would be shorter
            original.copy_(torch.roll(original, 1, 0) + 0.01 * torch.randn(5, 6))
        average.update(step)
    own = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    assert [buffer.norm().item() for buffer in own.values()] == pytest.approx([1, 1])
    with average.in_place():
        assert not torch.equal(original, average.average["0.parametrizations.weight.original"])
        assert all(torch.equal(buffer, own[name]) for name, buffer in layer.named_buffers())


def test_an_average_that_was_stored_with_more_than_it_needs_is_loaded():
    model, average = trained_with(3)
    stored = {name: value + 1 for name, value in average.average.items()}
    again = WeightAverage(model, 0.5)
    again.load(stored | {"0.parametrizations.weight.0._u": torch.ones(3)})
    assert all(torch.equal(again.average[name], value) for name, value in stored.items())
