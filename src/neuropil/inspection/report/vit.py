"""Sections on a Vision Transformer: attention roll-out over its pictures, and where each head looks."""

import torch
from torch import Tensor

from neuropil.data.examples.dataset import Examples
from neuropil.inspection.pictures.images import head_overlays, rollout_overlays
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Picture, Section, Text
from neuropil.inspection.rollout import PatchMaps, patch_maps
from neuropil.models.vit import ViT

SHOWN = 15


def rollout_section(model: ViT, test: Examples) -> Section:
    shown = test.take(_some_of_each_class(test)[:SHOWN])
    looks = looks_of(model, shown.inputs)
    images = [pixels(shown.inputs[index]) for index in range(len(shown))]
    titles = [shown.schema.classes[int(target)] for target in shown.targets]
    rolled = rollout_overlays(images, looks.rollout, titles)
    first = head_overlays(images[0], {name: weights[0] for name, weights in looks.heads.items()})
    rows, columns = looks.rollout.shape[1:]
    side = model.config.patch
    words = (
        f"A picture is {rows} × {columns} patches of {side} × {side} pixels, and a vector that stands for the whole. "
        "Roll-out multiplies the weights of all layers: the brighter a patch is lit, from the least to the most, the "
        "more of it can have reached the vector that the answer is read from."
    )
    return Section(
        "Where it looks",
        [
            Text(words),
            Picture.of(rolled, alt="pictures, and beside each the same lit where the answer was drawn from"),
            Text(f"Where each head of each layer looks from there, on a picture of class {titles[0]}:"),
            Picture.of(
                first,
                alt="one picture, lit where each head of each layer looks",
                caption="Weights show where information may flow from, not why an answer was given.",
            ),
        ],
    )


def looks_of(model: ViT, pictures: Tensor) -> PatchMaps:
    was_training = model.training
    model.eval()
    looks = patch_maps(model, pictures.to(next(model.parameters()).device))
    model.train(was_training)
    return looks


def _some_of_each_class(test: Examples) -> Tensor:
    """Examples in an order that goes round the classes."""
    round_of = torch.zeros_like(test.targets)
    for number in test.targets.unique():
        own = (test.targets == number).nonzero().flatten()
        round_of[own] = torch.arange(len(own))
    return (round_of * (int(test.targets.max()) + 1) + test.targets).argsort()
