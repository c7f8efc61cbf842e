"""Any function that you type, built from steep sigmoids: the proof of universal approximation, carried out.

    G(x) = Σⱼ f(aⱼ) (H(x; aⱼ − δ/2) − H(x; aⱼ + δ/2))          H(x; b) = logistic(k (x − b) / δ)

The report shows the approximation and the pieces that it is made of; how the error falls with the number of units,
beside the bound of the proof; how many units are enough for a given ε; and the error of as many units trained by
gradient descent, or of a polynomial with as many coefficients. The construction is a proof and not a method: it wastes
units and needs no training.

The same for every squashing function, and on [0, 1]² and [0, 1]³ by steps along many directions, again in one hidden
layer: the error against the number of units, beside the bound.

The function is an expression of x such as ``sin(3*x) + 0.3*x^2``, read by the project's own parser and never run as
code.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.errors import InputError
from neuropil.inspection.pictures.functions import approximation, approximation_of_two
from neuropil.inspection.pictures.style import minus
from neuropil.inspection.report.page import Picture, Section, Table, percent
from neuropil.models import universal_approximation as theorem
from neuropil.models.universal_approximation import (
    RidgeApproximator,
    RidgeApproximatorConfig,
    Squashing,
    UniversalApproximator,
    UniversalApproximatorConfig,
)
from neuropil.parts.expression import Expression
from neuropil.progress import Display
from neuropil.tasks import study
from neuropil.tasks.classification.scores import scorer_for
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.config import TrainingConfig

Errors: TypeAlias = Mapping[int, tuple[float, float]]
"""By the number of units."""

UNITS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
"""As shares of the function's range."""
SHOWN_PIECES = 9
DRAWN_POINTS = 1501
TRAINING_POINTS = 1024
VARIABLES = ("x", "y", "z")
DEGREES = {2: (1, 2, 4, 8), 3: (1, 2, 3, 4)}
"""By the number of variables."""
SIDES = {2: 33, 3: 13}
"""Points along each axis at which errors are looked at."""
PIECES = 4
"""In one unit of length, for each degree."""
SHUT = 1e-6
"""How nearly shut a step is at half a piece from its place."""


class UniversalApproximationOptions(Config):
    function: str = option("sin(3*x) + 0.3*x^2", "expression of x with + - * / ^, sin, exp, abs, max and others")
    net: UniversalApproximatorConfig = UniversalApproximatorConfig(hidden_size=64, low=-3.0, high=3.0)
    epochs: int = option(400, "epochs of the network that is trained beside it", low=1)
    function_2d: str = option("sin(3*x) * y + x*y^2", "expression of x and y, approximated on [0, 1]²")
    function_3d: str = option("exp(-x) * sin(2*y) + y*z", "expression of x, y and z, approximated on [0, 1]³")
    degree: int = option(
        12, "highest frequency of the cosines of several variables; at most 5 of three", low=1, high=12
    )


def build(options: UniversalApproximationOptions, seed: int) -> Study:
    function = Expression(options.function)
    # A function that is not finite somewhere is refused here, before a folder is made.
    net = UniversalApproximator(options.net).fit(function)
    several = {2: Expression(options.function_2d, VARIABLES[:2]), 3: Expression(options.function_3d, VARIABLES)}
    for dimensions, each in several.items():
        theorem.values_on(each, theorem.unit_grid(dimensions, SIDES[dimensions]))

    def compute(folder: Path, display: Display) -> Findings:
        def measure(_: str, units: int) -> tuple[float, float]:
            sized = UniversalApproximator(options.net.override(hidden_size=units)).fit(function)
            return sized.error(function), sized.bound(function)

        sizes = {f"{units} units": units for units in sorted({*UNITS, options.net.hidden_size})}
        measured = study.compare(sizes, measure, display, lambda found: f"largest error {found[0]:.3g}")
        errors = {sizes[name]: found for name, found in measured.items()}
        error, bound = errors[options.net.hidden_size]
        largest = {
            "construction": error,
            "bound of the proof": bound,
            f"{options.net.hidden_size} logistic units, trained": _trained_error(net, function, options, seed, folder),
            f"polynomial of {options.net.hidden_size} coefficients": polynomial_error(net, function),
        }
        ridges = {dimensions: _ridges(each, dimensions, options, display) for dimensions, each in several.items()}
        sections = [_construction_section(net, function, errors), _error_section(errors)]
        sections += [_epsilon_section(options.net, function), _comparison_section(largest)]
        sections += [_squashing_section(options.net, function), _several_section(several, ridges, errors)]
        return Findings([Result(name, {"largest_error": value}) for name, value in largest.items()], sections)

    return Study("universal approximation", compute)


# --- what it is compared with -----------------------------------------------------------------------------------------


