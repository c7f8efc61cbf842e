"""Sections on a spiking classifier: one input through the layers, firing rates, and accuracy over time."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.spiking import classifier as pictures
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Picture, Section, Table
from neuropil.models.spiking.classifier import ClassifierActivity, SpikingClassifier, SpikingClassifierConfig

AT_ONCE, MOST_MEASURED = 256, 5_000


TRACED = ("fires most", "fires less", "fires least, or not")


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


def layers_of(activity: ClassifierActivity, config: SpikingClassifierConfig) -> dict[str, Tensor]:
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
    image = pixels(test.inputs[chosen]) if test.schema.kind == "image" else None
    figure = pictures.spikes_through_layers(spikes, one.logits[:, 0].cpu(), classes, config.dt, image)
    words = (
        f"An input of class {truth} is shown for {config.steps} steps of {config.dt:g} ms. A row is a neuron and a "
        "mark a spike; neurons of a layer are sorted by their first. Below, the logits so far: the prediction is "
        f"{said}."
    )
    traces = pictures.voltage_traces(traced(one, config), TRACED, config.neuron.threshold, config.dt)
    caption = "Voltages of three neurons of each layer before the reset, with the threshold (dashed)."
    voltages = Picture.of(traces, alt="voltages of some neurons of each layer over time", caption=caption)
    alt = "spikes of one input on their way through the layers, and what is read of them"
    return Section.illustrated("One input through the layers", words, figure, alt, voltages)


def traced(one: ClassifierActivity, config: SpikingClassifierConfig) -> dict[str, Float[Tensor, "time neuron"]]:
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
    caption = "Each row of a map is a neuron, and the darker a cell, the more it fires for inputs of that class."
    figure = pictures.rates_by_class(measured.rates, classes)
    alt = "firing rates of each layer for inputs of each class"
    table = Table(["layer", "neurons", "mean rate (Hz)", "silent neurons"], rows)
    return Section("Firing rates", [table, Picture.of(figure, alt=alt, caption=caption)])


def time_section(measured: Measured, config: SpikingClassifierConfig) -> Section:
    final = measured.accuracy[-1].item()
    soon = int((measured.accuracy >= final - 0.01).float().argmax())
    words = (
        f"The logits can be read at any time. After {(soon + 1) * config.dt:g} of {config.steps * config.dt:g} ms the "
        "test accuracy is within one per cent of its last value."
    )
    figure = pictures.accuracy_by_time(measured.accuracy, config.dt)
    alt = "accuracy against the time for which the network is read"
    return Section.illustrated("Accuracy over time", words, figure, alt)
