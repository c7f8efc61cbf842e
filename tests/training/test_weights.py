from pathlib import Path

import pytest
import torch
from torch import nn

from neuropil.errors import RunError
from neuropil.training.averages import WeightAverage
from neuropil.training.weights import load_model, read_tensors, save_model


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.read = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.read.weight = self.embed.weight


def test_weights_and_facts_come_back_as_they_were(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    model, other = (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)) for _ in range(2))
    save_model(path, model, {"note": "σ"})
    assert load_model(path, other) == {"note": "σ"}
    assert all(torch.equal(model.state_dict()[name], value) for name, value in other.state_dict().items())


def test_a_shared_weight_is_stored_once_and_stays_shared(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    model, other = Tied(), Tied()
    save_model(path, model)
    assert list(read_tensors(path)[0]) == ["embed.weight"]
    load_model(path, other)
    assert torch.equal(other.read.weight, model.embed.weight)
    assert other.read.weight is other.embed.weight


def test_other_names_and_shapes_are_listed(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save_model(path, nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1, bias=False)))
    with pytest.raises(RunError) as error:
        load_model(path, nn.Sequential(nn.Linear(4, 3)))
    assert str(error.value) == (
        f"{path} must hold the weights of Sequential, but got 1.weight is unknown; 0.weight has shape (3, 2), not (3, "
        "4)."
    )


def test_half_a_file_is_refused(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save_model(path, nn.Linear(20, 30))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RunError, match=r"^model\.safetensors must be a whole safetensors file") as error:
        load_model(path, nn.Linear(20, 30))
    assert error.value.fix == f"restore {path}"  # without it, a finished run is nothing


def test_the_average_follows_its_formula_and_lends_its_place_without_a_trace():
    model = nn.Linear(2, 2)
    average = WeightAverage(model, decay=0.75)
    expected = model.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.add_(1.0)
        average.update(step)
        decay = min(0.75, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    own = model.weight.detach().clone()
    with average.in_place():
        torch.testing.assert_close(model.weight.detach(), expected)
    assert torch.equal(model.weight, own)
    torch.testing.assert_close(average.average["weight"], expected)
