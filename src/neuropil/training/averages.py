"""Exponential moving average of the weights: θ̄ ← d θ̄ + (1 − d) θ. Often better than any point of the path."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class WeightAverage:
    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.average = {name: parameter.detach().clone() for name, parameter in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        # The first weights are random: a short memory at the start forgets them.
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(list(self.average.values()), list(self.weights.values()), None)

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
        for name, parameter in self.weights.items():
            own = parameter.detach().clone()
            parameter.copy_(self.average[name])
            self.average[name] = own

    def load(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            self.average[name].copy_(value)
