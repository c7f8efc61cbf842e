"""One of two processes that train every system together, and one of them alone for comparison; rank 0 writes what they
found. `test_distributed.py` starts them once for all of its tests."""

import copy
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuropil import recipes
from neuropil.protocols import Batch, Batches, Learner, Phase
from neuropil.recipes import recipe
from neuropil.tasks.experiment import TrainableExperiment
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.processes import World, world
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit
from neuropil.training.weights import read_tensors

TOGETHER = [each.name for each in recipes.SYSTEMS if hasattr(recipes.recipe(each.name).options, "training")]
TOGETHER.remove("word2vec")
PLAIN: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.05, "schedule": "constant", "warmup": 0.0, "epochs": 1}
"""The rule whose steps are as exact as the gradients are. Adam makes large steps of gradients that only rounding made."""
CARRYING = ("lstm", "rbm", "predictive_coding")
"""Learners that carry a state from batch to batch: of streams, of chains, of examples that are visited again."""


class FewBatches:
    """Three batches and one of a single row, which two processes cannot divide. Where normalisation needs two rows,
    without it."""

    def __init__(self, batches: Batches, normalised: bool):
        self.batches, self.normalised = batches, normalised

    def __len__(self) -> int:
        return 3 if self.normalised else 4

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        found = list(islice(self.batches.epoch(number), 4))
        found = [*found, *found, *found, *found][:4]
        found[3] = {name: values[:1] for name, values in found[0].items()}
        return iter(found[start : len(self)])


class StoppedOnce:
    """A learner that rank 1 is asked to stop at its second loss, as by Ctrl-C."""

    def __init__(self, learner: Any, rank: int):
        self.learner, self.rank, self.calls = learner, rank, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.learner, name)

    def phases(self) -> list[Phase]:
        return [replace(phase, loss=self.stopping(phase)) for phase in self.learner.phases()]

    def stopping(self, phase: Phase) -> Any:
        def loss(batch: Batch) -> Tensor:
            self.calls += 1
            if self.calls == 2 and self.rank == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return phase.loss(batch)

        return loss


def learned(learner: Learner, batches: Batches, config: TrainingConfig, folder: Path, place: World) -> dict[str, Tensor]:
    fit(learner, batches, None, config, seed=3, folder=folder, show_progress=False, world=place)
    return {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}


def difference(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    """The largest, in units of the largest weight of its tensor."""
    pairs = [(first[name].double(), second[name].double()) for name in first if first[name].numel()]
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1.0)) for a, b in pairs)


def equal_on_all(weights: dict[str, Tensor], place: World) -> bool:
    numbers = torch.cat([tensor.double().flatten() for tensor in weights.values()])
    return bool((place.gather_rows(numbers[None]) == numbers).all())


def try_system(name: str, options: dict[str, Any], place: World, folder: Path) -> dict[str, Any]:
    chosen = recipe(name).options.override(**options)
    if "dropout" in {each.name for each in chosen.options()}:
        chosen = chosen.override(dropout=0.0)
    experiment: Any = recipe(name).build(chosen, 3)
    assert isinstance(experiment, TrainableExperiment)
    config = replace(experiment.training, **PLAIN, clip=1.0, average=0.0, patience=None, keep="last")
    normalised = any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in experiment.model.modules())
    batches = FewBatches(experiment.training_batches, normalised)
    learner = experiment.learner
    found: dict[str, Any] = {}
    for label, accumulate in (("plain", 1), ("accumulated", 2)):
        if label == "accumulated" and (name in CARRYING or normalised):
            continue
        training = replace(config, accumulate=accumulate)
        alone = learned(copy.deepcopy(learner), batches, training, folder / f"{name}-alone-{label}-{place.rank}", World())
        together = learned(copy.deepcopy(learner), batches, training, folder / f"{name}-{label}", place)
        moved = difference(together, dict(learner.model.state_dict()))
        found[label] = {"difference": difference(alone, together), "moved": moved}
        found["equal"] = found.get("equal", True) and equal_on_all(together, place)
    again = learned(copy.deepcopy(learner), batches, config, folder / f"{name}-again", place)
    once = read_tensors(folder / f"{name}-plain" / "model.safetensors")[0] if place.first else {}
    found["repeated"] = not place.first or all(torch.equal(once[key], again[key]) for key in once if key in again)
    if name in CARRYING:
        found["resumed"] = try_resuming(name, learner, batches, config, place, folder, again)
    return found


def try_resuming(
    name: str, learner: Any, batches: Batches, config: TrainingConfig, place: World, folder: Path, whole: dict[str, Tensor]
) -> dict[str, Any]:
    cut = folder / f"{name}-cut"
    stopped = None
    try:
        learned(StoppedOnce(copy.deepcopy(learner), place.rank), batches, config, cut, place)
    except Interrupted as stop:
        stopped = str(stop)
    elsewhere = folder / f"{name}-elsewhere"
    if place.first:
        elsewhere.mkdir()
        (elsewhere / "checkpoint.safetensors").write_bytes((cut / "checkpoint.safetensors").read_bytes())
    place.barrier()
    resumed = learned(copy.deepcopy(learner), batches, config, cut, place)
    alone = learned(copy.deepcopy(learner), batches, config, elsewhere, World()) if place.first else resumed
    same = all(torch.equal(resumed[key], whole[key]) for key in whole)
    return {"stopped": stopped, "same": same, "alone": difference(alone, whole)}


def main(names: Sequence[str], small: dict[str, dict[str, Any]], folder: Path) -> None:
    torch.set_num_threads(1)
    place, found = world(), {}
    for name in names:
        began = time.process_time()
        found[name] = try_system(name, small[name], place, folder)
        found[name]["seconds"] = time.process_time() - began
    if place.first:
        (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    main(given["names"], given["small"], Path(given["folder"]))
