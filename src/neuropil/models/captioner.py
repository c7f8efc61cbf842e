"""Captioner: a convolutional network looks at a picture, and a recurrent one says what is there, a word at a time.

    a_i = BN(CNN(x)_i) + p_i                                       what is at place i of the picture, and where that is
    h_0 = cell(W_a ā; 0),      ā = LN((1/m) Σ_i a_i)               the whole picture is the first word (Vinyals 2015)
    h_t = cell(E y_t; h_{t−1})                                     y_1 is the start
    α_t = softmax_i(vᵀ tanh(W h_t + U a_i)),   z_t = LN(Σ_i α_ti a_i)    where to look for the next word (Xu 2015)
    p(y_{t+1}) = softmax(O tanh(W_c [z_t; h_t]))

Without attention z_t = ā at every step: the same network, which cannot look closer. As in Luong's attention the look
comes after the step, so that all steps of a caption that is known are computed at once. The norms are there for the
beginning, when all places weigh alike: the empty ones, which are many, are brought near zero, and what is left of the
few others is brought to the size of one.
"""

from dataclasses import dataclass

import torch
from einops import rearrange, reduce
from jaxtyping import Float, Int64, Num
from torch import Tensor, nn

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.recurrent import CELLS, CellName
from neuropil.parts.attention import Additive
from neuropil.parts.attention_memory import AttentionMemory, SoftSelect
from neuropil.parts.convolution import ConvolutionStack, Stack, stack_for
from neuropil.parts.parameters import Model
from neuropil.parts.positions import Positions
from neuropil.parts.recurrence import Recurrence, State, reorder
from neuropil.parts.standardize import Standardize
from neuropil.ranges import Range, times


class CaptionerConfig(Config):
    cell: CellName = option("lstm", "recurrent cell of the decoder")
    attention: bool = option(True, "attention to places of the picture for each word")
    hidden_size: int = option(128, "hidden size of the decoder", low=1, tune=times(1 / 2, 1, 2))
    layers: int = option(1, "number of layers of the decoder", low=1)
    embedding_size: int = option(64, "embedding size of a token", low=1)
    attention_size: int = option(64, "size in which attention compares a state and a place", low=1)
    width: int = option(16, "channels of the CNN's stem; each stage doubles them", low=1)
    depth: int = option(1, "residual blocks in each stage of the CNN", low=1)
    dropout: float = option(0.1, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    shape: tuple[int, ...] = from_data((1, 24, 24), "channels, height and width of one picture")
    vocabulary_size: int = from_data(30, "vocabulary size")

    def validate(self) -> None:
        if len(self.shape) != 3:
            rule = "a captioner needs pictures of channels, height and width"
            raise InputError(rule, got=f"inputs of shape {self.shape}")

    @property
    def stack(self) -> Stack:
        """Captions are also about what is small on a picture, so the stem keeps more of it than a classifier's."""
        return stack_for(self.shape, self.width, depth=self.depth, least=24, at_once=True)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of places that can be looked at."""
        return self.stack.grid


class Captioner(Model):
    def __init__(self, config: CaptionerConfig):
        super().__init__()
        self.config = config
        (rows, columns), places = config.grid, config.stack.width
        self.standardize = Standardize(config.shape)
        self.cnn = ConvolutionStack(config.stack)
        self.place_norm, self.look_norm = nn.BatchNorm2d(places), nn.LayerNorm(places)  # BN and LN
        self.positions = Positions("learned", places, context=rows * columns)  # p
        self.first = nn.Linear(places, config.embedding_size)  # W_a
        self.words = nn.Embedding(config.vocabulary_size, config.embedding_size)  # E
        self.writer = Recurrence(
            CELLS[config.cell], config.embedding_size, config.hidden_size, config.layers, dropout=config.dropout
        )
        if config.attention:
            self.attention = SoftSelect(Additive(config.hidden_size, places, config.attention_size))
        self.combine = nn.Linear(places + config.hidden_size, config.hidden_size)  # W_c
        self.output = nn.Linear(config.hidden_size, config.vocabulary_size, bias=False)  # O
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.words.weight, std=config.embedding_size**-0.5)

    def forward(
        self,
        picture: Num[Tensor, "batch channel height width"],
        caption: Int64[Tensor, "batch time"],
        project: bool = True,
    ) -> Float[Tensor, "batch time output"]:
        """Logits of the word that comes after each word of the caption; without `project`, the hidden states."""
        h = self.hidden(picture, caption)
        return self.output(h) if project else h

    def hidden(
        self, picture: Num[Tensor, "batch channel height width"], caption: Int64[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time unit"]:
        """What the logits are made from. Padding stands at the end of a caption, where no word before it can see it."""
        return self._write(caption, self.begin(picture))

    def see(self, picture: Num[Tensor, "batch channel height width"]) -> Float[Tensor, "batch place feature"]:
        """a_i, row by row."""
        features = self.place_norm(self.cnn(self.standardize(picture)))
        return self.positions(rearrange(features, "batch feature row column -> batch (row column) feature"))

    @property
    def output_weight(self) -> Float[Tensor, "token unit"]:
        return self.output.weight

    # --- writing, a word at a time ------------------------------------------------------------------------------------

    def begin(self, picture: Num[Tensor, "batch channel height width"]) -> "CaptionerDecoderState":
        """Look at the picture once; `step` then writes."""
        places = self.see(picture)
        whole = self.look_norm(reduce(places, "batch place feature -> batch feature", "mean"))
        # h_0 = cell(W_a ā; 0)
        _, states = self.writer.step(self.first(whole))
        memory = self.attention.prepare_memory(places) if self.config.attention else None
        return CaptionerDecoderState(states, whole, memory)

    def step(self, words: Int64[Tensor, "batch new"], state: "CaptionerDecoderState") -> Float[Tensor, "batch token"]:
        """Logits of what follows these words; afterwards `state` has seen them too."""
        return self.output(self._write(words, state)[:, -1])

    def _write(
        self, words: Int64[Tensor, "batch time"], state: "CaptionerDecoderState"
    ) -> Float[Tensor, "batch time unit"]:
        # h_t = cell(E y_t; h_{t−1})
        h, state.states = self.writer(self.dropout(self.words(words)), state.states)
        if state.memory is None:
            z = state.whole.unsqueeze(1).expand(-1, h.shape[1], -1)
        else:
            z = self.look_norm(self.attention(h, state.memory))
        # tanh(W_c [z_t; h_t])
        return self.dropout(torch.tanh(self.combine(torch.cat([z, h], -1))))


@dataclass
class CaptionerDecoderState:
    """What a captioner knows while it writes."""

    states: tuple[State, ...]
    whole: Float[Tensor, "batch feature"]
    memory: AttentionMemory | None
    """The places, where they can be looked at."""

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        """Go on with these rows of the batch: some may be dropped, others repeated."""
        self.states, self.whole = reorder(self.states, index), self.whole.index_select(0, index)
        self.memory = None if self.memory is None else self.memory.reorder(index)


SIZES = {
    "small": CaptionerConfig(width=8, hidden_size=64, embedding_size=32, attention_size=32),
    "base": CaptionerConfig(),
    "large": CaptionerConfig(width=32, depth=2, hidden_size=512, embedding_size=256, attention_size=256),
    "whole": CaptionerConfig(attention=False, cell="gru"),
}
