"""Tracker: a convolutional network looks at every frame of a film, and a recurrent one remembers where things were
going.

    g_t = φ(W_g CNN(x_t) + b_g)         what is seen in frame t
    h_t = cell(g_t; h_{t−1})            what is known of the film so far
    p_t = μ + σ (V h_t + c)             where the object is, whether it can be seen or not

Positions are in pixels, or whatever the targets are in: their mean μ and spread σ are part of the model. Without a
memory (`cell="none"`)

    h_t = φ(W_h g_t + b_h)

each frame is answered on its own, and an object that is hidden can be anywhere. Targets that nobody knows are NaN and
count for nothing:

    L = mean over the frames whose t_t is known of ½ ‖(p_t − t_t) / σ‖²
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.config import Config, from_data, option
from neuropil.errors import InputError
from neuropil.models.recurrent import CELLS
from neuropil.parts.convolution import ConvolutionStack, Stack, stack_for
from neuropil.parts.losses import at_least_single, positive, squared_error, weighted_mean
from neuropil.parts.objectives import Objective, loss_weights
from neuropil.parts.parameters import Model
from neuropil.parts.recurrence import Lengths, Recurrence, RecurrenceOutput, State, valid_mask
from neuropil.parts.standardize import Standardize
from neuropil.protocols import WEIGHT, Batch
from neuropil.ranges import Range, times

MemoryName = Literal["rnn", "lstm", "gru", "mingru", "none"]


class TrackerConfig(Config):
    cell: MemoryName = option("lstm", "recurrent cell; with none, each frame is answered on its own")
    hidden_size: int = option(128, "hidden size", low=1, tune=times(1 / 2, 1, 2))
    layers: int = option(1, "number of recurrent layers", low=1)
    features: int = option(64, "size of a frame's feature vector", low=1)
    width: int = option(16, "channels of the CNN's first stage; each further stage doubles them", low=1)
    depth: int = option(1, "residual blocks in each stage of the CNN", low=1)
    dropout: float = option(0.0, "dropout probability", low=0, high=0.95, tune=Range(0, 0.5))
    shape: tuple[int, ...] = from_data((1, 28, 28), "channels, height and width of one frame")
    outputs: int = from_data(2, "size of a position: x and y")

    def validate(self) -> None:
        if len(self.shape) != 3:
            rule = "a tracker needs frames of channels, height and width"
            raise InputError(rule, got=f"inputs of shape {self.shape}")

    @property
    def stack(self) -> Stack:
        return stack_for(self.shape, self.width, depth=self.depth)

    @property
    def seen(self) -> int:
        """Numbers that the convolutional network makes of a frame: its features at every place."""
        rows, columns = self.stack.grid
        return self.stack.width * rows * columns


class Tracker(Model):
    def __init__(self, config: TrackerConfig):
        super().__init__()
        self.config = config
        self.standardize = Standardize(config.shape)
        self.cnn = ConvolutionStack(config.stack)
        self.look = nn.Linear(config.seen, config.features)  # W_g
        self.memory: Recurrence | Forgetful
        if config.cell == "none":
            self.memory = Forgetful(config.features, config.hidden_size)
        else:
            self.memory = Recurrence(
                CELLS[config.cell], config.features, config.hidden_size, config.layers, dropout=config.dropout
            )
        self.output = nn.Linear(config.hidden_size, config.outputs)  # V
        self.target_scale = Standardize((config.outputs,))  # μ and σ
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, frames: Num[Tensor, "batch time channel height width"], lengths: Lengths | None = None
    ) -> Float[Tensor, "batch time output"]:
        """An answer for each frame; those past a film's length mean nothing."""
        return self.follow(frames, None, lengths)[0]

    def follow(
        self,
        frames: Num[Tensor, "batch time channel height width"],
        states: Sequence[State] | None = None,
        lengths: Lengths | None = None,
    ) -> tuple[Float[Tensor, "batch time output"], tuple[State, ...]]:
        """Positions, and the states after them: a film that is still running goes on from there."""
        outputs, after = self.memory(self.watch(frames, lengths), states, lengths)
        return self.target_scale.inverse(self.output(outputs)), after  # p_t = μ + σ (V h_t + c)

    def watch(
        self, frames: Num[Tensor, "batch time channel height width"], lengths: Lengths | None = None
    ) -> Float[Tensor, "batch time feature"]:
        """g_t of every frame. Frames that only fill a batch up are not looked at: batch norm would count them. An
        exported program looks at all: its batch norm counts nothing, and its sizes depend on no value."""
        if lengths is None or torch.compiler.is_exporting():
            seen = self.see(rearrange(frames, "batch time channel height width -> (batch time) channel height width"))
            return rearrange(seen, "(batch time) feature -> batch time feature", batch=len(frames))
        real = valid_mask(lengths, frames.shape[1])
        seen = self.see(frames[real])
        return seen.new_zeros(*frames.shape[:2], seen.shape[-1]).masked_scatter(real.unsqueeze(-1), seen)

    def see(self, frames: Num[Tensor, "frame channel height width"]) -> Float[Tensor, "frame feature"]:
        places = rearrange(self.cnn(self.standardize(frames)), "frame feature row column -> frame (feature row column)")
        return self.dropout(F.relu(self.look(places)))


