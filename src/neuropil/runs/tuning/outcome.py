"""What a search ends with: the best trial as a run, evaluated on the test part once, and the default options beside."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from neuropil.errors import RunError
from neuropil.files import locked
from neuropil.inspection.report.trials import counted_states
from neuropil.progress import stage
from neuropil.runs.planned import PlannedRun
from neuropil.runs.run import Run, load
from neuropil.runs.start import complete
from neuropil.runs.tuning.folder import BEST, TRIALS, Tuning
from neuropil.runs.tuning.trial import build, trial_options, tunable
from neuropil.tasks.experiment import Result
from neuropil.training.search import Search, Trial

DEFAULT = "default options"


def evaluate(
    tuning: Tuning,
    plan: PlannedRun,
    search: Search,
    best: Trial | None,
    inside: Sequence[Trial],
    *,
    show: bool,
    report: bool,
) -> None:
    """Written into the folder. `inside` are the trials of what is searched: the default options may be outside of
    it."""
    trials, name, seconds = tuning.rows, plan.name, tuning.settings["seconds"]
    if best is None:
        raise _nothing_found(trials, tuning.folder)
    run = _copy(tuning, best)
    with locked(run.folder):
        complete(run, build(plan, trial_options(plan, best.options, seconds)), show, report=report)
    results = [Result(f"tuned {name}", run.metrics)]
    if best.number != trials[0].number and trials[0].state == "complete":
        default = tunable(build(plan, trial_options(plan, trials[0].options, seconds)))
        with stage(f"{name}: evaluation of the {DEFAULT}", show=show):
            default.train_model(tuning.trial_folder(1), title="", show_progress=False)  # which is over
            results.append(Result(DEFAULT, default.own_result().metrics))
    tuning.settings |= {
        "best": best.number,
        "importance": search.importance(inside),
        "results": [{"name": each.name, "metrics": dict(each.metrics)} for each in results],
    }
    if report:
        with stage(f"{name}: report of the search", show=show):
            tuning.write_report()
    tuning.write(outcome=tuning.found.sentence())


def _copy(tuning: Tuning, best: Trial) -> Run:
    """Whole or not at all."""
    folder, part = tuning.folder / BEST, tuning.folder / f".{BEST}.copying"
    for old in (folder, part):  # of an evaluation that was killed
        shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(tuning.trial_folder(best.number), part)
    part.rename(folder)
    return load(folder)


def _nothing_found(trials: Sequence[Trial], folder: Path) -> RunError:
    rule = "one trial at least must be complete, of what is searched, to choose from"
    failed = [trial for trial in trials if trial.state == "failed"]
    if failed:
        got = f"{counted_states(trials)} ({failed[0].reason.removesuffix('.')})"
        return RunError(rule, got=got, fix=f"the others are in {folder / TRIALS}")
    fix = "give more --minutes, or fewer --epochs or --updates"
    return RunError(rule, got=counted_states(trials) or "no time for any", fix=fix)
