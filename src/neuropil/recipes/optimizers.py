"""Update rules racing down one surface: gradient descent, SGD, momentum, RMSProp, Adam and AdamW.

The surface is the loss of a real problem with two weights, linear regression of the progress of diabetes on body-mass index and on the
logarithm of blood fats:

    E(w) = (1/N) Σₙ ½ (w · xₙ − tₙ)²          ∇E = H (w − w*)          H = (1/N) Σₙ xₙ xₙᵀ

The two features have different scales, so the surface is a narrow valley: κ = λ_max / λ_min of H is about 90. Gradient descent must keep
its rate below 2 / λ_max, and then crawls along the valley. It sees all examples in each step; the others see the same mini-batches, so
that their noise is the real one. Every rule runs at the best rate of one grid. `--surface rosenbrock` races on the classic synthetic
valley f(w) = (1 − w₁)² + 100 (w₂ − w₁²)² instead, without mini-batches and so without SGD.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import Parameter

from neuropil.config import Config, option
from neuropil.inspection.pictures.training import optimizer_paths
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.randomness import seeded
from neuropil.tasks.recipe import Recipe, Result
from neuropil.tasks.study import Findings, Study, alone
from neuropil.training.optimizers import OptimizerName, build_optimizer
from neuropil.training.progress import Display

RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
NEAR = 0.01
"""A rule has arrived when it stays within this share of the first height above the lowest point."""


class OptimizersOptions(Config):
    surface: Literal["diabetes", "rosenbrock"] = option(
        "diabetes", "what to race on: a real regression, or Rosenbrock's valley"
    )
    steps: int = option(100, "updates of each rule", low=10)
    batch_size: int = option(32, "examples in a mini-batch; gradient descent takes all", low=1)
    momentum: float = option(0.9, "β of the momentum rule", low=0, high=1)
    weight_decay: float = option(0.1, "pull of AdamW towards zero", low=0)


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

    def height(self, w: Float[Tensor, "1 2"]) -> float:
        """Above the lowest point."""
        return (self.loss(w, None) - self.loss(_row(self.minimum), None)).item()

    def curvatures(self) -> tuple[float, float]:
        """The least and the largest eigenvalue of the Hessian at the minimum."""
        hessian = torch.func.hessian(lambda w: self.loss(w[None], None))(_row(self.minimum)[0])
        low, high = torch.linalg.eigvalsh(hessian).tolist()
        return low, high


@dataclass(frozen=True)
class Racer:
    name: str
    rule: OptimizerName
    sees_all: bool = False


@dataclass(frozen=True)
class Race:
    """One racer's way down at one rate: where it stood, and how high, before and after each step."""

    rate: float
    path: Float[np.ndarray, "position 2"]
    heights: Float[np.ndarray, " position"]

    @property
    def final(self) -> float:
        """The mean height over the last tenth of the steps; infinite where the racer left for good."""
        mean = float(self.heights[-max(1, len(self.heights) // 10) :].mean())
        return mean if np.isfinite(mean) else float("inf")

    def arrival(self) -> int | None:
        """The step from which on the racer stays near the lowest point, for at least the last tenth of the race."""
        away = np.flatnonzero(~(self.heights <= NEAR * self.heights[0]))
        arrived = int(away[-1]) + 1
        return arrived if arrived <= 0.9 * len(self.heights) else None


RACERS = (
    Racer("gradient descent", "sgd", sees_all=True),
    Racer("sgd", "sgd"),
    Racer("momentum", "momentum"),
    Racer("rmsprop", "rmsprop"),
    Racer("adam", "adam"),
    Racer("adamw", "adamw"),
)


def build(options: OptimizersOptions, seed: int) -> Study:
    return Study("optimizers", lambda _, display: _compute(options, seed, display))


def _compute(options: OptimizersOptions, seed: int, display: Display) -> Findings:
    surface = diabetes_surface() if options.surface == "diabetes" else rosenbrock_surface()
    racers = [racer for racer in RACERS if surface.num_examples or racer.name != "sgd"]
    races: dict[str, list[Race]] = {}
    with alone():
        for index, racer in enumerate(racers):
            races[racer.name] = [race(racer, rate, surface, options, seed) for rate in RATES]
            best = min(races[racer.name], key=lambda race: race.final)
            display.update(
                (index + 1) / len(racers), f"{racer.name}: {best.final:.2g} above the minimum at rate {best.rate:g}"
            )
    best = {name: min(tried, key=lambda race: race.final) for name, tried in races.items()}
    return Findings(
        _results(best), [_race_section(surface, options, best), _rates_section(races), _theory_section(surface, best)]
    )


def race(racer: Racer, rate: float, surface: Surface, options: OptimizersOptions, seed: int) -> Race:
    w = Parameter(_row(surface.start))
    decay = options.weight_decay if racer.rule == "adamw" else 0.0
    optimizer = build_optimizer(racer.rule, {"w": w}, learning_rate=rate, weight_decay=decay, momentum=options.momentum)
    path, heights = [w.detach().clone()], [surface.height(w.detach())]
    for chosen in mini_batches(surface.num_examples, options, seed):
        optimizer.zero_grad()
        surface.loss(w, None if racer.sees_all else chosen).backward()
        optimizer.step()
        path.append(w.detach().clone())
        heights.append(surface.height(w.detach()))
    return Race(rate, torch.cat(path).numpy(), np.array(heights))


def mini_batches(num_examples: int, options: OptimizersOptions, seed: int) -> list[Int[Tensor, " chosen"] | None]:
    """One mini-batch for each step, the same for every racer and rate."""
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


# --- surfaces ------------------------------------------------------------------------------------------------------------------


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
        f"The surface is real: {len(x)} patients (scikit-learn's diabetes data), the progress of the disease within a year, and a "
        f"linear model of two weights, one for body-mass index (spread {spread[0]:.2g}) and one for the logarithm of blood fats (spread "
        f"{spread[1]:.2g})."
    )
    return Surface(loss, (-0.3, -0.4), (first, second), len(x), ((-0.38, 0.56), (-0.65, 1.15)), words)


def rosenbrock_surface() -> Surface:
    def loss(w: Tensor, chosen: Tensor | None) -> Tensor:
        a, b = w[0]
        # f = (1 − a)² + 100 (b − a²)²
        return (1 - a) ** 2 + 100 * (b - a**2) ** 2

    words = "The surface is Rosenbrock's valley, (1 − w₁)² + 100 (w₂ − w₁²)², bent and flat along its floor. It has no examples and so no SGD."
    return Surface(loss, (-1.2, 1.0), (1.0, 1.0), 0, ((-1.7, 1.7), (-0.8, 2.4)), words)


def _row(point: Sequence[float]) -> Float[Tensor, "1 2"]:
    return torch.tensor([list(point)], dtype=torch.float64)


# --- the report ------------------------------------------------------------------------------------------------------------------


def _results(best: Mapping[str, Race]) -> list[Result]:
    order = ["adam", "gradient descent", *(name for name in best if name not in ("adam", "gradient descent"))]
    return [
        Result(name, {"excess_loss": best[name].final, "learning_rate": best[name].rate} | _arrival(best[name]))
        for name in order
    ]


def _arrival(race: Race) -> dict[str, float]:
    arrival = race.arrival()
    return {} if arrival is None else {"steps_to_arrive": arrival}


def _race_section(surface: Surface, options: OptimizersOptions, best: Mapping[str, Race]) -> Section:
    x, y = (np.linspace(*ends, 121) for ends in surface.window)
    points = torch.from_numpy(np.stack(np.meshgrid(x, y), axis=-1))  # row column weight
    losses = torch.func.vmap(torch.func.vmap(lambda w: surface.loss(w[None], None)))(points)
    heights = (losses - surface.loss(_row(surface.minimum), None)).numpy()
    figure = optimizer_paths(
        x,
        y,
        heights,
        {name: race.path for name, race in best.items()},
        {name: race.heights for name, race in best.items()},
        loss_label="loss above the minimum",
    )
    seen = noise = ""
    if surface.num_examples:
        size = min(options.batch_size, surface.num_examples)
        seen = f" Gradient descent takes all examples in each step, the others the same {size} at a time."
        noise = (
            " On mini-batches the rules without a step length of their own must go slowly: what is noise in the steep direction would "
            "throw them from wall to wall."
        )
    words = (
        f"{surface.words}{seen} On the left the ways down, on the right the height above the lowest point.\n\n"
        "Plain steps follow the steepest direction, which points across the valley and not along it; momentum adds up what "
        "successive steps agree on; RMSProp and Adam give each weight a step of its own length, so that the flat direction moves as "
        "fast as the steep one. AdamW is Adam with a decay that keeps pulling towards zero."
        f"{noise}"
    )
    rows = [
        [
            name,
            f"{race.rate:g}",
            f"{race.final:.2g}",
            str(race.arrival() or "–"),
            f"{race.path[-1, 0]:.3f}",
            f"{race.path[-1, 1]:.3f}",
        ]
        for name, race in best.items()
    ]
    rows.append(["exact minimum", "–", "0", "–", *(f"{weight:.3f}" for weight in surface.minimum)])
    header = ["rule", "rate", "excess loss", "arrived", "first weight", "second weight"]
    caption = f"Excess loss: above the minimum, mean of the last tenth of the race. Arrived: stays below {100 * NEAR:g} % of the start."
    return Section(
        "The race",
        [
            Text(words),
            Picture.of(figure, alt="paths of the update rules over the surface, and their losses"),
            Table(header, rows, caption),
        ],
    )


def _rates_section(races: Mapping[str, Sequence[Race]]) -> Section:
    words = (
        "Every rule had the same rates to choose from, and races above at its best. A rate that is too small does not arrive in "
        "time; one that is too large jumps from wall to wall and, for the rules without a step length of their own, out of the valley."
    )
    rows = [[name, *(_height(race) for race in tried)] for name, tried in races.items()]
    return Section("Every rate", [Text(words), Table(["excess loss at", *(f"{rate:g}" for rate in RATES)], rows)])


def _height(race: Race) -> str:
    """A dash where the racer left the valley."""
    return "–" if race.final > 100 * race.heights[0] else f"{race.final:.2g}"


def _theory_section(surface: Surface, best: Mapping[str, Race]) -> Section:
    low, high = surface.curvatures()
    rate = best["gradient descent"].rate
    rows = [
        ["curvature along the valley, λ_min", f"{low:.3g}"],
        ["curvature across it, λ_max", f"{high:.3g}"],
        ["condition number κ = λ_max / λ_min", f"{high / low:.3g}"],
        ["largest rate of gradient descent, 2 / λ_max", f"{2 / high:.3g}"],
        ["its best rate, 2 / (λ_max + λ_min)", f"{2 / (high + low):.3g}"],
        [
            f"what one step at {rate:g} leaves of the way, along the valley, |1 − rate λ_min|",
            f"{abs(1 - rate * low):.4f}",
        ],
        ["the same across it, |1 − rate λ_max|", f"{abs(1 - rate * high):.4f}"],
    ]
    words = (
        "Near its minimum every smooth surface is a bowl. Gradient descent shrinks each direction of it by a factor of its own, and "
        "one rate must do for both: what is fast enough for the flat direction is too fast for the steep one."
    )
    return Section("Why the valley is hard", [Text(words), Table(["at the minimum", ""], rows)])


RECIPE = Recipe(OptimizersOptions(), build)