class Forgetful(nn.Module):
    """What takes the place of a recurrence where nothing is to be remembered: h_t = φ(W_h g_t + b_h)."""

    def __init__(self, inputs: int, units: int):
        super().__init__()
        self.layer = nn.Linear(inputs, units)

    def forward(
        self, x: Float[Tensor, "batch time input"], states: object = None, lengths: object = None
    ) -> RecurrenceOutput:
        return RecurrenceOutput(F.relu(self.layer(x)), ())


class Tracking(Objective[Tracker]):
    """A batch is ``{"input": frames, "length": …, "target": …}``, its targets NaN where they are unknown."""

    phase = "tracking"

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        answers, targets, known = self._answers(batch)
        weights = loss_weights(batch, known)
        return weighted_mean(self._scaled_error(answers, targets)[known], None if weights is None else weights[known])

    def counted(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        return batch["target"].isfinite().all(-1) & valid_mask(batch["length"], batch["target"].shape[1])

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        """Means over the frames of each film whose target is known; `error` is the distance, in the targets' units."""
        answers, targets, known = self._answers(batch)
        count, weights = known.sum(-1).clamp(min=1), loss_weights(batch, known)
        counted = known.to(answers) if weights is None else weights * known
        loss = (self._scaled_error(answers, targets) * counted).sum(-1) / positive(counted.sum(-1))
        error = ((answers - targets).norm(dim=-1) * known).sum(-1) / count
        return {"loss": loss, "error": error} | ({} if weights is None else {WEIGHT: counted.sum(-1) / count})

    def _answers(
        self, batch: Batch
    ) -> tuple[Float[Tensor, "batch time output"], Float[Tensor, "batch time output"], Bool[Tensor, "batch time"]]:
        """Answers, targets, and where these are known; elsewhere the target is 0."""
        answers = at_least_single(self.model(batch["input"], batch["length"]))
        return answers, batch["target"].nan_to_num(0.0).to(answers), self.counted(batch)

    def _scaled_error(self, answers: Tensor, targets: Tensor) -> Float[Tensor, "batch time"]:
        # ½ ‖(p − t) / σ‖²
        return squared_error(answers / self.model.target_scale.std, targets / self.model.target_scale.std)


SIZES = {
    "small": TrackerConfig(width=8, features=32, hidden_size=32),
    "base": TrackerConfig(),
    "large": TrackerConfig(width=32, depth=2, features=256, hidden_size=256, layers=2),
    "frame": TrackerConfig(cell="none"),
}
