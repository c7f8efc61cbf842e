"""Any function that you type, built from steep sigmoids: the proof of universal approximation, carried out.

    G(x) = Σⱼ f(aⱼ) (H(x; aⱼ − δ/2) − H(x; aⱼ + δ/2))          H(x; b) = logistic(k (x − b) / δ)

The report shows the staircase that follows the function and the pieces that it is made of; how the error falls with the number of units,
beside what the proof promises; how many units are enough for a given ε; and what as many units reach when they are trained by gradient
descent, or a polynomial of as many coefficients. The construction is a proof and not a method: it wastes units and needs no training.

The function is an expression of x such as ``sin(3*x) + 0.3*x^2``, read by the project's own parser and never run as code.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.errors import InputError
from neuropil.inspection import pictures
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.models.universal_approximation import (
    UniversalApproximator,
    UniversalApproximatorConfig,
    approximate,
    finite_values,
)
from neuropil.parts.expression import Expression
from neuropil.tasks.classification.experiment import ObjectiveConfig, learner_for
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study
from neuropil.tasks.trial import new_mlp, shuffled, train_trial
from neuropil.training.loop import TrainingConfig
from neuropil.training.progress import Display

UNITS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
"""As shares of the function's range."""
SHOWN_PIECES = 9
DRAWN_POINTS = 1501
TRAINING_POINTS = 1024


class UniversalApproximationOptions(Config):
    function: str = option(
        "sin(3*x) + 0.3*x^2", "what to approximate: an expression of x with + - * / ^, sin, exp, abs, max and others"
    )
    net: UniversalApproximatorConfig = UniversalApproximatorConfig(hidden_size=64, low=-3.0, high=3.0)
    epochs: int = option(400, "passes of gradient descent for the network that is trained beside it", low=1)


def build(options: UniversalApproximationOptions, seed: int) -> Study:
    function = Expression(options.function)
    UniversalApproximator(options.net).fit(
        function
    )  # a function that is not finite somewhere is refused here, before a folder is made

    def compute(folder: Path, display: Display) -> Findings:
        errors = {}
        sizes = sorted({*UNITS, options.net.hidden_size})
        for index, units in enumerate(sizes):
            net = UniversalApproximator(options.net.override(hidden_size=units)).fit(function)
            errors[units] = (net.error(function), net.bound(function))
            display.update(0.7 * (index + 1) / len(sizes), f"{units} units: largest error {errors[units][0]:.3g}")
        net = UniversalApproximator(options.net).fit(function)
        trained = _trained_error(net, function, options, seed, folder)
        display.update(1.0, f"{options.net.hidden_size} units by gradient descent: largest error {trained:.3g}")
        results = [
            Result("construction", {"largest_error": errors[options.net.hidden_size][0]}),
            Result("what the proof promises", {"largest_error": errors[options.net.hidden_size][1]}),
            Result(f"{options.net.hidden_size} logistic units, trained", {"largest_error": trained}),
            Result(
                f"polynomial of {options.net.hidden_size} coefficients",
                {"largest_error": polynomial_error(net, function)},
            ),
        ]
        sections = [
            _picture_section(net, function, errors),
            _error_section(errors),
            _epsilon_section(options.net, function),
            _beside_section(results),
        ]
        return Findings(results, sections)

    return Study("universal approximation", compute)


# --- what it is compared with ----------------------------------------------------------------------------------------------------


def _trained_error(
    net: UniversalApproximator, function: Expression, options: UniversalApproximationOptions, seed: int, folder: Path
) -> float:
    """As many hidden units, all weights found by gradient descent on points of the function."""
    config = net.config
    x = torch.linspace(config.low, config.high, TRAINING_POINTS, dtype=torch.float64)
    schema = Schema(kind="table", shape=(1,), classes=())
    examples = Examples(x.float()[:, None], finite_values(function, x).float()[:, None], schema, options.function)
    learner = learner_for(
        new_mlp(examples, seed, hidden_sizes=(config.hidden_size,), activation="logistic", dropout=0.0),
        schema,
        ObjectiveConfig(),
    )
    training = TrainingConfig(epochs=options.epochs, learning_rate=0.1, optimizer="adam", weight_decay=0.0)
    train_trial(
        folder, "trained units", learner, shuffled(examples, training.batch_size, seed), None, training, seed=seed
    )
    with torch.no_grad():
        answers = learner.model(net.grid().float()[:, None])[:, 0]
    return (answers - function(net.grid())).abs().max().item()


