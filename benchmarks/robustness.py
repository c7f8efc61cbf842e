"""What defences reach: the figures of `make claims` on the page of attacks.

Robust accuracy is that under PGD of 40 steps with five restarts, and beside it under the ensemble of strong attacks.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

from neuropil.runs.run import Run
from neuropil.tasks.classification.attack import AttackedExamples

Trained = Callable[..., AbstractContextManager[Run]]
Rows = list[list[str]]

HEADER = ("model", "clean", "PGD, 40 steps, 5 restarts", "ensemble", "seconds of training")
MNIST_EPS, MNIST_MINUTES, NATURAL_MINUTES = 0.3, 20.0, 4.5
MNIST_OPTIONS: Mapping[str, Any] = {
    "defence": "adversarial",
    "eps": MNIST_EPS,
    "attack_steps": 5,
    "step_size": 0.4,
    "shift": 0.0,
    "rotate": 0.0,
    "zoom": 0.0,
}
"""Chosen on the validation part. Pictures that are moved and turned are harder, and here there is no time for more."""
ATTACKED = 1_000
BETAS, DIGITS_EPS = (0.0, 1.0, 3.0, 6.0, 12.0), 0.2


def attacked(run: Run, **options: Any) -> AttackedExamples:
    return cast(AttackedExamples, run.attack(**options))


def under_attack(name: str, run: Run, eps: float, seconds: float) -> list[str]:
    """Of the first examples of the test part."""
    pgd = attacked(run, eps=eps, steps=40, restarts=5, count=ATTACKED)
    strongest = attacked(run, eps=eps, method="strongest", count=ATTACKED)
    shares = (pgd.accuracy, pgd.robust_accuracy, strongest.robust_accuracy)
    return [name, *(f"{100 * share:.1f} %" for share in shares), f"{seconds:,.0f}"]


def mnist(trained: Trained, seconds: Callable[[Run], float], data: Any) -> Rows:
    rows: Rows = []
    with trained("cnn", data=data, minutes=MNIST_MINUTES, report=False, **MNIST_OPTIONS) as run:
        rows.append(under_attack(f"cnn --defence {MNIST_OPTIONS['defence']}", run, MNIST_EPS, seconds(run)))
    with trained("cnn", data=data, minutes=NATURAL_MINUTES, report=False) as run:
        rows.append(under_attack("cnn", run, MNIST_EPS, seconds(run)))
    return rows


def betas(trained: Trained) -> Rows:
    """Clean and robust accuracy on the embedded digits."""
    rows: Rows = []
    for beta in BETAS:
        with trained("cnn", defence="trades", beta=beta, eps=DIGITS_EPS, report=False) as run:
            found = attacked(run, eps=DIGITS_EPS, steps=40, restarts=5, count=ATTACKED)
            rows.append([f"{beta:g}", f"{100 * found.accuracy:.1f} %", f"{100 * found.robust_accuracy:.1f} %"])
    return rows
