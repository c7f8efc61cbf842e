"""All that a run needs to go on, in one file that is replaced at once: weights, optimisers, averages, progress."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin

from torch import Tensor, nn

from neuropil.errors import RunError
from neuropil.protocols import Phase
from neuropil.training.averages import WeightAverage
from neuropil.training.optimizers import Optimizer
from neuropil.training.weights import load_state, read_facts, read_tensors, unique_state, write_tensors

FORMAT = 2
S = TypeVar("S")
FILE, SHARES = "checkpoint.safetensors", "checkpoint"
"""In a run folder: the checkpoint of a whole model, or a folder of the shares of a divided one."""
Trained: TypeAlias = tuple[nn.Module, Mapping[str, Optimizer], Sequence[Phase], WeightAverage | None]
"""A model, its optimisers by the names of the phases, the phases, and the moving average."""


def has_checkpoint(folder: Path) -> bool:
    return any((folder / name).exists() for name in (FILE, SHARES))


def saved_step(folder: Path) -> int | None:
    """Of the update after which the latest checkpoint was written, without its tensors; none where there is no
    checkpoint that can be read."""
    steps = [
        int(path.name.removeprefix("step-")) for path in (folder / SHARES).glob("step-*") if path.name[5:].isdigit()
    ]
    with suppress(RunError):
        state = read_facts(folder / FILE).get("state") if (folder / FILE).exists() else None
        steps += [step] if isinstance(state, dict) and isinstance(step := state.get("step"), int) else []
    return max(steps, default=None)


def checkpoints_below(folder: Path) -> list[Path]:
    """Files and folders, also of what was trained beside the run."""
    return [*folder.rglob(FILE), *(path for path in folder.rglob(SHARES) if path.is_dir())]


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
    tensors, state = read(path)
    load_state(model, under("model/", tensors), path)
    if average is not None:
        _load_average(average, under("average/", tensors), path)
    for phase in phases:
        saved = under(f"optimizer/{phase.name}/", tensors)
        for name, parameter in phase.parameters.items():
            if moments := under(f"{name}/", saved):
                if any(each.shape not in (parameter.shape, ()) for each in moments.values()):
                    raise damaged(path, f"the averages of {name}")
                optimizers[phase.name].state[parameter] = {
                    k: value.to(parameter.device) for k, value in moments.items()
                }
    return state, under("learner/", tensors)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All tensors, and where the run stood."""
    tensors, facts = read_tensors(path, fix=f"restore or remove {path}")
    if facts.get("format") != FORMAT:
        rule, fix = f"{path} must be a checkpoint of format {FORMAT}", "use the neuropil version that wrote it"
        raise RunError(rule, got=f"format {facts.get('format')}", fix=fix)
    if not isinstance(facts.get("state"), dict):
        raise damaged(path, "where the run stands")
    return tensors, facts["state"]


def restored(kind: type[S], state: Mapping[str, Any], path: Path) -> S:
    """Where a run stands, if a checkpoint says it as `save` wrote it: counts from 0 on, and finite numbers."""
    kinds = {field.name: field.type for field in dataclasses.fields(cast(Any, kind))}
    if not state.keys() <= kinds.keys() or not all(_is_like(value, kinds[name]) for name, value in state.items()):
        raise damaged(path, "where the run stands")
    return kind(**state)


def _is_like(value: Any, kind: Any) -> bool:
    """`kind` is bool, int, float, one of the last two or None, or a table of numbers."""
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_is_like(each, float) for each in value.values())
    kinds = get_args(kind) or (kind,)
    if value is None or isinstance(value, bool):
        return type(value) in kinds
    if float in kinds:
        return isinstance(value, int | float) and math.isfinite(value)
    return int in kinds and isinstance(value, int) and value >= 0


def damaged(path: Path, what: str) -> RunError:
    return RunError(f"{path} must say {what}, as neuropil wrote it", got="something else", fix="restore or remove it")


def _load_average(average: WeightAverage, tensors: dict[str, Tensor], path: Path) -> None:
    for name, own in average.average.items():
        if name not in tensors or tensors[name].shape != own.shape:
            raise damaged(path, f"the average of {name}")
    average.load(tensors)


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
