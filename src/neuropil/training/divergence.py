"""Why a loss is no number: the first layer that left the finite numbers, and the gradients of the update before."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from neuropil.errors import DivergedError
from neuropil.training.distributed.dtensor import all_finite, whole


def diverged(
    model: nn.Module,
    loss: Callable[[], Tensor],
    *,
    phase: str,
    value: float,
    step: int,
    learning_rate: float,
    kept: str,
) -> DivergedError:
    """Call before the gradients of the last update are cleared; `kept` says what is left of the run."""
    parameters = dict(model.named_parameters())
    clues = [_first_broken(model, parameters, loss), _gradient_norms(parameters)]
    return DivergedError(
        f"the loss of phase {phase!r} must stay finite",
        got=f"{value} at step {step}, where {'; '.join(clue for clue in clues if clue)}",
        fix=f"lower the learning rate ({learning_rate:g} at that step) or clip gradients (--clip 1); {kept}",
    )


def finite(model: nn.Module) -> bool:
    """Whether every weight is a finite number; checked before a checkpoint takes the place of a good one."""
    return all_finite(model.state_dict().values())


def _first_broken(model: nn.Module, parameters: Mapping[str, Parameter], loss: Callable[[], Tensor]) -> str:
    broken = [name for name, parameter in parameters.items() if not all_finite([parameter])]
    if broken:
        return f"{len(broken)} of {len(parameters)} weights are not finite any more, {broken[0]} the first"
    layers: list[str] = []

    def note(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and not output.isfinite().all():
            layers.append(name)

    leaves = {name: module for name, module in model.named_modules() if not any(module.children())}
    hooks = [module.register_forward_hook(partial(note, name)) for name, module in leaves.items()]
    try:
        with torch.no_grad():
            loss()
    finally:
        for hook in hooks:
            hook.remove()
    if layers:
        return f"{layers[0]} is the first layer whose output is not finite"
    return "every layer is finite and only the loss is not"


def _gradient_norms(parameters: Mapping[str, Parameter]) -> str:
    gradients = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
    norms = {name: float(whole(gradient).norm()) for name, gradient in gradients.items()}
    if not norms:
        return "no update was made before"
    largest = sorted(norms, key=lambda name: math.inf if math.isnan(norms[name]) else norms[name], reverse=True)[:3]
    written = ", ".join(f"{name} {norms[name]:.3g}" for name in largest)
    return f"the largest gradient norms of the update before were {written}"
