"""Batch normalisation, and why it helps.

    z_u = (x_u − μ_u) / √(σ_u² + ε)          y_u = γ_u z_u + β_u

μ_u and σ_u² are mean and variance of unit u over the mini-batch while a network trains, and their running means
afterwards; scale γ_u and shift β_u are learned, so that nothing which a layer could compute is lost.

Three reasons for it that are usually given are measured. Inputs of unequal scales: a gradient step that is right for a
large feature is too small for a small one. Learning rates: networks are trained without batch normalisation, with it in
their hidden layers, and on their inputs too, at several learning rates each. And internal covariate shift: how far the
inputs of a layer move while the layers below it learn. Test scores are those at the learning rate with the lowest
validation loss.
"""

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import nn

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.covariate_shift import InputRecord, record_inputs
from neuropil.inspection.pictures.training import covariate_shift, learning_speed
from neuropil.inspection.report.page import Section, Table
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.parts.objectives import Classification
from neuropil.progress import Display
from neuropil.randomness import initialised, seeded
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.interruption import Interrupted

SCALES = 10.0
"""The largest factor on a feature, and the inverse of the least."""
PLAIN, HIDDEN_NORM, ALL_NORM = "no batch norm", "batch norm of hidden layers", "batch norm of the inputs too"
"""What is normalised in each network."""
SHIFT_DEPTH, SHIFT_RATE = 4, 0.1
"""Hidden layers and learning rate of the network whose covariate shift is measured."""


class BatchNormOptions(Config):
    data: DataConfig = DataConfig()
    width: int = option(64, "units of each hidden layer", low=1)
    epochs: int = option(10, "epochs of each network", low=1)
    rates: tuple[float, ...] = option(
        (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), "learning rates of SGD at which batch normalisation is compared", low=0
    )

    def validate(self) -> None:
        if not self.rates:
            raise InputError("batch normalisation is compared at one learning rate or more", got="none")


class RateTrial(NamedTuple):
    """A network trained at one learning rate: its validation loss after each epoch, none where it diverged."""

    losses: list[float]
    learner: Classification

    @property
    def last(self) -> float:
        return self.losses[-1] if self.losses else math.inf


def build(options: BatchNormOptions, seed: int) -> Study:
    splits = study.prepare_classes(options.data, seed)
    scaled, factors = unequal_scales(splits, seed)

    def compute(folder: Path, display: Display) -> Findings:
        def run(name: str, trial: tuple[str, float]) -> RateTrial:
            return _train_at_rate(name, *trial, options, scaled, seed, folder)

        def run_recorded(name: str, batch_norm: bool) -> InputRecord:
            return _train_recorded(name, batch_norm, options, splits.train, seed, folder)

        named = {_named(kind, rate): (kind, rate) for kind in (PLAIN, HIDDEN_NORM, ALL_NORM) for rate in options.rates}
        found = study.compare(named, run, display, lambda t: f"loss {t.last:.3g}" if t.losses else "diverged")
        trials = {
            kind: {rate: found[_named(kind, rate)] for rate in options.rates} for kind in (PLAIN, HIDDEN_NORM, ALL_NORM)
        }
        display.begin(0.0)
        networks = {"no batch norm": False, "batch norm": True}
        records = study.compare(networks, run_recorded, display, lambda r: f"means moved by {max(r.shifts):.2g}")
        sections = [_scales_section(options, trials, factors), _shift_section(records)]
        return Findings([*_results(trials, scaled.test), baselines(scaled)[0]], sections)

    return Study("batch norm", compute, {"source": splits.train.source})


def _results(trials: Mapping[str, Mapping[float, RateTrial]], test: Examples) -> list[Result]:
    """Of the network with batch norm everywhere, of that without any, then of the third."""
    best = {kind: by_rate[best_rate(by_rate)] for kind, by_rate in trials.items()}
    ordered = study.leading(best, ALL_NORM, PLAIN)
    return [Result(kind, {"accuracy": study.score(t.learner, test)["accuracy"]}) for kind, t in ordered.items()]


def best_rate(by_rate: Mapping[float, RateTrial]) -> float:
    """The learning rate whose validation loss is lowest at the end."""
    return min(by_rate, key=lambda rate: by_rate[rate].last)


def _named(kind: str, rate: float) -> str:
    return f"{kind}, η = {rate:g}"


# --- unequal scales --------------------------------------------------------------------------------------------------


def unequal_scales(splits: Splits, seed: int) -> tuple[Splits, tuple[float, float]]:
    """Every feature divided by the largest of all, then times a factor of its own from 1/10 to 10, on a logarithmic
    scale; with the least and the largest factor."""
    features = splits.train.inputs[0].numel()
    factors = torch.exp(math.log(SCALES) * (2 * torch.rand(features, generator=seeded(seed, "scales")) - 1))
    largest = splits.train.inputs.abs().max().item() or 1.0
    schema = dataclasses.replace(splits.train.schema, kind="table", shape=(features,), columns=())

    def scaled(part: Examples) -> Examples:
        return dataclasses.replace(part, inputs=part.inputs.flatten(1).float() / largest * factors, schema=schema)

    parts = dataclasses.replace(splits, **{name: scaled(part) for name, part in splits.parts.items()})
    return parts, (factors.min().item(), factors.max().item())


