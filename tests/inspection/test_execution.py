"""How a model is going to be run, said before it is."""

import pytest
import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.inspection.execution import Execution, explain
from neuropil.models.gru import GRU, GRUConfig
from neuropil.models.recurrent import RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.recurrence import Recurrence

TOKENS = torch.randint(1, 20, (2, 7))


def test_every_cell_is_named_with_its_way_and_the_reason():
    model = RecurrentNetwork(
        RecurrentNetworkConfig(cell="mingru", hidden_size=4, bidirectional=True, vocabulary_size=20, output_size=3)
    )
    why = "the new state of MinGRU is linear in the old one"
    assert explain(model, lambda: model(TOKENS)) == [
        Execution("reader.forwards.0", "MinGRU", 7, "scan", why),
        Execution("reader.backwards.0", "MinGRU", 7, "scan", why),
    ]


def test_the_same_cell_may_be_run_in_several_ways():
    gru = Recurrence(lambda inputs, units: GRU(GRUConfig(input_size=inputs, hidden_size=units)), 3, 4)

    def run() -> None:
        gru(torch.randn(2, 5, 3))
        gru(torch.randn(2, 1, 3))
        gru(torch.randn(2, 5, 3))

    assert [(each.steps, each.way, each.reason) for each in explain(gru, run)] == [
        (5, "fused", "PyTorch has a kernel for GRU"),
        (1, "loop", "there is only one step"),
    ]


def test_a_way_that_is_asked_for_is_no_choice():
    cell = GRU(GRUConfig(input_size=3, hidden_size=4))
    assert explain(cell, lambda: cell(torch.randn(2, 5, 3), way="loop")) == [
        Execution("cell", "GRU", 5, "loop", "it is asked for")
    ]


def test_explaining_leaves_no_trace():
    model = RecurrentNetwork(
        RecurrentNetworkConfig(cell="gru", hidden_size=4, dropout=0.5, vocabulary_size=20, output_size=3)
    )
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    explain(model, lambda: model(TOKENS))
    assert torch.equal(torch.rand(2), expected)
    assert all(not module._forward_pre_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_without_cells_is_refused():
    with pytest.raises(InputError) as error:
        explain(nn.Linear(2, 2), lambda: None)
    assert str(error.value) == "only recurrent cells are run in several ways, but got a Linear without any."
