"""What the modules of a model were given and what they returned in one forward pass, which runs as it always does."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuropil.errors import InputError
from neuropil.inspection.gates import GateTape, record_gates
from neuropil.inspection.gradients import untouched
from neuropil.parts.multi_head import MultiHeadAttention
from neuropil.parts.recurrence import Cell


class ModuleCall(NamedTuple):
    given: dict[str, Any]
    """By the names of the parameters of `forward`."""
    output: Any


class HeadInputs(NamedTuple):
    """What the heads of an attention module were given after the projections."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool


class CapturedPass:
    """Of one example: tensors are handed out without the axis for the batch."""

    def __init__(self) -> None:
        self.calls: dict[str, list[ModuleCall]] = {}
        self.heads: dict[str, HeadInputs] = {}
        self.gates: GateTape = {}
        self.output = torch.empty(0)

    def output_of(self, module: str, call: int = -1) -> Tensor:
        """The first of several tensors."""
        output = self.calls[module][call].output
        return (output[0] if isinstance(output, tuple) else output).detach()[0]

    def input_of(self, module: str, call: int = -1) -> Tensor:
        return next(iter(self.calls[module][call].given.values())).detach()[0]

    def given(self, module: str) -> dict[str, Any]:
        return self.calls[module][-1].given


@torch.no_grad()
def run_captured(model: nn.Module, inputs: tuple[Any, ...]) -> CapturedPass:
    """One pass as the model predicts; afterwards the model is as it was."""
    require_one_example(inputs)
    captured = CapturedPass()
    with untouched(model), ExitStack() as stack:
        model.eval()
        for name, module in model.named_modules():
            hook = module.register_forward_hook(_remember(captured, name), with_kwargs=True)
            stack.callback(hook.remove)
            if isinstance(module, MultiHeadAttention):
                stack.enter_context(_heads_seen(captured, name, module))
        recurrent = any(isinstance(module, Cell) for module in model.modules())
        if recurrent:
            captured.gates = stack.enter_context(record_gates(model))
        captured.output = model(*inputs).detach()[0]
    return captured


def require_one_example(inputs: tuple[Any, ...]) -> None:
    for each in inputs:
        if isinstance(each, Tensor) and (each.ndim == 0 or len(each) != 1):
            got = f"a tensor of shape {list(each.shape)}"
            raise InputError("the numbers of one example are opened, so its batch must be of one", got=got)


def _remember(captured: CapturedPass, name: str) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = inspect.signature(module.forward).bind(*args, **kwargs)
        captured.calls.setdefault(name, []).append(ModuleCall(dict(given.arguments), output))

    return hook


@contextmanager
def _heads_seen(captured: CapturedPass, name: str, module: MultiHeadAttention) -> Iterator[None]:
    original = module.select

    def select(
        query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        captured.heads[name] = HeadInputs(query, key, value, mask, causal)
        return original(query, key, value, mask=mask, causal=causal)

    module.select = select
    try:
        yield
    finally:
        del module.select
