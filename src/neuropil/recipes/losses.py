"""What is minimised: three losses and how they pull on a logit, why they are computed from logits, and two penalties on the weights.

With target 1 and y = logistic(z), the slopes by the logit are

    squared error               (y − 1) y (1 − y)      fades where the answer is confidently wrong
    Bernoulli cross-entropy     y − 1                  pulls hardest there
    categorical cross-entropy   softmax(z) − 1         the same, for one of K classes

Then a table of what becomes of ln(softmax(z)) at large logits when it is computed as it is written, beside the form from logits. Last, a
network trained with each loss, and with λ Σ|w| or λ ½ Σw² added: the first pulls every weight by the same force and leaves most at
zero, the second pulls large weights harder and leaves none there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Schema, Splits
from neuropil.data.examples.files import DataConfig
from neuropil.inspection import pictures
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.models.mlp import MLP
from neuropil.parts.losses import (
    bernoulli_cross_entropy,
    categorical_cross_entropy,
    frobenius_penalty,
    l1_penalty,
    squared_error,
)
from neuropil.parts.objectives import Classification, matrices
from neuropil.protocols import Batch, Phase
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import in_order, new_mlp, prepare_classes, score, shuffled, train_trial
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Penalty: TypeAlias = Callable[[Iterable[Tensor]], Tensor]

NEAR_ZERO = 1e-3
DOSES = (0.3, 1.0, 3.0)


class LossesOptions(Config):
    data: DataConfig = DataConfig()
    hidden_sizes: tuple[int, ...] = option(
        (64,), "units of each hidden layer of the network; none for a linear model", low=1
    )
    epochs: int = option(40, "passes over the training data with each loss and penalty", low=1)
    learning_rate: float = option(1e-2, "peak learning rate of Adam, the same for all", low=0)
    l1: float = option(1e-3, "λ of the L1 penalty; a third and three times as much are tried too", low=0)
    frobenius: float = option(3e-3, "λ of the Frobenius penalty; a third and three times as much are tried too", low=0)


@dataclass(frozen=True)
class Choice:
    """A loss of the logits, and λ times a penalty on the weights."""

    name: str
    loss: Loss
    penalty: Penalty | None = None
    strength: float = 0.0


class Penalised:
    """A classifier that minimises a choice, and is measured as every classifier is."""

    def __init__(self, model: MLP, choice: Choice):
        self.model, self.choice = model, choice

    def phases(self) -> Sequence[Phase]:
        return [Phase("penalised", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        loss = self.choice.loss(self.model(batch["input"]), batch["target"]).mean()
        if self.choice.penalty is None:
            return loss
        return loss + self.choice.strength * self.choice.penalty(matrices(self.model))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return Classification(self.model).metrics(batch)

    def weights(self) -> Float[Tensor, " weight"]:
        return torch.cat([weight.detach().flatten() for weight in matrices(self.model)])


def squared_error_of_shares(
    logits: Float[Tensor, "batch class"], target: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """½ ‖logistic(z) − t‖², with t = 1 for the class and 0 for the others."""
    return squared_error(torch.sigmoid(logits), _one_hot(logits, target))


def bernoulli_of_classes(
    logits: Float[Tensor, "batch class"], target: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Each class a question of its own: is it this one?"""
    return bernoulli_cross_entropy(logits, _one_hot(logits, target))


def _one_hot(logits: Tensor, target: Tensor) -> Tensor:
    return F.one_hot(target, logits.shape[-1]).to(logits)


LOSSES = (
    Choice("categorical cross-entropy", categorical_cross_entropy),
    Choice("Bernoulli cross-entropy", bernoulli_of_classes),
    Choice("squared error", squared_error_of_shares),
)


def build(options: LossesOptions, seed: int) -> Study:
    splits = prepare_classes(options.data, seed)
    return Study(
        "losses",
        lambda folder, display: _compute(options, splits, seed, folder, display),
        {"source": splits.train.source},
    )


def _compute(options: LossesOptions, splits: Splits, seed: int, folder: Path, display: Display) -> Findings:
    choices = [
        *LOSSES,
        *_penalties("L1", l1_penalty, options.l1),
        *_penalties("Frobenius", frobenius_penalty, options.frobenius),
    ]
    learners, histories, scores = {}, {}, {}
    for index, choice in enumerate(choices):
        learner, histories[choice.name] = _learn(choice, options, splits, seed, folder)
        learners[choice.name] = learner
        scores[choice.name] = {"accuracy": score(learner, splits.test)["accuracy"]}
        if choice.penalty is not None:
            scores[choice.name]["near_zero_share"] = _near_zero(learner.weights())
        display.update(
            (index + 1) / len(choices), f"{choice.name}: test accuracy {100 * scores[choice.name]['accuracy']:.1f} %"
        )
    own, *others = [Result(name, metrics) for name, metrics in scores.items()]
    linear, frequent = baselines(splits)
    shown = {"no penalty": learners[LOSSES[0].name]}
    shown |= {
        f"{kind} penalty, λ = {strength:g}": learners[_dose_name(kind, strength)]
        for kind, strength in _shown_doses(options)
    }
    sections = [
        _slopes_section(),
        _practice_section({loss.name: histories[loss.name] for loss in LOSSES}),
        _overflow_section(),
        _penalties_section(learners, scores, shown, splits),
    ]
    return Findings([own, linear, *others, frequent], sections)