def _trained_error(
    net: UniversalApproximator, function: Expression, options: UniversalApproximationOptions, seed: int, folder: Path
) -> float:
    """As many hidden units, all weights found by gradient descent on points of the function."""
    config = net.config
    x = torch.linspace(config.low, config.high, TRAINING_POINTS, dtype=torch.float64)
    schema = Schema(kind="table", shape=(1,), classes=())
    y = theorem.finite_values(function, x)
    examples = Examples(x.float()[:, None], y.float()[:, None], schema, options.function)
    model = study.new_mlp(examples, seed, hidden_sizes=(config.hidden_size,), activation="logistic", dropout=0.0)
    learner = scorer_for(model, schema)
    training = TrainingConfig(epochs=options.epochs, learning_rate=0.1, optimizer="adam", weight_decay=0.0)
    batches = study.shuffled(examples, training.batch_size, seed)
    study.train_trial(folder, "trained units", learner, batches, None, training, seed=seed)
    with torch.no_grad():
        predicted = model(net.grid().float()[:, None])[:, 0]
    return (predicted - function(net.grid())).abs().max().item()


def polynomial_error(net: UniversalApproximator, function: Expression) -> float:
    """Least squares with a coefficient for each unit of the net, in Chebyshev's basis, which is well conditioned."""
    nodes = np.cos(np.pi * (np.arange(4 * net.config.hidden_size) + 0.5) / (4 * net.config.hidden_size))
    middle, half = (net.config.low + net.config.high) / 2, (net.config.high - net.config.low) / 2
    values = theorem.finite_values(function, torch.from_numpy(middle + half * nodes)).numpy()
    coefficients = np.polynomial.chebyshev.chebfit(nodes, values, net.config.hidden_size - 1)
    grid = net.grid().numpy()
    fitted = np.polynomial.chebyshev.chebval((grid - middle) / half, coefficients)
    return float(np.abs(fitted - function(net.grid()).numpy()).max())


# --- several variables ------------------------------------------------------------------------------------------------


class RidgeTrial(NamedTuple):
    net: RidgeApproximator
    error: float
    bound: float


def _ridges(
    function: Expression, dimensions: int, options: UniversalApproximationOptions, display: Display
) -> list[RidgeTrial]:
    """At growing degrees, with pieces so many that their error falls with that of the cosines."""
    steepness, found = Squashing(options.net.squashing).steepness_for(SHUT), []
    degrees = [degree for degree in DEGREES[dimensions] if degree <= options.degree]
    display.begin(0.0)
    for number, degree in enumerate(degrees, start=1):
        config = RidgeApproximatorConfig(
            dimensions=dimensions,
            degree=degree,
            pieces=PIECES * (degree + 1),
            steepness=steepness,
            squashing=options.net.squashing,
        )
        net = RidgeApproximator(config).fit(function)
        found.append(RidgeTrial(net, net.error(function, SIDES[dimensions]), net.bound(function, SIDES[dimensions])))
        display.update(number / len(degrees), f"{dimensions} variables, {net.num_units:,} units: {found[-1].error:.3g}")
    return found


# --- the report -------------------------------------------------------------------------------------------------------


def _construction_section(net: UniversalApproximator, function: Expression, errors: Errors) -> Section:
    x = torch.linspace(net.config.low, net.config.high, DRAWN_POINTS, dtype=torch.float64)
    heights = function(net.centers())
    with torch.no_grad():
        pieces, approximated = net.pieces(x) * heights, net(x)
    shown = torch.linspace(0, len(heights) - 1, min(SHOWN_PIECES, len(heights))).round().long()
    by_units = {units: error for units, (error, _) in errors.items()}
    values = theorem.finite_values(function, x)
    figure = approximation(x, values, approximated, [pieces[:, index] for index in shown], by_units)
    words = (
        f"`{function.text}` for x from {net.config.low:g} to {net.config.high:g}, by {net.config.hidden_size} "
        "sigmoids. Two steps next to each other, one up and one down, make a piece that is one on a short interval "
        "and zero elsewhere; each piece is as high as the function in its middle, and their sum is a piecewise "
        "constant approximation. On the right the largest error against the number of units, on logarithmic axes."
    )
    picture = Picture.of(figure, "the function, its staircase, some pieces, and error against units")
    return Section.of("The construction", words, picture)


def _error_section(errors: Errors) -> Section:
    slope = _slope({units: error for units, (error, _) in errors.items()})
    falls = minus(f"From 16 units on the error falls with a slope of {slope or 0:.2f} on logarithmic axes")
    if slope is None:
        words = "The error is as small as rounding at every size: the function is constant, and one piece is enough."
    elif slope < -0.8:
        words = f"{falls}, as the proof says for a function with a bounded slope: twice the units, half the error."
    else:
        words = f"{falls}, not −1 as for a bounded slope: the function is too steep somewhere, or not continuous."
    rows = [[units, f"{error:.3g}", f"{bound:.3g}"] for units, (error, bound) in errors.items()]
    table = Table(["units", "largest error", "bound of the proof"], rows)
    return Section.of("Error against units", words, table)


