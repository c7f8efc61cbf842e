"""The report of a search over hyper-parameters, from its trials."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuropil.config import describe_value, flag_of
from neuropil.inspection.pictures.trials import best_so_far, importance_bars, option_slices, trial_curves
from neuropil.inspection.report.page import Picture, Section, Table, Text
from neuropil.metrics import Metric
from neuropil.ranges import Choices, Range, Searched
from neuropil.training.search import FIRST_RUNG, REDUCTION, WHOLE, Trial, first_rung_value

RUNGS = (FIRST_RUNG / WHOLE, REDUCTION * FIRST_RUNG / WHOLE)
STATES = ("complete", "pruned", "stopped", "failed")
EDGE = 0.05
"""Of a range: a best value within so much of its end says that the range may be too narrow."""


@dataclass(frozen=True)
class SearchResult:
    """The first trial has the default options; `importance` is empty where there were too few trials."""

    trials: Sequence[Trial]
    best: Trial
    space: Mapping[str, Searched]
    metric: Metric
    importance: Mapping[str, float]

    def sentence(self) -> str:
        """What was chosen, and among how many."""
        first, metric, value = self.trials[0], self.metric, _text(self.metric, self.best.value)
        count = len(self.trials)
        among = f"{count:,} {'trial' if count == 1 else 'trials'} ({counted_states(self.trials)})"
        if self.best.number == first.number:
            return f"Of {among} none had a better validation {metric.title} than the default options ({value})."
        against = f"failed: {first.reason}" if first.state == "failed" else _text(metric, first.value)
        return (
            f"Of {among} the best by validation {metric.title} is trial {self.best.number}: {value}; the default "
            f"options: {against.removesuffix('.')}."
        )


def trial_sections(found: SearchResult) -> list[Section]:
    return [
        chosen_section(found),
        search_section(found),
        curves_section(found),
        options_section(found),
        trials_section(found),
    ]


def chosen_table(found: SearchResult) -> Table:
    rows = [
        [
            flag_of(name),
            describe(found.trials[0].options[name]),
            describe(found.best.options[name]),
            describe_searched(searched),
        ]
        for name, searched in found.space.items()
    ]
    return Table(["option", "default", "best", "searched"], rows)


def chosen_section(found: SearchResult) -> Section:
    words = (
        "The best trial was chosen on the validation part, so that its score there is too good. How well it does, only "
        "the test part says, which no trial has seen."
    )
    at_the_end = [
        flag_of(name) for name, searched in found.space.items() if _at_end(searched, found.best.options[name])
    ]
    if at_the_end:
        ranges = "its range" if len(at_the_end) == 1 else "their ranges"
        words += f" The best {', '.join(at_the_end)} is near the end of {ranges}: a wider one may be better."
    return Section("What was chosen", [Text(words), chosen_table(found)])


def search_section(found: SearchResult) -> Section:
    seconds = sum(trial.seconds for trial in found.trials)
    words = (
        f"{found.sentence()} They took {seconds:,.0f} seconds. New options are suggested from the trials before, by a "
        f"tree-structured Parzen estimator (TPE). A trial goes on after {_fractions(RUNGS)} of its run only if it is "
        f"among the best one in {REDUCTION} of those that came so far (successive halving); the others are pruned."
    )
    alt = "validation metric of each trial, and the best so far"
    return Section.illustrated("Best so far", words, best_so_far(found.trials, found.metric), alt)


def curves_section(found: SearchResult) -> Section:
    pruned = sum(trial.state == "pruned" for trial in found.trials)
    done = sum(trial.curve[-1][0] for trial in found.trials if trial.curve)
    words = (
        f"The validation {found.metric.title} of every trial against the share of its run; dotted lines are the rungs. "
        f"{pruned:,} of {len(found.trials):,} trials were pruned; all together were as long as {done:.1f} whole runs."
    )
    figure = trial_curves(found.trials, found.best, found.metric, RUNGS)
    return Section.illustrated("Every trial", words, figure, "validation metric of every trial along its run")


def options_section(found: SearchResult) -> Section:
    """The most important option first."""
    importance, space = found.importance, found.space
    order = sorted(space, key=lambda name: -importance.get(name, 0.0))
    inside = [trial for trial in found.trials if all(trial.options[name] in space[name] for name in space)]
    reached = sum(first_rung_value(trial) is not None for trial in inside)
    slices = Picture.of(
        option_slices(inside, found.best, {name: space[name] for name in order}, found.metric),
        alt="validation metric at the first rung against each option",
    )
    words = (
        f"Each circle is one of the {reached:,} trials that reached the first rung, at the validation "
        f"{found.metric.title} that it had there; empty ones were pruned later or there, the ring marks the best trial."
    )
    if not importance:
        return Section(
            "What mattered", [Text(f"{words} There are too few trials to say which option mattered."), slices]
        )
    first = order[0]
    share = f"{100 * importance[first]:.0f} %"
    told = (
        f"{flag_of(first)} mattered most: by fANOVA, a random forest fitted to the ranks of the trials at the first "
        f"rung, it explains {share} of what the options explain by themselves. From {reached:,} trials this is rough."
    )
    bars = Picture.of(importance_bars(importance), alt="importance of each option")
    return Section("What mattered", [Text(told), bars, Text(words), slices])


def trials_section(found: SearchResult) -> Section:
    table = trials_table(found.trials, found.space, found.metric, found.best.number)
    failed = [f"Trial {trial.number} failed: {trial.reason}" for trial in found.trials if trial.state == "failed"]
    return Section("Trials", [table, *map(Text, failed)])


def trials_table(
    trials: Sequence[Trial], space: Mapping[str, Searched], metric: Metric, best: int | None = None
) -> Table:
    header = ["trial", "state", f"validation {metric.title}", *map(flag_of, space), "of the run", "seconds"]
    rows = [
        [
            f"{trial.number}" + (" (best)" if trial.number == best else ""),
            trial.state,
            _text(metric, trial.value),
            *(describe(trial.options[name]) for name in space),
            f"{100 * trial.curve[-1][0]:.0f} %" if trial.curve else "–",
            f"{trial.seconds:.3g}",
        ]
        for trial in trials
    ]
    return Table(header, rows)


def counted_states(trials: Sequence[Trial]) -> str:
    """As in 6 complete, 13 pruned, 1 failed."""
    counts = Counter(trial.state for trial in trials)
    return ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])


def describe(value: Any) -> str:
    """An option's value, with the digits that matter; without one, the system has its own default for the data."""
    if value is None:
        return "by default"
    return f"{value:.3g}" if isinstance(value, float) else describe_value(value)


def describe_searched(searched: Searched) -> str:
    if isinstance(searched, Range):
        return f"{describe(searched.low)} to {describe(searched.high)}" + (", by logarithms" if searched.log else "")
    return ", ".join(map(describe, searched.values))


def _at_end(searched: Searched, value: Any) -> bool:
    """Near the end of a range, or the largest or smallest of several numbers."""
    if isinstance(searched, Choices):
        numbers = [each for each in searched.values if isinstance(each, int | float) and not isinstance(each, bool)]
        return len(numbers) > 2 and value in (min(numbers), max(numbers))
    return False if searched.low == searched.high else not EDGE < searched.place(value) < 1 - EDGE


def _fractions(shares: Sequence[float]) -> str:
    return " and after ".join(f"1/{round(1 / share)}" for share in shares)


def _text(metric: Metric, value: float | None) -> str:
    return "–" if value is None else metric.text(value)
