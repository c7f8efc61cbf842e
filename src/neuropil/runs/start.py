"""Runs are started, resumed and reported: a folder is made, its experiment trained and evaluated, all of it written.

run = train("cnn", epochs=5)          a new folder under runs/
run = simulate("lif", duration=500)   the same for what runs in time and learns nothing; without weights
resume("runs/cnn-2026-11-15")         goes on where a killed run stopped

Under torchrun every process does this. All train what has gradients; rank 0 does everything else alone, and writes.
"""

import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from neuropil import recipes
from neuropil.config import Config
from neuropil.data.formats.memory import InMemory, are_paths
from neuropil.errors import InputError, LostProcessError, RunError, StorageError
from neuropil.files import locked, remove_parts, require_writable, write_text
from neuropil.inspection.report.page import write_report
from neuropil.memory import refused_memory
from neuropil.progress import stage
from neuropil.runs.distributed.restart import begun_before
from neuropil.runs.distributed.shared_run import require_rows, require_same_data, told_run
from neuropil.runs.overview import overview
from neuropil.runs.planned import PlannedRun, files_of, new_folder, prepare, require_new, require_startable, write_json
from neuropil.runs.run import Run, load
from neuropil.tasks.experiment import Experiment, TrainableExperiment
from neuropil.tasks.recipe import Verb
from neuropil.tasks.time_limit import Ladder, fit_to_minutes, training_of
from neuropil.training.checkpoint import checkpoints_below, has_checkpoint
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.processes import World
from neuropil.training.distributed.processes import world as joined_world
from neuropil.training.interruption import Interrupted


def train(
    name: str,
    *,
    out: str | Path | None = None,
    seed: int = 0,
    show_progress: bool = True,
    report: bool = True,
    **options: Any,
) -> Run:
    """Train a system by its name in `neuropil list`; `options` are those that `neuropil show NAME` lists. `data` is a
    path, several, or in memory: a pair (X, y) of arrays or lists, a DataFrame, a Dataset … Without its `report` a run
    is quicker where many are compared; `neuropil report` writes one later."""
    if options.get("minutes") is not None and options.get("epochs") is not None:
        raise InputError("a run ends after epochs or after minutes", got="both", fix="give one of them")
    return _start("train", name, out, seed, show_progress, options, report=report)


def simulate(
    name: str | Path, *, out: str | Path | None = None, seed: int = 0, show_progress: bool = True, **options: Any
) -> Run:
    """Simulate a system by its name in `neuropil list`, or the network that a TOML file describes; `options` as for
    `train`."""
    system, network = recipes.find_simulation(name)
    if network and options.get("network"):
        raise InputError(
            "a simulation is of one network", got=f"{str(name)!r} and {str(options['network'])!r}", fix="leave one out"
        )
    return _start("simulate", system.name, out, seed, show_progress, options | network)


def _start(
    verb: Verb,
    name: str,
    out: str | Path | None,
    seed: int,
    show_progress: bool,
    options: dict[str, Any],
    *,
    report: bool = True,
) -> Run:
    world, began = joined_world(), time.monotonic()
    with world.watching():
        plan = PlannedRun.of(verb, name, seed, options)
        begun = world.broadcast(begun_before(plan.command, out) if world.first else None)
        if begun is not None:  # torchrun has started this command again
            data = options.get("data")
            in_python = data is not None and not are_paths(data)
            return _go_on(world, begun, data if in_python else None, show_progress, report=report)
        if world.first:
            require_writable(Path("runs" if out is None else out))
            require_new(out)
        if plan.trained_together:
            require_rows(training_of(plan.typed), world)
        elif not world.first:
            return told_run(world, None)
        elif show_progress and not world.alone:
            sys.stderr.write(f"{plan.name} is the work of one process: rank 0 does it, and the others wait.\n")
        with refused_memory():
            chosen = _chosen(plan, world, show_progress, began)
            experiment = plan.recipe.build(chosen, seed)
        require_startable(experiment, options)
        if plan.trained_together:
            require_same_data(experiment, world)
        if not world.first:
            return complete(told_run(world, None), experiment, show_progress, report=report, world=world)
        folder = new_folder(Path("runs") / f"{plan.name}-{date.today().isoformat()}", out)
        with locked(folder):
            require_new(folder)  # another process may have been quicker
            run = _written(plan, folder, chosen, experiment)
            if plan.trained_together:
                run = told_run(world, run)
            try:
                with resumable(run.folder):
                    return complete(run, experiment, show_progress, report=report, world=world)
            except (InputError, LostProcessError) as error:
                if checkpoints_below(run.folder):
                    raise
                # It was refused before anything was learned.
                shutil.rmtree(run.folder, ignore_errors=True)
                if isinstance(error, InputError):
                    raise
                fix = "see what it said, and start again: nothing was saved yet"
                raise LostProcessError(error.rule, got=error.got, fix=fix) from error


