"""Optimisers on one loss surface: gradient descent, SGD, momentum, RMSProp, Adam and AdamW.

The surface is the loss of a real problem with two weights, linear regression of the progress of diabetes on body-mass
index and on the logarithm of blood fats:

    E(w) = (1/N) Σₙ ½ (w · xₙ − tₙ)²          ∇E = H (w − w*)          H = (1/N) Σₙ xₙ xₙᵀ

The two features have different scales, so that the surface is a narrow valley: κ = λ_max / λ_min of H is about 90.
Gradient descent must keep its learning rate below 2 / λ_max, and then is slow along the valley. It uses all examples in
each step; the others use the same mini-batches. Every optimiser has the best learning rate of one grid. `--surface
rosenbrock` uses the classic synthetic valley f(w) = (1 − w₁)² + 100 (w₂ − w₁²)² instead, without mini-batches and so
without SGD.

Descent is also a flow. Gradient descent is the Euler step, of size η, of the first equation, and momentum that of the
second, a heavy ball of mass m with friction γ (Polyak 1964), in steps of size h:

    θ̇ = −∇E(θ)                          θ_{n+1} = θ_n − η ∇E(θ_n)
    m θ̈ + γ θ̇ = −∇E(θ)                  θ_{n+1} = θ_n + β (θ_n − θ_{n−1}) − η ∇E(θ_n),    η = h² / m,  β = 1 − γ h / m

With m = 1, which only sets the unit of time, h = √η and γ = (1 − β) / √η. Both are compared with SciPy's solution of
the equation. A ball has what gradient descent has not: a velocity, by which it may leave a local minimum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import Parameter

from neuropil.config import Config, option
from neuropil.inspection.pictures.training import descent_as_flow, optimizer_paths
from neuropil.inspection.report.page import Section, Table
from neuropil.inspection.report.studies.optimizers import Descent, path_section, rates_section, theory_section
from neuropil.progress import Display
from neuropil.randomness import seeded
from neuropil.tasks import study
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.loss_surfaces import Surface, diabetes_surface, point, rosenbrock_surface, two_wells_surface
from neuropil.training.optimizers import Optimizer, OptimizerName, build_optimizer

RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
HALVINGS, FLOW_STEPS = 5, 50
"""Step sizes at which a descent is compared with its flow, each half of the one before, and steps of the first."""
STABLE = 0.25
"""The largest of them, as a learning rate in units of 1 / λ_max."""
MOMENTA = (0.0, 0.8, 0.9, 0.95)
"""Momentum coefficients on the surface with a local minimum; the first is gradient descent."""
SMALL_RATE, MANY_STEPS = 0.01, 400
"""There, below the learning rate at which gradient descent overshoots, and enough to come to rest."""


class OptimizersOptions(Config):
    surface: Literal["diabetes", "rosenbrock"] = option("diabetes", "loss: a real regression, or Rosenbrock's function")
    steps: int = option(100, "updates by each optimiser", low=10)
    batch_size: int = option(32, "examples in a mini-batch; gradient descent takes all", low=1)
    momentum: float = option(0.9, "momentum coefficient β", low=0, high=1)
    weight_decay: float = option(0.1, "weight decay of AdamW", low=0)


@dataclass(frozen=True)
class UpdateRule:
    name: OptimizerName
    full_batch: bool = False


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
            return race([(rule, rate) for rate in RATES], surface, options, seed)

        with study.alone():
            tried = study.compare(rules, run, display, lambda found: f"{_best(found).final:.2g} above the minimum")
        best = {name: _best(found) for name, found in tried.items()}
        with study.alone():
            flows = [_flow_section(surface, options), _local_minimum_section()]
        sections = [
            path_section(_about(surface, options), surface.contours(), best, surface.minimum),
            rates_section(tried),
            theory_section(surface.curvatures(), best[FULL_BATCH].rate),
            *flows,
        ]
        ordered = study.leading(best, "adam", FULL_BATCH)
        return Findings([Result(name, _metrics(found)) for name, found in ordered.items()], sections)

    return Study("optimizers", compute)


def _best(tried: Sequence[Descent]) -> Descent:
    return min(tried, key=lambda descent: descent.final)


def _metrics(descent: Descent) -> dict[str, float]:
    steps = descent.convergence()
    metrics = {"excess_loss": descent.final, "learning_rate": descent.rate}
    return metrics if steps is None else metrics | {"steps_to_converge": steps}


def race(
    entries: Sequence[tuple[UpdateRule, float]], surface: Surface, options: OptimizersOptions, seed: int
) -> list[Descent]:
    """Each rule with its learning rate, side by side over the same mini-batches."""
    starts = tuple(Parameter(point(surface.start)) for _ in entries)
    optimizers = [_optimizer(rule, rate, w, options) for (rule, rate), w in zip(entries, starts, strict=True)]
    whole = torch.tensor([rule.full_batch for rule, _ in entries])
    path = [torch.cat(starts).detach()]
    for chosen in mini_batches(surface.num_examples, options, seed):
        w = torch.cat(starts)
        losses = [surface.loss(w[part], batch) for part, batch in ((whole, None), (~whole, chosen)) if part.any()]
        gradients = torch.autograd.grad(torch.cat(losses).sum(), starts)
        for start, gradient, optimizer in zip(starts, gradients, optimizers, strict=True):
            start.grad = gradient
            optimizer.step()
        path.append(torch.cat(starts).detach())
    paths = torch.stack(path, 1)  # entry position weight
    excess = surface.excess(paths.flatten(0, 1)).reshape(paths.shape[:2])
    return [Descent(rate, *each) for (_, rate), *each in zip(entries, paths.numpy(), excess.numpy(), strict=True)]


def _optimizer(rule: UpdateRule, rate: float, w: Parameter, options: OptimizersOptions) -> Optimizer:
    decay = options.weight_decay if rule.name == "adamw" else 0.0
    return build_optimizer(rule.name, {"w": w}, learning_rate=rate, weight_decay=decay, momentum=options.momentum)


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


# --- flows ------------------------------------------------------------------------------------------------------------


class FlowComparison(NamedTuple):
    """A descent at one step size beside its flow at the same times."""

    step: float
    path: Float[np.ndarray, "position 2"]
    distance: float
    """The largest between them."""


def gradient_of(surface: Surface) -> Callable[[np.ndarray], np.ndarray]:
    gradient = torch.func.grad(lambda w: surface.loss(w[None], None)[0])
    return lambda w: gradient(torch.from_numpy(np.array(w, dtype=np.float64))).numpy()


def gradient_flow(surface: Surface, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, "time 2"]:
    """θ̇ = −∇E(θ), by SciPy."""
    gradient = gradient_of(surface)
    return _solved(lambda _, w: -gradient(w), surface.start, times)


def heavy_ball(surface: Surface, friction: float, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, "time 2"]:
    """θ̈ = −γ θ̇ − ∇E(θ) from rest, by SciPy."""
    gradient = gradient_of(surface)

    def forces(_: float, state: np.ndarray) -> np.ndarray:
        w, velocity = np.split(state, 2)
        return np.concatenate([velocity, -friction * velocity - gradient(w)])

    return _solved(forces, (*surface.start, 0.0, 0.0), times)[:, :2]


def _solved(
    equation: Callable[[float, np.ndarray], np.ndarray], start: Sequence[float], times: Float[np.ndarray, " time"]
) -> Float[np.ndarray, "time state"]:
    from scipy.integrate import solve_ivp

    span = (float(times[0]), float(times[-1]))
    return solve_ivp(equation, span, start, method="DOP853", t_eval=times, rtol=1e-9, atol=1e-11).y.T


def plain_descent(surface: Surface, rate: float, momentum: float, steps: int) -> Float[np.ndarray, "position 2"]:
    """`torch.optim.SGD` on the whole surface."""
    w = Parameter(point(surface.start))
    optimizer = build_optimizer("momentum", {"w": w}, learning_rate=rate, weight_decay=0.0, momentum=momentum)
    path = [w.detach().clone()]
    for _ in range(steps):
        optimizer.zero_grad()
        surface.loss(w, None).backward()
        optimizer.step()
        path.append(w.detach().clone())
    return torch.cat(path).numpy()


def beside_gradient_flow(surface: Surface, rate: float, steps: int) -> list[FlowComparison]:
    """Gradient descent at η = rate, rate/2, … over the same time."""
    finest = 2 ** (HALVINGS - 1)
    flow = gradient_flow(surface, np.linspace(0, rate * steps, steps * finest + 1))
    found = []
    for parts in (2**power for power in range(HALVINGS)):
        path = plain_descent(surface, rate / parts, 0.0, steps * parts)
        found.append(FlowComparison(rate / parts, path, _largest_distance(path, flow[:: finest // parts])))
    return found


def beside_heavy_ball(surface: Surface, rate: float, momentum: float, steps: int) -> list[FlowComparison]:
    """Momentum at h = √rate, √rate/2, … over the same time, with η = h² and β = 1 − γ h for one friction γ."""
    h, finest = math.sqrt(rate), 2 ** (HALVINGS - 1)
    friction = (1 - momentum) / h
    ball = heavy_ball(surface, friction, np.linspace(0, h * steps, steps * finest + 1))
    found = []
    for parts in (2**power for power in range(HALVINGS)):
        path = plain_descent(surface, (h / parts) ** 2, 1 - friction * h / parts, steps * parts)
        found.append(FlowComparison(h / parts, path, _largest_distance(path, ball[:: finest // parts])))
    return found


def _largest_distance(path: Float[np.ndarray, "position 2"], flow: Float[np.ndarray, "position 2"]) -> float:
    return float(np.linalg.norm(path - flow, axis=1).max())


def order(compared: Sequence[FlowComparison]) -> float:
    """p, where the distance falls as the p-th power of the step size, by the line that fits the logarithms best."""
    steps, distances = np.log([(each.step, each.distance) for each in compared]).T
    return float(np.polyfit(steps, distances, 1)[0])


# --- the report -------------------------------------------------------------------------------------------------------


def _about(surface: Surface, options: OptimizersOptions) -> str:
    if not surface.num_examples:
        return surface.words
    size = min(options.batch_size, surface.num_examples)
    return f"{surface.words} Gradient descent takes all examples in each step, the others the same {size} at a time."


def _flow_section(surface: Surface, options: OptimizersOptions) -> Section:
    starts = surface.hessian(surface.start)
    steepest = max(surface.curvatures()[1], float(torch.linalg.eigvalsh(starts)[-1]))
    rate, steps = STABLE / steepest, min(options.steps, FLOW_STEPS)
    euler, ball = beside_gradient_flow(surface, rate, steps), beside_heavy_ball(surface, rate, options.momentum, steps)
    h, friction = ball[0].step, (1 - options.momentum) / ball[0].step
    flows = {
        "gradient flow": gradient_flow(surface, np.linspace(0, rate * steps, 10 * steps + 1)),
        "heavy ball with friction": heavy_ball(surface, friction, np.linspace(0, h * steps, 10 * steps + 1)),
    }
    paths = {f"gradient descent, η = {rate:.2g}": euler[0].path, f"momentum {options.momentum:g}": ball[0].path}
    distances = {
        f"gradient descent against η: slope {order(euler):.2f}": [(each.step, each.distance) for each in euler],
        f"momentum against h = √η: slope {order(ball):.2f}": [(each.step, each.distance) for each in ball],
    }
    words = (
        "With smaller and smaller steps gradient descent follows the flow dθ/dt = −∇E, of which one step is an Euler "
        f"step of size η. Over the time {rate * steps:.3g}, its largest distance to the solution by SciPy falls as the "
        f"power {order(euler):.2f} of η.\n\nMomentum does the same for a ball of mass 1 that rolls with friction, "
        f"d²θ/dt² + γ dθ/dt = −∇E (the heavy ball), in steps of h = √η with β = 1 − γ h: β = {options.momentum:g} and "
        f"η = {rate:.2g} are h = {h:.2g} and γ = {friction:.2g}. Its distance falls as the power {order(ball):.2f} "
        "of h."
    )
    rows = [
        [f"{e.step:.3g}", f"{e.distance:.2g}", f"{b.step:.3g}", f"{1 - friction * b.step:.4f}", f"{b.distance:.2g}"]
        for e, b in zip(euler, ball, strict=True)
    ]
    header = ["η of gradient descent", "distance to its flow", "h of momentum", "β", "distance to the heavy ball"]
    x, y, excess = surface.contours()
    figure = descent_as_flow(x, y, excess, flows, paths, distances)
    alt = "flows and descents over the surface, and their distance against the step size"
    return Section.illustrated("Descent as a flow", words, figure, alt, Table(header, rows))


def _local_minimum_section() -> Section:
    surface = two_wells_surface()
    ridge = float(sorted(np.roots([4, 0, -4, 0.6]).real)[1])
    names = {beta: f"momentum {beta:g}" if beta else FULL_BATCH for beta in MOMENTA}
    paths = {names[beta]: plain_descent(surface, SMALL_RATE, beta, MANY_STEPS) for beta in MOMENTA}
    losses = {name: surface.excess(torch.from_numpy(path)).numpy() for name, path in paths.items()}
    left = [name for name, path in paths.items() if path[-1, 0] < ridge]
    stayed = [name for name in paths if name not in left]
    height = surface.excess(point((ridge, 0.0))).item()
    words = (
        f"{surface.words} Between them is a ridge, {height:.2f} above the lowest point. All start at w₁ = "
        f"{surface.start[0]:g}, on the side of the local minimum, with a learning rate of {SMALL_RATE:g}. Gradient "
        "descent only goes down, and stops where there is no slope; a ball with little friction has velocity left at "
        f"the bottom. After {MANY_STEPS} steps {_in_words(left)} in the global minimum, {_in_words(stayed)} in the "
        "local one."
    )
    rows = [
        [name, f"{path[-1, 0]:.3f}", f"{max(losses[name][-1], 0.0):.3f}", "global" if name in left else "local"]
        for name, path in paths.items()
    ]
    x, y, excess = surface.contours()
    figure = optimizer_paths(x, y, excess, paths, losses, loss_label="loss above the global minimum")
    table = Table(["optimiser", "w₁ at the end", "loss above the minimum", "minimum"], rows)
    alt = "gradient descent and momentum on a surface with a local minimum"
    return Section.illustrated("A local minimum", words, figure, alt, table)


def _in_words(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}" if names else "none is"


RECIPE = Recipe(OptimizersOptions(), build, about="training.optimizers")
