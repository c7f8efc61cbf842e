from torch import nn

from neuropil.parts.parameters import ParameterRow, count_parameters, linear_row


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
