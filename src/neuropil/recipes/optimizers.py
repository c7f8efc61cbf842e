"""Optimisers on one loss surface: gradient descent, SGD, momentum, RMSProp, Adam and AdamW.

The surface is the loss of a real problem with two weights, linear regression of the progress of diabetes on body-mass
index and on the logarithm of blood fats:

    E(w) = (1/N) Σₙ ½ (w · xₙ − tₙ)²          ∇E = H (w − w*)          H = (1/N) Σₙ xₙ xₙᵀ

The two features have different scales, so that the surface is a narrow valley: κ = λ_max / λ_min of H is about 90.
Gradient descent must keep its learning rate below 2 / λ_max, and then is slow along the valley. It uses all examples in
each step; the others use the same mini-batches. Every optimiser has the best learning rate of one grid. `--surface
rosenbrock` uses the classic synthetic valley f(w) = (1 − w₁)² + 100 (w₂ − w₁²)² instead, without mini-batches and so
without SGD.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import Parameter

from neuropil.config import Config, option
from neuropil.inspection.pictures.training import optimizer_paths
from neuropil.inspection.report.page import Picture, Section, Table
from neuropil.progress import Display
from neuropil.randomness import seeded
from neuropil.tasks import study
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.optimizers import OptimizerName, build_optimizer

RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
NEAR = 0.01
"""An optimiser has converged when its excess loss stays within this share of that at the start."""


class OptimizersOptions(Config):
    surface: Literal["diabetes", "rosenbrock"] = option("diabetes", "loss: a real regression, or Rosenbrock's function")
    steps: int = option(100, "updates by each optimiser", low=10)
    batch_size: int = option(32, "examples in a mini-batch; gradient descent takes all", low=1)
    momentum: float = option(0.9, "momentum coefficient β", low=0, high=1)
    weight_decay: float = option(0.1, "weight decay of AdamW", low=0)


@dataclass(frozen=True)
class Surface:
    """A loss of two weights; `loss(w, chosen)` takes the mean over the chosen examples, or over all for None."""

    loss: Callable[[Float[Tensor, "1 2"], Int[Tensor, " chosen"] | None], Float[Tensor, ""]]
    start: tuple[float, float]
    minimum: tuple[float, float]
    num_examples: int
    window: tuple[tuple[float, float], tuple[float, float]]
    """What to draw: the ends of each axis."""
    words: str

    def excess(self, w: Float[Tensor, "1 2"]) -> float:
        """The loss above the minimum."""
        return (self.loss(w, None) - self.loss(_row(self.minimum), None)).item()

    def curvatures(self) -> tuple[float, float]:
        """The least and the largest eigenvalue of the Hessian at the minimum."""
        hessian = torch.func.hessian(lambda w: self.loss(w[None], None))(_row(self.minimum)[0])
        low, high = torch.linalg.eigvalsh(hessian).tolist()
        return low, high


@dataclass(frozen=True)
class UpdateRule:
    name: OptimizerName
    full_batch: bool = False


@dataclass(frozen=True)
class Descent:
    """The path of one optimiser at one learning rate: its weights and excess loss before and after each step."""

    rate: float
    path: Float[np.ndarray, "position 2"]
    losses: Float[np.ndarray, " position"]

    @property
    def final(self) -> float:
        """The mean excess loss over the last tenth of the steps; infinite where it diverged."""
        mean = float(self.losses[-max(1, len(self.losses) // 10) :].mean())
        return mean if np.isfinite(mean) else float("inf")

    def convergence(self) -> int | None:
        """The step from which on the loss stays near the minimum, for at least the last tenth of the steps."""
        away = np.flatnonzero(~(self.losses <= NEAR * self.losses[0]))
        converged = int(away[-1]) + 1
        return converged if converged <= 0.9 * len(self.losses) else None


FULL_BATCH = "gradient descent"
RULES: dict[str, UpdateRule] = {
    FULL_BATCH: UpdateRule("sgd", full_batch=True),
    "sgd": UpdateRule("sgd"),
    "momentum": UpdateRule("momentum"),
    "rmsprop": UpdateRule("rmsprop"),
    "adam": UpdateRule("adam"),
    "adamw": UpdateRule("adamw"),
}


def build(options: OptimizersOptions, seed: int) -> Study:
    def compute(_: Path, display: Display) -> Findings:
        surface = diabetes_surface() if options.surface == "diabetes" else rosenbrock_surface()
        rules = {name: rule for name, rule in RULES.items() if surface.num_examples or name != "sgd"}

        def run(_: str, rule: UpdateRule) -> list[Descent]:
            return [descend(rule, rate, surface, options, seed) for rate in RATES]

        with study.alone():
            tried = study.compare(rules, run, display, lambda found: f"{_best(found).final:.2g} above the minimum")
        best = {name: _best(found) for name, found in tried.items()}
        sections = [_path_section(surface, options, best), _rates_section(tried), _theory_section(surface, best)]
        ordered = study.leading(best, "adam", FULL_BATCH)
        return Findings([Result(name, _metrics(found)) for name, found in ordered.items()], sections)

    return Study("optimizers", compute)


def _best(tried: Sequence[Descent]) -> Descent:
    return min(tried, key=lambda descent: descent.final)


def _metrics(descent: Descent) -> dict[str, float]:
    steps = descent.convergence()
    metrics = {"excess_loss": descent.final, "learning_rate": descent.rate}
    return metrics if steps is None else metrics | {"steps_to_converge": steps}


def descend(rule: UpdateRule, rate: float, surface: Surface, options: OptimizersOptions, seed: int) -> Descent:
    w = Parameter(_row(surface.start))
    decay = options.weight_decay if rule.name == "adamw" else 0.0
    optimizer = build_optimizer(rule.name, {"w": w}, learning_rate=rate, weight_decay=decay, momentum=options.momentum)
    path, losses = [w.detach().clone()], [surface.excess(w.detach())]
    for chosen in mini_batches(surface.num_examples, options, seed):
        optimizer.zero_grad()
        surface.loss(w, None if rule.full_batch else chosen).backward()
        optimizer.step()
        path.append(w.detach().clone())
        losses.append(surface.excess(w.detach()))
    return Descent(rate, torch.cat(path).numpy(), np.array(losses))


def mini_batches(num_examples: int, options: OptimizersOptions, seed: int) -> list[Int[Tensor, " chosen"] | None]:
    """One mini-batch for each step, the same for every optimiser and learning rate."""
    if not num_examples:
        return [None] * options.steps
    size = min(options.batch_size, num_examples)
    batches: list[Tensor] = []
    for epoch in range(options.steps):
        order = torch.randperm(num_examples, generator=seeded(seed, "race", epoch))
        batches += order[: num_examples - num_examples % size].split(size)
        if len(batches) >= options.steps:
            break
    return [*batches[: options.steps]]


# --- surfaces ---------------------------------------------------------------------------------------------------------


def diabetes_surface() -> Surface:
    from sklearn.datasets import load_diabetes

    table, target = load_diabetes(scaled=False, return_X_y=True)
    body_mass_index, blood_fats = 2, 8
    features = torch.from_numpy(np.asarray(table)[:, [body_mass_index, blood_fats]])
    targets = torch.from_numpy(np.asarray(target))
    # Centred features and targets need no bias: two weights are the whole model.
    x = features - features.mean(0)
    t = (targets - targets.mean()) / targets.std()

    def loss(w: Tensor, chosen: Tensor | None) -> Tensor:
        inputs, target = (x, t) if chosen is None else (x[chosen], t[chosen])
        # E = (1/N) Σ ½ (w · x − t)²
        return 0.5 * (inputs @ w[0] - target).square().mean()

    # (xᵀx) w = xᵀt, by plain sums: a library's least squares may end on another last bit when it is called again
    gram, pull = (x[:, :, None] * x[:, None]).sum(0), (x * t[:, None]).sum(0)
    first, second = torch.linalg.solve(gram, pull).tolist()
    spread = x.std(0)
    words = (
        f"The surface is real: {len(x)} patients (scikit-learn's diabetes data), the progress of the disease within a "
        f"year, and a linear model of two weights, one for body-mass index (spread {spread[0]:.2g}) and one for the "
        f"logarithm of blood fats (spread {spread[1]:.2g})."
    )
    return Surface(loss, (-0.3, -0.4), (first, second), len(x), ((-0.38, 0.56), (-0.65, 1.15)), words)


def rosenbrock_surface() -> Surface:
    def loss(w: Tensor, chosen: Tensor | None) -> Tensor:
        a, b = w[0]
        # f = (1 − a)² + 100 (b − a²)²
        return (1 - a) ** 2 + 100 * (b - a**2) ** 2

    words = "The surface is Rosenbrock's function, (1 − w₁)² + 100 (w₂ − w₁²)². It has no examples and so no SGD."
    return Surface(loss, (-1.2, 1.0), (1.0, 1.0), 0, ((-1.7, 1.7), (-0.8, 2.4)), words)


def _row(point: Sequence[float]) -> Float[Tensor, "1 2"]:
    return torch.tensor([list(point)], dtype=torch.float64)


# --- the report -------------------------------------------------------------------------------------------------------


def _path_section(surface: Surface, options: OptimizersOptions, best: Mapping[str, Descent]) -> Section:
    x, y = (np.linspace(*ends, 121) for ends in surface.window)
    points = torch.from_numpy(np.stack(np.meshgrid(x, y), axis=-1))  # row column weight
    losses = torch.func.vmap(torch.func.vmap(lambda w: surface.loss(w[None], None)))(points)
    excess = (losses - surface.loss(_row(surface.minimum), None)).numpy()
    paths, curves = ({name: getattr(d, part) for name, d in best.items()} for part in ("path", "losses"))
    figure = optimizer_paths(x, y, excess, paths, curves, loss_label="loss above the minimum")
    batches = ""
    if surface.num_examples:
        size = min(options.batch_size, surface.num_examples)
        batches = f" Gradient descent takes all examples in each step, the others the same {size} at a time."
    words = (
        f"{surface.words}{batches} On the left the paths, on the right the loss above the minimum.\n\nGradient descent "
        "follows the steepest direction, which points across the valley and not along it; momentum accumulates what "
        "successive steps agree on; RMSProp and Adam adapt the step size of each weight, so that the flat direction "
        "moves as fast as the steep one. AdamW is Adam with weight decay. The lowest excess loss here is that of "
        f"{min(best, key=lambda name: best[name].final)}."
    )
    rows = []
    for name, d in best.items():
        weights = [f"{weight:.3f}" for weight in d.path[-1]]
        rows.append([name, f"{d.rate:g}", f"{d.final:.2g}", str(d.convergence() or "–"), *weights])
    rows.append(["exact minimum", "–", "0", "–", *(f"{weight:.3f}" for weight in surface.minimum)])
    header = ["optimiser", "learning rate", "excess loss", "converged", "first weight", "second weight"]
    caption = (
        "Excess loss: above the minimum, mean of the last tenth of the steps. Converged: the step from which on it "
        f"stays below {100 * NEAR:g} % of the start."
    )
    picture = Picture.of(figure, "paths of the update rules over the surface, and their losses")
    return Section.of("Paths over the loss surface", words, picture, Table(header, rows, caption))


def _rates_section(tried: Mapping[str, Sequence[Descent]]) -> Section:
    words = "Every optimiser had the same grid of learning rates; the best of each is drawn above. A dash: the loss "
    words += "grew a hundredfold."
    rows = []
    for name, descents in tried.items():
        rows.append([name, *("–" if d.final > 100 * d.losses[0] else f"{d.final:.2g}" for d in descents)])
    return Section.of("Every learning rate", words, Table(["excess loss at", *(f"{rate:g}" for rate in RATES)], rows))


def _theory_section(surface: Surface, best: Mapping[str, Descent]) -> Section:
    low, high = surface.curvatures()
    rate = best[FULL_BATCH].rate
    rows = [
        ["curvature along the valley, λ_min", f"{low:.3g}"],
        ["curvature across it, λ_max", f"{high:.3g}"],
        ["condition number κ = λ_max / λ_min", f"{high / low:.3g}"],
        ["largest learning rate of gradient descent, 2 / λ_max", f"{2 / high:.3g}"],
        ["its best learning rate, 2 / (λ_max + λ_min)", f"{2 / (high + low):.3g}"],
        [f"contraction by one step at {rate:g} along the valley, |1 − η λ_min|", f"{abs(1 - rate * low):.4f}"],
        ["the same across it, |1 − η λ_max|", f"{abs(1 - rate * high):.4f}"],
    ]
    words = (
        "Near its minimum every smooth surface is quadratic. Gradient descent contracts each direction by a factor of "
        "its own, and one learning rate must do for both: what is fast enough for the flat direction is too fast for "
        "the steep one."
    )
    return Section.of("Why the valley is hard", words, Table(["at the minimum", ""], rows))


RECIPE = Recipe(OptimizersOptions(), build, about="training.optimizers")
