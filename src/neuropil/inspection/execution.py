"""How a model is going to be executed: for each recurrent cell the way in which it is run, and why."""

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import nn

from neuropil.errors import InputError
from neuropil.inspection.gradients import untouched
from neuropil.parts.recurrence import Cell, Way, choose, precision


class Execution(NamedTuple):
    cell: str
    """The name of the cell in the model."""
    kind: str
    steps: int
    way: Way
    reason: str


def explain(model: nn.Module, run: Callable[[], object]) -> list[Execution]:
    """How each recurrent cell of `model` is executed while `run` runs it, in order; what is the same is listed once."""
    cells = {name or "cell": module for name, module in model.named_modules() if isinstance(module, Cell)}
    if not cells:
        raise InputError("only recurrent cells are run in several ways", got=f"a {type(model).__name__} without any")
    found: dict[Execution, None] = {}
    with ExitStack() as stack:
        for name, cell in cells.items():
            stack.callback(cell.register_forward_pre_hook(_note(found, name), with_kwargs=True).remove)
        with untouched(model), torch.no_grad():
            run()
    return list(found)


def _note(found: dict[Execution, None], name: str) -> Callable[..., None]:
    def hook(cell: Cell, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = inspect.signature(cell.forward).bind(*args, **kwargs).arguments
        x = given["x"]
        chosen = choose(cell, x.shape[1], x.device, precision(x))
        way, reason = (given["way"], "it is asked for") if given.get("way") else chosen
        found[Execution(name, type(cell).__name__, x.shape[1], way, reason)] = None

    return hook
