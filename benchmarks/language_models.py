"""GRU and minGRU as language models: as many parameters, the same text, batches and updates, taking turns in one run;
nats per character on the held-out part, and how long an update took. Goal: minGRU within 3 %.

python -m benchmarks.language_models [--updates N] [--seed N]
"""

import argparse
import time
from collections.abc import Sequence

import torch
from torch.nn.utils import clip_grad_norm_

from neuropil import recipes
from neuropil.parts.objectives import NextToken
from neuropil.parts.parameters import count_parameters
from neuropil.tasks.language_modelling.experiment import LanguageModellingExperiment
from neuropil.training.evaluation import evaluate
from neuropil.training.optimizers import build_optimizer
from neuropil.training.schedules import rate_share

NAMES = ("gru", "mingru")


class Contestant:
    def __init__(self, name: str, updates: int, seed: int):
        recipe = recipes.recipe(name)
        experiment = recipe.build(recipe.options.override(updates=updates), seed)
        if not isinstance(experiment, LanguageModellingExperiment):
            raise TypeError(f"{name} must be a language model")
        self.name, self.experiment, self.updates, self.config = name, experiment, updates, experiment.training
        self.learner = NextToken(experiment.model)
        self.optimizer = build_optimizer(
            self.config.optimizer,
            dict(experiment.model.named_parameters()),
            learning_rate=self.config.learning_rate,
            weight_decay=self.config.weight_decay,
            momentum=self.config.momentum,
        )
        self.seconds = 0.0

    def update(self, number: int, batch: dict[str, torch.Tensor]) -> None:
        begun = time.perf_counter()
        torch.manual_seed(number)
        share = rate_share(self.config.schedule, number, self.updates, self.config.warmup * self.updates)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate * share
        self.optimizer.zero_grad()
        self.learner.loss(batch).backward()
        clip_grad_norm_(self.experiment.model.parameters(), self.config.clip or float("inf"))
        self.optimizer.step()
        self.seconds += time.perf_counter() - begun

    def loss(self) -> float:
        """Of the test part."""
        return self.experiment.own_result().metrics["loss"]

    def validation_loss(self) -> float:
        return evaluate(NextToken(self.experiment.model), self.experiment.validation_batches)["loss"]


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.language_models")
    parser.add_argument("--updates", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(list(words))
    contestants = [Contestant(name, given.updates, given.seed) for name in NAMES]
    train(contestants, given.updates)
    losses = [contestant.loss() for contestant in contestants]
    for contestant, loss in zip(contestants, losses, strict=True):
        print(
            f"{contestant.name}: {count_parameters(contestant.experiment.model):,} parameters, {given.updates:,} "
            f"updates, {1e3 * contestant.seconds / given.updates:.0f} ms each; validation "
            f"{contestant.validation_loss():.4f}, test {loss:.4f} nats"
        )
    print(f"loss of minGRU / loss of GRU: {losses[1] / losses[0]:.4f}")


def train(contestants: Sequence[Contestant], updates: int) -> None:
    number, epoch = 0, 0
    for contestant in contestants:
        contestant.experiment.model.train()
    while True:
        for batch in contestants[0].experiment.training_batches.epoch(epoch):
            for contestant in contestants[:: 1 if number % 2 else -1]:
                contestant.update(number, dict(batch))
            number += 1
            if number == updates:
                return
        epoch += 1


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
