"""Every activation function with its derivative, and the accuracy that it reaches.

A gradient is multiplied by the derivative σ'(z) wherever it passes a unit, so that nothing is learned where it is zero.
The first picture has each σ(z) beside σ'(z). Then the two that look at a whole layer, softmax and argmax, on the least
certain prediction of a trained network. Last, the same small network learns with each activation; the threshold, whose
derivative is zero nearly everywhere, learns through a surrogate. Without any activation the layers collapse to a linear
model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.inspection.pictures.functions import activation_curves, softmax_bars
from neuropil.inspection.pictures.style import minus
from neuropil.inspection.pictures.training import learning_curves
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Thumbnail, percent
from neuropil.models.mlp import MLP
from neuropil.parts.activations import ACTIVATIONS, Activation, ActivationName, argmax, derivative, softmax
from neuropil.parts.objectives import Classification
from neuropil.progress import Display
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.history import Row

FAR = 1e4
TEMPERATURES = (4.0, 1.0, 0.25)
MOST_CLASSES = 6


class ActivationsOptions(Config):
    data: DataConfig = DataConfig()
    hidden_sizes: tuple[int, ...] = option((64, 64), "units of each hidden layer of the network", low=1)
    epochs: int = option(25, "epochs with each activation", low=1)
    learning_rate: float = option(3e-3, "peak learning rate of Adam, the same for all", low=0)
    repeats: int = option(2, "trainings with each activation, each with its own seed, whose scores are averaged", low=1)

    def validate(self) -> None:
        if not self.hidden_sizes:
            fix = "give --hidden-sizes at least one layer"
            raise InputError("activations sit in hidden layers", got="hidden_sizes without any", fix=fix)


@dataclass(frozen=True)
class ActivationTrial:
    """Mean test scores over the repeats; history and model of the first."""

    scores: Mapping[str, float]
    history: Sequence[Row]
    model: MLP


def build(options: ActivationsOptions, seed: int) -> Study:
    splits = study.prepare_classes(options.data, seed)

    def compute(folder: Path, display: Display) -> Findings:
        def train(_: str, name: ActivationName) -> ActivationTrial:
            return _train(name, options, splits, seed, folder)

        units: dict[str, ActivationName] = {f"{name} units": name for name in ACTIVATIONS}
        trials = study.compare(units, train, display, lambda t: f"test accuracy {percent(t.scores['accuracy'])}")
        layer = _layer_section(trials["relu units"].model, splits.test)
        return Findings(_results(trials, splits), [_shapes_section(), layer, _learning_section(options, trials)])

    return Study("activations", compute, {"source": splits.train.source})


def _train(
    name: ActivationName, options: ActivationsOptions, splits: Splits, seed: int, folder: Path
) -> ActivationTrial:
    config = study.adam(options.epochs, options.learning_rate)
    augment = Augment(shift=0.5, rotate=10, zoom=0.1) if splits.train.schema.kind == "image" else None
    validation = study.in_order(splits.validation)
    models, histories, scores = [], [], []
    for repeat in range(options.repeats):
        own = seed + 1000 * repeat
        model = study.new_mlp(splits.train, own, hidden_sizes=options.hidden_sizes, activation=name, dropout=0.0)
        learner = Classification(model)
        batches = study.shuffled(splits.train, config.batch_size, own, augment)
        histories.append(study.train_trial(folder, f"{name} {repeat}", learner, batches, validation, config, seed=own))
        scores.append(study.score(learner, splits.test))
        models.append(learner.model)
    means = {metric: sum(each[metric] for each in scores) / len(scores) for metric in scores[0]}
    return ActivationTrial(means, histories[0], models[0])


def _results(trials: Mapping[str, ActivationTrial], splits: Splits) -> list[Result]:
    """The usual choice, the linear baseline, then the other activations from the best down."""
    linear, *rest = baselines(splits)
    ranked = sorted(trials, key=lambda name: (name != "relu units", -trials[name].scores["accuracy"]))
    relu, *others = [Result(name, trials[name].scores) for name in ranked]
    return [relu, linear, *others, *rest]


def _shapes_section() -> Section:
    z = torch.linspace(-5, 5, 401)
    curves = {name: (z, activation(z), derivative(activation, z)) for name, activation in ACTIVATIONS.items()}
    words = (
        "Solid is the output σ(z) of a unit with the pre-activation z; dashed is its derivative σ'(z), by which every "
        "gradient is multiplied on its way through the unit. Where the derivative is zero the unit is saturated and "
        "passes no gradient on. The derivative of the threshold is that of its surrogate: its own is zero everywhere "
        "but at the step, where it has none."
    )
    rows = [_shape_row(name, activation) for name, activation in ACTIVATIONS.items()]
    header = ["activation", "lowest", "highest", "slope at most", "slope at z = 4", "left after ten layers"]
    caption = "The last column is the largest slope to the 10th power: what ten units in a row can leave of a gradient."
    figure = Picture.of(activation_curves(curves), "each activation with its derivative")
    return Section.of("Each activation and its slope", words, figure, Table(header, rows, caption))


def _shape_row(name: str, activation: Activation) -> list[str]:
    z = torch.linspace(-8, 8, 16_001, dtype=torch.float64)
    everywhere = torch.cat([activation(z), activation(torch.tensor([-FAR, FAR], dtype=torch.float64))])
    steepest = derivative(activation, z).max().item()
    at_four = derivative(activation, torch.tensor([4.0], dtype=torch.float64)).item()
    bounds = [_bound(everywhere.min().item()), _bound(everywhere.max().item())]
    return [name, *bounds, f"{steepest:.3f}", f"{at_four:.4f}", f"{steepest**10:.2g}"]


def _bound(value: float) -> str:
    return f"{'−' if value < 0 else ''}∞" if abs(value) > FAR / 10 else minus(f"{value + 0.0:.3f}")


def _layer_section(model: MLP, test: Examples) -> Section:
    """Softmax and argmax of the logits of the test example that the model is least certain of."""
    with torch.no_grad():
        logits = torch.cat([model(batch["input"]) for batch in study.in_order(test).epoch(0)])
    doubtful = int(softmax(logits).max(-1).values.argmin())
    z = logits[doubtful]
    shown = z.topk(min(MOST_CLASSES, len(z))).indices
    names = [test.schema.classes[index] for index in shown.tolist()]
    outputs = {f"softmax(z / {temperature:g})": softmax(z / temperature)[shown] for temperature in TEMPERATURES}
    outputs["argmax(z)"] = argmax(z)[shown]
    words = (
        "These two look at a whole layer. Here are the logits of the test example that the ReLU network is least "
        "certain of. Softmax gives probabilities that sum to one; a temperature that divides the logits makes them "
        "softer (above 1) or harder (below), and argmax is the limit at temperature zero. Argmax has no derivative to "
        "learn from; softmax does."
    )
    blocks: list[Block] = [
        Table(["class", *names], [["logit z", *(f"{logit:.2f}" for logit in z[shown].tolist())]]),
        Picture.of(softmax_bars(names, outputs), "softmax of these logits at three temperatures, and argmax"),
        _derivative_table(z, shown, names),
    ]
    if test.schema.kind == "image":
        truth = test.schema.classes[int(test.targets[doubtful])]
        blocks.insert(0, Gallery([Thumbnail(pixels(test.inputs[doubtful]), f"in truth {truth}")]))
    return Section.of("Softmax and argmax", words, *blocks)


def _derivative_table(z: Float[Tensor, " class"], shown: Tensor, names: Sequence[str]) -> Table:
    slopes = torch.func.jacrev(softmax)(z)[shown][:, shown].tolist()
    rows = [[f"y of {name}", *(f"{slope:.4f}" for slope in row)] for name, row in zip(names, slopes, strict=True)]
    caption = "∂yᵢ/∂zⱼ = yᵢ (δᵢⱼ − yⱼ) of softmax(z): raising one logit lowers all other probabilities."
    return Table(["", *(f"z of {name}" for name in names)], rows, caption)


def _learning_section(options: ActivationsOptions, trials: Mapping[str, ActivationTrial]) -> Section:
    reached = {name.removesuffix(" units"): trial.scores["accuracy"] for name, trial in trials.items()}
    best = max(reached, key=reached.__getitem__)
    words = (
        f"The same network ({' and '.join(map(str, options.hidden_sizes))} hidden units, {options.epochs} epochs of "
        f"Adam at {options.learning_rate:g}) with each activation, {options.repeats} times from different initial "
        f"weights. The best, {best}, reached {percent(reached[best])} on the test part; identity, which is a linear "
        f"model however deep, {percent(reached['identity'])}; logistic units, whose slope is never above 0.25, "
        f"{percent(reached['logistic'])}."
    )
    histories = {name.removesuffix(" units"): trial.history for name, trial in trials.items()}
    figure = Picture.of(learning_curves(histories, "loss"), "validation loss of each network against the epoch")
    return Section.of("What each does in practice", words, figure)


RECIPE = Recipe(ActivationsOptions(), build, about="parts.activations")
