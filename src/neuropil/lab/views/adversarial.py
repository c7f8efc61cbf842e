"""A picture under attack: what a small perturbation does to the answer, and how small it may be."""

import math
from typing import Any, Literal

import torch

from neuropil.adversarial.threat_model import Norm
from neuropil.config import option
from neuropil.errors import InputError
from neuropil.lab.pictures import PictureRequest, chosen_picture, offered, require_classifier, rounded, rows_of
from neuropil.runs.run import Run
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.classification.threats import WHITE

Method = Literal["fgsm", "pgd", "momentum"]
STEPS = 12
"""Of projected gradient descent, so that it follows a slider."""
FARTHEST, PLACES = 2.0, 41
"""Of the line through the smallest perturbation: its end, in lengths of it, and the points on it."""


class AttackRequest(PictureRequest):
    eps: float = option(0.1, "radius ε of the perturbation, for pixels from 0 to 1", low=0, high=100)
    norm: Norm = option("linf", "norm of the perturbation")
    method: Method = option("pgd", "attack")
    target: str = option("", "class to reach; empty for any other")

    def validate(self) -> None:
        super().validate()
        if len(self.target) > 200:
            raise InputError("a class has a name of at most 200 characters", got=f"{len(self.target)}")


def open_view(run: Run) -> dict[str, Any]:
    require_classifier(run)
    request = AttackRequest()
    _, height, width = run.predictor.schema.shape
    return {
        "system": run.name,
        "classes": list(run.predictor.schema.classes),
        "most": {"linf": 0.5, "l2": round(0.25 * math.sqrt(height * width), 1)},
        **offered(run),
        "shown": attack(run, request),
    }


def attack(run: Run, request: AttackRequest) -> dict[str, Any]:
    picture = chosen_picture(run, request)
    predictor: ExamplePredictor = run.predictor
    before = predictor.predict_examples(picture)
    perturbed = picture.float()
    if request.eps > 0:
        options = {"steps": STEPS, "early_stopping": False} if request.method == "pgd" else {}
        perturbed = run.attack(
            picture,
            None,
            eps=request.eps,
            norm=request.norm,
            method=request.method,
            target=request.target or None,
            **options,
        ).perturbed
    after = predictor.predict_examples(perturbed)
    delta = (perturbed - picture) / WHITE
    return {
        "original": rows_of(picture[0]),
        "perturbed": rows_of(perturbed[0]),
        "delta": rounded(delta[0].mean(0), 4),
        "largest": delta.abs().max().item(),
        "length": delta.norm().item(),
        "before": rounded(before.scores[0], 6),
        "after": rounded(after.scores[0], 6),
        "answers": [before.labels[0], after.labels[0]],
    }


def smallest(run: Run, request: AttackRequest) -> dict[str, Any]:
    """The smallest perturbation that is found to change the answer, and the probabilities on the line through it."""
    picture = chosen_picture(run, request)
    predictor: ExamplePredictor = run.predictor
    found = run.attack(picture, None, norm=request.norm, method="minimal", target=request.target or None)
    reached = bool(found.found.success[0])
    share = torch.linspace(0, FARTHEST, PLACES)
    delta = found.perturbed - picture
    line = (picture + share.view(-1, 1, 1, 1) * delta).clamp(0, WHITE)
    distance = found.distance[0].item()
    return {
        "eps": distance if reached else None,
        "answer": found.after[0] if reached else None,
        "perturbed": rows_of(found.perturbed[0]),
        "distances": rounded(share * distance),
        "probabilities": rounded(predictor.predict_examples(line).scores.T),
    }


ACTIONS = {"open": open_view, "attack": attack, "smallest": smallest}
