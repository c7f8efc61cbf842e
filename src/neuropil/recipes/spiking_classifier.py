"""A network of spiking neurons that learns to tell pictures or the rows of a table apart: the embedded digits, or the user's own.

The report follows one input through the layers, spike by spike, and shows how soon the answer is there.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.data.examples.files import DataConfig, prepare
from neuropil.errors import InputError
from neuropil.inspection.pictures.spiking.classifier import (
    accuracy_by_time,
    rates_by_class,
    spikes_through_layers,
    voltage_traces,
)
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.models.spiking.classifier import Activity, SpikingClassifier, SpikingClassifierConfig
from neuropil.randomness import initialised
from neuropil.tasks.classification.experiment import ObjectiveConfig, Supervised, SupervisedModel
from neuropil.tasks.classification.report import inside_section, pixels
from neuropil.tasks.recipe import Recipe
from neuropil.training.loop import TrainingConfig

AT_ONCE, MOST_MEASURED = 256, 5_000
TRACED = ("fires most", "fires less", "fires least, or not")


class SpikingClassifierOptions(Config):
    data: DataConfig = DataConfig()
    model: SpikingClassifierConfig = SpikingClassifierConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    augment: Augment = Augment(shift=0.5, rotate=10, zoom=0.1)
    training: TrainingConfig = TrainingConfig(updates=1_200, learning_rate=5e-3, keep="last")


OWN_DATA = SpikingClassifierOptions(
    model=SpikingClassifierConfig(hidden_sizes=(512, 512)),
    augment=Augment(shift=1, rotate=10, zoom=0.1),
    training=TrainingConfig(updates=5_000, batch_size=128, learning_rate=3e-3, keep="last"),
)
"""More and larger pictures than the digits fill a larger network."""


def build(options: SpikingClassifierOptions, seed: int) -> Supervised:
    splits = prepare(options.data, seed)
    schema = splits.train.schema
    if not schema.classes:
        raise InputError("the spiking classifier learns classes", got=splits.train.source, fix="train the mlp on it")
    config = dataclasses.replace(options.model, shape=schema.shape, classes=schema.num_outputs)
    model = initialised(lambda: SpikingClassifier(config), seed)
    model.encode.fit(splits.train.inputs)
    return Supervised(
        model,
        splits,
        options.training,
        seed=seed,
        name="spiking_classifier",
        augment=options.augment,
        objective=options.objective,
        inside=lambda: [*spiking_sections(model, splits.test), inside_section(model, splits.test)],
    )


def restore(facts: Mapping[str, Any], folder: Path) -> SupervisedModel:
    return SupervisedModel(
        SpikingClassifier(SpikingClassifierConfig.from_dict(facts["model"])), Schema.from_dict(facts["schema"])
    )


# --- the report ------------------------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """Of inputs that training has not seen."""

    accuracy: Float[Tensor, " time"]
    """Of the answers if reading ended after each step."""
    rates: dict[str, Float[Tensor, "class unit"]]
    """Hz, of each layer's neurons, for inputs of each class."""


def measure(model: SpikingClassifier, examples: Examples) -> Measured:
    config, device = model.config, model.output.weight.device
    num_classes, seconds = len(examples.schema.classes), config.steps * config.dt / 1000
    right = torch.zeros(config.steps)
    counts: dict[str, Tensor] = {}
    for inputs, targets in zip(examples.inputs.split(AT_ONCE), examples.targets.split(AT_ONCE), strict=True):
        activity = model.activity(inputs.to(device))
        right += (activity.logits.argmax(-1).cpu() == targets).sum(1)
        for name, spikes in layers_of(activity, config).items():
            into = counts.setdefault(name, torch.zeros(num_classes, spikes.shape[-1]))
            into.index_add_(0, targets, spikes.sum(0).cpu())
    each = examples.targets.bincount(minlength=num_classes).clamp(min=1)
    return Measured(right / len(examples), {name: count / each[:, None] / seconds for name, count in counts.items()})


def layers_of(activity: Activity, config: SpikingClassifierConfig) -> dict[str, Float[Tensor, "time batch unit"]]:
    """All that spikes, from the input to the output."""
    found = {"input": activity.entering} if config.coding != "current" else {}
    found |= {f"layer {number}": layer.spikes for number, layer in enumerate(activity.hidden, 1)}
    return found | ({"output": activity.output.spikes} if config.readout == "spikes" else {})


