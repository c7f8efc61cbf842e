"""Weights in and out of safetensors files: by name, checked, never pickled."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from neuropil.errors import RunError
from neuropil.files import replacing
from neuropil.protocols import PublishedWeights


def unique_state(model: nn.Module) -> dict[str, Tensor]:
    """The state dict with each tensor once: a weight that two modules share is kept under its first name. What another
    library can open has the names that it has there."""
    if isinstance(model, PublishedWeights):
        return dict(model.published_state())
    seen: dict[tuple[int, torch.Size], str] = {}
    state = {}
    for name, tensor in model.state_dict().items():
        if tensor.numel() == 0 or seen.setdefault((tensor.data_ptr(), tensor.shape), name) == name:
            state[name] = tensor
    return state


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """One file, written whole or not at all; `facts` are JSON in its header. Without any, other libraries find
    the `format` there that they ask for: of two entries, the order would differ from run to run."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path, sum(tensor.nbytes for tensor in plain.values())) as part:
        try:
            save_file(plain, part, metadata={"neuropil": json.dumps(facts)} if facts else {"format": "pt"})
        except SafetensorError as error:
            if found := re.search(r"\(os error (\d+)\)", str(error)):
                number = int(found[1])
                raise OSError(number, os.strerror(number)) from error
            raise


def read_tensors(path: Path, *, fix: str | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with _opened(path, fix) as file:
        facts = _facts_of(file)
        return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 (a safe_open file is no mapping)


def read_facts(path: Path) -> dict[str, Any]:
    """What came with the tensors, which are not read."""
    with _opened(path) as file:
        return _facts_of(file)


@contextmanager
def _opened(path: Path, fix: str | None = None) -> Iterator[Any]:
    """A safe_open file; what cannot be read of it is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        rule, got = f"{path.name} must be a whole safetensors file", f"one that cannot be read ({error})"
        raise RunError(rule, got=got, fix=fix or f"restore {path}") from error


def _facts_of(file: Any) -> dict[str, Any]:
    facts = json.loads((file.metadata() or {}).get("neuropil", "{}"))
    if not isinstance(facts, dict):
        raise ValueError("its facts are no JSON object")
    return facts


def require_readable(path: Path, checkpoint: Path) -> None:
    """Before a run goes on from a checkpoint that counts on the weights beside it."""
    try:
        with safe_open(path, framework="pt"):
            return
    except (SafetensorError, OSError) as error:
        got = f"one that cannot be read ({error})" if path.exists() else "none"
        fix = f"restore it, or remove {checkpoint.name} to train anew"
        raise RunError(f"{path} must be there whole beside its checkpoint", got=got, fix=fix) from error


def save_model(path: Path, model: nn.Module, facts: Mapping[str, Any] | None = None) -> None:
    write_tensors(path, unique_state(model), facts or {})


def load_model(path: Path, model: nn.Module) -> dict[str, Any]:
    """Fill `model` from a file of `save_model`; names and shapes must agree. Returns the facts that came with it."""
    tensors, facts = read_tensors(path)
    load_state(model, tensors, path)
    return facts


def load_state(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    expected = unique_state(model)
    require_weights(type(model).__name__, {name: own.shape for name, own in expected.items()}, tensors, path)
    with torch.no_grad():
        for name, own in expected.items():
            own.copy_(tensors[name])


def require_weights(model: str, expected: Mapping[str, torch.Size], tensors: Mapping[str, Tensor], path: Path) -> None:
    """As many, under the same names, of the same shapes."""
    problems = [f"{name} is missing" for name in expected if name not in tensors]
    problems += [f"{name} is unknown" for name in tensors if name not in expected]
    problems += [
        f"{name} has shape {tuple(tensors[name].shape)}, not {tuple(shape)}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if problems:
        raise RunError(f"{path} must hold the weights of {model}", got="; ".join(problems[:8]))