def _penalties(kind: str, penalty: Penalty, strength: float) -> list[Choice]:
    return [
        Choice(_dose_name(kind, dose * strength), categorical_cross_entropy, penalty, dose * strength) for dose in DOSES
    ]


def _dose_name(kind: str, strength: float) -> str:
    return f"with {kind} penalty, λ = {strength:g}"


def _shown_doses(options: LossesOptions) -> list[tuple[str, float]]:
    return [("L1", options.l1), ("Frobenius", options.frobenius)]


def _learn(
    choice: Choice, options: LossesOptions, splits: Splits, seed: int, folder: Path
) -> tuple[Penalised, list[Row]]:
    config = TrainingConfig(
        epochs=options.epochs, learning_rate=options.learning_rate, optimizer="adam", weight_decay=0.0, keep="last"
    )
    learner = Penalised(new_mlp(splits.train, seed, hidden_sizes=options.hidden_sizes, dropout=0.0), choice)
    batches = shuffled(splits.train, config.batch_size, seed)
    return learner, train_trial(folder, choice.name, learner, batches, in_order(splits.validation), config, seed=seed)


# --- losses against the logit ------------------------------------------------------------------------------------------------


def _slopes_section() -> Section:
    z = torch.linspace(-6, 6, 241, dtype=torch.float64)
    others = torch.zeros(len(z), 9, dtype=torch.float64)
    losses: dict[str, Callable[[Tensor], Tensor]] = {
        "squared error of logistic(z)": lambda z: squared_error(torch.sigmoid(z)[:, None], torch.ones_like(z)[:, None]),
        "Bernoulli cross-entropy": lambda z: bernoulli_cross_entropy(z[:, None], torch.ones_like(z)[:, None]),
        "categorical cross-entropy, one of ten": lambda z: categorical_cross_entropy(
            torch.cat([z[:, None], others[: len(z)]], dim=1), torch.zeros(len(z), dtype=torch.int64)
        ),
    }
    curves = {name: (z, loss(z), _gradient(loss, z)) for name, loss in losses.items()}
    places = torch.tensor([-6.0, -3.0, 0.0, 3.0, 6.0], dtype=torch.float64)
    rows = [
        [name, *(f"{slope:.4f}".replace("-", "−") for slope in _gradient(loss, places).tolist())]
        for name, loss in losses.items()
    ]
    words = (
        "The target is 1, so a large negative logit is a confident mistake. There the cross-entropies rise as a straight line and pull "
        "with their full slope of −1, while the squared error is flat: a unit that is badly wrong hardly learns. The categorical curve has "
        "nine other classes with logits of 0, so that z = 0 is still a mistake."
    )
    header = ["gradient by z at", *(f"z = {place:g}".replace("-", "−") for place in places.tolist())]
    figure = Picture.of(
        pictures.loss_curves(curves), alt="three losses and their gradients against the logit, for target 1"
    )
    return Section("How each loss pulls on a logit", [Text(words), figure, Table(header, rows)])


def _gradient(loss: Callable[[Tensor], Tensor], z: Float[Tensor, " point"]) -> Float[Tensor, " point"]:
    z = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z).sum(), z)
    return gradient


def _practice_section(histories: Mapping[str, Sequence[Row]]) -> Section:
    passed = {name: _first_epoch(rows, 0.9) for name, rows in histories.items()}
    reached = ", ".join(
        f"{name} after {epoch:g} epochs" if epoch else f"{name} never" for name, epoch in passed.items()
    )
    words = (
        "The same network from the same first weights with each loss. While all classes still get like shares, the squared error is flat "
        "and sets out late; Adam, which divides a gradient by its usual size, makes up for much of it. Validation accuracy passed 90 % "
        f"with {reached}."
    )
    figure = Picture.of(
        pictures.learning_curves(histories, "accuracy"), alt="validation accuracy with each loss against the epoch"
    )
    return Section("What that does in practice", [Text(words), figure])


def _first_epoch(rows: Sequence[Row], accuracy: float) -> float | None:
    return next((row["epoch"] for row in rows if row["kind"] == "validation" and row["accuracy"] > accuracy), None)


