"""What generative and energy-based models reach: the figures of `make claims` on their pages.

Samples are scored in the features of a classifier that learned the same training part. On MNIST each model has so many
minutes.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch

from neuropil.data.examples.mixtures import ModeCoverage, grid, ring
from neuropil.metrics import find_metric
from neuropil.models.hopfield.capacity import CRITICAL_LOAD, capacity, capacity_curve
from neuropil.randomness import seeded
from neuropil.runs.run import Run
from neuropil.tasks.classification.experiment import ClassificationExperiment
from neuropil.tasks.experiment import Result
from neuropil.tasks.generation.diffusion import DiffusionSampler
from neuropil.tasks.generation.experiment import GenerationExperiment
from neuropil.tasks.generation.predictive_coding import GenerativeClassifier
from neuropil.tasks.generation.sample_scorer import SampleScorer, SampleScoringConfig
from neuropil.tasks.generation.scores import spread_labels

Trained = Callable[..., AbstractContextManager[Run]]
"""`trained(name, **options)` of benchmarks.claims."""
Rows = list[list[str]]

MADE_BY = ("diffusion", "gan", "vae", "rbm", "predictive_coding")
SCORES = ("frechet_distance", "precision", "recall", "class_coverage", "memorised")
MINUTES = {"autoencoder": 5.0, "vae": 10.0, "rbm": 10.0}
MINUTES_OF_SAMPLES = {"vae": 20.0, "gan": 20.0, "diffusion": 20.0}
SAMPLERS = (("ddpm", 250), ("ddim", 20), ("dpm_solver", 20), ("ddim", 10), ("dpm_solver", 10))
SAMPLERS_HEADER = ("sampler", "steps", "Fréchet distance", "beside the first")
COMPARED = 500
"""Samples of each: 250 steps take long."""
GUIDANCE = (1.0, 1.5, 2.0, 3.0)
GUIDED = ("class_accuracy", "frechet_distance", "precision", "recall")
GUIDANCE_HEADER = ("guidance", *(find_metric(name).title for name in GUIDED))
BINARISED_VAE: dict[str, Any] = {"likelihood": "bernoulli", "binarize": True, "importance_samples": 5_000}
BINARISED_RBM: dict[str, Any] = {"hidden_size": 500, "binarize": True, "annealing_steps": 10_000}
MIXTURES = {"eight in a ring": ring(), "25 in a grid": grid()}
MIXTURE_SEEDS, MIXTURE_DRAWN, SAMPLED = range(5), 20_000, 2_500
GAN_OF_POINTS: dict[str, Any] = {
    "network": "dense",
    "hidden_sizes": (128, 128, 128),
    "latent_size": 2,
    "learning_rate": 2e-3,
    "schedule": "cosine",
    "average": 0.999,
    "batch_size": 256,
    "updates": 8_000,
}
UNITS, NETWORKS = (100, 500, 2_000), 5
LOADS = tuple(0.10 + 0.004 * step for step in range(16))


def scores_header() -> list[str]:
    return ["examples", *(find_metric(name).title for name in SCORES), "seconds of training"]


def scored(runs: Iterable[tuple[str, Run]], seconds: Callable[[Run], float]) -> Rows:
    """A row for the samples of each; then those that the last was compared with."""
    rows: Rows = []
    others: Sequence[Result] = ()
    for name, run in runs:
        own, *others = run.results if "frechet_distance" in run.metrics else scored_classifier(run)
        rows.append([f"by {name}", *scores_of(own.metrics), f"{seconds(run):,.0f}"])
    return [*rows, *([each.name, *scores_of(each.metrics), ""] for each in others)]


def scores_of(metrics: Mapping[str, float]) -> list[str]:
    return [find_metric(name).text(metrics[name]) if name in metrics else "" for name in SCORES]


def scored_classifier(run: Run) -> list[Result]:
    """Of predictive coding, whose run ends with an accuracy."""
    experiment, sampler = cast(ClassificationExperiment, run.experiment()), cast(GenerativeClassifier, run.predictor)
    scorer = SampleScorer(experiment.splits, SampleScoringConfig(), 0, torch.device("cpu"))
    samples = sampler.sample_labels(scorer.count, seeded(0, "samples"), scorer.labels)
    return [Result("predictive_coding", scorer.score(samples, scorer.labels)), *scorer.compared()]


def samplers(run: Run) -> Rows:
    """The Fréchet distance by sampler and number of steps, and as a ratio to the first."""
    experiment, rows, first = cast(GenerationExperiment, run.experiment()), Rows(), 0.0
    for name, steps in SAMPLERS:
        scores = score(experiment, run, sampler=name, steps=steps)
        first = first or scores["frechet_distance"]
        ratio = scores["frechet_distance"] / first
        rows.append([name, f"{steps}", f"{scores['frechet_distance']:.3f}", f"{ratio:.2f}"])
    return rows


def guidances(run: Run) -> Rows:
    experiment = cast(GenerationExperiment, run.experiment())
    found = {scale: score(experiment, run, guidance=scale) for scale in GUIDANCE}
    return [
        [f"{scale:g}", *(find_metric(name).text(scores[name]) for name in GUIDED)] for scale, scores in found.items()
    ]


def score(experiment: GenerationExperiment, run: Run, **options: Any) -> dict[str, float]:
    """Of fewer samples than in a run's results, evenly over the classes."""
    sampler, scorer = cast(DiffusionSampler, run.predictor), experiment.scorer
    labels = spread_labels(experiment.splits.train.targets, len(experiment.schema.classes), COMPARED)
    return scorer.score(sampler.sample_labels(COMPARED, seeded(0, "samples"), labels, **options), labels)


def modes(trained: Trained, seconds: Callable[[Run], float]) -> Rows:
    """Of points around the modes of each mixture: how many modes a GAN finds, for several seeds."""
    rows: Rows = []
    for name, mixture in MIXTURES.items():
        points, found, durations = (
            mixture.draw(MIXTURE_DRAWN, seeded(name)).numpy(),
            list[ModeCoverage](),
            list[float](),
        )
        for seed in MIXTURE_SEEDS:
            with trained("gan", data=points, seed=seed, **GAN_OF_POINTS) as run:
                found.append(mixture.coverage(run.sample(SAMPLED, seed=seed).values))
                durations.append(seconds(run))
        counts = ", ".join(f"{each.found}" for each in found)
        share = statistics.mean(each.good_share for each in found)
        rows.append([name, counts, f"{100 * share:.0f} %", f"{statistics.mean(durations):,.0f}"])
    return rows


def capacities() -> Rows:
    """The load up to which Hebb's rule keeps its patterns, by the number of units, beside that of theory."""
    rows: Rows = []
    for units in UNITS:
        found = capacity(capacity_curve(units, LOADS, networks=NETWORKS))
        if found is None:
            raise ValueError(f"no capacity of {units} units between loads of {LOADS[0]} and {LOADS[-1]}")
        rows.append([f"{units:,}", f"{found:.4f}", f"{100 * (found / CRITICAL_LOAD - 1):+.1f} %"])
    return rows
