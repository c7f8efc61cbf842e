from pathlib import Path

import pytest
import torch

from neuropil.data.examples.dataset import Schema
from neuropil.errors import InputError
from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.tasks.recall.predictor import PatternMemory, StoredPatterns, signs_of

PICTURES = Schema(kind="image", shape=(1, 4, 4), classes=())
HALF = (127.5,) * 16


def memory_of(stored: torch.Tensor) -> PatternMemory:
    signs = signs_of(stored, HALF)
    network = HopfieldNetwork(HopfieldNetworkConfig(units=16)).fit(signs)
    return PatternMemory(network, PICTURES, HALF, StoredPatterns.of(signs, None))


def test_a_damaged_picture_comes_back_black_and_white():
    stored = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    stored[0, :, :2], stored[1, :, :, :2] = 200, 130
    damaged = stored.clone()
    damaged[:, :, 3, 3] = 255
    made = memory_of(stored).recall(damaged)
    assert torch.equal(made.values, torch.where(stored > 127, 255, 0).to(torch.uint8))
    assert made.originals is not None
    assert torch.equal(made.originals, damaged)
    assert made.names == ["pattern 1", "pattern 2"]


def test_stored_patterns_come_back_from_their_file_with_the_classes_in_their_names(tmp_path: Path):
    stored = StoredPatterns.of(torch.tensor([[1.0, -1.0], [-1.0, -1.0]]), ["seven", "two"])
    stored.save(tmp_path)
    loaded = StoredPatterns.load(tmp_path)
    assert torch.equal(loaded.signs, stored.signs)
    assert loaded.names == ("pattern 1 (seven)", "pattern 2 (two)")


def test_rows_are_above_or_below_the_mean_of_each_feature():
    assert signs_of(torch.tensor([[1.0, 1.0], [-1.0, 11.0]]), (0.0, 10.0)).tolist() == [[1, -1], [-1, 1]]


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
