"""`nn.RNN`, `nn.LSTM` and `nn.GRU`, stacked and in both directions, into our recurrence and back.

PyTorch adds two biases where one is enough: ours is their sum, and what goes back has all of it in the first. Only the
candidate of a GRU needs both, as its reset gate multiplies the second. A module without biases becomes one whose biases
are zero, which can learn. An RNN has tanh or relu there; with any other activation, ours has no counterpart. Ours has
the batch as first axis, whatever `batch_first` says of theirs, and theirs has it when it is made from ours.
"""

from typing import TypeAlias

import torch
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.models.gru import GRU, convert
from neuropil.models.lstm import LSTM
from neuropil.models.recurrent import CellName, RecurrentLayersConfig
from neuropil.models.rnn import KERNELS, RNN
from neuropil.parts.recurrence import Cell, Recurrence

TorchRecurrence: TypeAlias = nn.RNN | nn.LSTM | nn.GRU

NAMES: dict[type[nn.RNNBase], CellName] = {nn.RNN: "rnn", nn.LSTM: "lstm", nn.GRU: "gru"}
MODULES: dict[type[Cell], type[TorchRecurrence]] = {RNN: nn.RNN, LSTM: nn.LSTM, GRU: nn.GRU}


@torch.no_grad()
def from_torch(module: TorchRecurrence) -> Recurrence:
    """Our recurrence with the weights of theirs."""
    name = require_published(module)
    sizes = module.input_size, module.hidden_size, module.num_layers
    config = RecurrentLayersConfig(cell=name, activation="relu" if module.mode == "RNN_RELU" else "tanh")
    ours = Recurrence(config.build, *sizes, module.bidirectional, module.dropout)
    ours.to(next(module.parameters()))
    for cell, suffix in zip(ours.cells, _suffixes(module), strict=True):
        _read(cell, module, suffix)
    return ours.train(module.training)


@torch.no_grad()
def to_torch(recurrence: Recurrence) -> TorchRecurrence:
    """`nn.RNN`, `nn.LSTM` or `nn.GRU` (batch first) with our weights; a GRU is converted, where it can be."""
    cells, kind = recurrence.cells, require_counterpart(recurrence)
    sizes, both = (cells[0].input_size, cells[0].hidden_size, len(recurrence.forwards)), recurrence.bidirectional
    # It stands between layers, and of one layer is asked in vain.
    dropout = recurrence.dropout.p if len(recurrence.forwards) > 1 else 0.0
    activation = {"nonlinearity": cells[0].config.activation} if isinstance(cells[0], RNN) else {}
    theirs = kind(*sizes, batch_first=True, dropout=dropout, bidirectional=both, **activation)
    theirs.to(next(recurrence.parameters()))
    for cell, suffix in zip(cells, _suffixes(theirs), strict=True):
        _write(cell, theirs, suffix)
    return theirs.train(recurrence.training)


def _suffixes(module: nn.RNNBase) -> list[str]:
    """Of the names of theirs, in the order of our states."""
    directions = ("", "_reverse") if module.bidirectional else ("",)
    return [f"_l{layer}{direction}" for layer in range(module.num_layers) for direction in directions]


def _read(cell: Cell, module: nn.RNNBase, suffix: str) -> None:
    mine = cell.state_dict()
    mine["input_weight"].copy_(getattr(module, f"weight_ih{suffix}"))
    mine["state_weight"].copy_(getattr(module, f"weight_hh{suffix}"))
    zero = torch.zeros_like(mine["bias"])
    outside, inside = (getattr(module, f"bias_{name}{suffix}") if module.bias else zero for name in ("ih", "hh"))
    mine["bias"].copy_(outside + inside)
    if isinstance(cell, GRU):
        mine["bias"][-cell.hidden_size :] = outside[-cell.hidden_size :]
        mine["state_bias"].copy_(inside[-cell.hidden_size :])


def _write(cell: Cell, module: nn.RNNBase, suffix: str) -> None:
    cell = convert(cell, "keep", "after") if isinstance(cell, GRU) else cell
    mine = cell.state_dict()
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    parameters: dict[str, Tensor] = {name: getattr(module, f"{name}{suffix}") for name in names}
    parameters["weight_ih"].copy_(mine["input_weight"])
    parameters["weight_hh"].copy_(mine["state_weight"])
    parameters["bias_ih"].copy_(mine["bias"])
    parameters["bias_hh"].zero_()
    if isinstance(cell, GRU):
        parameters["bias_hh"][-cell.hidden_size :] = mine["state_bias"]


def require_published(module: nn.RNNBase) -> CellName:
    name = NAMES.get(type(module))
    if name is None:
        raise InputError("from_torch takes nn.RNN, nn.LSTM or nn.GRU", got=type(module).__name__)
    if module.proj_size:
        raise InputError("from_torch takes an nn.LSTM without projections", got=f"proj_size={module.proj_size}")
    return name


def require_counterpart(recurrence: Recurrence) -> type[TorchRecurrence]:
    kinds = {type(cell) for cell in recurrence.cells}
    if len(kinds) > 1:
        raise InputError("to_torch takes cells of one kind", got=" and ".join(sorted(kind.__name__ for kind in kinds)))
    (kind,) = kinds
    if kind not in MODULES:
        raise InputError("to_torch takes RNN, LSTM or GRU cells", got=kind.__name__)
    activations = {cell.config.activation for cell in recurrence.cells if isinstance(cell, RNN)}
    if len(activations) > 1 or not activations <= KERNELS.keys():
        rule = "to_torch takes RNN cells that all have tanh, or all relu"
        raise InputError(rule, got=" and ".join(sorted(activations)))
    return MODULES[kind]
