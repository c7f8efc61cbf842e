"""Report of optimisers on one loss surface: their paths, every learning rate, and why a valley is hard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures.training import optimizer_paths
from neuropil.inspection.report.page import Picture, Section, Table

Contours: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Both axes, and the loss above the minimum on their grid."""
NEAR = 0.01
"""An optimiser has converged when its excess loss stays within this share of that at the start."""


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


def path_section(about: str, contours: Contours, best: Mapping[str, Descent], minimum: tuple[float, float]) -> Section:
    """`about` says what the surface is, and on which examples each optimiser descends."""
    paths, curves = ({name: getattr(d, part) for name, d in best.items()} for part in ("path", "losses"))
    figure = optimizer_paths(*contours, paths, curves, loss_label="loss above the minimum")
    words = (
        f"{about} On the left the paths, on the right the loss above the minimum.\n\nGradient descent "
        "follows the steepest direction, which points across the valley and not along it; momentum accumulates what "
        "successive steps agree on; RMSProp and Adam adapt the step size of each weight, so that the flat direction "
        "moves as fast as the steep one. AdamW is Adam with weight decay. The lowest excess loss here is that of "
        f"{min(best, key=lambda name: best[name].final)}."
    )
    rows = []
    for name, d in best.items():
        weights = [f"{weight:.3f}" for weight in d.path[-1]]
        rows.append([name, f"{d.rate:g}", f"{d.final:.2g}", str(d.convergence() or "–"), *weights])
    rows.append(["exact minimum", "–", "0", "–", *(f"{weight:.3f}" for weight in minimum)])
    header = ["optimiser", "learning rate", "excess loss", "converged", "first weight", "second weight"]
    caption = (
        "Excess loss: above the minimum, mean of the last tenth of the steps. Converged: the step from which on it "
        f"stays below {100 * NEAR:g} % of the start."
    )
    picture = Picture.of(figure, "paths of the update rules over the surface, and their losses")
    return Section.of("Paths over the loss surface", words, picture, Table(header, rows, caption))


def rates_section(tried: Mapping[str, Sequence[Descent]]) -> Section:
    words = "Every optimiser had the same grid of learning rates; the best of each is drawn above. A dash: the loss "
    words += "grew a hundredfold."
    rows = []
    for name, descents in tried.items():
        rows.append([name, *("–" if d.final > 100 * d.losses[0] else f"{d.final:.2g}" for d in descents)])
    grid = [f"{descent.rate:g}" for descent in next(iter(tried.values()))]
    return Section.of("Every learning rate", words, Table(["excess loss at", *grid], rows))


def theory_section(curvatures: tuple[float, float], rate: float) -> Section:
    """Of the least and the largest eigenvalue of the Hessian, and the learning rate of gradient descent."""
    low, high = curvatures
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
