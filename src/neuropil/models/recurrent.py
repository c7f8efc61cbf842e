"""Recurrent networks over any cell, that answer once or at every step.

    many to one           h_t = f(x_t, h_{t−1}),              y = V pool_t(h_t) + c
    many to many          h_t = f(x_t, h_{t−1}),              y_t = V h_t + c

Inputs are tokens, which are embedded, or vectors. Texts are padded with token 0. Networks that write what they have not
read are systems of their own: captioner (one to many), seq2seq and forecaster (many to many, encoder and decoder). All
of them, and these, are made of `parts.recurrence.Recurrence`, which has every shape of input and output.

With `residual`, layers stand in blocks, which add to what they read in place of replacing it:

    x ← x + Cell(N(x))
    x ← x + W₂ φ(W₁ N(x) + b₁) + b₂                           for each step by itself; φ is gelu

N is layer normalisation. The second line gives a layer what some cells lack: minGRU's gates and candidates are linear
in the input alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.gru import GRU, Gate, GRUConfig, GRUConvention, Reset
from neuropil.models.lstm import LSTM, LSTMConfig
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.models.rnn import RNN, RNNConfig
from neuropil.parts.activations import ActivationName
from neuropil.parts.parameters import Model, TypedModuleList
from neuropil.parts.recurrence import (
    Build,
    Cell,
    Lengths,
    Recurrence,
    RecurrenceOutput,
    State,
    require_states,
    valid_mask,
)
from neuropil.protocols import PADDING
from neuropil.ranges import Range, times

CellName = Literal["rnn", "lstm", "gru", "mingru"]
Shape = Literal["many_to_one", "aligned"]

CELLS: dict[CellName, Build] = {
    "rnn": lambda inputs, units: RNN(RNNConfig(input_size=inputs, hidden_size=units)),
    "lstm": lambda inputs, units: LSTM(LSTMConfig(input_size=inputs, hidden_size=units)),
    "gru": lambda inputs, units: GRU(GRUConfig(input_size=inputs, hidden_size=units)),
    "mingru": lambda inputs, units: MinGRU(MinGRUConfig(input_size=inputs, hidden_size=units)),
}
EXPANSION = 2
"""Hidden size of a block's feed-forward network, in units of its cell's."""


class RecurrentLayersConfig(Config):
    cell: CellName = option("lstm", "recurrent cell")
    hidden_size: int = option(128, "hidden size", low=1, tune=times(1 / 2, 1, 2))
    layers: int = option(1, "number of layers", low=1, tune=times(1 / 2, 1, 2))
    residual: bool = option(False, "residual blocks: layer norm, cell and feed-forward network")
    embedding_size: int = option(64, "embedding size", low=1)
    dropout: float = option(0.0, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    activation: ActivationName = from_data("tanh", "activation of an RNN")
    gate: Gate = from_data("keep", "convention of a GRU's update gate")
    reset: Reset = from_data("after", "place of a GRU's reset gate")

    def validate(self) -> None:
        if self.activation != "tanh" and self.cell != "rnn":
            rule = "an activation is chosen for the cell rnn"
            raise InputError(rule, got=f"activation {self.activation!r} with the cell {self.cell}")
        if self.convention != GRUConvention() and self.cell != "gru":
            rule = "the convention of the gates is chosen for the cell gru"
            raise InputError(rule, got=f"gate {self.gate!r} and reset {self.reset!r} with the cell {self.cell}")

    @property
    def convention(self) -> GRUConvention:
        return GRUConvention(gate=self.gate, reset=self.reset)

    @property
    def build(self) -> Build:
        """Cells of the chosen kind."""
        if self.cell == "rnn":
            return lambda inputs, units: RNN(
                RNNConfig(input_size=inputs, hidden_size=units, activation=self.activation)
            )
        if self.cell == "gru":
            return lambda inputs, units: GRU(
                GRUConfig(input_size=inputs, hidden_size=units, gate=self.gate, reset=self.reset)
            )
        return CELLS[self.cell]


class RecurrentNetworkConfig(RecurrentLayersConfig):
    bidirectional: bool = option(False, "read in both directions")
    pooling: Literal["last", "mean", "max"] = option("last", "pooling over time, where one answer is wanted")
    shape: Shape = from_data("many_to_one", "one answer to a sequence, or one at every step")
    vocabulary_size: int = from_data(0, "vocabulary size; 0 where vectors are read")
    input_size: int = from_data(1, "size of the vectors that are read")
    output_size: int = from_data(2, "number of classes or tokens, or size of the vectors that are predicted")

    def validate(self) -> None:
        super().validate()
        if self.residual and self.bidirectional:
            rule = "residual blocks read in one direction"
            raise InputError(rule, got="bidirectional=True as well", fix="choose one of the two")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Runs of before this network had no decoder any more say what it would have been fed."""
        return super().from_dict({name: value for name, value in values.items() if name != "writes_tokens"})