def _written(plan: PlannedRun, folder: Path, chosen: Config, experiment: Experiment) -> Run:
    try:
        return plan.write(folder, chosen, experiment)
    except StorageError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _chosen(plan: PlannedRun, world: World, show_progress: bool, began: float) -> Config:
    """The options with what a time limit chooses, which rank 0 measures."""
    if plan.given.get("minutes") is None:
        return plan.typed
    chosen, recipe = plan.typed, plan.recipe
    if world.first:
        ladder = recipe.ladder if plan.given.get("data") else Ladder()
        given = {*plan.given, *recipe.sizes.get(plan.given.get("size", ""), {})}
        build = lambda options: recipe.build(options, plan.seed)  # noqa: E731
        chosen = fit_to_minutes(chosen, given, ladder, build, began=began, processes=world.size)
        if show_progress and (sentence := training_of(chosen).fitted):
            sys.stderr.write(f"{sentence}\n")
    if not plan.trained_together:
        return chosen
    told = world.broadcast(chosen.to_dict() if world.first else None)
    if world.first:
        return chosen
    data = plan.given.get("data")
    received = type(chosen).from_dict(told)
    return received.override(data=data) if isinstance(data, InMemory) else received


def resume(folder: str | Path, *, data: Any = None, show_progress: bool = True) -> Run:
    """Go on with a run that was stopped or killed; the weights come out as if it had not been. A finished run stays as
    it is. A run that was started with `data` in memory needs the same again."""
    world = joined_world()
    with world.watching():
        return _go_on(world, folder, data, show_progress)


def _go_on(world: World, folder: str | Path, data: Any, show_progress: bool, *, report: bool = True) -> Run:
    run = told_run(world, load(folder).require_whole() if world.first else None)
    if world.broadcast(run.finished and (run.report.exists() or not report) if world.first else None):
        if data is not None:
            run.with_memory(data)  # other data than its own is refused all the same
        return run
    if not world.first and not isinstance(getattr(run.options, "training", None), TrainingConfig):
        return told_run(world, None)
    prepare(run.options)
    with locked(run.folder), resumable(run.folder):
        experiment = run.experiment(data)
        if world.first:
            _require_checkpoint(run, experiment)
            _write_missing(run, experiment)
        return complete(run, experiment, show_progress, report=report, world=world)


def rewrite_report(folder: str | Path, *, show_progress: bool = True) -> Run:
    """Evaluate a finished run again and write its report anew."""
    run = load(folder)
    if not run.finished:
        got, fix = f"one that is not ({run.progress})", f"finish it with `{run.resume_command}`"
        raise RunError("a report is rewritten only for a run that is finished", got=got, fix=fix)
    if "removed_heads" in run.settings:
        raise RunError(
            "the report of a pruned run is written by neuropil prune",
            got=f"{str(folder)!r}",
            fix="prune the first run again",
        )
    prepare(run.options)
    with locked(run.folder), resumable(run.folder):
        experiment = run.experiment()
        _require_checkpoint(run, experiment)
        return complete(run, experiment, show_progress)


def _write_missing(run: Run, experiment: Experiment) -> None:
    """What was not written yet when a run was killed between the first and the last of its files."""
    for file, content in files_of(experiment, run.settings).items():
        if not (run.folder / file).exists():
            write_json(run.folder / file, content)


def _require_checkpoint(run: Run, experiment: Experiment) -> None:
    """Without it a finished run would be trained anew before its report is written."""
    trained = isinstance(experiment, TrainableExperiment) and run.finished
    if trained and not has_checkpoint(run.folder):
        rule = f"{run.folder} must hold checkpoint.safetensors for its report to be written"
        fix = f"restore it, or train again with `{run.settings['command']}`"
        raise RunError(rule, got="a run without it, as a saved .zip is", fix=fix)


def complete(
    run: Run, experiment: Experiment, show_progress: bool, *, report: bool = True, world: World | None = None
) -> Run:
    """Train what is left, evaluate, report. Each part may be repeated, so a run that was killed anywhere is completed
    from here. The processes of a `world` train together, and all wait until rank 0 has done the rest."""
    world = world or World()
    if isinstance(experiment, TrainableExperiment):
        experiment.world = world
    with world.watching(run.folder):
        if world.first:
            remove_parts(run.folder)
            _complete(run, experiment, show_progress, report=report)
        else:
            with refused_memory():
                experiment.train(run.folder, show_progress=False)
        told_run(world, run if world.first else None)
    return run


def _complete(run: Run, experiment: Experiment, show_progress: bool, *, report: bool) -> None:
    try:
        with refused_memory():
            experiment.train(run.folder, show_progress=show_progress)
        with refused_memory(), stage(f"{run.name}: evaluation", show=show_progress):
            results = experiment.evaluate()
        history = [row for row in run.rows if row["kind"] != "result"]
        step = max((row["step"] for row in history), default=0)
        limit = {"limit": True}
        rows = history + [
            {"kind": "result", "name": result.name, "step": step, **result.metrics, **(limit if result.limit else {})}
            for result in results
        ]
        write_text(run.folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        if report:
            with refused_memory(), stage(f"{run.name}: report", show=show_progress):
                write_report(run.report, overview(run.name, run.settings, results, experiment.sections(history)))
    except Interrupted:
        raise
    except KeyboardInterrupt:  # outside the training loop, which saves first
        raise Interrupted(run.folder) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """What the disk refuses ends with how to go on."""
    try:
        yield
    except StorageError as error:
        fix = f"{error.fix}, then go on with `neuropil resume {shlex.quote(str(folder))}`"
        raise StorageError(error.rule, got=error.got, fix=fix) from error
