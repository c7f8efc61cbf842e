"""Predictive coding of the digits by the direction of its predictions, and by the time constant of its error nodes: the
figures of `make claims` on its page.

python -m benchmarks.directions        choose the settings of each direction by validation accuracy
"""

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from benchmarks.generation import Rows, Trained, scored_classifier
from neuropil.inspection.report.predictive_coding import (
    AT_REST,
    ERROR_EXAMPLES,
    ERROR_TAUS,
    clamped,
    gradients_while_settling,
    steps_to_rest,
    with_error_tau,
)
from neuropil.metrics import find_metric
from neuropil.models.predictive_coding.network import PredictiveCoding
from neuropil.randomness import seeded
from neuropil.recipes.predictive_coding import PredictiveCodingOptions, build
from neuropil.runs.run import Run
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.training.loop import fit


def flags(options: Mapping[str, Any]) -> str:
    """As on the command line."""
    words = ((name, value if isinstance(value, tuple) else (value,)) for name, value in options.items())
    return " ".join(f"--{name.replace('_', '-')} {' '.join(map(str, values))}" for name, values in words)


SEEDS = range(3)
CANDIDATES: tuple[dict[str, Sequence[Any]], ...] = (
    {"learning_rate": (5e-4, 2e-3), "steps": (10, 30)},
    {"learning_rate": (2e-4, 5e-4), "hidden_sizes": ((256,), (64,)), "activation": ("relu", "tanh")},
    {"learning_rate": (5e-4, 2e-3), "hidden_sizes": ((512,),), "activation": ("tanh",)},
)
CHOOSING_UPDATES = 420
"""A third of the default's, for each candidate."""
SETTINGS: dict[str, dict[str, Any]] = {
    "both": {},
    "up": {},
    "down": {"learning_rate": 5e-4, "hidden_sizes": (256,), "activation": "tanh"},
}
"""The options of each direction; those of the downward one were chosen among `CANDIDATES` by validation accuracy."""
SCORES = ("frechet_distance", "precision", "recall")
HEADER = (
    "predictions",
    "accuracy",
    "lowest",
    "highest",
    *(find_metric(name).title for name in SCORES),
    "milliseconds to classify",
)
ABOUT = (
    "`neuropil train predictive_coding --direction WAY` on the embedded digits: accuracy on the held-out 20 %, "
    f"mean of {len(SEEDS)} seeds with a split each; samples of the first, scored by a classifier; and processor time "
    f"to classify the digits held out. Downwards with `{flags(SETTINGS['down'])}`."
)
ERROR_NODES_HEADER = (
    "τ (inference steps)",
    f"steps to {100 * AT_REST:.0f} % of the first gradient",
    "µs per step",
    "ms to it",
)
ERROR_NODES_ABOUT = (
    f"Settling of {ERROR_EXAMPLES} digits with both ends clamped, after `neuropil train predictive_coding`, with error "
    "nodes at equilibrium (τ = 0) and with a time constant, in double precision."
)
TIMED_STEPS = 200


def main(words: Sequence[str] = ()) -> None:
    for options, accuracy in validated():
        print(f"{100 * accuracy:.2f} %  {options}", flush=True)


def validated() -> Iterator[tuple[Mapping[str, Any], float]]:
    """Validation accuracy of the downward network, with each of the candidates."""
    for options in (
        dict(zip(grid, values, strict=True)) for grid in CANDIDATES for values in itertools.product(*grid.values())
    ):
        given = PredictiveCodingOptions().override(direction="down", updates=CHOOSING_UPDATES, **options)
        experiment = build(given, seed=0)
        with tempfile.TemporaryDirectory() as folder:
            how: dict[str, Any] = {"seed": 0, "folder": Path(folder), "show_progress": False}
            fit(experiment.learner, experiment.batches("train"), None, given.training, **how)
        part = experiment.splits.validation
        with torch.no_grad():
            yield options, (experiment.model(part.inputs).argmax(-1) == part.targets).double().mean().item()


def rows(trained: Trained) -> Rows:
    found: Rows = []
    for direction, options in SETTINGS.items():
        accuracies, scores, milliseconds = list[float](), {}, 0.0
        for seed in SEEDS:
            with trained("predictive_coding", direction=direction, seed=seed, report=False, **options) as run:
                accuracies.append(run.metrics["accuracy"])
                if seed == 0:
                    scores = scored_classifier(run)[0].metrics if direction != "up" else {}
                    milliseconds = classifying(run)
        spread = [statistics.mean(accuracies), min(accuracies), max(accuracies)]
        made = [find_metric(name).text(scores[name]) if scores else "–" for name in SCORES]
        found.append([direction, *(f"{100 * share:.2f} %" for share in spread), *made, f"{milliseconds:.0f}"])
    return found


def classifying(run: Run) -> float:
    """Milliseconds for the test part, the median of five."""
    model, inputs = (
        cast(PredictiveCoding, run.model),
        cast(ClassificationExperiment, run.experiment()).splits.test.inputs,
    )
    return 1000 * statistics.median(timed(lambda: model(inputs)) for _ in range(5))


def error_nodes(run: Run) -> Rows:
    """Steps until states have settled and the time of a step, by the time constant of the error nodes."""
    model, test = cast(PredictiveCoding, run.model), cast(ClassificationExperiment, run.experiment()).splits.test
    few = test.take(torch.randperm(len(test), generator=seeded("few"))[:ERROR_EXAMPLES])
    found: Rows = []
    with torch.no_grad():
        free = [False, *[True] * (model.top - 1), False]
        for tau in ERROR_TAUS:
            other = with_error_tau(model, tau)
            states = clamped(other, few)
            steps = steps_to_rest(gradients_while_settling(other, states)[0])
            each = [
                timed(lambda other=other, states=states: other.settle(states, free, TIMED_STEPS)) for _ in range(6)
            ][1:]
            step = 1e6 * statistics.median(each) / TIMED_STEPS
            total = "–" if steps is None else f"{steps * step / 1000:.1f}"
            found.append([f"{tau:g}", "–" if steps is None else f"{steps}", f"{step:.0f}", total])
    return found


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main(sys.argv[1:])
