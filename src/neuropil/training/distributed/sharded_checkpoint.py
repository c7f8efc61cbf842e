"""Checkpoints that every process writes its share of, and that any other number of processes can go on from.

    checkpoint/step-1200/shard-00001-….safetensors …     the shares, by torch.distributed.checkpoint (DCP)
    checkpoint/step-1200/state.json                       where the run stands, and how long each file is

They are written beside their name (`.step-1200.part`) and get it when all are whole, so that one that was not finished
is never picked up; those before are then removed. DCP's own description of a checkpoint is pickled, and so is what its
processes tell each other. Neither is used here: the headers of the safetensors files say where each share stands in its
tensor, and each process knows by itself what to write and what to read.

A weight that can be divided has the same names in every checkpoint: those of its parts, which are views of it in a
model that is not divided.
"""

import dataclasses
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
    create_default_global_save_plan,
)
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.state_dict_loader import load as load_planned
from torch.distributed.checkpoint.state_dict_saver import save as save_planned

from neuropil.errors import RunError
from neuropil.files import make_folder, storing, sync, write_text
from neuropil.protocols import Phase
from neuropil.training.averages import WeightAverage
from neuropil.training.checkpoint import SHARES, Trained
from neuropil.training.distributed.dtensor import is_divided, local
from neuropil.training.optimizers import Optimizer

FORMAT = 1
STATE, BEFORE = "state.json", ".before"
Parts: TypeAlias = Mapping[str, Sequence[str]]


def save(
    run: Path, state: Mapping[str, Any], trained: Trained, parts: Parts, learner_state: Mapping[str, Tensor]
) -> None:
    """Called by all processes; `state` is the same in all, and its `step` names the checkpoint."""
    folder = run / SHARES / f"step-{state['step']}"
    part, before = (folder.with_name(f".{folder.name}{ending}") for ending in (".part", BEFORE))
    if _rank() == 0:
        remove_unfinished(run)
        make_folder(part)
    _sum(0)  # all wait for the folder
    model, optimizers, phases, average = trained
    tensors = _weights(model, average, parts) | _moments(optimizers, phases, parts)
    tensors |= {f"learner/{name}": tensor for name, tensor in learner_state.items()}
    own = {name: tensor for name, tensor in tensors.items() if _is_written_here(tensor)}
    if own:
        planner, needed = _SavePlanner(flatten_state_dict=False), sum(local(tensor).nbytes for tensor in own.values())
        with storing(folder, needed), _alone():
            save_planned(own, storage_writer=_Writer(str(part)), planner=planner, no_dist=True)
    written = _sum(int(bool(own)))
    if _rank() == 0:
        sizes = {file.name: file.stat().st_size for file in sorted(part.iterdir())}
        require_shared_disk(part, len(sizes), written)
        write_text(part / STATE, json.dumps({"format": FORMAT, "state": dict(state), "files": sizes}) + "\n")
        if folder.exists():  # the same step once more
            folder.rename(before)
        part.rename(folder)
        shutil.rmtree(before, ignore_errors=True)
        with suppress(OSError):  # not every file system has it for folders
            sync(folder.parent)
        for old in set(finished(run)) - {folder}:
            shutil.rmtree(old)
    _sum(0)