# --- large logits --------------------------------------------------------------------------------------------------------------


def _overflow_section() -> Section:
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "−ln(eᶻ / Σ eᶻ) as written": lambda z: -torch.log(torch.exp(z[1]) / torch.exp(z).sum()),
        "−ln(softmax(z))": lambda z: -torch.log(torch.softmax(z, dim=0)[1]),
        "from logits": lambda z: categorical_cross_entropy(z[None], torch.tensor([1]))[0],
    }
    pairs = ((10.0, 0.0), (50.0, 0.0), (100.0, 0.0), (1000.0, -1000.0), (-1000.0, 1000.0))
    values, slopes = [], []
    for pair in pairs:
        z = torch.tensor(pair)
        name = " and ".join(f"{logit:,.0f}".replace("-", "−") for logit in pair)
        exact = categorical_cross_entropy(z.double()[None], torch.tensor([1]))[0].item()
        values.append([name, *(_number(form(z).item()) for form in forms.values()), _number(exact)])
        slopes.append(
            [
                name,
                *(_number(_gradient(form, z)[0].item()) for form in forms.values()),
                _number(z.double().softmax(0)[0].item()),
            ]
        )
    words = (
        "Two classes, the second is right; numbers have 32 bits. e¹⁰⁰ is more than such a number can hold, so the formula as it is written "
        "gives ∞, or ∞ / ∞, which is no number. Taking the largest logit off first saves softmax, but its small shares round to 0, and "
        "−ln 0 is ∞ with a gradient of nan: one such example ruins every weight. From the logits, −ln y = ln Σ eᶻ − z never forms the "
        "share, and loss and gradient are right at ±1,000 as they are at ±1."
    )
    header = [*forms, "exact"]
    return Section(
        "Why losses take logits",
        [Text(words), Table(["loss", *header], values), Table(["gradient by the first", *header], slopes)],
    )


def _number(value: float) -> str:
    return f"{value + 0.0:,.4g}".replace("inf", "∞").replace("-", "−")


# --- penalties -------------------------------------------------------------------------------------------------------------------


def _penalties_section(
    learners: Mapping[str, Penalised],
    scores: Mapping[str, Mapping[str, float]],
    shown: Mapping[str, Penalised],
    splits: Splits,
) -> Section:
    weights = {name: learner.weights() for name, learner in shown.items()}
    (_, plain), (l1_name, l1), (frobenius_name, frobenius) = weights.items()
    words = (
        f"Each network has {len(plain):,} weights. With the {l1_name}, {100 * _near_zero(l1):.0f} % of them end within {NEAR_ZERO:g} of "
        f"zero and the others stay large (‖W‖ is {l1.norm():.1f}); with the {frobenius_name}, it is {100 * _near_zero(frobenius):.0f} %: "
        f"all are shrunk (‖W‖ is {frobenius.norm():.1f}, without a penalty {plain.norm():.1f}), few are gone. Steps of gradient descent "
        "hover around zero within their own length, so that near zero stands for the zero of the exact minimum."
    )
    rows = [
        [
            name,
            f"{100 * scores[name]['accuracy']:.2f} %",
            f"{100 * _near_zero(learner.weights()):.1f} %",
            f"{learner.weights().abs().sum():,.0f}",
            f"{learner.weights().norm():.1f}",
        ]
        for name, learner in learners.items()
    ]
    blocks: list[Block] = [
        Text(words),
        Picture.of(
            pictures.weight_spread(weights),
            alt="histogram of the weights without a penalty, with L1 and with Frobenius",
        ),
        Table(["trained with", "test accuracy", f"|w| < {NEAR_ZERO:g}", "Σ |w|", "‖W‖"], rows),
    ]
    schema = splits.train.schema
    if schema.kind == "image":
        for name, learner in shown.items():
            grid = pictures.weight_grid(_strongest_units(learner.model, schema))
            blocks.append(
                Picture.of(grid, alt=f"incoming weights of 12 units, {name}", caption=f"The 12 strongest units, {name}")
            )
    return Section("What penalties do to weights", blocks)


def _near_zero(weights: Float[Tensor, " weight"]) -> float:
    return (weights.abs() < NEAR_ZERO).double().mean().item()


def _strongest_units(model: MLP, schema: Schema) -> Float[Tensor, "unit height width"]:
    """The incoming weights, as pictures, of the units of the first layer that have most of them."""
    first = model.hidden[0] if len(model.hidden) else model.output
    weight = first.get_parameter("weight").detach()
    channels, height, width = schema.shape
    chosen = weight[weight.norm(dim=1).argsort(descending=True, stable=True)[:12]]
    return rearrange(
        chosen, "unit (channel height width) -> unit channel height width", channel=channels, height=height, width=width
    ).mean(1)


RECIPE = Recipe(LossesOptions(), build)
