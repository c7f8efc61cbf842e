"""What comes along with the weights of PyTorch's recurrences, there and back, and what is refused."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from neuropil.errors import InputError
from neuropil.models.gru import GRU, Gate, GRUConfig, Reset
from neuropil.models.recurrent import CELLS, RecurrentLayersConfig
from neuropil.parts.parameters import count_parameters
from neuropil.parts.recurrence import Cell, Recurrence
from neuropil.pretrained.torch_recurrence import TorchRecurrence, from_torch, to_torch

KINDS = [nn.RNN, nn.LSTM, nn.GRU]
shapes = {"layers": st.integers(1, 3), "bidirectional": st.booleans(), "seed": st.integers(0, 2**16)}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=20)
@given(bias=st.booleans(), **shapes)
def test_theirs_comes_back_as_the_same_function(
    kind: type[TorchRecurrence], bias: bool, layers: int, bidirectional: bool, seed: int
):
    torch.manual_seed(seed)
    theirs = kind(3, 4, layers, bias=bias, bidirectional=bidirectional, batch_first=True)
    back, x = to_torch(from_torch(theirs)), torch.randn(2, 5, 3)
    torch.testing.assert_close(back(x)[0], theirs(x)[0])
    assert all(
        torch.equal(weight, back.state_dict()[name])
        for name, weight in theirs.state_dict().items()
        if name.startswith("weight")
    )


def test_an_rnn_with_relu_comes_and_goes():
    torch.manual_seed(0)
    theirs = nn.RNN(3, 4, 2, nonlinearity="relu", bidirectional=True, batch_first=True)
    ours, x = from_torch(theirs), torch.randn(2, 5, 3)
    torch.testing.assert_close(ours(x).outputs, theirs(x)[0])
    back = to_torch(ours)
    assert isinstance(back, nn.RNN)
    assert back.nonlinearity == "relu"
    torch.testing.assert_close(back(x)[0], theirs(x)[0])


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
@settings(deadline=None, max_examples=20)
@given(**shapes)
def test_ours_comes_back_bit_by_bit(name: Any, layers: int, bidirectional: bool, seed: int):
    torch.manual_seed(seed)
    ours = Recurrence(CELLS[name], 3, 4, layers, bidirectional)
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    back = from_torch(to_torch(ours))
    assert back.state_dict().keys() == ours.state_dict().keys()
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_two_biases_become_one_where_one_is_enough(kind: type[TorchRecurrence]):
    theirs = kind(3, 4)
    spared = 4 * (2 if kind is nn.GRU else theirs.get_parameter("bias_ih_l0").numel() // 4)
    assert count_parameters(from_torch(theirs)) == count_parameters(theirs) - spared


@pytest.mark.parametrize("kind", KINDS)
def test_without_biases_ours_are_zero_and_can_learn(kind: type[TorchRecurrence]):
    (cell,) = from_torch(kind(3, 4, bias=False)).cells
    biases = [parameter for name, parameter in cell.named_parameters() if "bias" in name]
    assert biases
    assert all(not bias.any() and bias.requires_grad for bias in biases)


def test_batch_first_is_ours_whatever_theirs_is():
    torch.manual_seed(0)
    theirs, x = nn.LSTM(3, 4), torch.randn(2, 5, 3)
    torch.testing.assert_close(from_torch(theirs)(x).outputs, theirs(x.transpose(0, 1))[0].transpose(0, 1))
    assert to_torch(from_torch(theirs)).batch_first


def test_dropout_mode_and_precision_come_along():
    theirs = nn.GRU(3, 4, num_layers=2, dropout=0.3, dtype=torch.float64).eval()
    ours = from_torch(theirs)
    assert (ours.dropout.p, ours.training, ours.cells[1].dtype) == (0.3, False, torch.float64)
    assert torch.equal(
        ours.cells[1].get_parameter("input_weight"), theirs.get_parameter("weight_ih_l1")
    )  # with all of their digits
    back = to_torch(ours.train())
    assert (back.dropout, back.training, back.weight_ih_l0.dtype) == (0.3, True, torch.float64)


def test_dropout_of_one_layer_stands_nowhere_and_is_left_out_without_a_warning():
    assert to_torch(Recurrence(CELLS["rnn"], 3, 4, dropout=0.3)).dropout == 0


def test_weights_are_copies():
    theirs = nn.LSTM(3, 4)
    before, ours = copy.deepcopy(theirs.state_dict()), from_torch(theirs)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert all(torch.equal(value, before[name]) for name, value in theirs.state_dict().items())
    assert not any(parameter.any() for parameter in to_torch(ours).parameters())
    assert all(parameter.requires_grad for parameter in (*ours.parameters(), *to_torch(ours).parameters()))


def gru(gate: Gate, reset: Reset) -> Recurrence:
    return Recurrence(
        lambda inputs, units: GRU(GRUConfig(input_size=inputs, hidden_size=units, gate=gate, reset=reset)), 3, 4
    )


@pytest.mark.parametrize(("gate", "reset"), [("take", "after"), ("take", "none"), ("keep", "none")])
def test_a_gru_of_another_convention_is_converted(gate: Gate, reset: Reset):
    torch.manual_seed(0)
    ours, x = gru(gate, reset), torch.randn(2, 5, 3)
    torch.testing.assert_close(to_torch(ours)(x)[0], ours(x).outputs)


def mixed() -> Recurrence:
    cells = iter([CELLS["rnn"], CELLS["gru"]])

    def build(inputs: int, units: int) -> Cell:
        return next(cells)(inputs, units)

    return Recurrence(build, 3, 4, layers=2)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (
            lambda: from_torch(nn.LSTM(3, 4, proj_size=2)),
            "from_torch takes an nn.LSTM without projections, but got proj_size=2.",
        ),
        (
            lambda: to_torch(Recurrence(RecurrentLayersConfig(cell="rnn", activation="logistic").build, 3, 4)),
            "to_torch takes RNN cells that all have tanh, or all relu, but got logistic.",
        ),
        (lambda: to_torch(Recurrence(CELLS["mingru"], 3, 4)), "to_torch takes RNN, LSTM or GRU cells, but got MinGRU."),
        (lambda: to_torch(mixed()), "to_torch takes cells of one kind, but got GRU and RNN."),
        (
            lambda: to_torch(gru("keep", "before")),
            "a GRU with reset='before' can become one with reset='after' only if both compute the same, "
            "but got units that see one another, where the order of a product with W and with r matters.",
        ),
        (
            lambda: to_torch(gru("take", "shared")),
            "a GRU with reset='shared' can become one with reset='after' only if both compute the same, "
            "but got units that see one another, where the order of a product with W and with r matters.",
        ),
    ],
    ids=["projections", "logistic", "minGRU", "mixed", "reset before", "one gate for both"],
)
def test_what_has_no_counterpart_is_refused(convert: Callable[[], object], message: str):
    with pytest.raises(InputError) as error:
        convert()
    assert str(error.value) == message


def test_a_kind_of_its_own_is_refused():
    class Peephole(nn.LSTM):
        pass

    with pytest.raises(InputError) as error:
        from_torch(Peephole(3, 4))
    assert str(error.value) == "from_torch takes nn.RNN, nn.LSTM or nn.GRU, but got Peephole."