class RecurrentNetwork(Model):
    def __init__(self, config: RecurrentNetworkConfig):
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        if config.vocabulary_size:
            self.embedding = nn.Embedding(config.vocabulary_size, config.embedding_size, padding_idx=PADDING)
        self.reader = self._recurrence(config.embedding_size if config.vocabulary_size else config.input_size)
        self.output = nn.Linear(self.reader.width, config.output_size)

    def forward(
        self,
        x: Num[Tensor, "batch time *input"],
        lengths: Lengths | None = None,
        states: Sequence[State] | None = None,
    ) -> Float[Tensor, "batch *step output"] | RecurrenceOutput:
        """One answer a row, or one a step.

        With `states`, x is a piece of a stream, and the answers come with the states that the next piece begins with.
        """
        if states is not None:
            return self.stream(x, states)
        lengths = self._lengths(x, lengths)
        outputs = self.read(x, lengths=lengths).outputs  # batch time width
        pooled = outputs if self.config.shape == "aligned" else self.pool(outputs, lengths)
        return self.output(self.dropout(pooled))

    def read(
        self, x: Num[Tensor, "batch time *input"], states: Sequence[State] | None = None, lengths: Lengths | None = None
    ) -> RecurrenceOutput:
        """What each layer makes of x; the states of one piece of a stream are what the next begins with."""
        return self.reader(
            self.dropout(self.embedding(x) if self.config.vocabulary_size else x), states, self._lengths(x, lengths)
        )

    def stream(self, x: Num[Tensor, "batch time *input"], states: Sequence[State] | None = None) -> RecurrenceOutput:
        """The answers to a piece of a stream, with the states that the next piece begins with."""
        read = self.read(x, states)
        return RecurrenceOutput(self.output(self.dropout(read.outputs)), read.states)

    def begin_stream(self, x: Num[Tensor, "batch time *input"]) -> tuple[State, ...]:
        """The states before the first piece."""
        return self.reader.initial(x)

    def pool(self, outputs: Float[Tensor, "batch time width"], lengths: Lengths | None) -> Float[Tensor, "batch width"]:
        """One vector of all steps: each direction's last, their mean, or the largest of each number."""
        time = outputs.shape[1]
        if time == 0:
            return outputs.new_zeros(len(outputs), outputs.shape[2])
        lengths = torch.full((len(outputs),), time, device=outputs.device) if lengths is None else lengths
        mask = valid_mask(lengths, time).unsqueeze(-1)
        if self.config.pooling == "mean":
            return (outputs * mask).sum(1) / lengths.clamp(min=1).unsqueeze(1)
        if self.config.pooling == "max":
            return outputs.masked_fill(~mask, -torch.inf).amax(1).masked_fill((lengths == 0).unsqueeze(1), 0)
        units = self.config.hidden_size
        last = outputs[torch.arange(len(outputs), device=outputs.device), lengths.clamp(min=1) - 1, :units]
        return torch.cat([last, outputs[:, 0, units:]], -1)  # who reads from the end ends at the beginning

    def _lengths(self, x: Tensor, lengths: Lengths | None) -> Int64[Tensor, " batch"] | None:
        if lengths is None and self.config.vocabulary_size:
            return (x != PADDING).sum(1)
        return lengths

    def _recurrence(self, inputs: int) -> "Recurrence | RecurrentBlocks":
        config = self.config
        if config.residual:
            return RecurrentBlocks(config.build, inputs, config.hidden_size, config.layers, config.dropout)
        return Recurrence(config.build, inputs, config.hidden_size, config.layers, config.bidirectional, config.dropout)


