"""Report of learning rules side by side: accuracy, alignment with the gradient, locality, learning rates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from neuropil.inspection.pictures.gradients import alignment_over_updates
from neuropil.inspection.pictures.style import minus
from neuropil.inspection.pictures.training import accuracy_over_examples_and_seconds
from neuropil.inspection.report.page import Section, Table, percent
from neuropil.models.learning_rules.locality import Locality

DEPENDS = 0.01
"""A relative change above it is no rounding."""
NONE = "–"


@dataclass(frozen=True)
class RuleTrial:
    """What one learning rule came to. `later_weights` and `examples_apart` are what its changes were measured to
    depend on, None where that has no meaning."""

    trained: str
    weights: int
    tried: Mapping[float, float]
    """Validation accuracy after the short training with each learning rate; NaN where it diverged."""
    rate: float
    curve: Float[np.ndarray, "validation 3"]
    """Examples seen, seconds, validation accuracy."""
    accuracy: float
    """On the test part."""
    seen: Sequence[int]
    """Examples seen with each update whose alignment was measured."""
    cosines: Mapping[str, Sequence[float]]
    """Of each layer."""
    all_layers: Sequence[float]
    """Of them together; none where a layer has no gradient."""
    locality: Locality
    later_weights: float | None
    examples_apart: float | None
    feedback: tuple[float, ...] | None = None
    """The cosine of the output weights to the fixed weights of feedback alignment, at first and in the end."""

    @property
    def alignment(self) -> float:
        """The mean over all measured updates, of all layers together."""
        return float(np.nanmean(self.all_layers)) if np.isfinite(self.all_layers).any() else math.nan

    def reaches(self, accuracy: float) -> tuple[float, float] | None:
        """Examples and seconds after which a validation was first at least as accurate."""
        rows = self.curve[self.curve[:, 2] >= accuracy]
        return (float(rows[0, 0]), float(rows[0, 1])) if len(rows) else None


Trials: TypeAlias = Mapping[str, RuleTrial]
Baselines: TypeAlias = Mapping[str, float]


def rule_sections(trials: Trials, baselines: Baselines, goal: float, about: str) -> list[Section]:
    """`about` says what all rules have in common; `goal` is the validation accuracy whose time is told."""
    sections = [_accuracy_section(trials, baselines, goal, about)]
    sections += [_alignment_section(trials)] if any(trial.cosines for trial in trials.values()) else []
    return [*sections, _locality_section(trials), _rates_section(trials)]


# --- accuracy ---------------------------------------------------------------------------------------------------------


def _accuracy_section(trials: Trials, baselines: Baselines, goal: float, about: str) -> Section:
    order = sorted(trials, key=lambda name: -trials[name].accuracy)
    ends = [f"{name} with {percent(trials[name].accuracy)}" for name in (order[0], order[-1])]
    linear, value = next(iter(baselines.items()))
    better = [name for name in order if trials[name].accuracy > value]
    found = f"{len(better)} of {len(order)}" if better else "None"
    listed = f": {', '.join(better)}" if 0 < len(better) < len(order) else ""
    words = (
        f"{about}\n\nOn the test part the most accurate is {ends[0]}, the least {ends[1]}. {found} "
        f"{'is' if len(better) == 1 else 'are'} more accurate than {linear} ({percent(value)}){listed}. "
        f"{_pace(trials, goal)}"
    )
    figure = accuracy_over_examples_and_seconds({name: trial.curve for name, trial in trials.items()}, baselines)
    alt = "validation accuracy of each learning rule against the examples seen and against the seconds of training"
    header = ["learning rule", "what is trained", "weights", "learning rate", "test accuracy"]
    header += [f"examples to {percent(goal, 0)}", f"seconds to {percent(goal, 0)}", "seconds in all"]
    rows = [_row(name, trial, goal) for name, trial in trials.items()]
    rows += [[name, "", "", "", percent(value), "", "", ""] for name, value in baselines.items()]
    caption = f"Examples and seconds until {percent(goal, 0)} of the validation part was first right, on one thread."
    return Section.illustrated("Accuracy over examples and over time", words, figure, alt, Table(header, rows, caption))


def _row(name: str, trial: RuleTrial, goal: float) -> list[str]:
    reached = trial.reaches(goal)
    pace = [NONE, NONE] if reached is None else [f"{reached[0]:,.0f}", f"{reached[1]:.2g}"]
    own = [name, trial.trained, f"{trial.weights:,}", f"{trial.rate:g}", percent(trial.accuracy)]
    return [*own, *pace, f"{trial.curve[-1, 1]:.1f}"]


def _pace(trials: Trials, goal: float) -> str:
    reached = {name: found for name, trial in trials.items() if (found := trial.reaches(goal)) is not None}
    if not reached:
        return f"None was right on {percent(goal, 0)} of the validation part at any time."
    examples, seconds = (min(found[place] for found in reached.values()) for place in (0, 1))
    fewest, quickest = (
        " and ".join(name for name, found in reached.items() if found[place] == least)
        for place, least in ((0, examples), (1, seconds))
    )
    return (
        f"{percent(goal, 0)} of the validation part was right after {examples:,.0f} examples with {fewest}, "
        f"the fewest, and after {seconds:.2g} s with {quickest}, the shortest time."
    )


# --- alignment --------------------------------------------------------------------------------------------------------


def _alignment_section(trials: Trials) -> Section:
    measured = {name: trial for name, trial in trials.items() if math.isfinite(trial.alignment)}
    order = sorted(measured, key=lambda name: -measured[name].alignment)
    means = ", ".join(f"{measured[name].alignment:.2f} for {name}" for name in order)
    words = (
        "The cosine between the change that a rule makes to the weights of a layer and the step that gradient descent "
        "would make: the gradient of the cross-entropy of the same network's answers to the same batch, with the same "
        f"weights. Means over training, of all layers together: {means}.\n\n{_way(trials)} {_feedback(trials)}"
    )
    curves = {
        name: {
            layer: np.stack([np.asarray(trial.seen, float), np.asarray(values)], 1)
            for layer, values in trial.cosines.items()
        }
        for name, trial in trials.items()
    }
    alt = "cosine of each learning rule's changes to the gradient, by layer, over training"
    rows = [
        [name, layer, *(minus(f"{value:.3f}") for value in (values[0], values[-1]))]
        for name, trial in trials.items()
        for layer, values in trial.cosines.items()
    ]
    table = Table(["learning rule", "layer", "first update", "last update"], rows, _without(trials))
    return Section.illustrated("Alignment with the gradient", words, alignment_over_updates(curves), alt, table)


def _way(trials: Trials) -> str:
    """How the alignment of the first of several layers went, for rules that do not follow the gradient anyway."""
    first = {name: next(iter(trial.cosines.values())) for name, trial in trials.items() if len(trial.cosines) > 1}
    told = [
        f"{name} from {_signed(values[0])} to {_signed(values[-1])}"
        for name, values in first.items()
        if np.nanmin(values) < 1 - DEPENDS
    ]
    return f"In the first layer, the farthest from the output, it went {'; '.join(told)}." if told else ""


def _feedback(trials: Trials) -> str:
    pairs = [trial.feedback for trial in trials.values() if trial.feedback is not None]
    return " ".join(
        f"Output weights and the fixed feedback weights of feedback alignment have a cosine of {_signed(before)} at "
        f"first, and of {_signed(after)} in the end."
        for before, after in pairs
    )


def _signed(value: float) -> str:
    return minus(f"{round(value, 2) + 0.0:.2f}")  # no −0.00


def _without(trials: Trials) -> str:
    return (
        "Hidden layers of spiking neurons are left out: a spike does not change with a small change of a weight, so "
        "that their true gradient is zero almost everywhere."
        if "surrogate gradients" in trials
        else ""
    )


# --- locality ---------------------------------------------------------------------------------------------------------


def _locality_section(trials: Trials) -> Section:
    rows = []
    for name, trial in trials.items():
        known = trial.locality
        rows.append([name, known.before, known.after, known.signal, known.local])
        rows[-1] += [
            NONE if each is None else _dependence(each) for each in (trial.later_weights, trial.examples_apart)
        ]
    header = ["learning rule", "before", "after", "what else arrives", "local", "later weights", "examples apart"]
    caption = (
        "Later weights: by how much the change of the first layer is another when later weights are others, in such a "
        "way that no activity is. Examples apart: how far its direction turns when each of two examples is a batch of "
        "its own. Both are measured, with the first weights."
    )
    words = (
        "What a weight must know to change: something of the unit that it comes from (before), of the unit that it "
        f"leads to (after), and what else must arrive there. {_dependent(trials)}"
    )
    return Section.of("What a weight needs to know", words, Table(header, rows, caption))


def _dependence(change: float) -> str:
    return f"{percent(change, 0)}" if change > DEPENDS else "no change"


def _dependent(trials: Trials) -> str:
    layered = {name: trial.later_weights for name, trial in trials.items() if trial.later_weights is not None}
    free = [name for name, change in layered.items() if change <= DEPENDS]
    bound = [f"{name} ({percent(change, 0)})" for name, change in layered.items() if change > DEPENDS]
    parts = [f"do not enter the changes of the first layer with {' and '.join(free)}"] if free else []
    parts += [f"do with {', '.join(bound)}"] if bound else []
    return f"Measured: beyond what they do to activities, later weights {', and '.join(parts)}." if parts else ""


# --- learning rates ---------------------------------------------------------------------------------------------------


def _rates_section(trials: Trials) -> Section:
    edges = [
        name
        for name, trial in trials.items()
        if len(trial.tried) > 1 and trial.rate in (min(trial.tried), max(trial.tried))
    ]
    words = "Each rule had a grid of its own, for their units differ, and learned with the rate that was the most "
    words += "accurate on the validation part after a shorter training."
    if edges:
        words += f" At the edge of its grid, so that another might be better still: {', '.join(edges)}."
    rows = [
        [
            name,
            f"{rate:g}",
            "diverged" if math.isnan(accuracy) else percent(accuracy),
            "chosen" if rate == trial.rate else "",
        ]
        for name, trial in trials.items()
        for rate, accuracy in trial.tried.items()
    ]
    return Section.of(
        "Learning rates", words, Table(["learning rule", "learning rate", "validation accuracy", ""], rows)
    )
