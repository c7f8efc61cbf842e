"""Learning from labelled examples: what the recipes of all classifiers and regressors have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.files import read_inputs, read_labelled
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.report.page import Section
from neuropil.parts.objectives import Classification, Regression
from neuropil.parts.standardize import Standardize
from neuropil.tasks.classification.report import (
    data_section,
    inside_section,
    learning_section,
    mistakes_section,
    model_section,
)
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.fingerprint import fingerprint
from neuropil.tasks.recipe import Predictions, Result
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, fit, pick_device, require_monitor

EVALUATION_BATCH = 512


class ObjectiveConfig(Config):
    label_smoothing: float = option(
        0.0, "share of the target's probability that is spread over all classes", low=0, high=0.9
    )
    l1: float = option(0.0, "weight of the L1 penalty, which drives weights to exactly zero", low=0)


@dataclass(frozen=True)
class SupervisedModel:
    """A trained model and the schema of its data: from raw inputs to answers."""

    model: nn.Module
    schema: Schema

    def predict(self, inputs: Any) -> Predictions:
        """`inputs` is a tensor or array of examples (or of one), or a path or paths of files."""
        if isinstance(inputs, str | Path) or (
            isinstance(inputs, list | tuple) and all(isinstance(item, str | Path) for item in inputs)
        ):
            paths = [inputs] if isinstance(inputs, str | Path) else inputs
            inputs, _ = read_inputs([Path(path) for path in paths], self.schema)
        examples = self._as_examples(inputs)
        device = next(self.model.parameters()).device
        with torch.no_grad():
            outputs = torch.cat([self.model(part.to(device)).cpu() for part in examples.split(EVALUATION_BATCH)])
        return Predictions(outputs.softmax(-1) if self.schema.classes else outputs, self.schema.classes)

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        return read_inputs(paths, self.schema)

    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        if len(paths) != 1:
            raise InputError("labelled data is one file or folder", got=f"{len(paths)}")
        examples = read_labelled(paths[0], self.schema)
        device = next(self.model.parameters()).device
        batches = ExampleBatches(examples, EVALUATION_BATCH, seed=0, shuffle=False, device=device)
        return evaluate(learner_for(self.model, self.schema, ObjectiveConfig()), batches)

    def _as_examples(self, inputs: Any) -> Tensor:
        tensor = inputs if isinstance(inputs, Tensor) else torch.from_numpy(np.ascontiguousarray(inputs))
        shape = self.schema.shape
        for whole in (
            (1, *tensor.shape),
            tuple(tensor.shape),
            (1, 1, *tensor.shape),
            (len(tensor), 1, *tensor.shape[1:]),
        ):
            if whole[1:] == shape:
                return tensor.reshape(whole)
        expected = ", ".join(["example", *map(str, shape)])
        raise InputError(f"inputs must have the shape ({expected})", got=f"{tuple(tensor.shape)}")


class Regressor(Protocol):
    """What a model must have to learn numbers: the mean and spread of its targets, fitted before training."""

    target_scale: Standardize


def learner_for(model: nn.Module, schema: Schema, objective: ObjectiveConfig) -> Classification | Regression:
    if schema.task == "classification":
        return Classification(model, objective.label_smoothing, objective.l1)
    return Regression(model, objective.l1, scale=cast(Regressor, model).target_scale.std)


class Supervised:
    """The experiment: a model, its splits, and how it is trained."""

    def __init__(
        self,
        model: nn.Module,
        splits: Splits[Examples],
        training: TrainingConfig,
        *,
        seed: int,
        name: str,
        objective: ObjectiveConfig,
        augment: Augment,
        inside: Callable[[], Sequence[Section]] | None = None,
    ):
        """The model has a `config` and a `parameter_table`. Only pictures are augmented. `inside` makes the report's sections on what is in
        the model; without it, its first weights are drawn as pictures."""
        self.device = pick_device(training.device)
        self.model, self.model_config = model.to(self.device), cast(Config, model.config)
        self.splits, self.training, self.seed, self.name = splits, training, seed, name
        self.augment = augment if splits.train.schema.kind == "image" else None
        self.inside = inside or (lambda: [inside_section(self.model, self.splits.test)])
        self.learner = learner_for(self.model, splits.train.schema, objective)
        one = splits.test.take(torch.zeros(1, dtype=torch.int64))
        require_monitor(training, evaluate(self.learner, self._held_out(one)))  # before a run folder is made

    @property
    def schema(self) -> Schema:
        return self.splits.train.schema

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model_config.to_dict(),
            "schema": self.schema.to_dict(),
            "source": self.splits.train.source,
            "fingerprint": fingerprint(
                tensor
                for part in (self.splits.train, self.splits.validation, self.splits.test)
                for tensor in (part.inputs, part.targets)
            ),
        }

    @cached_property
    def training_batches(self) -> ExampleBatches:
        return ExampleBatches(
            self.splits.train,
            self.training.batch_size,
            seed=self.seed,
            shuffle=True,
            augment=self.augment,
            device=self.device,
        )

    def train(self, folder: Path, *, show_progress: bool) -> None:
        fit(
            self.learner,
            self.training_batches,
            self._held_out(self.splits.validation) if len(self.splits.validation) else None,
            self.training,
            seed=self.seed,
            folder=folder,
            title=self.name,
            show_progress=show_progress,
        )

    @property
    def validation_batches(self) -> ExampleBatches:
        return self._held_out(self.splits.validation if len(self.splits.validation) else self.splits.test)

    def own_result(self) -> Result:
        return Result(self.name, evaluate(self.learner, self._held_out(self.splits.test)))

    def evaluate(self) -> list[Result]:
        return [self.own_result(), *baselines(self.splits)]

    @cached_property
    def test_scores(self) -> Float[Tensor, "example output"]:
        return SupervisedModel(self.model, self.schema).predict(self.splits.test.inputs).scores

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return [
            learning_section(history, self.training),
            mistakes_section(self.splits.test, self.test_scores),
            *self.inside(),
            model_section(cast(Any, self.model).parameter_table(), self.model),
            data_section(self.splits, self.augment),
        ]

    def _held_out(self, examples: Examples) -> ExampleBatches:
        return ExampleBatches(examples, EVALUATION_BATCH, seed=0, shuffle=False, device=self.device)