def polynomial_error(net: UniversalApproximator, function: Expression) -> float:
    """Least squares with as many coefficients as the net has units, in Chebyshev's basis, which stays well conditioned."""
    nodes = np.cos(np.pi * (np.arange(4 * net.config.hidden_size) + 0.5) / (4 * net.config.hidden_size))
    middle, half = (net.config.low + net.config.high) / 2, (net.config.high - net.config.low) / 2
    values = finite_values(function, torch.from_numpy(middle + half * nodes)).numpy()
    coefficients = np.polynomial.chebyshev.chebfit(nodes, values, net.config.hidden_size - 1)
    grid = net.grid().numpy()
    fitted = np.polynomial.chebyshev.chebval((grid - middle) / half, coefficients)
    return float(np.abs(fitted - function(net.grid()).numpy()).max())


# --- the report ----------------------------------------------------------------------------------------------------------------------


def _picture_section(
    net: UniversalApproximator, function: Expression, errors: Mapping[int, tuple[float, float]]
) -> Section:
    x = torch.linspace(net.config.low, net.config.high, DRAWN_POINTS, dtype=torch.float64)
    heights = function(net.centers())
    with torch.no_grad():
        pieces = net.pieces(x) * heights
        followed = net(x)
    shown = torch.linspace(0, len(heights) - 1, min(SHOWN_PIECES, len(heights))).round().long()
    figure = pictures.approximation(
        x,
        finite_values(function, x),
        followed,
        [pieces[:, index] for index in shown],
        {units: error for units, (error, _) in errors.items()},
    )
    words = (
        f"`{function.text}` for x from {net.config.low:g} to {net.config.high:g}, by {net.config.hidden_size} sigmoids. Two steps next to each "
        "other, one up and one down, make a piece that is one on a short stretch and zero elsewhere; each piece is as high as the "
        "function in its middle, and their sum is a staircase. On the right the largest error for growing numbers of units, on "
        "logarithmic axes."
    )
    return Section(
        "The construction",
        [Text(words), Picture.of(figure, alt="the function, its staircase, some pieces, and error against units")],
    )


def _error_section(errors: Mapping[int, tuple[float, float]]) -> Section:
    slope = _slope({units: error for units, (error, _) in errors.items()})
    if slope is None:
        words = "The error is as small as rounding at every size: the function is constant, and one piece of it is as good as many."
    else:
        falls = (
            "as the proof says for a function with a bounded slope: twice the units, half the error"
            if slope < -0.8
            else (
                "and −1 is what a function with a bounded slope would give: this one is too steep somewhere, or not continuous"
            )
        )
        words = (
            f"From 16 units on the error falls with a slope of {slope:.2f} on logarithmic axes".replace("-", "−")
            + f", {falls}."
        )
    rows = [[units, f"{error:.3g}", f"{bound:.3g}"] for units, (error, bound) in errors.items()]
    return Section(
        "Error against units", [Text(words), Table(["units", "largest error", "what the proof promises"], rows)]
    )


def _beside_section(results: Sequence[Result]) -> Section:
    words = (
        "The construction is a proof, not a method. It spends a unit on every stretch of the interval, needs no training and comes "
        "with a promise. Units that are trained move to where they are needed, and nobody promises that they will; a polynomial is far "
        "better for a smooth function and little better at a corner: try `--function 'abs(x)'`."
    )
    rows = [[result.name, f"{result.metrics['largest_error']:.3g}"] for result in results]
    return Section("Beside other ways", [Text(words), Table(["", "largest error"], rows)])


def _slope(errors: Mapping[int, float]) -> float | None:
    """Of log error against log units, over the sizes at which the pieces are small; None where there is no error to speak of."""
    points = [(math.log(units), math.log(error)) for units, error in errors.items() if units >= 16 and error > 1e-9]
    x, y = np.array(points).reshape(-1, 2).T
    return float(np.polyfit(x, y, 1)[0]) if len(points) >= 2 else None


def _epsilon_section(config: UniversalApproximatorConfig, function: Expression) -> Section:
    """The theorem is about any ε: units are doubled until the bound promises it."""
    span = _span(function, config)
    rows = []
    for share in EPSILONS:
        try:
            net = approximate(function, share * span, config.low, config.high)
        except InputError:
            rows.append([f"{share * span:.3g}", f"{100 * share:g} %", "more than can be tried", "–"])
            break
        rows.append(
            [f"{share * span:.3g}", f"{100 * share:g} %", f"{net.config.hidden_size:,}", f"{net.error(function):.3g}"]
        )
    words = "For any ε there is a number of units. Here they are doubled until the bound of the proof is below ε; the real error is smaller."
    header = ["ε", "of the function's range", "units that promise it", "largest error"]
    return Section("As near as you like", [Text(words), Table(header, rows)])


def _span(function: Callable[[Tensor], Tensor], config: UniversalApproximatorConfig) -> float:
    values: Float[Tensor, " point"] = function(UniversalApproximator(config).grid())
    return float(values.max() - values.min()) or 1.0


RECIPE = Recipe(UniversalApproximationOptions(), build)
