"""Every activation with the slope that learning sees, and what it does in practice.

The first picture has each activation σ(z) beside its derivative σ'(z): a gradient is multiplied by σ'(z) wherever it passes a unit, so a
flat piece is a place where nothing is learned. Then the two that look at a whole layer, softmax and argmax, on a real doubt of a trained
network. Last, the same small network learns with each of them; the threshold, whose own slope is zero nearly everywhere, learns through
the surrogate slope that stands in for it. Without any activation the layers collapse to a linear model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.augmentation import Augment
from neuropil.data.examples.dataset import Examples, Splits
from neuropil.data.examples.files import DataConfig
from neuropil.errors import InputError
from neuropil.inspection import pictures
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Table, Text, Thumbnail
from neuropil.models.mlp import MLP
from neuropil.parts.activations import ACTIVATIONS, Activation, ActivationName, argmax, derivative, softmax
from neuropil.parts.objectives import Classification
from neuropil.tasks.classification.report import pixels
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import in_order, new_mlp, prepare_classes, score, shuffled, train_trial
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

FAR = 1e4
TEMPERATURES = (4.0, 1.0, 0.25)
MOST_CLASSES = 6


class ActivationsOptions(Config):
    data: DataConfig = DataConfig()
    hidden_sizes: tuple[int, ...] = option(
        (64, 64), "units of each hidden layer of the network that is trained with each activation", low=1
    )
    epochs: int = option(25, "passes over the training data with each activation", low=1)
    learning_rate: float = option(3e-3, "peak learning rate of Adam, the same for all", low=0)
    repeats: int = option(
        2, "trainings with each activation, from different first weights, whose scores are averaged", low=1
    )

    def validate(self) -> None:
        if not self.hidden_sizes:
            raise InputError(
                "activations sit in hidden layers",
                got="hidden_sizes without any",
                fix="give --hidden-sizes at least one layer",
            )


def build(options: ActivationsOptions, seed: int) -> Study:
    splits = prepare_classes(options.data, seed)
    return Study(
        "activations",
        lambda folder, display: _compute(options, splits, seed, folder, display),
        {"source": splits.train.source},
    )


def _compute(options: ActivationsOptions, splits: Splits, seed: int, folder: Path, display: Display) -> Findings:
    scores, histories, models = {}, {}, {}
    for index, name in enumerate(ACTIVATIONS):
        scores[name], histories[name], models[name] = _learn(name, options, splits, seed, folder)
        display.update(
            (index + 1) / len(ACTIVATIONS), f"{name} units: test accuracy {100 * scores[name]['accuracy']:.1f} %"
        )
    return Findings(
        _results(scores, splits),
        [_shapes_section(), _layer_section(models["relu"], splits.test), _learning_section(options, scores, histories)],
    )


def _learn(
    name: ActivationName, options: ActivationsOptions, splits: Splits, seed: int, folder: Path
) -> tuple[dict[str, float], list[Row], MLP]:
    """Mean test scores over the repeats; history and model of the first."""
    config = TrainingConfig(
        epochs=options.epochs, learning_rate=options.learning_rate, optimizer="adam", weight_decay=0.0, keep="last"
    )
    augment = Augment(shift=0.5, rotate=10, zoom=0.1) if splits.train.schema.kind == "image" else None
    models, histories, scores = [], [], []
    for repeat in range(options.repeats):
        own_seed = seed + 1000 * repeat
        learner = Classification(
            new_mlp(splits.train, own_seed, hidden_sizes=options.hidden_sizes, activation=name, dropout=0.0)
        )
        batches = shuffled(splits.train, config.batch_size, own_seed, augment)
        histories.append(
            train_trial(
                folder, f"{name} {repeat}", learner, batches, in_order(splits.validation), config, seed=own_seed
            )
        )
        scores.append(score(learner, splits.test))
        models.append(learner.model)
    return {metric: sum(each[metric] for each in scores) / len(scores) for metric in scores[0]}, histories[0], models[0]


def _results(scores: Mapping[str, Mapping[str, float]], splits: Splits) -> list[Result]:
    """The usual choice, the linear baseline, then the other activations from the best down."""
    linear, *rest = baselines(splits)
    ranked = sorted((name for name in scores if name != "relu"), key=lambda name: -scores[name]["accuracy"])
    others = [Result(f"{name} units", scores[name]) for name in ranked]
    return [Result("relu units", scores["relu"]), linear, *others, *rest]


def _shapes_section() -> Section:
    z = torch.linspace(-5, 5, 401)
    curves = {name: (z, activation(z), derivative(activation, z)) for name, activation in ACTIVATIONS.items()}
    words = (
        "Solid is what a unit answers to its summed input z; dashed is the slope σ'(z), by which every gradient is multiplied on its way "
        "through the unit. Where the dashed line lies on zero the unit is saturated and passes nothing on. The slope of the threshold is "
        "the surrogate's: its own is zero everywhere but at the step, where it has none."
    )
    rows = [_shape_row(name, activation) for name, activation in ACTIVATIONS.items()]
    header = ["activation", "lowest", "highest", "slope at most", "slope at z = 4", "left after ten layers"]
    caption = "The last column is the largest slope to the 10th power: what ten units in a row can leave of a gradient."
    return Section(
        "Each activation and its slope",
        [
            Text(words),
            Picture.of(pictures.activation_curves(curves), alt="each activation with its derivative"),
            Table(header, rows, caption),
        ],
    )


def _shape_row(name: str, activation: Activation) -> list[str | float]:
    z = torch.linspace(-8, 8, 16_001, dtype=torch.float64)
    everywhere = torch.cat([activation(z), activation(torch.tensor([-FAR, FAR], dtype=torch.float64))])
    steepest = derivative(activation, z).max().item()
    at_four = derivative(activation, torch.tensor([4.0], dtype=torch.float64)).item()
    return [
        name,
        _written(everywhere.min().item()),
        _written(everywhere.max().item()),
        f"{steepest:.3f}",
        f"{at_four:.4f}",
        f"{steepest**10:.2g}",
    ]


def _written(value: float) -> str:
    return f"{'−' if value < 0 else ''}∞" if abs(value) > FAR / 10 else f"{value + 0.0:.3f}".replace("-", "−")


def _layer_section(model: MLP, test: Examples) -> Section:
    """Softmax and argmax of the logits of the test example that the model is least sure of."""
    with torch.no_grad():
        logits = torch.cat([model(batch["input"]) for batch in in_order(test).epoch(0)])
    doubtful = int(softmax(logits).max(-1).values.argmin())
    z = logits[doubtful]
    shown = z.topk(min(MOST_CLASSES, len(z))).indices
    names = [test.schema.classes[index] for index in shown.tolist()]
    outputs = {f"softmax(z / {temperature:g})": softmax(z / temperature)[shown] for temperature in TEMPERATURES}
    outputs["argmax(z)"] = argmax(z)[shown]
    words = (
        "These two look at a whole layer. Here are the logits of the test example that the ReLU network is least sure of, and what "
        "becomes of them. Softmax gives shares that sum to one; a temperature that divides the logits makes them softer (above 1) or "
        "harder (below), and argmax is what remains at temperature zero. Argmax has no slope to learn from; softmax does."
    )
    blocks: list[Block] = [Text(words)]
    if test.schema.kind == "image":
        blocks.append(Gallery([_thumbnail(test, doubtful)]))
    blocks += [
        Table(["class", *names], [["logit z", *(f"{logit:.2f}" for logit in z[shown].tolist())]]),
        Picture.of(pictures.softening(names, outputs), alt="softmax of these logits at three temperatures, and argmax"),
        _slope_table(z, shown, names),
    ]
    return Section("Softmax and argmax", blocks)


def _thumbnail(examples: Examples, index: int) -> Thumbnail:
    truth = examples.schema.classes[int(examples.targets[index])]
    return Thumbnail(pixels(examples, index), f"in truth {truth}")


def _slope_table(z: Float[Tensor, " class"], shown: Tensor, names: Sequence[str]) -> Table:
    slopes = torch.func.jacrev(softmax)(z)[shown][:, shown]
    rows = [
        [f"y of {name}", *(f"{slope:.4f}" for slope in row.tolist())] for name, row in zip(names, slopes, strict=True)
    ]
    caption = "∂yᵢ/∂zⱼ = yᵢ (δᵢⱼ − yⱼ) of softmax(z): raising one logit takes from all other shares."
    return Table(["", *(f"z of {name}" for name in names)], rows, caption)


def _learning_section(
    options: ActivationsOptions, scores: Mapping[str, Mapping[str, float]], histories: Mapping[str, Sequence[Row]]
) -> Section:
    best = max(scores, key=lambda name: scores[name]["accuracy"])
    layers = " and ".join(map(str, options.hidden_sizes))
    words = (
        f"The same network ({layers} hidden units, {options.epochs} epochs of Adam at {options.learning_rate:g}) with each "
        f"activation, {options.repeats} times from different first weights. The best, {best}, reached "
        f"{100 * scores[best]['accuracy']:.1f} % on the test part; identity, which is no more than a linear model however deep, "
        f"{100 * scores['identity']['accuracy']:.1f} %; logistic units, whose slope is never above 0.25, "
        f"{100 * scores['logistic']['accuracy']:.1f} %."
    )
    return Section(
        "What each does in practice",
        [
            Text(words),
            Picture.of(
                pictures.learning_curves(histories, "loss"), alt="validation loss of each network against the epoch"
            ),
        ],
    )


RECIPE = Recipe(ActivationsOptions(), build)
