"""Recall: a memory that stores some patterns, and is given damaged ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples
from neuropil.data.splits import Splits
from neuropil.inspection.report.page import Section
from neuropil.models.hopfield.capacity import capacity_curve, count_settled_states, noisy, partial
from neuropil.models.hopfield.modern import ModernHopfield, ModernHopfieldConfig
from neuropil.models.hopfield.network import HopfieldNetwork
from neuropil.models.hopfield.rules import RULES
from neuropil.randomness import seeded
from neuropil.tasks.experiment import Result, fingerprint
from neuropil.tasks.recall import report
from neuropil.tasks.recall.predictor import PatternMemory, StoredPatterns, signs_of
from neuropil.tasks.recall.scores import nearest_pattern, recall_scores
from neuropil.tasks.report import data_section
from neuropil.training.history import Row
from neuropil.training.weights import save_model

TRIALS = 20
"""Damaged copies of each pattern."""
BETA = 0.5
"""Of the modern network: the softmax over overlaps of many signs is sharp enough."""


class RecallConfig(Config):
    patterns: int = option(10, "examples to store, evenly over the classes", low=1)
    noise: float = option(0.15, "share of the signs that are flipped in a damaged pattern", low=0, high=0.5)
    known: float = option(0.6, "share of the units that are known of a part", above=0, high=1)
    capacity_units: int = option(200, "units of the random networks whose capacity is drawn", low=10, high=5_000)


class RecallExperiment:
    """Learning has a closed form, so there is nothing to resume."""

    def __init__(self, model: HopfieldNetwork, splits: Splits[Examples], config: RecallConfig, *, seed: int, name: str):
        self.splits, self.config, self.seed, self.name = splits, config, seed, name
        self.stored = splits.train.take(chosen(splits.train, config.patterns))
        self.notes = list(splits.notes)
        if len(self.stored) < config.patterns:
            few = f"The training part has {len(self.stored):,} examples, and {config.patterns:,} were to be stored."
            self.notes.append(few)
        schema, threshold = splits.train.schema, tuple(threshold_of(splits.train).tolist())
        classes = [schema.classes[number] for number in self.stored.targets.tolist()] if schema.classes else None
        stored = StoredPatterns.of(signs_of(self.stored.inputs, threshold), classes)
        self.memory = PatternMemory(model, schema, threshold, stored)

    @property
    def patterns(self) -> Float[Tensor, "pattern unit"]:
        return self.memory.stored.signs

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.memory.model.config.to_dict(),
            "schema": self.memory.schema.to_dict(),
            "threshold": list(self.memory.threshold),
            "source": self.splits.train.source,
            "notes": self.notes,
            "fingerprint": fingerprint([self.stored.inputs]),
        }

    def train(self, folder: Path, *, show_progress: bool) -> None:
        self.memory.model.fit(self.patterns)
        self.memory.stored.save(folder)
        save_model(folder / "model.safetensors", self.memory.model)

    # --- how well they come back --------------------------------------------------------------------------------------

    @cached_property
    def damaged(self) -> Mapping[str, Float[Tensor, "trial unit"]]:
        """Noisy patterns, and parts of them."""
        many, units = self.patterns.repeat(TRIALS, 1), self.patterns.shape[1]
        known = torch.arange(units) < round(self.config.known * units)
        return {"noise": noisy(many, self.config.noise, seeded(self.seed, "noise")), "a part": partial(many, known)}

    def recalled(self, network: HopfieldNetwork, states: Float[Tensor, "trial unit"]) -> Float[Tensor, "trial unit"]:
        return network.recall(states, generator=seeded(self.seed, "recall")).states

    def evaluate(self) -> list[Result]:
        """From noise; with the rule that was chosen, the others, the modern network, and what could be best."""
        states, true = self.damaged["noise"], self.patterns.repeat(TRIALS, 1)
        own = self.memory.model
        modern = ModernHopfield(ModernHopfieldConfig(beta=BETA, patterns=0, width=own.config.units)).fit(self.patterns)
        with torch.no_grad():
            softly = torch.where(modern(states) >= 0, 1.0, -1.0)
        found = {"modern Hopfield network, one step": softly, "the damaged pattern itself": states}
        for rule in RULES:
            if rule != own.config.rule:
                other = HopfieldNetwork(replace(own.config, rule=rule)).fit(self.patterns)
                found[f"rule {rule}"] = self.recalled(other, states)
        others = [Result(name, recall_scores(each, true)) for name, each in found.items()]
        nearest = recall_scores(nearest_pattern(states, self.patterns), true)
        return [
            Result(self.name, recall_scores(self.recalled(own, states), true)),
            *sorted(others, key=lambda result: -result.metrics["recalled"]),
            Result("the nearest stored pattern", nearest, limit=True),
        ]

    # --- report -------------------------------------------------------------------------------------------------------

    def sections(self, history: Sequence[Row]) -> list[Section]:
        network, memory, count = self.memory.model, self.memory, len(self.patterns)
        shown = {
            name: (states[:count], self.recalled(network, states[:count])) for name, states in self.damaged.items()
        }
        loads = [0.02 * step for step in range(1, 16)]
        curve = capacity_curve(self.config.capacity_units, loads, seed=self.seed)
        settled = count_settled_states(network, self.patterns, generator=seeded(self.seed, "settled"))
        return [
            report.recall_section(memory, self.patterns, shown),
            report.energy_section(network, self.damaged["noise"][:count], seeded(self.seed, "energy")),
            report.capacity_section(curve),
            report.settled_section(settled, count),
            data_section(self.splits.train.source, ["", "examples"], [["stored", count]], self.notes),
        ]


def chosen(train: Examples, count: int) -> Tensor:
    """The first of each class, then the second, and so on."""
    order = torch.arange(len(train))
    if train.schema.classes:
        seen = torch.zeros(len(train.schema.classes), dtype=torch.int64)
        rank = torch.empty(len(train), dtype=torch.int64)
        for index, target in enumerate(train.targets.tolist()):
            rank[index] = seen[target]
            seen[target] += 1
        order = rank.argsort(stable=True)
    return order[:count]


def threshold_of(train: Examples) -> Float[Tensor, " unit"]:
    """Half of the range of pictures, or the mean of each feature."""
    if train.schema.kind == "image":
        return torch.full((train.inputs[0].numel(),), 127.5)
    return train.inputs.mean(0)
