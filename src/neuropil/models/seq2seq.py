"""Sequence to sequence: a recurrent network reads, another one writes, a token at a time, and looks back at what was
read.

    h̄_1 … h̄_n = encoder(E x_1 … E x_n)              h_0 = the encoder's last states
    p(y_t | y_1 … y_{t−1}, x) = softmax(W h̃_t + b)

Without attention (Cho, Sutskever 2014) all that is known of the source is h_0:

    h_t = cell(E y_{t−1}; h_{t−1})                  h̃_t = h_t

Bahdanau (2014) looks back before each step, with the state as it is, and what is seen goes into the step:

    c_t = Σ_s a_ts h̄_s                              a_t = softmax_s(vᵀ tanh(W₁ h_{t−1} + W₂ h̄_s))
    h_t = cell(E y_{t−1}, c_t; h_{t−1})             h̃_t = tanh(W_c [c_t; h_t; E y_{t−1}])

Luong (2015) looks back after each step, with the new state:

    h_t = cell(E y_{t−1}; h_{t−1})                 score(h_t, h̄_s) = h_tᵀ h̄_s or h_tᵀ W_a h̄_s or vᵀ tanh(W_a [h_t; h̄_s])
    c_t = Σ_s a_ts h̄_s                              a_t = softmax_s(score(h_t, h̄_s))
                                                    h̃_t = tanh(W_c [c_t; h_t])

and with input feeding each step knows where the last one looked: h_t = cell(E y_{t−1}, h̃_{t−1}; h_{t−1}).

A bidirectional encoder has half of the units in each direction. So its outputs and its states, side by side, are as
wide as the decoder's, which begins with them. Nobody looks at padding. Where nothing that a step finds is fed into the
next, the decoder reads a whole target at once, and looks back for all of its steps at once; otherwise it goes step by
step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.recurrent import CELLS, CellName
from neuropil.parts.attention import Additive, Concat, Dot, General, Score
from neuropil.parts.attention_memory import AttentionMemory, SoftSelect
from neuropil.parts.parameters import Model
from neuropil.parts.recurrence import Recurrence, State, over_time, reorder
from neuropil.parts.scheduled_sampling import scheduled_sampling
from neuropil.protocols import PADDING
from neuropil.ranges import Range, times

AttentionName = Literal["none", "bahdanau", "dot", "general", "concat"]


class Seq2SeqConfig(Config):
    cell: CellName = option("gru", "recurrent cell")
    attention: AttentionName = option("bahdanau", "attention of the decoder to the source")
    input_feeding: bool = option(False, "input feeding; for dot, general and concat attention")
    embedding_size: int = option(256, "embedding size", low=1)
    hidden_size: int = option(
        512, "hidden size; a bidirectional encoder has half in each direction", low=1, tune=times(1 / 2, 1, 2)
    )
    layers: int = option(1, "number of layers of the encoder, and as many of the decoder", low=1)
    bidirectional: bool = option(True, "read the source in both directions")
    dropout: float = option(0.2, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    scheduled_sampling: float = option(
        0.0, "probability that a training step is fed the model's own token (scheduled sampling)", low=0, high=1
    )
    source_vocabulary_size: int = from_data(30_000, "vocabulary size of the source")
    target_vocabulary_size: int = from_data(30_000, "vocabulary size of the target")

    def validate(self) -> None:
        if self.bidirectional and self.hidden_size % 2:
            rule = "a bidirectional encoder needs an even hidden size, half for each direction"
            raise InputError(rule, got=f"{self.hidden_size}")
        if self.input_feeding and self.attention in ("none", "bahdanau"):
            rule = "input feeding is for the attentions dot, general and concat"
            raise InputError(rule, got=f"attention {self.attention!r}")

    @property
    def feeds_back(self) -> bool:
        """Whether what a step finds is fed into a step: then they cannot be computed at once."""
        return self.attention == "bahdanau" or self.input_feeding


class Seq2Seq(Model):
    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        directions = 2 if config.bidirectional else 1
        self.source = embedding(config.source_vocabulary_size, config.embedding_size)
        self.target = embedding(config.target_vocabulary_size, config.embedding_size)
        self.encoder = Recurrence(
            CELLS[config.cell],
            config.embedding_size,
            config.hidden_size // directions,
            config.layers,
            config.bidirectional,
            config.dropout,
        )
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.hidden_size, config.target_vocabulary_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, source: Int64[Tensor, "batch source"], target: Int64[Tensor, "batch target"], project: bool = True
    ) -> Float[Tensor, "batch target output"]:
        """Logits of the token that comes after each token of the target; without `project`, the hidden states."""
        return self.output(self.vectors(source, target)) if project else self.hidden(source, target)

    @property
    def cannot_compile(self) -> str:
        if self.config.feeds_back or self.config.scheduled_sampling:
            return "its decoder needs what one step found for the next, so that each step would be compiled for itself"
        return ""

    def vectors(
        self, source: Int64[Tensor, "batch source"], target: Int64[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target unit"]:
        """h̃ of every step."""
        # Padding stands at the end of a target, after all that counts.
        state = self.begin(source)
        if self.training and self.config.scheduled_sampling:
            return scheduled_sampling(
                self.follow,
                state,
                target,
                self.config.scheduled_sampling,
                lambda vector: self.output(vector).argmax(-1),
            )[0]
        return self.dropout(self.decoder(self.embed(target), state))

    def follow(
        self, tokens: Int64[Tensor, " batch"], state: "Seq2SeqDecoderState"
    ) -> tuple[Float[Tensor, "batch unit"], "Seq2SeqDecoderState"]:
        """h̃ of one step."""
        return self.dropout(self.decoder(self.embed(tokens.unsqueeze(1)), state)[:, -1]), state

    def embed(self, target: Int64[Tensor, "batch time"]) -> Float[Tensor, "batch time embedding"]:
        return self.dropout(self.target(target))

    # --- as a loss and a search take it -------------------------------------------------------------------------------

    def hidden(
        self, source: Int64[Tensor, "batch source"], target: Int64[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target width"]:
        """What the logits are made from by `output_weight` alone: [h̃; 1], for [W b]."""
        return F.pad(self.vectors(source, target), (0, 1), value=1.0)

    @property
    def output_weight(self) -> Float[Tensor, "token width"]:
        return torch.cat([self.output.weight, self.output.bias.unsqueeze(1)], 1)

    def begin(self, source: Int64[Tensor, "batch source"]) -> "Seq2SeqDecoderState":
        """Read the source once; `step` then writes."""
        present = source != PADDING
        encoded, states = self.encoder(self.dropout(self.source(source)), lengths=present.sum(1))
        memory = self.decoder.cross.prepare_memory(encoded, present) if self.config.attention != "none" else None
        first = side_by_side(states) if self.config.bidirectional else states
        return Seq2SeqDecoderState(first, memory, torch.zeros_like(first[-1].h))

    def step(self, tokens: Int64[Tensor, "batch new"], state: "Seq2SeqDecoderState") -> Float[Tensor, "batch token"]:
        """Logits of what follows these tokens; afterwards `state` has seen them too."""
        return self.output(self.decoder(self.embed(tokens), state)[:, -1])


class Decoder(nn.Module):
    """From the tokens before to h̃; `state` goes on with it."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.attention, self.feeds_back, n = config.attention, config.feeds_back, config.hidden_size
        sizes = (config.embedding_size, n, config.layers)
        self.recurrence = Recurrence(CELLS[config.cell], *sizes, dropout=config.dropout)
        if config.attention != "none":
            self.cross = SoftSelect(score_of(config.attention, n))
            self.combine = nn.Linear(
                2 * n + (config.embedding_size if config.attention == "bahdanau" else 0), n, bias=False
            )  # W_c
        if config.feeds_back:
            first = self.recurrence.cells[0]
            self.feed = nn.Linear(n, first.drive(torch.zeros(1, config.embedding_size)).shape[-1], bias=False)

    def forward(
        self, y: Float[Tensor, "batch time embedding"], state: "Seq2SeqDecoderState"
    ) -> Float[Tensor, "batch time unit"]:
        if self.feeds_back and state.memory is not None:
            decode = self.look_then_step if self.attention == "bahdanau" else self.step_then_look
            return decode(y, state, state.memory)
        h, state.states = self.recurrence(y, state.states)
        if state.memory is None:
            return h
        # h̃_t = tanh(W_c [c_t; h_t])
        return torch.tanh(self.combine(torch.cat([self.cross(h, state.memory), h], -1)))

    def look_then_step(
        self, y: Float[Tensor, "batch time embedding"], state: "Seq2SeqDecoderState", memory: AttentionMemory
    ) -> Float[Tensor, "batch time unit"]:
        """Bahdanau's."""

        def step(states: Sequence[State], drive: Tensor) -> tuple[Sequence[State], tuple[Tensor, ...]]:
            query = states[-1].h
            # c_t = Σ_s a_ts h̄_s by h_{t−1},   h_t = cell(E y_{t−1}, c_t; h_{t−1})
            context = self.cross.select(query.unsqueeze(1), memory).squeeze(1)
            states = self.advance(drive + self.feed(context), states)
            return states, (query, context, states[-1].h)

        drives = self.recurrence.cells[0].drive(y)
        state.states, (queries, contexts, outputs) = over_time(step, state.states, drives)
        self.cross.notify(queries, memory)
        # h̃_t = tanh(W_c [c_t; h_t; E y_{t−1}])
        return torch.tanh(self.combine(torch.cat([contexts, outputs, y], -1)))

    def step_then_look(
        self, y: Float[Tensor, "batch time embedding"], state: "Seq2SeqDecoderState", memory: AttentionMemory
    ) -> Float[Tensor, "batch time unit"]:
        """Luong's, with input feeding."""

        def step(before: Any, drive: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
            states, vector = before
            # h_t = cell(E y_{t−1}, h̃_{t−1}; h_{t−1}),   c_t = Σ_s a_ts h̄_s by h_t,   h̃_t = tanh(W_c [c_t; h_t])
            states = self.advance(drive + self.feed(vector), states)
            query = states[-1].h
            context = self.cross.select(query.unsqueeze(1), memory).squeeze(1)
            vector = torch.tanh(self.combine(torch.cat([context, query], -1)))
            return (states, vector), (query, vector)

        drives, before = self.recurrence.cells[0].drive(y), (state.states, state.vector)
        (state.states, state.vector), (queries, vectors) = over_time(step, before, drives)
        self.cross.notify(queries, memory)
        return vectors

    def advance(self, drive: Float[Tensor, "batch drive"], states: Sequence[State]) -> tuple[State, ...]:
        """One step of all layers, of which the first is given what its inputs add."""
        first, *above = self.recurrence.cells
        after = [first.update(first.gates(drive, states[0].h), states[0])]
        for cell, state in zip(above, states[1:], strict=True):
            after.append(cell.step(self.recurrence.dropout(after[-1].h), state))
        return tuple(after)


@dataclass
class Seq2SeqDecoderState:
    """What a decoder knows while it writes."""

    states: tuple[State, ...]
    memory: AttentionMemory | None
    """The source, where there is attention."""
    vector: Float[Tensor, "batch unit"]
    """h̃ of the last step, for input feeding."""

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        """Go on with these rows of the batch: some may be dropped, others repeated."""
        self.states, self.vector = reorder(self.states, index), self.vector.index_select(0, index)
        self.memory = None if self.memory is None else self.memory.reorder(index)


def side_by_side(states: Sequence[State]) -> tuple[State, ...]:
    """The states of both directions as one, for each layer."""
    pairs = zip(states[::2], states[1::2], strict=True)
    return tuple(
        type(forward)(*(torch.cat(parts, -1) for parts in zip(forward, backward, strict=True)))
        for forward, backward in pairs
    )


def score_of(attention: AttentionName, units: int) -> Score:
    if attention == "bahdanau":
        return Additive(units, units, units)
    if attention == "general":
        return General(units, units)
    return Concat(units, units, units) if attention == "concat" else Dot()


def embedding(vocabulary: int, width: int) -> nn.Embedding:
    table = nn.Embedding(vocabulary, width)
    nn.init.normal_(table.weight, std=width**-0.5)
    return table


SIZES = {
    "tiny": Seq2SeqConfig(embedding_size=64, hidden_size=128, dropout=0.0),
    "small": Seq2SeqConfig(embedding_size=128, hidden_size=256),
    "base": Seq2SeqConfig(),
    "luong": Seq2SeqConfig(
        cell="lstm",
        attention="general",
        input_feeding=True,
        embedding_size=1000,
        hidden_size=1000,
        layers=4,
        bidirectional=False,
    ),
}
