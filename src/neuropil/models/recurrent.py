"""The four shapes in which sequences come, over any recurrent cell, behind one interface.

    one to many           h_0 = tanh(A x + a),                y_t = V h_t + c,   h_t = f(y_{t−1}, h_{t−1})
    many to one           h_t = f(x_t, h_{t−1}),              y = V h_T + c
    many to many          h_t = f(x_t, h_{t−1}),              y_t = V h_t + c
    encoder, decoder      h_t = f(x_t, h_{t−1}),  s_0 = tanh(A h_T + a),   y_t = V s_t + c,   s_t = f'(y_{t−1}, s_{t−1})

The last is the second followed by the first: what was read is one vector, and from it another sequence is written. Inputs are tokens, which
are embedded, or vectors. Training feeds the right y_{t−1} (teacher forcing), the model's own, or either (`own_share`); when it is used it
runs on its own. Texts are padded with token 0.
"""

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Literal

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.gru import GRU, GRUConfig
from neuropil.models.lstm import LSTM, LSTMConfig
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.models.rnn import RNN, RNNConfig
from neuropil.parts.parameters import ParameterRow, linear_row
from neuropil.parts.recurrence import Cell, Lengths, Recurred, Recurrence, State, there
from neuropil.parts.recurrent_blocks import RecurrentBlocks
from neuropil.parts.scheduled_sampling import write_fed
from neuropil.protocols import END, PADDING

CellName = Literal["rnn", "lstm", "gru", "mingru"]
Shape = Literal["one_to_many", "many_to_one", "aligned", "encoder_decoder"]

CELLS: dict[CellName, Callable[[int, int], Cell]] = {
    "rnn": lambda inputs, units: RNN(RNNConfig(inputs=inputs, units=units)),
    "lstm": lambda inputs, units: LSTM(LSTMConfig(inputs=inputs, units=units)),
    "gru": lambda inputs, units: GRU(GRUConfig(inputs=inputs, units=units)),
    "mingru": lambda inputs, units: MinGRU(MinGRUConfig(inputs=inputs, units=units)),
}


class SequenceConfig(Config):
    cell: CellName = option("lstm", "what is repeated at every step")
    units: int = option(128, "numbers that a layer remembers from step to step", low=1)
    layers: int = option(1, "layers, each of which reads the one below", low=1)
    bidirectional: bool = option(False, "read from the end too")
    residual: bool = option(False, "layers in blocks that add to what they read, each with a feed-forward net")
    embedding: int = option(64, "width of a token's vector", low=1)
    pooling: Literal["last", "mean", "max"] = option("last", "what becomes of all steps where one answer is wanted")
    dropout: float = option(
        0.0, "share of the numbers between layers that are silenced in each training step", low=0, high=0.95
    )
    shape: Shape = from_data(
        "many_to_one", "one to many, many to one, many to many aligned, or by an encoder and a decoder"
    )
    tokens: int = from_data(0, "tokens that are read; 0 where vectors are")
    inputs: int = from_data(1, "width of the vectors that are read")
    outputs: int = from_data(2, "classes or tokens that are told apart, or numbers in each answer")
    writes_tokens: bool = from_data(True, "what a decoder is fed with: tokens, or the numbers of its last answer")

    def validate(self) -> None:
        if self.residual and self.bidirectional:
            raise InputError(
                "residual blocks read in one direction", got="bidirectional=True as well", fix="choose one of the two"
            )

    @property
    def reads(self) -> bool:
        return self.shape != "one_to_many"

    @property
    def writes(self) -> bool:
        return self.shape in ("one_to_many", "encoder_decoder")

    @property
    def read_width(self) -> int:
        return self.embedding if self.tokens else self.inputs

    @property
    def fed_width(self) -> int:
        return self.embedding if self.writes_tokens else self.outputs

    @property
    def context(self) -> int:
        """Width of the vector that a decoder begins with."""
        return self.units * (2 if self.bidirectional else 1) if self.reads else self.inputs