class RecurrentBlock(nn.Module):
    def __init__(self, build: Build, width: int, dropout: float):
        super().__init__()
        self.cell_norm, self.cell = nn.LayerNorm(width), build(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        inner = EXPANSION * width
        self.feed_forward = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time unit"], state: State, lengths: Lengths | None
    ) -> tuple[Float[Tensor, "batch time unit"], State]:
        ran = self.cell(self.cell_norm(x), state, lengths)
        return self._after_cell(x, ran.outputs), ran.state

    def step(self, x: Float[Tensor, "batch unit"], state: State) -> tuple[Float[Tensor, "batch unit"], State]:
        state = self.cell.step(self.cell_norm(x), state)
        return self._after_cell(x, state.h), state

    def _after_cell(self, x: Float[Tensor, "*any unit"], h: Float[Tensor, "*any unit"]) -> Float[Tensor, "*any unit"]:
        x = x + self.dropout(h)
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class RecurrentBlocks(nn.Module):
    """Used as `Recurrence` is, in one direction."""

    def __init__(self, build: Build, input_size: int, width: int, layers: int = 1, dropout: float = 0.0):
        super().__init__()
        self.width = width
        self.enter = nn.Linear(input_size, width)
        self.blocks = TypedModuleList[RecurrentBlock](RecurrentBlock(build, width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    @property
    def cells(self) -> list[Cell]:
        return [block.cell for block in self.blocks]

    def initial(self, x: Num[Tensor, "batch *any"]) -> tuple[State, ...]:
        return tuple(cell.initial(x) for cell in self.cells)

    def forward(
        self,
        x: Float[Tensor, "batch time input"],
        states: Sequence[State] | None = None,
        lengths: Lengths | None = None,
    ) -> RecurrenceOutput:
        states = self.initial(x) if states is None else states
        require_states(states, len(self.blocks))
        padding = None if lengths is None else ~valid_mask(lengths, x.shape[1]).unsqueeze(-1)
        # What stands in the padding must not even be multiplied by zero: it may be no number.
        x, after = self.enter(x if padding is None else x.masked_fill(padding, 0)), []
        for block, state in zip(self.blocks, states, strict=True):
            x, state = block(x, state, lengths)
            after.append(state)
        x = self.norm(x)
        return RecurrenceOutput(x if padding is None else x.masked_fill(padding, 0), tuple(after))

    def step(
        self, x: Float[Tensor, "batch input"], states: Sequence[State]
    ) -> tuple[Float[Tensor, "batch unit"], tuple[State, ...]]:
        require_states(states, len(self.blocks))
        x, after = self.enter(x), []
        for block, state in zip(self.blocks, states, strict=True):
            x, state = block.step(x, state)
            after.append(state)
        return self.norm(x), tuple(after)


SIZES = {
    "many_to_one": RecurrentNetworkConfig(vocabulary_size=100),
    "pooled": RecurrentNetworkConfig(vocabulary_size=100, bidirectional=True, pooling="max", layers=2, cell="gru"),
    "aligned": RecurrentNetworkConfig(vocabulary_size=100, bidirectional=True, shape="aligned", output_size=5),
    "residual": RecurrentNetworkConfig(
        vocabulary_size=100, residual=True, shape="aligned", layers=2, cell="mingru", output_size=5
    ),
}
