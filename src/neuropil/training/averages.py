"""Exponential moving average of the weights: θ̄ ← d θ̄ + (1 − d) θ. Often better than any point of the path.

The statistics of batch normalisation are averaged with them: those of the last weights would not be the average's. The
singular vectors of spectral normalisation are not: their average is no vector of unit length, and those of the last
weights are nearly the average's.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from neuropil.training.distributed.dtensor import local


class WeightAverage:
    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        moving = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        buffers = {name for name, buffer in model.named_buffers() if buffer.is_floating_point()}
        moving |= {name for name in buffers if "parametrizations." not in name}
        self.weights = {name: weight for name, weight in model.state_dict().items() if name in moving}
        self.average = {name: weight.clone() for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        # The first weights are random: a short memory at the start forgets them.
        decay = min(self.decay, (1 + step) / (10 + step))
        averages, weights = ([local(each) for each in state.values()] for state in (self.average, self.weights))
        get_ema_multi_avg_fn(decay)(averages, weights, None)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model holds the average inside the context, and its own weights again after it."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, weight in self.weights.items():
            here, average = local(weight), local(self.average[name])
            own = here.clone()
            here.copy_(average)
            average.copy_(own)

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in self.average.items():
            average.copy_(state[name])
