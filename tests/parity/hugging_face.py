"""Models of Hugging Face's library made from configurations, with weights in which no bias and no norm is trivial."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers.utils import logging

from neuropil.pretrained.names import Place

logging.set_verbosity_error()
logging.disable_progress_bar()

M = TypeVar("M", bound=nn.Module)


def shaken(model: M, seed: int = 0) -> M:
    """As it is after some learning: no bias is zero, no norm is one, and a wrong place for a tensor shows."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def saved(model: nn.Module, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)  # type: ignore[operator]  # a module of theirs
    return folder


def opened(kind: Any, folder: Path) -> nn.Module:
    """By theirs, where nothing may be missing and nothing may have been made up."""
    model, told = kind.from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"], told
    assert not told["mismatched_keys"], told
    assert all("standardize" in name for name in told["unexpected_keys"]), told
    return model.eval()


def assert_near(ours: Tensor, theirs: Tensor, within: float = 1e-4) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= within


def assert_same_gradients(ours: nn.Module, theirs: nn.Module, places: Mapping[str, Place], within: float = 1e-4) -> int:
    """Of every parameter of ours, each under its name there. Returns how many there were."""
    found, compared = {name: parameter.grad for name, parameter in theirs.named_parameters()}, 0
    parameters = dict(ours.named_parameters())
    for name, place in places.items():
        if place.name in parameters:
            mine, other = parameters[place.name].grad, found[name]
            assert mine is not None, name
            assert other is not None, name
            assert_near(place.view(mine), other, within)
            compared += 1
    return compared
