import copy

import pytest
import torch
from torch import Tensor

from neuropil.errors import InputError
from neuropil.inspection.activation_maps import activation_maps, activity, most_active
from neuropil.models.cnn import CNN, CNNConfig
from neuropil.models.mlp import MLP, MLPConfig


@pytest.fixture
def model() -> CNN:
    torch.manual_seed(0)
    return CNN(CNNConfig(width=4, shape=(1, 8, 8)))


def test_maps_are_what_forward_hooks_are_given(model: CNN):
    pictures = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8)
    maps = activation_maps(model, pictures)
    twin, seen = copy.deepcopy(model).eval(), dict[str, Tensor]()
    for name in maps:
        twin.get_submodule(name).register_forward_hook(lambda _m, _i, output, name=name: seen.update({name: output}))
    twin(pictures)
    assert list(maps) == [
        "stem",
        "blocks.0.convolution1",
        "blocks.0.convolution2",
        "blocks.0",
        "blocks.1.convolution1",
        "blocks.1.convolution2",
        "blocks.1.shortcut",
        "blocks.1",
    ]
    assert all(torch.equal(maps[name], seen[name]) for name in maps)
    assert maps["blocks.1"].shape == (3, 8, 4, 4)


def test_the_first_maps_are_correlations_of_the_picture(model: CNN):
    picture = torch.randint(0, 256, (1, 1, 8, 8), dtype=torch.uint8)
    expected = torch.nn.functional.conv2d(picture.float(), model.stem.weight, padding=1)
    torch.testing.assert_close(activation_maps(model, picture)["stem"], expected, rtol=1e-4, atol=1e-3)


def test_looking_changes_nothing(model: CNN):
    model.train()
    before = copy.deepcopy(model.state_dict())
    activation_maps(model, torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


def test_the_most_active_channels_come_first():
    maps = torch.stack([torch.full((2, 2), size) for size in (1.0, -3.0, 0.0, 2.0)])
    assert activity(maps).tolist() == [1, 3, 0, 2]
    assert most_active(maps, 3).tolist() == [1, 3, 0]


def test_a_model_without_convolutions_is_refused():
    with pytest.raises(InputError) as error:
        activation_maps(MLP(MLPConfig()), torch.zeros(1, 1, 8, 8))
    assert str(error.value) == "activation maps are those of convolutions, but got a MLP without any."