def _comparison_section(largest: Mapping[str, float]) -> Section:
    words = (
        "The construction is a proof, not a method. It spends a unit on every piece of the interval, needs no training "
        "and has a guaranteed bound. Trained units move to where they are needed, without a guarantee; polynomials "
        "suit smooth functions and not corners: try `--function 'abs(x)'`. The smallest error here is that of the "
        f"{min(largest, key=largest.__getitem__)}."
    )
    rows = [[name, f"{error:.3g}"] for name, error in largest.items()]
    return Section.of("Other approximations", words, Table(["", "largest error"], rows))


def _squashing_section(config: UniversalApproximatorConfig, function: Expression) -> Section:
    """The same construction with each, its steps so steep that they are shut beside their own piece."""
    rows, kept = [], True
    for name in dict.fromkeys([*theorem.SQUASHING, config.squashing]):
        squashing = Squashing(name)
        steep = config.override(squashing=name, steepness=squashing.steepness_for(SHUT))
        net = UniversalApproximator(steep).fit(function)
        error, bound = net.error(function), net.bound(function)
        kept &= error <= bound
        limits = minus(f"{squashing.low:.4g} … {squashing.high:.4g}")
        rows.append([name, limits, f"{steep.steepness:,.0f}", f"{error:.4g}", f"{bound:.4g}"])
    words = (
        "The proof uses of the logistic function only that it rises from one limit to another: any squashing function "
        "will do, and one with longer tails needs steeper steps. k is doubled here until a step is shut up to "
        f"{SHUT:g} at half a piece from its place. The error {'is' if kept else 'is NOT'} within the bound for each."
    )
    header = ["squashing function", "limits", "steepness k", "largest error", "bound of the proof"]
    return Section.of("Any squashing function", words, Table(header, rows))


def _several_section(
    functions: Mapping[int, Expression], ridges: Mapping[int, Sequence[RidgeTrial]], errors: Errors
) -> Section:
    by_units = {"n = 1": errors}
    for dimensions, trials in ridges.items():
        by_units[f"n = {dimensions}"] = {trial.net.num_units: (trial.error, trial.bound) for trial in trials}
    best, side = ridges[2][-1].net, SIDES[2]
    points = theorem.unit_grid(2, side)
    with torch.no_grad():
        approximated = torch.cat([best(some) for some in points.split(64)]).unflatten(0, (side, side))
    target = theorem.values_on(functions[2], points).unflatten(0, (side, side))
    figure = approximation_of_two(target.T, approximated.T, by_units)
    kept = all(trial.error <= trial.bound for trials in ridges.values() for trial in trials)
    last = {n: trials[-1] for n, trials in ridges.items()}
    reached = ", ".join(
        f"{trial.net.num_units:,} units come within {trial.error:.2g} of the {which} (bound {trial.bound:.2g})"
        for which, trial in zip(("first", "second"), last.values(), strict=True)
    )
    words = (
        f"`{functions[2].text}` on [0, 1]² and `{functions[3].text}` on [0, 1]³, in one hidden layer as well. A cosine "
        "series, smoothed by the kernel of Fejér and Korovkin, is a sum of cosines along directions k · x, and each of "
        f"these is built of steps along its direction. {reached}; "
        f"{'every error is below its bound' if kept else 'NOT every error is below its bound'}."
    )
    rows = [
        [
            f"{n}",
            trial.net.config.degree,
            len(trial.net.ridges),
            trial.net.num_units,
            f"{trial.error:.3g}",
            f"{trial.bound:.3g}",
        ]
        for n, trials in ridges.items()
        for trial in trials
    ]
    header = ["variables", "degree m", "directions", "units", "largest error", "bound of the proof"]
    alt = "a function of two variables, its approximation, and error against units for one, two and three variables"
    return Section.illustrated("Several variables", words, figure, alt, Table(header, rows))


def _slope(errors: Mapping[int, float]) -> float | None:
    """Of log error against log units, over sizes at which the pieces are small; None where there is hardly an error."""
    points = [(math.log(units), math.log(error)) for units, error in errors.items() if units >= 16 and error > 1e-9]
    x, y = np.array(points).reshape(-1, 2).T
    return float(np.polyfit(x, y, 1)[0]) if len(points) >= 2 else None


def _epsilon_section(config: UniversalApproximatorConfig, function: Expression) -> Section:
    """The theorem is about any ε: units are doubled until the bound promises it."""
    values = function(UniversalApproximator(config).grid())
    span = float(values.max() - values.min()) or 1.0
    rows = []
    for share in EPSILONS:
        try:
            net = theorem.approximate(function, share * span, config.low, config.high)
        except InputError:
            rows.append([f"{share * span:.3g}", percent(share, 0), "more than can be tried", "–"])
            break
        reached = f"{net.config.hidden_size:,}", f"{net.error(function):.3g}"
        rows.append([f"{share * span:.3g}", percent(share, 0), *reached])
    words = "For any ε there is a number of units. Here they are doubled until the bound of the proof is below ε."
    header = ["ε", "of the function's range", "units that guarantee it", "largest error"]
    return Section.of("Any ε", words, Table(header, rows))


RECIPE = Recipe(UniversalApproximationOptions(), build, about="models.universal_approximation")