def spiking_sections(model: SpikingClassifier, test: Examples) -> list[Section]:
    config = model.config
    examples = test.take(torch.arange(min(len(test), MOST_MEASURED)))
    measured = measure(model, examples)
    return [journey_section(model, test), rates_section(measured, test.schema.classes), time_section(measured, config)]


def journey_section(model: SpikingClassifier, test: Examples) -> Section:
    """One input that is answered rightly, if there is any among the first."""
    config, device = model.config, model.output.weight.device
    right = model.activity(test.inputs[:AT_ONCE].to(device)).logits[-1].argmax(-1).cpu() == test.targets[:AT_ONCE]
    chosen = int(right.float().argmax())
    one = model.activity(test.inputs[chosen : chosen + 1].to(device))
    classes = test.schema.classes
    truth, said = classes[int(test.targets[chosen])], classes[int(one.logits[-1].argmax())]
    spikes = {name: part[:, 0].cpu() for name, part in layers_of(one, config).items()}
    image = pixels(test, chosen) if test.schema.kind == "image" else None
    journey = spikes_through_layers(spikes, one.logits[:, 0].cpu(), classes, config.dt, image)
    words = (
        f"An input of class {truth} is shown for {config.steps} steps of {config.dt:g} ms. A row is a neuron and a mark a spike; neurons "
        f"of a layer are sorted by their first. Below, what is read so far for each class: the answer is {said}."
    )
    blocks: list[Block] = [
        Text(words),
        Picture.of(journey, alt="spikes of one input on their way through the layers, and what is read of them"),
    ]
    traces = voltage_traces(traced(one, config), TRACED, config.neuron.threshold, config.dt)
    caption = "Voltages of three neurons of each layer, as they are compared with the threshold (dashed)."
    blocks.append(Picture.of(traces, alt="voltages of some neurons of each layer over time", caption=caption))
    return Section("One input through the layers", blocks)


def traced(one: Activity, config: SpikingClassifierConfig) -> dict[str, Float[Tensor, "time neuron"]]:
    """Of each layer the neurons that `TRACED` names."""
    layers = {f"layer {number}": layer for number, layer in enumerate(one.hidden, 1)}
    if config.readout == "spikes":
        layers["output"] = one.output
    found: dict[str, Tensor] = {}
    for name, layer in layers.items():
        voltages, counts = layer.voltages[:, 0].cpu(), layer.spikes[:, 0].sum(0).cpu()
        order = sorted(range(len(counts)), key=lambda unit: (-counts[unit].item(), -voltages[:, unit].max().item()))
        fire = int((counts > 0).sum())
        found[name] = voltages[:, [order[0], order[fire // 2], order[min(fire, len(order) - 1)]]]
    return found


def rates_section(measured: Measured, classes: tuple[str, ...]) -> Section:
    rows = [
        [name, len(rates.T), f"{rates.mean().item():.1f}", f"{100 * (rates.sum(0) == 0).float().mean().item():.1f} %"]
        for name, rates in measured.rates.items()
    ]
    words = "Each row of a map is a neuron, and the darker a cell, the more it fires for inputs of that class."
    return Section(
        "How much it fires",
        [
            Table(["layer", "neurons", "mean rate (Hz)", "neurons that never fire"], rows),
            Picture.of(
                rates_by_class(measured.rates, classes),
                alt="firing rates of each layer for inputs of each class",
                caption=words,
            ),
        ],
    )


def time_section(measured: Measured, config: SpikingClassifierConfig) -> Section:
    final = measured.accuracy[-1].item()
    soon = int((measured.accuracy >= final - 0.01).float().argmax())
    words = (
        f"An answer can be read at any time. After {(soon + 1) * config.dt:g} of {config.steps * config.dt:g} ms the accuracy on unseen "
        "inputs is within one per cent of its last value."
    )
    figure = accuracy_by_time(measured.accuracy, config.dt)
    return Section(
        "How soon it knows",
        [Text(words), Picture.of(figure, alt="accuracy against the time for which the network is read")],
    )


RECIPE = Recipe(SpikingClassifierOptions(), build, restore, own_data=OWN_DATA)
