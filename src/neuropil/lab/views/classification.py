"""A classifier of pictures under a pencil: probabilities as one draws, and what happens inside."""

from typing import Any

import torch
from torch import Tensor

from neuropil.inspection.activation_maps import activation_maps, convolutional_layers, most_active
from neuropil.inspection.input_products import input_products
from neuropil.lab.pictures import PictureRequest, chosen_picture, offered, require_classifier, rounded, rows_of
from neuropil.models.mlp import MLP
from neuropil.models.spiking.classifier import SpikingClassifier
from neuropil.runs.run import Run
from neuropil.tasks.predictor import device_of

CHANNELS, UNITS, NEURONS = 10, 14, 60
"""Of each layer, the most active first."""


def open_view(run: Run) -> dict[str, Any]:
    require_classifier(run)
    return {
        "system": run.name,
        "classes": list(run.predictor.schema.classes),
        **offered(run),
        "shown": classify(run, PictureRequest()),
    }


def classify(run: Run, request: PictureRequest) -> dict[str, Any]:
    picture = chosen_picture(run, request)
    found = run.predict(picture)
    return {
        "picture": rows_of(picture[0]),
        "probabilities": rounded(found.scores[0], 6),
        "answer": found.labels[0],
        "inside": inside(run, picture),
    }


def inside(run: Run, picture: Tensor) -> dict[str, Any]:
    model = run.model
    picture = picture.to(device_of(model))
    if isinstance(model, MLP):
        return units(model, picture)
    if isinstance(model, SpikingClassifier):
        return spikes(model, picture)
    if convolutional_layers(model) and run.name == "cnn":
        return {
            "kind": "maps",
            "layers": [layer(name, maps[0]) for name, maps in activation_maps(model, picture).items()],
        }
    return {"kind": "none"}


def layer(name: str, maps: Tensor) -> dict[str, Any]:
    shown = most_active(maps, CHANNELS)
    channels = [{"channel": number, "rows": rounded(maps[number], 3)} for number in shown.tolist()]
    return {"name": name, "count": len(maps), "channels": channels}


def units(model: MLP, picture: Tensor) -> dict[str, Any]:
    """Of the first layer, with the terms of their sums, over all channels."""
    found = input_products(model, picture)
    shown = model.activation(found.sums).abs().argsort(descending=True, stable=True)[:UNITS]
    return {
        "kind": "products",
        "count": len(found.sums),
        "units": [
            {
                "unit": number,
                "sum": found.sums[number].item(),
                "bias": found.bias[number].item(),
                "rows": rounded(found.products[number].sum(0), 4),
            }
            for number in shown.tolist()
        ],
    }


def spikes(model: SpikingClassifier, picture: Tensor) -> dict[str, Any]:
    """Neurons of each hidden layer by their first spike, and the probabilities if reading ended after each step."""
    activity, dt = model.activity(picture), model.config.dt
    layers = []
    for hidden in activity.hidden:
        fired = hidden.spikes[:, 0]
        busy = fired.sum(0).nonzero().flatten()
        order = busy[fired[:, busy].argmax(0).argsort(stable=True)][:NEURONS]
        steps, rows = fired[:, order].nonzero(as_tuple=True)
        layers.append(
            {
                "times": [round(dt * (step + 1), 3) for step in steps.tolist()],
                "rows": rows.tolist(),
                "shown": len(order),
                "neurons": fired.shape[1],
                "spikes": int(fired.sum()),
                "silent": fired.shape[1] - len(busy),
            }
        )
    times = dt * (1 + torch.arange(len(activity.logits)))
    probabilities = rounded(activity.logits[:, 0].softmax(-1).T)
    return {"kind": "spikes", "layers": layers, "times": rounded(times, 3), "probabilities": probabilities}


ACTIONS = {"open": open_view, "classify": classify}
