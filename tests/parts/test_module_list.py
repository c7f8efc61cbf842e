from torch import nn

from neuropil.parts.module_list import TypedModuleList


def test_it_registers_and_indexes_as_a_module_list_does():
    layers = TypedModuleList[nn.Linear](nn.Linear(2, size) for size in (3, 4, 5))
    assert isinstance(layers, nn.ModuleList)
    assert [layer.out_features for layer in layers] == [3, 4, 5]
    assert layers[-1].out_features == 5
    assert [layer.out_features for layer in layers[:2]] == [3, 4]
    assert list(layers.state_dict()) == list(nn.ModuleList(nn.Linear(2, size) for size in (3, 4, 5)).state_dict())
