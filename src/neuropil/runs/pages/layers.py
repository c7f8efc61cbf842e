"""Gradient flow, forward signal and memory in time of a run's model, for its trained weights or its first ones, and for
weights that are larger or smaller than they are."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from neuropil.inspection.gradients import GradientProfile, TimeProfile, profile_gradients, profile_time
from neuropil.inspection.signal import SignalProfile, profile_signal
from neuropil.parts.objectives import matrices
from neuropil.parts.recurrence import Cell
from neuropil.runs.pages.gradients import trainable_experiment
from neuropil.runs.run import Run
from neuropil.training.weights import load_model

Weights = Literal["trained", "initial"]
TIMED_EXAMPLES = 8


@dataclass(frozen=True)
class LayerProfiles:
    gradients: GradientProfile
    """In training, as dropout has it."""
    signal: SignalProfile
    """As the model predicts."""
    time: Mapping[str, TimeProfile]
    """Of each recurrent cell: how much its last output depends on its input so many steps before."""


class LayerProbe:
    """Reads the run's data once; afterwards a question costs a pass forward and back on one batch."""

    def __init__(self, run: Run):
        experiment = trainable_experiment(run)
        self.model = experiment.model
        initial = _copy(self.model)
        load_model(run.weights, self.model)
        self.states: dict[Weights, dict[str, Tensor]] = {"initial": initial, "trained": _copy(self.model)}
        self.batch, self.learner = next(experiment.training_batches.epoch(0)), experiment.learner

    def profiles(self, weights: Weights = "trained", scale: float = 1.0, examples: int | None = None) -> LayerProfiles:
        """`scale` multiplies every matrix and kernel; of the batch, the first examples may do."""
        batch = {name: values[:examples] for name, values in self.batch.items()}

        def loss() -> Tensor:
            return self.learner.phases()[0].loss(batch)

        with self._weighted(weights, scale):
            self.model.train()
            gradients = profile_gradients(self.model, loss)
            self.model.eval()
            with _inputs_of_cells(self.model) as inputs:
                signal = profile_signal(self.model, loss)
            time = {name: profile_time(cell, x) for name, (cell, x) in inputs.items()}
        return LayerProfiles(gradients, signal, time)

    @contextmanager
    def _weighted(self, weights: Weights, scale: float) -> Iterator[None]:
        _restore(self.model, self.states[weights])
        with torch.no_grad():
            for matrix in matrices(self.model):
                matrix.mul_(scale)
        try:
            yield
        finally:
            _restore(self.model, self.states["trained"])


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _restore(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    for name, tensor in model.state_dict().items():
        tensor.copy_(state[name])


@contextmanager
def _inputs_of_cells(model: nn.Module) -> Iterator[dict[str, tuple[Cell, Tensor]]]:
    """What each recurrent cell read last, of a few examples."""
    found: dict[str, tuple[Cell, Tensor]] = {}

    def watch(name: str, cell: Cell) -> None:
        def see(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            if inputs and inputs[0].ndim == 3 and inputs[0].shape[1] > 1:
                found[name] = cell, inputs[0][:TIMED_EXAMPLES].detach()

        hooks.callback(cell.register_forward_pre_hook(see).remove)

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if isinstance(module, Cell):
                watch(name, module)
        yield found
