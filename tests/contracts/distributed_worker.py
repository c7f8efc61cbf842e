"""One of several processes that train every system together, and by itself for comparison; rank 0 writes what they
found. `test_distributed.py` starts them once for all of its tests."""

import copy
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuropil.cli import main
from neuropil.parts.objectives import Classification
from neuropil.protocols import Batch, Batches, Phase
from neuropil.recipes import recipe
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.processes import World, world
from neuropil.training.distributed.whole_batch import WholeBatch
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit

NOISY = ("vae", "gan", "diffusion", "rbm")
"""Learners that draw random numbers, of which each process has its own."""
CARRYING = ("lstm", "rbm", "predictive_coding")
"""Learners that carry a state from batch to batch: of streams, of chains, of examples that are visited again."""
PLAIN: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.05, "schedule": "constant", "warmup": 0.0, "epochs": 1}
"""A rule whose steps are as exact as the gradients are. Adam makes large steps of gradients that are rounding alone."""

Weights = dict[str, Tensor]


class FewBatches:
    """Three batches and one of a single row, which no two processes can divide. Where normalisation needs two rows,
    without it."""

    def __init__(self, batches: Batches, *, normalised: bool):
        self.batches, self.normalised = batches, normalised

    def __len__(self) -> int:
        return 3 if self.normalised else 4

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        found = list(islice(self.batches.epoch(number), 3)) * 3
        found[3:] = [{name: values[:1] for name, values in found[0].items()}]
        return iter(found[start : len(self)])


def stopped_once(learner: Any, place: World) -> Any:
    """It, of which the last process is asked to stop at its second loss, as by Ctrl-C."""
    phases, calls = learner.phases, count(1)

    def stopping(phase: Phase) -> Callable[[Batch], Tensor]:
        def loss(batch: Batch) -> Tensor:
            if next(calls) == 2 and place.rank == place.size - 1:
                os.kill(os.getpid(), signal.SIGINT)
            return phase.loss(batch)

        return loss

    vars(learner)["phases"] = lambda: [replace(phase, loss=stopping(phase)) for phase in phases()]
    return learner


class Trial:
    """A system, a few of its batches and a place among the processes."""

    def __init__(self, name: str, options: dict[str, Any], place: World, folder: Path):
        self.name, self.place, self.folder = name, place, folder / name
        chosen = recipe(name).options.override(**options)
        if "dropout" in {each.name for each in chosen.options()}:
            chosen = chosen.override(dropout=0.0)
        experiment: Any = recipe(name).build(chosen, 3)
        self.learner = experiment.learner
        self.config = replace(experiment.training, **PLAIN, clip=1.0, average=0.0, patience=None, keep="last")
        self.normalised = any(isinstance(module, _BatchNorm) for module in experiment.model.modules())
        self.batches = FewBatches(experiment.training_batches, normalised=self.normalised)

    def learned(
        self, where: str, config: TrainingConfig, place: World, wrap: Callable[[Any], Any] = lambda it: it
    ) -> Weights:
        learner, folder = wrap(copy.deepcopy(self.learner)), self.folder / where
        fit(learner, self.batches, None, config, seed=3, folder=folder, show_progress=False, world=place)
        return {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}

    def compared(self, number: int) -> dict[str, Any]:
        """With one process, which one of them is at a time, for another system each."""
        place, found = self.place, {}
        judges = number % place.size == place.rank
        for accumulate in (1, 2):
            config = replace(self.config, accumulate=accumulate)
            together = self.learned(f"together-{accumulate}", config, place)
            apart = 0.0
            if judges:
                apart = difference(together, self.learned(f"alone-{accumulate}", config, World()))
            moved = difference(together, dict(self.learner.model.state_dict()))
            equal = equal_on_all(together, place)
            found[accumulate] = {"apart": place.sum([apart])[0], "moved": moved, "equal": equal}
            if accumulate == 1 and self.name in (*NOISY, *CARRYING):
                again = self.learned("again", config, place)
                found["repeated"] = all(torch.equal(together[key], again[key]) for key in again)
                if self.name in CARRYING:
                    found["resumed"] = self.resumed(together)
        return found

    def resumed(self, whole: Weights) -> dict[str, Any]:
        """After a stop that only one process was asked for; by as many processes, and by one."""
        stopped, place = None, self.place
        try:
            self.learned("cut", self.config, place, lambda learner: stopped_once(learner, place))
        except Interrupted as stop:
            stopped = str(stop)
        if place.first:
            (self.folder / "elsewhere").mkdir()
            saved = (self.folder / "cut" / "checkpoint.safetensors").read_bytes()
            (self.folder / "elsewhere" / "checkpoint.safetensors").write_bytes(saved)
        resumed = self.learned("cut", self.config, place)
        alone = self.learned("elsewhere", self.config, World()) if place.first else resumed
        same = all(torch.equal(resumed[key], whole[key]) for key in whole)
        return {"stopped": stopped, "same": same, "alone": difference(alone, whole)}


def difference(first: Weights, second: Weights) -> float:
    """The largest, in units of the largest weight of its tensor."""
    pairs = [(first[name].double(), second[name].double()) for name in first if first[name].numel()]
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1.0)) for a, b in pairs)


def equal_on_all(weights: Weights, place: World) -> bool:
    numbers = torch.cat([tensor.double().flatten() for tensor in weights.values()])
    return bool((place.gather_rows(numbers[None]) == numbers).all())


def normalised(place: World) -> dict[str, float]:
    """How far batch normalisation of shares is from that of the whole batch, in outputs, gradients and statistics."""
    found = {}
    every: list[dict[str, Any]] = [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}]
    for kind, shape in ((nn.BatchNorm1d, (5, 3)), (nn.BatchNorm2d, (5, 3, 4, 2))):
        for options in every:
            torch.manual_seed(1)
            x, gradient = torch.randn(shape, requires_grad=True), torch.randn(shape)
            whole, shared = (nn.Sequential(kind(3, **options)) for _ in range(2))
            rows = slice(0, 2) if place.first else slice(2, 5)
            mine, batch = x.detach()[rows].requires_grad_(), WholeBatch(place)
            with batch.joined(Classification(shared)), batch.divided(True):
                y = [shared(mine) for _ in range(2)][-1]
            expected = [whole(x) for _ in range(2)][-1]
            (slope,) = torch.autograd.grad((y * gradient[rows]).sum(), mine)
            (expected_slope,) = torch.autograd.grad((expected * gradient).sum(), x)
            pairs = [(y, expected[rows]), (slope, expected_slope[rows])]
            pairs += list(zip(shared.state_dict().values(), whole.state_dict().values(), strict=True))
            found[f"{kind.__name__} {options}"] = max(float((a - b).detach().abs().max()) for a, b in pairs)
    return found


def run(given: dict[str, Any], folder: Path) -> None:
    torch.set_num_threads(1)
    place = world()
    found = {
        name: Trial(name, options, place, folder).compared(number)
        for number, (name, options) in enumerate(given["systems"].items())
    }
    about = {"systems": found, "normalised": normalised(place) if place.size == 2 else {}}
    if place.first:
        (folder / "found.json").write_text(json.dumps(about))
    # As on hosts without a common disk: each process is in a folder of its own.
    os.chdir(folder / f"host-{place.rank}")
    for words in given["commands"]:
        main(words)


if __name__ == "__main__":
    run(json.loads((Path(sys.argv[1]) / "given.json").read_text()), Path(sys.argv[1]))
