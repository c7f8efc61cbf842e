"""A damaged picture becomes whole, step by step, while the energy falls: in a Hopfield network, a restricted Boltzmann
machine, or a predictive coding network."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from neuropil.config import option
from neuropil.data.examples.damage import Side, inverted, uncovered
from neuropil.errors import InputError
from neuropil.lab.pictures import OFFERED, PictureRequest, chosen_picture, offered, rounded, rows_of
from neuropil.models.predictive_coding.network import energy_of
from neuropil.models.rbm import RBM
from neuropil.randomness import seeded
from neuropil.runs.run import Run
from neuropil.sampling.gibbs import gibbs_chain
from neuropil.tasks.generation.predictive_coding import GenerativeClassifier
from neuropil.tasks.recall.predictor import PatternMemory, signs_of
from neuropil.tasks.recall.scores import settled_at

FRAMES = 60
"""Of a path at most; the energy is given of all of its steps."""
POINTS = 40
"""At which a completion is looked at, and its energy measured."""
GREY = 127.5


class RecallRequest(PictureRequest):
    damage: Literal["cover", "noise", "none"] = option("cover", "what is done to the picture")
    side: Side = option("bottom", "where it is covered")
    share: float = option(0.5, "share that is covered, or of wrong pixels", low=0, high=0.95)
    hold: bool = option(True, "hold the pixels that are not covered")
    steps: int = option(100, "Gibbs steps, or inference steps", low=1, high=1000)
    temperature: float = option(1.0, "temperature of the Gibbs steps", low=0.01, high=10)
    seed: int = option(0, "seed of the noise and of the order", low=0, high=10**9)


@dataclass(frozen=True)
class RecallPath:
    """Pictures [point channel height width], the energy of each, in words what came out, and the steps from one point
    to the next."""

    pictures: Tensor
    energies: Tensor
    found: str
    every: int = 1


def open_view(run: Run) -> dict[str, Any]:
    predictor = run.predictor
    kind = {"hopfield": "energy E", "rbm": "free energy F", "predictive_coding": "energy F"}[run.name]
    answer = {
        "system": run.name,
        **offered(run),
        "energy": kind,
        "title": "Held-out examples",
        "damages": ["cover", "noise", "none"],
    }
    if isinstance(predictor, PatternMemory):
        stored = predictor.pictures(predictor.stored.signs[:OFFERED])
        names = predictor.stored.names
        answer["title"] = "Stored patterns"
        answer["examples"] = [
            {"name": name, "picture": rows_of(each)} for name, each in zip(names, stored, strict=False)
        ]
    if isinstance(predictor, GenerativeClassifier):
        answer["damages"] = ["cover"]
    return {**answer, "shown": settle(run, RecallRequest())}


def settle(run: Run, request: RecallRequest) -> dict[str, Any]:
    picture = asked_picture(run, request)
    known = torch.ones(picture.shape[1:], dtype=torch.bool)
    if request.damage == "cover":
        known = uncovered(picture.shape[1:], request.side, request.share)
    given = picture
    if request.damage == "noise":
        given = inverted(picture, request.share, seeded(request.seed, "noise"))
    predictor = run.predictor
    if isinstance(predictor, PatternMemory):
        path = recalled(predictor, given, known, request)
    elif isinstance(predictor, GenerativeClassifier):
        path = completed(predictor, given, known, request)
    else:
        path = sampled(run, given, known, request)
    shown = torch.linspace(0, len(path.pictures) - 1, min(FRAMES, len(path.pictures))).round().long()
    return {
        "whole": rows_of(picture[0]),
        "given": rows_of(torch.where(known, given[0].float(), GREY)),
        "frames": [rows_of(each) for each in path.pictures[shown]],
        "points": shown.tolist(),
        "every": path.every,
        "energies": rounded(path.energies, 4),
        "found": path.found,
    }


def asked_picture(run: Run, request: RecallRequest) -> Tensor:
    """An example of a Hopfield network is one of the patterns that it stores."""
    predictor = run.predictor
    if request.drawing or not isinstance(predictor, PatternMemory):
        return chosen_picture(run, request)
    number = min(request.example, len(predictor.stored.signs) - 1)
    return predictor.pictures(predictor.stored.signs[number : number + 1])


def recalled(memory: PatternMemory, given: Tensor, known: Tensor, request: RecallRequest) -> RecallPath:
    seen = known.flatten()
    start = torch.where(seen, signs_of(given, memory.threshold)[0], 0.0)
    clamped = seen if request.hold and request.damage == "cover" else None
    states = torch.stack([start, *memory.model.flips(start, clamped=clamped, generator=seeded(request.seed, "order"))])
    found = settled_at(states[-1:].cpu(), memory.stored.signs, memory.stored.names)[0]
    return RecallPath(memory.pictures(states), memory.model.energy(states), f"It settled at {found}.")


def sampled(run: Run, given: Tensor, known: Tensor, request: RecallRequest) -> RecallPath:
    model = run.model
    if not isinstance(model, RBM):
        raise InputError("recall is shown of a Hopfield network, an RBM or predictive coding", got=f"a {run.name}")
    seen = known.flatten()
    with torch.no_grad():
        usual = model.visible_mean(model.hidden_bias.new_zeros(1, model.config.hidden_size))
        start = torch.where(seen, model.encode(given), usual)
        clamped = seen if request.hold and request.damage == "cover" else None
        chain = gibbs_chain(
            model,
            start,
            [request.temperature] * request.steps,
            clamped=clamped,
            generator=seeded(request.seed, "chain"),
        )
        visible, means = [start], [start]
        for state in chain:
            visible.append(state.visible)
            means.append(state.mean)
        energies = model.free_energy(torch.cat(visible))
        pictures = model.decode(torch.cat(means))
    change = float(energies[-1] - energies[0])
    moved = f"{'risen' if change > 0 else 'fallen'} by {abs(change):.4g}"
    return RecallPath(pictures, energies, f"After {request.steps} Gibbs steps the free energy has {moved}.")


def completed(predictor: GenerativeClassifier, given: Tensor, known: Tensor, request: RecallRequest) -> RecallPath:
    model = predictor.network
    every = math.ceil(request.steps / POINTS)
    path = list(model.completing(given, known, request.steps, every))
    energies = torch.stack([energy_of(model.errors(states, model.expecting))[0] for states in path])
    pictures = model.decode(torch.cat([states[0] for states in path]))
    before, after = predictor.predict_examples(pictures[[0, -1]]).labels
    return RecallPath(pictures, energies, f"Covered, it is taken for {before}; completed, for {after}.", every)


ACTIONS = {"open": open_view, "settle": settle}
