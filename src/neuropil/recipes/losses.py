"""Three losses and their gradients by the logit, why losses take logits, and two penalties on the weights.

With target 1 and y = logistic(z), the gradients by the logit are

    squared error               (y − 1) y (1 − y)      vanishes where the prediction is confidently wrong
    Bernoulli cross-entropy     y − 1                  is largest there
    categorical cross-entropy   softmax(z) − 1         the same, for one of K classes

Then a table of what becomes of ln(softmax(z)) at large logits when it is computed as it is written, beside the form
from logits. Last, a network trained with each loss, and with λ Σ|w| or λ ½ Σw² added: the first pulls every weight by
the same force and leaves most at zero, the second pulls large weights harder and leaves none there.
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
from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import DataConfig
from neuropil.inspection.pictures.functions import loss_curves
from neuropil.inspection.pictures.style import minus
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.pictures.weights import weight_grid, weight_histograms
from neuropil.inspection.report.page import Block, Picture, Section, Table, percent
from neuropil.models.mlp import MLP
from neuropil.parts import losses
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.parts.objectives import Classification, matrices
from neuropil.progress import Display
from neuropil.protocols import Batch, Phase
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.history import Row

Logits: TypeAlias = Float[Tensor, "batch class"]
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Penalty: TypeAlias = Callable[[Iterable[Tensor]], Tensor]

NEAR_ZERO = 1e-3
STRENGTHS = (0.3, 1.0, 3.0)


class LossesOptions(Config):
    data: DataConfig = DataConfig()
    hidden_sizes: tuple[int, ...] = option((64,), "units of each hidden layer; none for a linear model", low=1)
    epochs: int = option(40, "epochs with each loss and penalty", low=1)
    learning_rate: float = option(1e-2, "peak learning rate of Adam, the same for all", low=0)
    l1: float = option(1e-3, "λ of the L1 penalty; a third and three times as much are tried too", low=0)
    frobenius: float = option(3e-3, "λ of the Frobenius penalty; a third and three times as much are tried too", low=0)


@dataclass(frozen=True)
class PenalisedLoss:
    """A loss of the logits, and λ times a penalty on the weights."""

    loss: Loss
    penalty: Penalty | None = None
    strength: float = 0.0


class Penalised:
    """A classifier that minimises a penalised loss, and has the metrics of every classifier."""

    def __init__(self, model: MLP, objective: PenalisedLoss):
        self.model, self.objective = model, objective

    def phases(self) -> Sequence[Phase]:
        return [Phase("penalised", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        loss = self.objective.loss(self.model(batch["input"]), batch["target"]).mean()
        if self.objective.penalty is None:
            return loss
        return loss + self.objective.strength * self.objective.penalty(matrices(self.model))

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " batch"]]:
        return Classification(self.model).metrics(batch)


@dataclass(frozen=True)
class LossTrial:
    model: MLP
    history: Sequence[Row]
    accuracy: float
    weights: Float[Tensor, " weight"]

    @property
    def near_zero(self) -> float:
        """The share of weights within `NEAR_ZERO` of zero."""
        return (self.weights.abs() < NEAR_ZERO).double().mean().item()

    def metrics(self, *, penalised: bool) -> dict[str, float]:
        return {"accuracy": self.accuracy} | ({"near_zero_share": self.near_zero} if penalised else {})


def squared_error(logits: Logits, target: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """½ ‖logistic(z) − t‖², with t = 1 for the class and 0 for the others."""
    return losses.squared_error(torch.sigmoid(logits), _one_hot(logits, target))


def bernoulli_cross_entropy(logits: Logits, target: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """One-vs-rest: a Bernoulli variable for each class."""
    return losses.bernoulli_cross_entropy(logits, _one_hot(logits, target))


def _one_hot(logits: Tensor, target: Tensor) -> Tensor:
    return F.one_hot(target, logits.shape[-1]).to(logits)


PLAIN = "categorical cross-entropy"
LOSSES: dict[str, Loss] = {
    PLAIN: categorical_cross_entropy,
    "Bernoulli cross-entropy": bernoulli_cross_entropy,
    "squared error": squared_error,
}


def build(options: LossesOptions, seed: int) -> Study:
    splits = study.prepare_classes(options.data, seed)
    config = study.adam(options.epochs, options.learning_rate)

    def compute(folder: Path, display: Display) -> Findings:
        def train(name: str, objective: PenalisedLoss) -> LossTrial:
            model = study.new_mlp(splits.train, seed, hidden_sizes=options.hidden_sizes, dropout=0.0)
            learner = Penalised(model, objective)
            batches = study.shuffled(splits.train, config.batch_size, seed)
            validation = study.in_order(splits.validation)
            history = study.train_trial(folder, name, learner, batches, validation, config, seed=seed)
            weights = torch.cat([weight.detach().flatten() for weight in matrices(model)])
            return LossTrial(model, history, study.score(learner, splits.test)["accuracy"], weights)

        objectives = {name: PenalisedLoss(loss) for name, loss in LOSSES.items()} | _penalties(options)
        trials = study.compare(objectives, train, display, lambda trial: f"test accuracy {percent(trial.accuracy)}")
        own, *others = [Result(name, trial.metrics(penalised=name not in LOSSES)) for name, trial in trials.items()]
        linear, frequent = baselines(splits)
        middle = _penalties(options, strengths=(1.0,))
        shown = {"no penalty": trials[PLAIN]} | {name.removeprefix("with "): trials[name] for name in middle}
        sections = [_gradient_section(), _practice_section({name: trials[name].history for name in LOSSES})]
        sections += [_overflow_section(), _penalties_section(trials, shown, splits.train.schema)]
        return Findings([own, linear, *others, frequent], sections)

    return Study("losses", compute, {"source": splits.train.source})


def _penalties(options: LossesOptions, strengths: Sequence[float] = STRENGTHS) -> dict[str, PenalisedLoss]:
    kinds = (("L1", losses.l1_penalty, options.l1), ("Frobenius", losses.frobenius_penalty, options.frobenius))
    tried = [(kind, penalty, factor * strength) for kind, penalty, strength in kinds for factor in strengths]
    named = {f"with {kind} penalty, λ = {strength:g}": (penalty, strength) for kind, penalty, strength in tried}
    return {name: PenalisedLoss(categorical_cross_entropy, *penalty) for name, penalty in named.items()}


# --- losses against the logit ----------------------------------------------------------------------------------------


def _gradient_section() -> Section:
    def one_of_ten(z: Tensor) -> Tensor:
        others = torch.zeros(len(z), 9, dtype=z.dtype)
        return categorical_cross_entropy(torch.cat([z[:, None], others], 1), torch.zeros(len(z), dtype=torch.int64))

    curves: dict[str, Callable[[Tensor], Tensor]] = {
        "squared error of logistic(z)": lambda z: losses.squared_error(
            torch.sigmoid(z)[:, None], torch.ones_like(z)[:, None]
        ),
        "Bernoulli cross-entropy": lambda z: losses.bernoulli_cross_entropy(z[:, None], torch.ones_like(z)[:, None]),
        "categorical cross-entropy, one of ten": one_of_ten,
    }
    z = torch.linspace(-6, 6, 241, dtype=torch.float64)
    figure = loss_curves({name: (z, loss(z), _gradient(loss, z)) for name, loss in curves.items()})
    places = torch.tensor([-6.0, -3.0, 0.0, 3.0, 6.0], dtype=torch.float64)
    slopes = {name: _gradient(loss, places).tolist() for name, loss in curves.items()}
    rows = [[name, *(minus(f"{slope:.4f}") for slope in row)] for name, row in slopes.items()]
    words = (
        "The target is 1, so a large negative logit is a confident mistake. There the cross-entropies rise as a "
        "straight line with a gradient of −1, while the squared error is flat: a unit that is badly wrong hardly "
        "learns. The categorical curve has nine other classes with logits of 0, so that z = 0 is still a mistake."
    )
    header = ["gradient by z at", *(minus(f"z = {place:g}") for place in places.tolist())]
    alt, table = "three losses and their gradients against the logit, for target 1", Table(header, rows)
    return Section.illustrated("The gradient of each loss by the logit", words, figure, alt, table)


def _gradient(loss: Callable[[Tensor], Tensor], z: Float[Tensor, " point"]) -> Float[Tensor, " point"]:
    z = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z).sum(), z)
    return gradient


def _practice_section(histories: Mapping[str, Sequence[Row]]) -> Section:
    passed = {name: _first_epoch(rows, 0.9) for name, rows in histories.items()}
    reached = ", ".join(f"{name} after {n:g} epochs" if n else f"{name} never" for name, n in passed.items())
    words = (
        "The same network from the same initial weights with each loss. While all classes still have similar "
        "probabilities, the squared error is flat; Adam divides a gradient by its usual size. Validation accuracy "
        f"passed 90 % with {reached}."
    )
    figure, alt = learning_curves(histories, "accuracy"), "validation accuracy with each loss against the epoch"
    return Section.illustrated("What that does in practice", words, figure, alt)


def _first_epoch(rows: Sequence[Row], accuracy: float) -> float | None:
    return next((row["epoch"] for row in rows if row["kind"] == "validation" and row["accuracy"] > accuracy), None)


# --- large logits ----------------------------------------------------------------------------------------------------


def _overflow_section() -> Section:
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "−ln(eᶻ / Σ eᶻ) as written": lambda z: -torch.log(torch.exp(z[1]) / torch.exp(z).sum()),
        "−ln(softmax(z))": lambda z: -torch.log(torch.softmax(z, dim=0)[1]),
        "from logits": lambda z: categorical_cross_entropy(z[None], torch.tensor([1]))[0],
    }
    values, slopes = [], []
    for pair in ((10.0, 0.0), (50.0, 0.0), (100.0, 0.0), (1000.0, -1000.0), (-1000.0, 1000.0)):
        z = torch.tensor(pair)
        name = " and ".join(minus(f"{logit:,.0f}") for logit in pair)
        exact = forms["from logits"](z.double()), z.double().softmax(0)[0]
        values.append([name, *(_number(value) for value in (*(form(z) for form in forms.values()), exact[0]))])
        gradients = [_gradient(form, z)[0] for form in forms.values()]
        slopes.append([name, *(_number(value) for value in (*gradients, exact[1]))])
    words = (
        "Two classes, the second is right; numbers have 32 bits. e¹⁰⁰ overflows, so that the formula as it is written "
        "gives ∞, or ∞ / ∞, which is NaN. Subtracting the largest logit first saves softmax, but its small "
        "probabilities underflow to 0, and −ln 0 is ∞ with a gradient of NaN: one such example ruins every weight. "
        "From the logits, −ln y = ln Σ eᶻ − z never computes the probability, and loss and gradient are right at "
        "±1,000 as they are at ±1."
    )
    header = [*forms, "exact"]
    tables = Table(["loss", *header], values), Table(["gradient by the first", *header], slopes)
    return Section.of("Why losses take logits", words, *tables)


def _number(value: Float[Tensor, ""]) -> str:
    return minus(f"{value.item() + 0.0:,.4g}".replace("inf", "∞"))


# --- penalties -------------------------------------------------------------------------------------------------------


def _penalties_section(trials: Mapping[str, LossTrial], shown: Mapping[str, LossTrial], schema: Schema) -> Section:
    ends = "; ".join(
        f"with {name}, {percent(trial.near_zero, 0)} are, and ‖W‖ is {trial.weights.norm():.1f}"
        for name, trial in shown.items()
    )
    words = (
        f"Each network has {len(shown['no penalty'].weights):,} weights. How many end within {NEAR_ZERO:g} of zero: "
        f"{ends}. Steps of gradient descent hover around zero within their own length, so that near zero stands for "
        "the zero of the exact minimum."
    )
    rows = [
        [name, percent(t.accuracy, 2), percent(t.near_zero), f"{t.weights.abs().sum():,.0f}", f"{t.weights.norm():.1f}"]
        for name, t in trials.items()
    ]
    histograms = weight_histograms({name: trial.weights for name, trial in shown.items()})
    alt = "histogram of the weights without a penalty, with L1 and with Frobenius"
    table = Table(["trained with", "test accuracy", f"|w| < {NEAR_ZERO:g}", "Σ |w|", "‖W‖"], rows)
    blocks: list[Block] = [Picture.of(histograms, alt), table]
    if schema.kind == "image":
        for name, trial in shown.items():
            grid = weight_grid(_strongest_units(trial.model, schema))
            caption = f"The 12 units with the largest weights, {name}"
            blocks.append(Picture.of(grid, f"incoming weights of 12 units, {name}", caption))
    return Section.of("What penalties do to weights", words, *blocks)


def _strongest_units(model: MLP, schema: Schema) -> Float[Tensor, "unit height width"]:
    """The incoming weights, as images, of the units of the first layer whose weights have the largest norms."""
    first = model.hidden[0] if len(model.hidden) else model.output
    weight = first.get_parameter("weight").detach()
    channels, height, width = schema.shape
    chosen = weight[weight.norm(dim=1).argsort(descending=True, stable=True)[:12]]
    axes = {"channel": channels, "height": height, "width": width}
    return rearrange(chosen, "unit (channel height width) -> unit channel height width", **axes).mean(1)


RECIPE = Recipe(LossesOptions(), build, about="parts.losses")
