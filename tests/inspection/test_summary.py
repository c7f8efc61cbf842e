from torch import nn

from neuropil.inspection.summary import parameter_table
from neuropil.parts.parameters import linear_row


def test_the_count_by_formula_stands_beside_the_one_in_the_model():
    model = nn.ModuleDict({"hidden": nn.Linear(64, 10), "output": nn.Linear(10, 3, bias=False)})
    table = parameter_table(model, [linear_row("hidden", 64, 10), linear_row("output", 10, 3)])
    assert table.header == ["part", "formula", "by formula", "counted"]
    assert table.rows == [
        ["hidden", "n·m + m with n = 64, m = 10", 650, 650],
        ["output", "n·m + m with n = 10, m = 3", 33, 30],
        ["all", "", 683, 680],
    ]
