"""All that a run needs to go on, in one file that is replaced at once: weights, optimisers, averages, progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from neuropil.errors import RunError
from neuropil.protocols import Phase
from neuropil.training.averages import WeightAverage
from neuropil.training.optimizers import Optimizer
from neuropil.training.weights import load_state, read_tensors, unique_state, write_tensors

FORMAT = 2


def save(
    path: Path,
    state: Mapping[str, Any],
    model: nn.Module,
    optimizers: Mapping[str, Optimizer],
    phases: Sequence[Phase],
    average: WeightAverage | None,
    learner_state: Mapping[str, Tensor],
) -> None:
    tensors = {f"model/{name}": tensor for name, tensor in unique_state(model).items()}
    tensors |= {f"average/{name}": tensor for name, tensor in (average.average if average else {}).items()}
    tensors |= {f"learner/{name}": tensor for name, tensor in learner_state.items()}
    for phase in phases:
        for name, parameter in phase.parameters.items():
            for key, value in optimizers[phase.name].state.get(parameter, {}).items():
                tensors[f"optimizer/{phase.name}/{name}/{key}"] = value
    write_tensors(path, tensors, {"format": FORMAT, "state": dict(state)})


def load(
    path: Path,
    model: nn.Module,
    optimizers: Mapping[str, Optimizer],
    phases: Sequence[Phase],
    average: WeightAverage | None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Fill the model, the optimisers and the average; return the saved states of the run and of the learner."""
    tensors, facts = read_tensors(path)
    if facts.get("format") != FORMAT:
        rule, fix = f"{path} must be a checkpoint of format {FORMAT}", "use the neuropil version that wrote it"
        raise RunError(rule, got=f"format {facts.get('format')}", fix=fix)
    load_state(model, _under("model/", tensors), path)
    if average is not None:
        average.load(_under("average/", tensors))
    for phase in phases:
        saved = _under(f"optimizer/{phase.name}/", tensors)
        for name, parameter in phase.parameters.items():
            if state := _under(f"{name}/", saved):
                optimizers[phase.name].state[parameter] = {k: value.to(parameter.device) for k, value in state.items()}
    return facts["state"], _under("learner/", tensors)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
