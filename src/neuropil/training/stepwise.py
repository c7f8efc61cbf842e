"""Training one update at a time, for what is watched while it learns and whose settings change meanwhile.

An update is that of the loop: the phases of the learner in their order, each with its own optimiser, and random numbers
that depend on the seed and the number of the update alone.
"""

import math
from typing import Any

import torch

from neuropil.errors import DivergedError
from neuropil.protocols import Batch, Learner, OptimizerName
from neuropil.randomness import mix
from neuropil.training.optimizers import build_optimizer


class StepwiseTraining:
    def __init__(self, learner: Learner, *, optimizer: OptimizerName, momentum: float = 0.9, seed: int = 0):
        self.learner, self.seed, self.updates = learner, seed, 0
        self.phases = learner.phases()
        # Learning rate and weight decay are set in each update; with some decay, what has it is a group of its own.
        rates: dict[str, Any] = {"learning_rate": 0.0, "weight_decay": 1.0, "momentum": momentum}
        self.optimizers = [
            build_optimizer(each.optimizer or optimizer, each.parameters, **rates) for each in self.phases
        ]
        self.decayed = [[bool(group["weight_decay"]) for group in each.param_groups] for each in self.optimizers]

    def update(self, batch: Batch, *, learning_rate: float, weight_decay: float = 0.0) -> dict[str, float]:
        """The loss of each phase that was played, before its step."""
        losses: dict[str, float] = {}
        self.learner.model.train()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(mix(self.seed, "update", self.updates))
            for phase, optimizer, decayed in zip(self.phases, self.optimizers, self.decayed, strict=True):
                if (self.updates + 1) % phase.every:
                    continue
                for group, decays in zip(optimizer.param_groups, decayed, strict=True):
                    group["lr"] = learning_rate if phase.learning_rate is None else phase.learning_rate
                    group["weight_decay"] = weight_decay if decays else 0.0
                loss = phase.loss(batch)
                losses[phase.name] = loss.item()
                if not math.isfinite(losses[phase.name]):
                    got = f"{losses[phase.name]} in update {self.updates + 1}"
                    fix = "begin again with a smaller learning rate"
                    raise DivergedError(f"the loss of the phase {phase.name} must stay finite", got=got, fix=fix)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self.updates += 1
        self.learner.model.eval()
        return losses
