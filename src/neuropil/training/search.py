"""Search over options: which to try next, and which trials to stop early. It knows numbers, and no model.

    next options        tree-structured Parzen estimator: p(options | good) / p(options | bad) is made large
    at 1/9, 1/3 of it   successive halving: a trial goes on if it is among the best third of those that came so far

Both are Optuna's. What is suggested for a trial depends on the seed, its number and the trials before it, so that a
search that was killed goes on as if it had not been: the trials before are told to a new study.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from neuropil.randomness import mix
from neuropil.ranges import Choices, Range, Searched

if TYPE_CHECKING:  # it is imported where a search begins
    import optuna
    from optuna.distributions import BaseDistribution

TrialState: TypeAlias = Literal["running", "complete", "pruned", "stopped", "failed"]
"""A trial is pruned by successive halving, and stopped by the time limit."""

WHOLE, FIRST_RUNG, REDUCTION = 81, 9, 3
"""Units of a run, of which the first rung is at a ninth and the second at a third, and one in how many goes on."""
RANDOM_TRIALS = 5
"""Before the estimator has something to learn from."""
FEWEST_FOR_IMPORTANCE = 6
DIGITS = 3
"""Of what is suggested."""
ATTEMPTS = 50
"""At options that were not tried yet, before all of them are taken to be."""

Point: TypeAlias = tuple[float, float]
"""The share of a run that was done, and what validation measured."""


@dataclass(frozen=True)
class Trial:
    """`value` is that of the weights that were kept; `curve` is what each validation measured; `reason` is why a trial
    failed."""

    number: int
    options: Mapping[str, Any]
    state: TrialState = "running"
    value: float | None = None
    curve: Sequence[Point] = ()
    seconds: float = 0.0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"options": dict(self.options), "curve": [list(point) for point in self.curve]}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """As JSON has it, which knows lists and no tuples."""
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in row["options"].items()}
        return cls(**{**row, "options": options, "curve": [(share, value) for share, value in row["curve"]]})


class Search:
    """Over a `space`, in which the options named in `whole` are whole numbers; `higher` values are better, or lower
    ones."""

    def __init__(self, space: Mapping[str, Searched], whole: Sequence[str], *, higher: bool, seed: int):
        import optuna

        self.optuna, self.space, self.seed = optuna, space, seed
        self.distributions = {name: _distribution(each, name in whole) for name, each in space.items()}
        pruner = optuna.pruners.SuccessiveHalvingPruner(FIRST_RUNG, REDUCTION)
        with _quiet():
            self.study = optuna.create_study(direction="maximize" if higher else "minimize", pruner=pruner)
        self.tried: list[dict[str, Any]] = []

    def suggest(self, number: int) -> dict[str, Any] | None:
        """Options for the trial of this number that were not tried yet; none where all seem to have been."""
        for attempt in range(ATTEMPTS):
            seed = mix(self.seed, "trial", number, attempt) % 2**32
            self.study.sampler = self.optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS)
            asked = self.study.ask(dict(self.distributions))
            self.study.tell(asked, state=self.optuna.trial.TrialState.FAIL)  # from which nothing is learned
            options = self._decoded(asked.params)
            if options not in self.tried:
                return options
        return None

    def begin(self, options: Mapping[str, Any]) -> "OngoingTrial":
        self.study.enqueue_trial(self._encoded(options))
        self.tried.append(dict(options))
        return OngoingTrial(self, self.study.ask(dict(self.distributions)))

    def replay(self, trial: Trial, values: Sequence[float]) -> None:
        """Learn from a trial that is over; `values` are what the weights were worth that it kept at each point."""
        ongoing = self.begin(trial.options)
        for (share, _), value in zip(trial.curve, values, strict=True):
            ongoing.prunes(share, value)
        ongoing.end(trial.state, trial.value)

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """The share of the variance that each option explains by itself (fANOVA): of the ranks at the first rung, which
        most trials reach, since one value that is far off would be all of the variance. Nothing for too few trials."""
        optuna = self.optuna
        reached = [(trial, value) for trial in trials if (value := first_rung_value(trial)) is not None]
        ranks = {value: rank for rank, value in enumerate(sorted({value for _, value in reached}))}
        if len(reached) < FEWEST_FOR_IMPORTANCE or len(ranks) < 2:
            return {}
        with _quiet():
            study = optuna.create_study(direction=self.study.direction)
            for trial, value in reached:
                params = self._encoded(trial.options)
                told = optuna.create_trial(params=params, distributions=self.distributions, value=ranks[value])
                study.add_trial(told)
            evaluator = optuna.importance.FanovaImportanceEvaluator(seed=mix(self.seed, "importance") % 2**32)
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {name: float(share) for name, share in found.items()}

    def _encoded(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """For Optuna, whose choices are numbers, texts and nothing else: the place of a value among them."""
        return {
            name: each.values.index(options[name]) if isinstance(each, Choices) else options[name]
            for name, each in self.space.items()
        }

    def _decoded(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: each.values[params[name]] if isinstance(each, Choices) else _rounded(params[name], each)
            for name, each in self.space.items()
        }


class OngoingTrial:
    def __init__(self, search: Search, asked: "optuna.Trial"):
        self.search, self.asked, self.told = search, asked, -1

    def prunes(self, share: float, value: float) -> bool:
        """Told what the weights are worth that are kept so far; whether successive halving stops the trial here."""
        units = units_of(share)
        if not self.told < units < WHOLE:  # at its end there is nothing to stop
            return False
        self.told = units
        self.asked.report(value, units)
        return self.asked.should_prune()

    def end(self, state: TrialState, value: float | None) -> None:
        states = self.search.optuna.trial.TrialState
        if state == "complete" and value is not None:
            self.search.study.tell(self.asked, value)
        else:
            known = state in ("pruned", "stopped") and self.told >= 0
            self.search.study.tell(self.asked, state=states.PRUNED if known else states.FAIL)


def first_rung_value(trial: Trial) -> float | None:
    """What validation measured when a ninth of the run was done."""
    reached = (value for share, value in trial.curve if units_of(share) >= FIRST_RUNG and math.isfinite(value))
    return next(reached, None)


def units_of(share: float) -> int:
    """Of a run, whatever the last bits of the share are: 23 of 207 updates are a ninth."""
    return int(WHOLE * share + 1e-9)


def whole_runs(trials: int) -> float:
    """As many whole runs take about as long as so many trials with successive halving: the first is whole, of the
    others one in three passes each rung."""
    rungs = [FIRST_RUNG / WHOLE, FIRST_RUNG * REDUCTION / WHOLE, 1.0]
    lengths = [end - begin for begin, end in itertools.pairwise([0.0, *rungs])]
    return 1 + (trials - 1) * sum(length / REDUCTION**rung for rung, length in enumerate(lengths))


def combinations(space: Mapping[str, Searched], whole: Sequence[str]) -> float:
    """How many there are."""
    counts = (
        len(each.values) if isinstance(each, Choices) else each.high - each.low + 1 if name in whole else math.inf
        for name, each in space.items()
    )
    return math.prod(counts)


def _rounded(value: float, searched: Range) -> float:
    """To the digits that a person would type, within the range."""
    if isinstance(value, int):
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), searched.low), searched.high)


def _distribution(searched: Searched, whole: bool) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(searched, Range):
        if whole:
            return IntDistribution(math.ceil(searched.low), math.floor(searched.high), log=searched.log)
        return FloatDistribution(searched.low, searched.high, log=searched.log)
    return CategoricalDistribution(range(len(searched.values)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the lines that Optuna logs of each study."""
    from optuna import logging

    level = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(level)
