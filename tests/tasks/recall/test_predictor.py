import pytest
import torch

from neuropil.data.examples.dataset import Schema
from neuropil.errors import InputError
from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.tasks.recall.predictor import PatternMemory

PICTURES = Schema(kind="image", shape=(1, 4, 4), classes=())


def memory_of(stored: torch.Tensor) -> PatternMemory:
    network = HopfieldNetwork(HopfieldNetworkConfig(units=16))
    memory = PatternMemory(network, PICTURES, (127.5,) * 16)
    network.fit(memory.signs(stored))
    return memory


def test_a_damaged_picture_comes_back_black_and_white():
    stored = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    stored[0, :, :2], stored[1, :, :, :2] = 200, 130
    damaged = stored.clone()
    damaged[:, :, 3, 3] = 255
    made = memory_of(stored).recall(damaged)
    assert torch.equal(made.values, torch.where(stored > 127, 255, 0).to(torch.uint8))
    assert made.originals is not None
    assert torch.equal(made.originals, damaged)


def test_rows_are_above_or_below_the_mean_of_each_feature():
    memory = PatternMemory(
        HopfieldNetwork(HopfieldNetworkConfig(units=2)), Schema(kind="table", shape=(2,), classes=()), (0.0, 10.0)
    )
    assert memory.signs(torch.tensor([[1.0, 1.0], [-1.0, 11.0]])).tolist() == [[1, -1], [-1, 1]]


def test_a_state_that_is_not_known_is_grey():
    states = torch.tensor([[1.0, 0.0, -1.0] + [1.0] * 13])
    assert memory_of(torch.zeros(1, 1, 4, 4, dtype=torch.uint8)).pictures(states).flatten()[:3].tolist() == [
        255,
        128,
        0,
    ]


def test_pictures_of_another_size_are_refused():
    memory = memory_of(torch.zeros(1, 1, 4, 4, dtype=torch.uint8))
    with pytest.raises(InputError):
        memory.recall(torch.zeros(1, 3, 9, 5, dtype=torch.uint8))