def load(folder: Path, trained: Trained, parts: Parts) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Fill the model, the optimisers and the average from a checkpoint of `finished`; return the saved states of the
    run and of the learner."""
    state = read_state(folder)
    model, optimizers, phases, average = trained
    reader = HuggingFaceStorageReader(str(folder))
    try:
        entries = cast(dict[str, TensorStorageMetadata], reader.read_metadata().state_dict_metadata)
    except (OSError, ValueError, SafetensorError) as error:
        raise RunError(f"{folder} must be a whole checkpoint", got=f"one that cannot be read ({error})") from error
    saved = {name: tuple(entry.size) for name, entry in entries.items()}
    learner_state = {
        name.removeprefix("learner/"): torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in entries.items()
        if name.startswith("learner/")
    }
    _begin_moments(optimizers, phases, parts, saved)
    tensors = _weights(model, average, parts) | _moments(optimizers, phases, parts)
    tensors |= {f"learner/{name}": tensor for name, tensor in learner_state.items()}
    problems = [f"{name} is missing" for name in tensors if name not in saved]
    problems += [f"{name} is unknown" for name in saved if name not in tensors and not name.startswith("average/")]
    problems += [
        f"{name} has shape {saved[name]}, not {tuple(tensor.shape)}"
        for name, tensor in tensors.items()
        if name in saved and saved[name] != tuple(tensor.shape)
    ]
    if problems:
        raise RunError(f"{folder} must hold the weights of {type(model).__name__}", got="; ".join(problems[:8]))
    with _alone():
        load_planned(
            dict(tensors), storage_reader=reader, planner=DefaultLoadPlanner(flatten_state_dict=False), no_dist=True
        )
    return state, learner_state


def finished(run: Path) -> list[Path]:
    """The whole checkpoints of a run, the latest last."""
    found = [path for path in (run / SHARES).glob("step-*") if path.name.removeprefix("step-").isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def remove_unfinished(run: Path) -> None:
    """What was being written when a process was killed. What it was about to replace gets its name back."""
    for part in (run / SHARES).glob(".step-*.part"):
        shutil.rmtree(part)
    for before in (run / SHARES).glob(f".step-*{BEFORE}"):
        folder = before.with_name(before.name.removeprefix(".").removesuffix(BEFORE))
        if folder.exists():
            shutil.rmtree(before)
        else:
            before.rename(folder)


def read_state(folder: Path) -> dict[str, Any]:
    try:
        facts = json.loads((folder / STATE).read_text(encoding="utf-8"))
        sizes = {file.name: file.stat().st_size for file in folder.iterdir() if file.name != STATE}
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{folder} must be a whole checkpoint", got=f"one that cannot be read ({error})") from error
    match facts:
        case {"format": int(number)} if number != FORMAT:
            rule, fix = f"{folder} must be a checkpoint of format {FORMAT}", "use the neuropil version that wrote it"
            raise RunError(rule, got=f"format {number}", fix=fix)
        case {"format": int(), "state": dict(state), "files": dict(files)} if files == sizes:
            return state
        case {"files": dict(files)}:
            wrong = sorted(name for name in files.keys() | sizes.keys() if files.get(name) != sizes.get(name))
            rule, fix = f"{folder} must hold the files of which it tells, whole", f"restore or remove {folder}"
            raise RunError(rule, got=f"{', '.join(wrong[:4])} missing, cut off or strange", fix=fix)
    raise RunError(f"{folder} must be a whole checkpoint", got="one whose state.json tells of no files")


# --- what a checkpoint holds ------------------------------------------------------------------------------------------


def _weights(model: nn.Module, average: WeightAverage | None, parts: Parts) -> dict[str, Tensor]:
    found = {f"model/{name}": x for key, value in model.state_dict().items() for name, x in _divide(key, value, parts)}
    averages = average.average if average else {}
    return found | {f"average/{name}": x for key, value in averages.items() for name, x in _divide(key, value, parts)}


def _moments(optimizers: Mapping[str, Optimizer], phases: Sequence[Phase], parts: Parts) -> dict[str, Tensor]:
    return {
        f"optimizer/{phase.name}/{name}/{key}": x
        for phase in phases
        for whole, weight in phase.parameters.items()
        for key, value in optimizers[phase.name].state.get(weight, {}).items()
        for name, x in _divide(whole, value, parts)
    }


def _begin_moments(
    optimizers: Mapping[str, Optimizer], phases: Sequence[Phase], parts: Parts, saved: Mapping[str, tuple[int, ...]]
) -> None:
    """Room for what the optimisers knew: of a weight's shape, or a single number."""
    for phase in phases:
        state = optimizers[phase.name].state
        for name, weight in phase.parameters.items():
            prefix = f"optimizer/{phase.name}/{parts.get(name, (name,))[0]}/"
            shapes = {key.removeprefix(prefix): shape for key, shape in saved.items() if key.startswith(prefix)}
            if shapes:
                state[weight] = {
                    key: torch.zeros_like(weight) if shape else torch.zeros((), device=weight.device)
                    for key, shape in shapes.items()
                }


def _divide(name: str, tensor: Tensor, parts: Parts) -> list[tuple[str, Tensor]]:
    """A weight that is several in a divided model, as these; a single number is that of each."""
    names = parts.get(name)
    if names is None:
        return [(name, tensor.detach())]
    pieces = tensor.detach().chunk(len(names)) if tensor.ndim else [tensor] * len(names)
    return list(zip(names, pieces, strict=True))


# --- who writes what --------------------------------------------------------------------------------------------------


class _Writer(HuggingFaceStorageWriter):
    """A file of this process, named after its rank."""

    def __init__(self, path: str):
        super().__init__(path, save_distributed=True)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [dataclasses.replace(plan, storage_data={"shard_index": _rank() + 1}) for plan in plans]


class _SavePlanner(DefaultSavePlanner):
    """For the shares of this process alone, which are not all of their tensors."""

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        return create_default_global_save_plan(all_plans)


def _is_written_here(tensor: Tensor) -> bool:
    """Of what several processes have, the one with the lowest rank writes it."""
    if not is_divided(tensor):
        return _rank() == 0
    mesh, where = tensor.device_mesh, tensor.device_mesh.get_coordinate() or ()
    copies = [place for place, kind in zip(where, tensor.placements, strict=True) if kind.is_replicate()]
    return not any(copies) and bool((mesh.mesh == 0).any()) and tensor.to_local().numel() > 0


def require_shared_disk(folder: Path, seen: int, written: int) -> None:
    if seen != written:
        rule = "sharded checkpoints need a run folder on a disk that all processes share"
        got = f"{seen} of {written} files in {folder}"
        raise RunError(rule, got=got, fix="choose --runs on such a disk, or train with --parallel ddp")


def _rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0


def _sum(number: int) -> int:
    """Over all processes, which wait for each other."""
    total = torch.tensor(number)
    if distributed.is_initialized():
        distributed.all_reduce(total)
    return int(total)


@contextmanager
def _alone() -> Iterator[None]:
    """DCP warns of a process that works by itself, and wraps what goes wrong in it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        try:
            yield
        except CheckpointException as error:
            raise next(cause for cause, _ in error.failures.values()) from error
