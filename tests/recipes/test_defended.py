"""Training against attacks, with the recipes of classifiers."""

from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from neuropil.errors import InputError
from neuropil.runs.run import Run

SMALL: dict[str, dict[str, Any]] = {
    "mlp": {"hidden_sizes": (8,)},
    "cnn": {"width": 4},
    "vit": {"width": 8, "heads": 2, "layers": 1},
    "attention": {"width": 8, "key_width": 8},
    "spiking_classifier": {"hidden_sizes": (8,), "steps": 4},
    "predictive_coding": {"hidden_sizes": (8,), "steps": 4, "classifier_updates": 1, "scored_samples": 10},
}
QUICK: dict[str, Any] = {
    "epochs": 1,
    "attack_steps": 2,
    "test": 0.02,
    "validation": 0.02,
    "show_progress": False,
    "report": False,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("vit", "attention"))) for name in SMALL]
)
def test_every_classifier_learns_from_attacked_examples(name: str, tmp_path: Path):
    run = neuropil.train(name, defence="adversarial", eps=0.2, out=tmp_path / "run", seed=0, **SMALL[name], **QUICK)
    own, *others = run.results
    assert {"natural_risk", "robust_risk", "accuracy"} <= set(own.metrics)
    assert own.metrics["natural_risk"] == pytest.approx(1 - own.metrics["accuracy"])
    assert own.metrics["robust_risk"] >= own.metrics["natural_risk"]
    undefended = [result for result in others if "robust_risk" in result.metrics]
    assert len(undefended) == 1


def test_the_same_seed_gives_the_same_weights(tmp_path: Path):
    whole = neuropil.train("mlp", defence="trades", out=tmp_path / "whole", seed=0, **SMALL["mlp"], **QUICK)
    again = neuropil.train("mlp", defence="trades", out=tmp_path / "again", seed=0, **SMALL["mlp"], **QUICK)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cnn", {"eps": 0.3}, "--eps has no effect on training without --defence: leave it out."),
        (
            "cnn",
            {"defence": "adversarial", "beta": 2.0},
            "--beta has no effect on adversarial training: leave it out.",
        ),
        ("cnn", {"defence": "trades", "l1": 0.1}, "--l1 has no effect on the loss of TRADES: leave it out."),
        (
            "cnn",
            {"defence": "binary_trades"},
            "--defence binary_trades is for two classes, but got 10: take --defence trades.",
        ),
        (
            "predictive_coding",
            {"defence": "trades"},
            "the second term of TRADES is back-propagated, but got a model with a learning rule of its own: "
            "take --defence adversarial.",
        ),
        (
            "mlp",
            {"defence": "adversarial", "data": ([[1.0], [2.0], [3.0], [4.0]] * 10, [1.5, 2.5, 3.5, 4.5] * 10)},
            "an attack changes which class is predicted, but got 40 rows of 1 feature (lists in memory), whose "
            "targets are numbers: attack a model of classes.",
        ),
    ],
)
def test_what_cannot_be_defended_gets_one_sentence(name: str, options: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(InputError) as error:
        neuropil.train(name, out=tmp_path / "run", **options, **QUICK)
    assert str(error.value) == message
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_defended_cnn_keeps_most_of_its_accuracy_under_attack(tmp_path: Path):
    run: Run = neuropil.train("cnn", defence="trades", eps=0.2, out=tmp_path / "run", seed=0, show_progress=False)
    own = run.results[0].metrics
    other = next(result.metrics for result in run.results if result.name == "the same model without a defence")
    assert own["natural_risk"] < 0.05
    assert own["robust_risk"] < other["robust_risk"] - 0.3