class Sequence(nn.Module):
    def __init__(self, config: SequenceConfig):
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(config.dropout)
        if config.reads:
            if config.tokens:
                self.embedding = nn.Embedding(config.tokens, config.embedding, padding_idx=PADDING)
            self.reader = self._recurrence(config.read_width, bidirectional=config.bidirectional)
        if config.writes:
            if config.writes_tokens:
                self.fed_embedding = nn.Embedding(config.outputs, config.embedding, padding_idx=PADDING)
            self.writer = self._recurrence(config.fed_width, bidirectional=False)
            self.bridge = nn.Linear(config.context, self._numbers_in_states())
        self.output = nn.Linear(config.units if config.writes else self.reader.width, config.outputs)

    def forward(
        self,
        x: Num[Tensor, "batch *time_and_input"],
        fed: Num[Tensor, "batch step *output"] | None = None,
        lengths: Lengths | None = None,
        own_share: float = 0.0,
        states: Items[State] | None = None,
    ) -> Float[Tensor, "batch *step output"] | Recurred:
        """One answer a row, one a step, or, where a sequence is written, one for each of `fed` (teacher forcing).

        With `states`, x is a piece of a stream, and the answers come with the states that the next piece begins with.
        """
        if states is not None:
            return self.stream(x, states)
        if self.config.writes:
            return self._write_fed(x, require_fed(fed), lengths, own_share)
        lengths = self._lengths(x, lengths)
        outputs = self.read(x, lengths=lengths).outputs  # batch time width
        pooled = outputs if self.config.shape == "aligned" else self.pool(outputs, lengths)
        return self.output(self.dropout(pooled))

    def read(
        self, x: Num[Tensor, "batch time *input"], states: Items[State] | None = None, lengths: Lengths | None = None
    ) -> Recurred:
        """What each layer makes of x; the states of one piece of a stream are what the next begins with."""
        return self.reader(
            self.dropout(self.embedding(x) if self.config.tokens else x), states, self._lengths(x, lengths)
        )

    def stream(self, x: Num[Tensor, "batch time *input"], states: Items[State] | None = None) -> Recurred:
        """The answers to a piece of a stream, with the states that the next piece begins with."""
        read = self.read(x, states)
        return Recurred(self.output(self.dropout(read.outputs)), read.states)

    def begin_stream(self, x: Num[Tensor, "batch time *input"]) -> tuple[State, ...]:
        """The states before the first piece."""
        return self.reader.initial(x)

    def pool(self, outputs: Float[Tensor, "batch time width"], lengths: Lengths | None) -> Float[Tensor, "batch width"]:
        """One vector of all steps: each direction's last, their mean, or the largest of each number."""
        time = outputs.shape[1]
        if time == 0:
            return outputs.new_zeros(len(outputs), outputs.shape[2])
        lengths = torch.full((len(outputs),), time, device=outputs.device) if lengths is None else lengths
        mask = there(lengths, time).unsqueeze(-1)
        if self.config.pooling == "mean":
            return (outputs * mask).sum(1) / lengths.clamp(min=1).unsqueeze(1)
        if self.config.pooling == "max":
            return outputs.masked_fill(~mask, -torch.inf).amax(1).masked_fill((lengths == 0).unsqueeze(1), 0)
        units = self.config.units
        last = outputs[torch.arange(len(outputs), device=outputs.device), lengths.clamp(min=1) - 1, :units]
        return torch.cat([last, outputs[:, 0, units:]], -1)  # who reads from the end ends at the beginning

    def begin(self, x: Num[Tensor, "batch *time_and_input"], lengths: Lengths | None = None) -> tuple[State, ...]:
        """The states with which writing about x begins."""
        lengths = self._lengths(x, lengths)
        context = self.pool(self.read(x, lengths=lengths).outputs, lengths) if self.config.reads else x
        numbers = iter(torch.tanh(self.bridge(context)).split(self.config.units, -1))
        return tuple(type(state)(*(next(numbers) for _ in state)) for state in self.writer.initial(x))

    def step(
        self, entering: Num[Tensor, "batch *output"], states: Items[State]
    ) -> tuple[Float[Tensor, "batch output"], tuple[State, ...]]:
        """The next answer, after a token or the numbers of the answer before."""
        h, states = self.writer.step(self.dropout(self._embed_fed(entering)), states)
        return self.output(self.dropout(h)), states

    @torch.no_grad()
    def write(
        self,
        x: Num[Tensor, "batch *time_and_input"],
        first: Num[Tensor, "batch *output"],
        steps: int,
        lengths: Lengths | None = None,
    ) -> Num[Tensor, "batch step *output"]:
        """Free running: at most `steps` answers after `first`. Tokens are the likeliest ones, with padding after an end token."""
        states, entering, written = self.begin(x, lengths), first, []
        ended = torch.zeros(len(first), dtype=torch.bool, device=first.device)
        for _ in range(steps):
            output, states = self.step(entering, states)
            entering = self._answer(output)
            if self.config.writes_tokens:
                entering = entering.masked_fill(ended, PADDING)
                ended = ended | (entering == END)
            written.append(entering)
            if self.config.writes_tokens and bool(ended.all()):
                break
        return torch.stack(written, 1) if written else first.unsqueeze(1)[:, :0]

    def parameter_table(self) -> list[ParameterRow]:
        config, rows = self.config, []
        if config.reads and config.tokens:
            rows.append(ParameterRow("embedding", "v*d", {"v": config.tokens, "d": config.embedding}))
        if config.writes and config.writes_tokens:
            rows.append(ParameterRow("fed_embedding", "v*d", {"v": config.outputs, "d": config.embedding}))
        if config.reads:
            rows += self.reader.parameter_rows("reader")
        if config.writes:
            rows += self.writer.parameter_rows("writer")
            rows.append(linear_row("bridge", self.bridge.in_features, self.bridge.out_features))
        return [*rows, linear_row("output", self.output.in_features, self.output.out_features)]

    def _write_fed(self, x: Tensor, fed: Tensor, lengths: Lengths | None, own_share: float) -> Tensor:
        states = self.begin(x, lengths)
        if own_share:
            return write_fed(self.step, states, fed, own_share, self._answer)[0]
        return self.output(
            self.dropout(self.writer(self.dropout(self._embed_fed(fed)), states).outputs)
        )  # all steps at once

    def _answer(self, output: Float[Tensor, "batch output"]) -> Num[Tensor, "batch *output"]:
        return output.argmax(-1) if self.config.writes_tokens else output

    def _embed_fed(self, fed: Num[Tensor, "batch *step_and_output"]) -> Float[Tensor, "batch *step width"]:
        return self.fed_embedding(fed) if self.config.writes_tokens else fed

    def _lengths(self, x: Tensor, lengths: Lengths | None) -> Int64[Tensor, " batch"] | None:
        if lengths is None and self.config.reads and self.config.tokens:
            return (x != PADDING).sum(1)
        return lengths

    def _recurrence(self, inputs: int, *, bidirectional: bool) -> Recurrence | RecurrentBlocks:
        config = self.config
        if config.residual:
            return RecurrentBlocks(CELLS[config.cell], inputs, config.units, config.layers, config.dropout)
        return Recurrence(CELLS[config.cell], inputs, config.units, config.layers, bidirectional, config.dropout)

    def _numbers_in_states(self) -> int:
        return self.config.units * sum(len(state) for state in self.writer.initial(torch.zeros(1)))


def require_fed(fed: Tensor | None) -> Tensor:
    if fed is None:
        raise InputError(
            "a sequence that is written needs what the writer is fed with",
            got="nothing",
            fix="call write() to let it run free",
        )
    return fed


SIZES = {
    "many_to_one": SequenceConfig(tokens=100),
    "pooled": SequenceConfig(tokens=100, bidirectional=True, pooling="max", layers=2, cell="gru"),
    "aligned": SequenceConfig(tokens=100, bidirectional=True, shape="aligned", outputs=5),
    "residual": SequenceConfig(tokens=100, residual=True, shape="aligned", layers=2, cell="mingru", outputs=5),
    "one_to_many": SequenceConfig(shape="one_to_many", inputs=6, outputs=20),
    "encoder_decoder": SequenceConfig(
        shape="encoder_decoder", tokens=100, outputs=20, bidirectional=True, cell="mingru"
    ),
}
