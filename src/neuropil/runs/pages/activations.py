"""A page on the activation maps of a convolutional network for a picture, written beside its report."""

from pathlib import Path
from typing import Any

from torch import Tensor

from neuropil.errors import InputError, RunError
from neuropil.inspection.activation_maps import Maps, activation_maps, convolutional_layers, most_active
from neuropil.inspection.report.cnn import NAMED, activation_blocks
from neuropil.inspection.report.page import Report, Section, write_report
from neuropil.runs.run import Run
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.predictor import as_examples, device_of


def activations_of(run: Run, pictures: Any) -> Maps:
    """Of pictures as `predict` takes them: by the name of the layer, picture × channel × row × column."""
    trained = _require_convolutions(run)
    return _maps(trained, as_examples(pictures, trained.schema))


def write_activations(run: Run, path: Path) -> tuple[Path, list[str]]:
    """The activation maps of one picture: the page's path, and what it says in words."""
    trained = _require_convolutions(run)
    pictures = as_examples(path, trained.schema)
    if len(pictures) != 1:
        rule, fix = "activation maps are drawn of one picture", "give the path of one image file"
        raise InputError(rule, got=f"{len(pictures)} in {path}", fix=fix)
    maps = _maps(trained, pictures)
    predicted = ", ".join(trained.predict_examples(pictures).lines()[0])
    sentences = [f"Predicted: {predicted}."]
    for name, each in maps.items():
        channels = ", ".join(map(str, most_active(each[0], NAMED).tolist()))
        sentences.append(f"{name}: {each.shape[1]} channels, of which {channels} are the most active.")
    section = Section("Activation maps", activation_blocks(maps, pictures[0], path.name, predicted))
    page = run.folder / "activations.html"
    summary = f"What each layer of {run.folder.name} makes of {path.name}."
    write_report(page, Report(f"neuropil · activation maps of {run.folder.name}", summary, [section]))
    return page, sentences


def _maps(trained: ExamplePredictor, pictures: Tensor) -> Maps:
    return activation_maps(trained.model, pictures.to(device_of(trained.model)))


def _require_convolutions(run: Run) -> ExamplePredictor:
    trained = run.predictor
    pictures = isinstance(trained, ExamplePredictor) and trained.schema.kind == "image"
    if not pictures or not convolutional_layers(trained.model):
        rule = f"{run.folder} must hold a convolutional network that classifies pictures"
        raise RunError(rule, got=f"a run of {run.name}", fix="train a cnn")
    return trained
