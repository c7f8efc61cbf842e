"""The MLP beside linear models and gradient boosting of scikit-learn on four small tables: means over ten splits of the
table, in which a fifth is held out. The peers learn from the MLP's validation part too. Goal: no worse than the linear
model."""

import csv
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neuropil
from neuropil.data.examples.files import DataConfig, prepare

TABLES: dict[str, Callable[..., Any]] = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "diabetes": load_diabetes,
}
SEEDS = range(10)
TUNED, TUNED_SEEDS = ("breast cancer", "diabetes"), range(3)
TRIALS = 20


def compare() -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """Each table, what is scored, and the scores of each model in all splits."""
    for name, load in TABLES.items():
        features, targets = load(return_X_y=True)
        task = "regression" if name == "diabetes" else "classification"
        with tempfile.TemporaryDirectory() as folder:
            path = write_table(Path(folder) / "table.csv", features, targets)
            options = {"data": path, "target": "target", "task": task}
            splits = [score_split(Path(folder) / f"{seed}", seed, options) for seed in SEEDS]
        found = {model: [scores[model] for scores in splits] for model in splits[0]}
        yield name, "R²" if task == "regression" else "accuracy", found


def score_split(folder: Path, seed: int, options: dict[str, Any]) -> dict[str, float]:
    run = neuropil.train("mlp", out=folder, seed=seed, report=False, show_progress=False, **options)
    parts = prepare(DataConfig(**options), seed)
    inputs = torch.cat([parts.train.inputs, parts.validation.inputs]).numpy()
    targets = torch.cat([parts.train.targets, parts.validation.targets]).flatten().numpy()
    if options["task"] == "regression":
        own, peers = run.metrics["r2"], (Ridge(), GradientBoostingRegressor(random_state=0))
    else:
        own, peers = (
            run.metrics["accuracy"],
            (LogisticRegression(max_iter=3_000), GradientBoostingClassifier(random_state=0)),
        )
    held_out = parts.test.inputs.numpy(), parts.test.targets.flatten().numpy()
    linear, boosted = (make_pipeline(StandardScaler(), peer).fit(inputs, targets).score(*held_out) for peer in peers)
    return {"mlp": own, "linear": float(linear), "boosting": float(boosted)}


def write_table(path: Path, features: np.ndarray, targets: np.ndarray) -> Path:
    header = [*(f"feature {number}" for number in range(features.shape[1])), "target"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *np.column_stack([features, targets]).tolist()])
    return path


def rows() -> Iterator[list[str]]:
    for name, score, found in compare():
        means = (100 * statistics.mean(scores) for scores in found.values())
        yield [name, score, *(f"{mean:.2f} %" for mean in means)]


def tuned_rows() -> Iterator[list[str]]:
    """Scores of the default options and of those that a search chose on the validation part, and in how many splits the
    latter were better there and on the test part."""
    for name in TUNED:
        features, targets = TABLES[name](return_X_y=True)
        task, score = ("regression", "r2") if name == "diabetes" else ("classification", "accuracy")
        validation, test = list[tuple[float, float]](), list[tuple[float, float]]()
        with tempfile.TemporaryDirectory() as folder:
            path = write_table(Path(folder) / "table.csv", features, targets)
            for seed in TUNED_SEEDS:
                options = {"data": path, "target": "target", "task": task, "seed": seed, "trials": TRIALS}
                out = Path(folder) / f"{seed}"
                found = neuropil.tune("mlp", out=out, report=False, show_progress=False, **options)
                results = [result.metrics[score] for result in found.results]
                validation.append((found.rows[0].value or np.nan, found.found.best.value or np.nan))
                test.append((results[-1], results[0]))
        means = [f"{statistics.mean(values):.3f}" for values in zip(*validation, strict=True)]
        scores = [f"{100 * statistics.mean(values):.2f} %" for values in zip(*test, strict=True)]
        better = sum(tuned > default for default, tuned in test)
        title = "R²" if task == "regression" else "accuracy"
        yield [name, *means, title, *scores, f"{better} of {len(test)}"]


def main() -> None:
    for row in rows():
        print("\t".join(row), flush=True)


if __name__ == "__main__":
    main()
