import torch
from torch import nn

from neuropil.parts.parameters import Model, ParameterRow, TypedModuleList, count_parameters, linear_row


def test_a_row_computes_what_it_prints():
    row = ParameterRow("cell", "n + n^2 + n*m", {"n": 5, "m": 3})
    assert row.count == 45
    assert str(row) == "n + n² + n·m with n = 5, m = 3"


def test_a_linear_layer_has_a_weight_for_each_pair_and_a_bias_for_each_output():
    assert linear_row("output", 64, 10).count == count_parameters(nn.Linear(64, 10)) == 650


def test_counts_are_exact_for_the_largest_models():
    assert linear_row("output", 99_999_999, 12_345_677).count == 99_999_999 * 12_345_677 + 12_345_677


def test_a_shared_weight_counts_once():
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert count_parameters(nn.Sequential(first, second)) == 16


def test_the_table_follows_from_the_modules():
    class Scaled(Model):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 4, bias=False), nn.LayerNorm(4)])
            self.image = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Embedding(5, 6))

    model = Scaled()
    assert [(row.name, row.formula, row.count) for row in model.parameter_table()] == [
        ("scale", "n", 3),
        ("layers.0", "n*m + m", 9),
        ("layers.1", "n*m", 12),
        ("layers.2", "2*d", 8),
        ("image.0", "c*m*k^2 + m", 20),
        ("image.1", "2*m", 4),
        ("image.3", "v*d", 30),
    ]
    assert sum(row.count for row in model.parameter_table()) == count_parameters(model)


def test_a_typed_module_list_registers_and_indexes_as_a_module_list_does():
    layers = TypedModuleList[nn.Linear](nn.Linear(2, size) for size in (3, 4, 5))
    assert isinstance(layers, nn.ModuleList)
    assert [layer.out_features for layer in layers] == [3, 4, 5]
    assert layers[-1].out_features == 5
    assert [layer.out_features for layer in layers[:2]] == [3, 4]
    assert list(layers.state_dict()) == list(nn.ModuleList(nn.Linear(2, size) for size in (3, 4, 5)).state_dict())
