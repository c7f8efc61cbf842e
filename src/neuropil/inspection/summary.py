"""A model as a table of what it learns."""

from collections.abc import Sequence

from torch import nn

from neuropil.inspection.report.page import Table
from neuropil.parts.parameters import ParameterRow, count_parameters


def parameter_table(model: nn.Module, rows: Sequence[ParameterRow]) -> Table:
    """Each part's parameters by formula and counted; `rows` is the model's own `parameter_table()`."""
    own = dict(model.named_parameters())  # a row may be a single one of them

    def counted(name: str) -> int:
        return own[name].numel() if name in own else count_parameters(model.get_submodule(name))

    parts = [[row.name, str(row), row.count, counted(row.name)] for row in rows]
    total = ["all", "", sum(row.count for row in rows), count_parameters(model)]
    return Table(["part", "formula", "by formula", "counted"], [*parts, total])
