"""Activation checkpointing: of each block only the input is kept, and the rest computed once more in the backward pass.

A third more computation, for activations of one block in place of all. Dropout draws the same numbers both times.
"""

from collections.abc import Iterable
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from neuropil.errors import InputError
from neuropil.protocols import ParallelModel


def recompute(model: nn.Module, blocks: Iterable[str]) -> None:
    """The forward pass of the modules of these names, inside whatever hooks they have."""
    for name in blocks:
        block = model.get_submodule(name)
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def restore(model: nn.Module, blocks: Iterable[str]) -> None:
    for name in blocks:
        vars(model.get_submodule(name)).pop("forward", None)


def require_blocks(model: nn.Module) -> ParallelModel:
    if isinstance(model, ParallelModel):
        return model
    rule = "--recompute (activation checkpointing) needs a model of blocks, as transformers are"
    raise InputError(rule, got=type(model).__name__, fix="train without it")
