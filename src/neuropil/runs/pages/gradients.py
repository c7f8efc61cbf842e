"""Views of a finished run's inside, written beside its report."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from neuropil import recipes
from neuropil.errors import InputError, RunError
from neuropil.inspection.execution import explain
from neuropil.inspection.gradients import GradientProfile, diagnose, profile_gradients
from neuropil.inspection.pictures.gradients import gradient_flow
from neuropil.inspection.report.page import Picture, Report, Section, Table, Text, write_report
from neuropil.runs.run import Run
from neuropil.tasks.experiment import TrainableExperiment
from neuropil.training.weights import load_model


def trainable_experiment(run: Run) -> TrainableExperiment[Any]:
    """With its data, and the model as it was before training."""
    experiment = run.experiment()
    if not isinstance(experiment, TrainableExperiment):
        if run.recipe.model is None:
            got = f"a run of {run.name}, which only makes a report"
            raise RunError(f"{run.folder} must hold a model for this", got=got)
        rule = "gradients and signals are those of a model that PyTorch's gradients train on batches"
        fix = f"`neuropil show {shlex.quote(str(run.folder))}` says what it can do"
        raise RunError(rule, got=f"a run of {run.name}, which is trained without them", fix=fix)
    return experiment


def trained_on_batch(run: Run) -> tuple[nn.Module, Callable[[], Tensor]]:
    """The trained model of a run, and its loss on one batch of the training data."""
    experiment = trainable_experiment(run)
    load_model(run.weights, experiment.model)
    batch = next(experiment.training_batches.epoch(0))
    return experiment.model, lambda: experiment.learner.phases()[0].loss(batch)


def gradients_of(run: Run) -> GradientProfile:
    """Of a trained model on one batch of its training data."""
    model, loss = trained_on_batch(run)
    model.train()
    return profile_gradients(model, loss)


def write_gradients(run: Run) -> tuple[Path, list[str]]:
    """Gradient norms of a trained model: the page's path, and what it says in words."""
    profile = gradients_of(run)
    sentences = diagnose(profile)
    rows = [[layer.name, layer.parameter_norm, layer.gradient_norm] for layer in profile.layers]
    figure = Picture.of(
        gradient_flow({run.name: profile}), alt="gradient norm of each layer, from the input to the output"
    )
    page = Report(
        f"neuropil · gradients of {run.folder.name}",
        "How strongly one batch of training data pulls on each layer.",
        [
            Section("In words", [Text(sentence) for sentence in sentences]),
            Section("Per layer", [figure, Table(["layer", "norm of the weights", "norm of the gradient"], rows)]),
        ],
    )
    path = run.folder / "gradients.html"
    write_report(path, page)
    return path, sentences


def execution_table(name: str, seed: int, options: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: how the recurrent cells of a system run on a batch of its training data. Nothing is trained or
    written."""
    recipe = recipes.recipe(name)
    experiment = recipe.build(recipe.defaults_for(options).override(**options), seed)
    if not isinstance(experiment, TrainableExperiment):
        raise InputError("only the execution of one model can be explained", got=f"{name}, which is a study of several")
    batch = next(experiment.training_batches.epoch(0))
    found = explain(experiment.model, lambda: experiment.learner.phases()[0].loss(batch))
    return ["cell", "kind", "steps", "way", "because"], [
        [each.cell, each.kind, f"{each.steps:,}", each.way, each.reason] for each in found
    ]
