"""Hyper-parameters chosen on the validation part: a folder of trials, each a run folder, and the best of them as a run.

    found = tune("mlp", data="table.csv", target="price", trials=20)
    found.best                  the run of the best options, evaluated on the test part
    found.trials, found.report  all of them

    study.json     what is searched, and what was found
    trials.jsonl   a row for each trial
    trials/001 …   run folders; the first has the default options
    best/          a copy of the best, evaluated and reported
    report.html

Trials train and validate. The test part is evaluated at the end, for the best trial and, beside it, for the first.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import neuropil
from neuropil.data.formats.memory_file import write_memory
from neuropil.errors import InputError
from neuropil.files import locked, require_writable
from neuropil.ranges import Searched
from neuropil.runs.environment import environment
from neuropil.runs.planned import (
    PlannedRun,
    command,
    new_folder,
    now,
    require_effect,
    require_new,
    require_startable,
    whole_paths,
)
from neuropil.runs.settings import STUDY_FORMAT
from neuropil.runs.start import resumable
from neuropil.runs.tuning.folder import DATA, Tuning, is_tuning, memory_of, tunable_plan
from neuropil.runs.tuning.ray_cluster import RayCluster
from neuropil.runs.tuning.session import Session
from neuropil.runs.tuning.space import search_space, words_of
from neuropil.runs.tuning.time_limit import TimeLimit
from neuropil.runs.tuning.trial import build
from neuropil.runs.tuning.workers import Pool, local_pool, threads_each
from neuropil.tasks.experiment import Experiment, Selection, TrainableExperiment, Tunable


def tune(
    name: str,
    *,
    trials: int = 20,
    minutes: float | None = None,
    over: Mapping[str, Any] | None = None,
    workers: int | None = None,
    ray: str | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    show_progress: bool = True,
    report: bool = True,
    **options: Any,
) -> "Tuning":
    """Search the hyper-parameters of a system by its validation metric, in so many trials or minutes.

    `over` changes what is searched: in `{"learning_rate": (1e-4, 1e-2), "dropout": [0, 0.1]}` a pair is a range, and a
    list has values. `options` are those of `train`; those that are given are not searched. So many `workers` train
    trials at once, each in a process of its own that has its share of the processor's cores; with `ray`, the address of
    a Ray cluster or "auto", its machines do, one trial on each unless `workers` says otherwise. Where the folder `out`
    holds this search, unfinished, it goes on. Without its `report` it is quicker; `neuropil report` writes one
    later."""
    began = time.monotonic()
    if trials < 1:
        raise InputError("trials must be at least 1", got=f"{trials}")
    if minutes is not None and not minutes > 0:
        raise InputError("minutes must be above 0", got=f"{minutes:g}")
    if workers is not None and workers < 1:
        raise InputError("workers must be at least 1", got=f"{workers}")
    over = over or {}
    plan = tunable_plan(name, seed, options)
    space = search_space(plan.typed, plan.given, over)
    require_effect(over, plan.typed.idle_options())
    found = Tuning.load(out) if out is not None and is_tuning(Path(out)) else None
    if found is not None:
        found.require_same(plan, over)
        if found.finished:
            found.require_no_more(trials)
            return found
    require_new(out if found is None else None)
    require_writable(Path("runs" if out is None else out))
    experiment = build(plan, plan.typed)
    require_startable(experiment, {**plan.given, **over})
    selection = require_selection(experiment)
    cluster = None if ray is None else RayCluster.join(ray)
    at_once = workers or (1 if cluster is None else cluster.machines)
    if found is None:
        if isinstance(experiment, TrainableExperiment):
            space = search_space(plan.typed, plan.given, over, idle=experiment.idle_options())
        threads = threads_each(at_once) if cluster is None else cluster.threads_each(at_once)
        limit = TimeLimit.of(plan, trials, minutes, began, workers=at_once, threads=threads)
        folder = new_folder(Path("runs") / f"tune-{plan.name}-{date.today().isoformat()}", out)
        processes = {name: value for name, value in {"workers": workers, "ray": ray}.items() if value is not None}
        found = Tuning(folder, _settings(plan, space, over, experiment, limit, processes))
    else:
        found.require_data(experiment)
    with locked(found.folder), resumable(found.folder):
        found.write(trials=trials, minutes=minutes, metric=selection.metric.name, workers=at_once, ray=ray)
        with _pool(found, plan, cluster) as pool:
            return Session(found, plan, selection, pool, show_progress=show_progress, began=began).run(report=report)


def resume_tuning(folder: str | Path, *, data: Any = None, show_progress: bool = True) -> "Tuning":
    """Go on with a search that was stopped or killed. One with data in memory needs the same again."""
    began, found = time.monotonic(), Tuning.load(folder)
    if found.finished:
        return found
    plan = found.plan(data)
    experiment = build(plan, plan.typed)
    found.require_data(experiment)
    selection, ray = require_selection(experiment), found.settings.get("ray")
    cluster = None if ray is None else RayCluster.join(ray)
    with locked(found.folder), resumable(found.folder), _pool(found, plan, cluster) as pool:
        return Session(found, plan, selection, pool, show_progress=show_progress, began=began).run(report=True)


@contextmanager
def _pool(found: Tuning, plan: PlannedRun, cluster: RayCluster | None) -> Iterator[Pool | None]:
    """The workers of a search; none where one trial at a time is trained here."""
    workers, folder = found.settings.get("workers", 1), found.folder.absolute()
    if cluster is None and workers == 1:
        yield None
        return
    data = folder / DATA
    try:
        if (memory := memory_of(plan.typed)) is not None:
            write_memory(data, memory)
        yield local_pool(folder, workers) if cluster is None else cluster.pool(folder, workers)
    finally:
        data.unlink(missing_ok=True)


def require_selection(experiment: Experiment) -> Selection:
    selection = experiment.selection if isinstance(experiment, Tunable) else None
    if selection is None:
        rule, fix = "hyper-parameters are chosen on the validation part", "give --validation 0.1, or more data"
        raise InputError(rule, got="one without examples", fix=fix)
    return selection


def _settings(
    plan: PlannedRun,
    space: Mapping[str, Searched],
    over: Mapping[str, Any],
    experiment: Experiment,
    limit: TimeLimit,
    processes: Mapping[str, Any],
) -> dict[str, Any]:
    more: dict[str, Any] = {"trials": limit.trials} | ({} if limit.minutes is None else {"minutes": limit.minutes})
    if over:
        more["over"] = over if memory_of(plan.typed) is not None else words_of(over)
    facts = experiment.facts()
    return {
        "format": STUDY_FORMAT,
        "version": neuropil.__version__,
        "recipe": plan.name,
        "seed": plan.seed,
        "given": sorted(plan.given),
        "options": whole_paths(plan.typed).to_dict(),
        "over": list(words_of(over)),
        "space": {name: each.to_dict() for name, each in space.items()},
        "seconds": limit.seconds,
        "reserve": limit.reserve,
        "elapsed": 0.0,
        "source": facts.get("source", ""),
        "fingerprint": facts.get("fingerprint", ""),
        "command": command("tune", plan.name, plan.seed, plan.defaults, plan.typed, {**more, **processes}),
        "environment": environment(),
        "created": now(),
    }