def normalised_network(kind: str, train: Examples, width: int, seed: int) -> nn.Module:
    """A shallow network of ReLUs for inputs as they are, without standardisation."""
    config = MLPConfig(
        hidden_sizes=(width,) * 2,
        dropout=0.0,
        batch_norm=kind != PLAIN,
        shape=train.schema.shape,
        outputs=train.schema.num_outputs,
    )
    network = initialised(lambda: MLP(config), seed)
    return nn.Sequential(nn.BatchNorm1d(train.schema.shape[0]), network) if kind == ALL_NORM else network


def _train_at_rate(
    name: str, kind: str, rate: float, options: BatchNormOptions, scaled: Splits, seed: int, folder: Path
) -> RateTrial:
    learner = Classification(normalised_network(kind, scaled.train, options.width, seed))
    config = study.constant_rate("sgd", rate, epochs=options.epochs)
    batches, validation = study.shuffled(scaled.train, config.batch_size, seed), study.in_order(scaled.validation)
    train = partial(study.train_trial, folder, name, learner, batches, validation, config, seed=seed)
    history, _ = study.until_divergence(train)
    return RateTrial([row["loss"] for row in history if row["kind"] == "validation"], learner)


def _scales_section(
    options: BatchNormOptions, trials: Mapping[str, Mapping[float, RateTrial]], factors: tuple[float, float]
) -> Section:
    last = {kind: {rate: trial.last for rate, trial in by_rate.items()} for kind, by_rate in trials.items()}
    best = {kind: best_rate(by_rate) for kind, by_rate in trials.items()}
    found = "; ".join(f"{kind}, {last[kind][rate]:.3g} at η = {rate:g}" for kind, rate in best.items())
    good = 2 * min(min(by_rate.values()) for by_rate in last.values())
    usable = ", ".join(
        f"{sum(loss <= good for loss in by_rate.values())} of {len(by_rate)} learning rates with {kind}"
        for kind, by_rate in last.items()
    )
    least, most = factors
    words = (
        f"The same examples, each feature times a factor of its own from {least:.2g} to {most:.2g}, and a network of "
        "two hidden layers that does not standardise its inputs. One learning rate has to do for large and small "
        f"features alike; batch normalisation rescales them. Validation loss after {options.epochs} epochs of SGD, at "
        f"the best learning rate of each: {found}. Within twice the lowest of all it ends at {usable}."
    )
    rows = [
        [kind, *(f"{loss:.3g}" if math.isfinite(loss) else "–" for loss in by.values())] for kind, by in last.items()
    ]
    table = Table(["validation loss at", *(f"{rate:g}" for rate in options.rates)], rows, "A dash: it diverged.")
    speed = {_named(kind, rate): trials[kind][rate].losses for kind, rate in best.items()}
    alt = "validation loss against the learning rate, and against the epoch, with and without batch norm"
    return Section.illustrated("Why batch norm: unequal scales", words, learning_speed(last, speed), alt, table)


# --- covariate shift -------------------------------------------------------------------------------------------------


def _train_recorded(
    name: str, batch_norm: bool, options: BatchNormOptions, train: Examples, seed: int, folder: Path
) -> InputRecord:
    """The inputs of the last hidden layer, at every update."""
    config = study.constant_rate("sgd", SHIFT_RATE, epochs=options.epochs)
    sizes = (options.width,) * SHIFT_DEPTH
    model = study.new_mlp(train, seed, hidden_sizes=sizes, dropout=0.0, batch_norm=batch_norm)
    batches, learner = study.shuffled(train, config.batch_size, seed), Classification(model)
    # In a folder that is not kept: of a training that was done before, no input could be recorded.
    with TemporaryDirectory(prefix="neuropil-") as passing, record_inputs(model.hidden[-1]) as record:
        try:
            study.until_divergence(
                partial(study.train_trial, Path(passing), name, learner, batches, None, config, seed=seed)
            )
        except Interrupted as stop:
            raise Interrupted(folder) from stop
    return record


def _shift_section(records: Mapping[str, InputRecord]) -> Section:
    batch_size = study.constant_rate("sgd", SHIFT_RATE).batch_size
    chance = math.sqrt(2 / batch_size)
    largest = {name: max(record.shifts) for name, record in records.items()}
    grown = {name: record.spreads[-1] / record.spreads[0] for name, record in records.items()}
    both = "; ".join(
        f"with {name} their means move by up to {largest[name]:.2g} times their first spread, and the spread ends at "
        f"{grown[name]:.2g} times the first"
        for name in records
    )
    words = (
        f"The inputs of the last of {SHIFT_DEPTH} hidden layers at every update of SGD at {SHIFT_RATE:g}, while the "
        f"layers below it learn: {both}. A batch of {batch_size} examples alone moves means by about {chance:.2g}. "
        "This is the internal covariate shift by which batch normalisation was first explained (Ioffe and Szegedy "
        "2015); Santurkar and others (2018) found that it helps also where that does not fall, by a smoother loss."
    )
    shown = {name: (record.shifts, record.spreads) for name, record in records.items()}
    alt = "shift of the means and spread of the inputs of a layer over the updates"
    return Section.illustrated("Why batch norm: covariate shift", words, covariate_shift(shown), alt)


RECIPE = Recipe(BatchNormOptions(), build, about="recipes.batch_norm")
