"""Runs are started, resumed and reported: a folder is made, its experiment trained and evaluated, all of it written.

run = train("cnn", epochs=5)          a new folder under runs/
run = simulate("lif", duration=500)   the same for what runs in time and learns nothing; without weights
resume("runs/cnn-2026-11-15")         goes on where a killed run stopped

Under torchrun every process does this. All train what has gradients; rank 0 does everything else alone, and writes.
"""

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self

import neuropil
from neuropil import recipes
from neuropil.config import Config, Option, flag_of, words_for
from neuropil.data.formats.memory import InMemory, are_paths, in_memory
from neuropil.data.splits import SplitConfig
from neuropil.errors import InputError, LostProcessError, RunError, StorageError, listed
from neuropil.files import LOCK, is_part, locked, make_folder, remove_parts, require_writable, write_text
from neuropil.inspection.report.page import write_report
from neuropil.memory import refused_memory
from neuropil.parts.pretrained_model import PretrainedModel
from neuropil.progress import stage
from neuropil.runs.distributed.restart import begun_before
from neuropil.runs.distributed.shared_run import require_rows, require_same_data, told_run
from neuropil.runs.environment import environment
from neuropil.runs.overview import overview
from neuropil.runs.run import Run, load
from neuropil.runs.settings import FORMAT
from neuropil.tasks.experiment import Experiment, TrainableExperiment
from neuropil.tasks.recipe import Recipe, Verb
from neuropil.tasks.time_limit import Ladder, fit_to_minutes, training_of
from neuropil.training.checkpoint import checkpoints_below
from neuropil.training.config import TrainingConfig, prepare_precision
from neuropil.training.distributed.processes import World, launch_of
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
            except (InputError, LostProcessError):
                # It was refused before anything was learned.
                if not checkpoints_below(run.folder):
                    shutil.rmtree(run.folder, ignore_errors=True)
                raise


def _written(plan: "PlannedRun", folder: Path, chosen: Config, experiment: Experiment) -> Run:
    try:
        return plan.write(folder, chosen, experiment)
    except StorageError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _chosen(plan: "PlannedRun", world: World, show_progress: bool, began: float) -> Config:
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


@dataclass(frozen=True)
class PlannedRun:
    """A system that is to be started with `given` options: its defaults for the data among them, and all that was
    typed."""

    verb: Verb
    name: str
    seed: int
    recipe: Recipe
    given: Mapping[str, Any]
    defaults: Config
    typed: Config

    @classmethod
    def of(cls, verb: Verb, name: str, seed: int, options: Mapping[str, Any]) -> Self:
        name, recipe = recipes.find(name).name, recipes.recipe_for(verb, name)
        if options.get("data") is not None and not are_paths(options["data"]):
            options = {**options, "data": _take(name, recipe, options["data"])}
        defaults = recipe.defaults_for(options)
        typed = defaults.override(**options)
        data = getattr(typed, "data", None)
        if isinstance(data, SplitConfig) and data.data:
            require_effect(options, dict.fromkeys(data.for_embedded, "data of your own"))
        require_effect(options, typed.idle_options())
        _prepare(typed)
        return cls(verb, name, seed, recipe, options, defaults, typed)

    @property
    def trained_together(self) -> bool:
        """Whether all processes train: by gradients, in the one loop. What else there is, rank 0 does alone."""
        return isinstance(getattr(self.typed, "training", None), TrainingConfig)

    @property
    def command(self) -> str:
        return command(self.verb, self.name, self.seed, self.defaults, whole_paths(self.typed))

    def write(self, folder: Path, chosen: Config, experiment: Experiment, *, typed: Config | None = None) -> Run:
        """A run folder with its `config.json`, before training. `chosen` options are those that were `typed`, and what
        a time limit chose."""
        typed, chosen = map(whole_paths, (typed or self.typed, chosen))
        settings = {
            "format": FORMAT,
            "version": neuropil.__version__,
            "recipe": self.name,
            "seed": self.seed,
            "options": chosen.to_dict(),
            "facts": experiment.facts(),
            "command": command(self.verb, self.name, self.seed, self.defaults, typed),
            "environment": environment(),
            "created": now(),
        }
        if (launch := launch_of(os.environ)) is not None:
            settings["launch"] = [launch, self.command]
        for file, content in _files(experiment, settings).items():
            _write_json(folder / file, content)
        return Run(folder, settings)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def require_startable(experiment: Experiment, options: Mapping[str, Any]) -> None:
    """Before a folder is made: whether the given options have an effect, and what is trained can be scored."""
    if isinstance(experiment, TrainableExperiment):
        require_effect(options, experiment.idle_options())
        experiment.require_scorable()


def require_effect(options: Mapping[str, Any], idle: Mapping[str, str]) -> None:
    for name, what in idle.items():
        if options.get(name):
            raise InputError(f"{flag_of(name)} has no effect on {what}", fix="leave it out")


def _take(name: str, recipe: Recipe, data: Any) -> InMemory:
    """Data in memory, if the system takes it."""
    option = _data_option(recipe)
    if option is not None and option.in_python:
        taken, kind = in_memory(data, parts=True), getattr(recipe.options, "data", None)
        takes_all = isinstance(kind, SplitConfig) and kind.weighted
        if taken.weight and not takes_all:
            got, fix = f"weights in the {taken.name}", "give a pair (X, y)"
            raise InputError(f"{name} counts every example the same", got=got, fix=fix)
        if taken.answers and not takes_all:
            raise InputError(f"answers of {name} must be one column", got=listed(taken.answers))
        return taken
    rule = f"{name} takes no data" if option is None else f"{name} reads its data from files ({option.help})"
    takers = [
        each.name for each in recipes.SYSTEMS if (found := _data_option(recipes.recipe(each.name))) and found.in_python
    ]
    got, fix = f"a {type(data).__name__} in memory", f"data in memory is for {', '.join(takers)}"
    raise InputError(rule, got=got, fix=fix)


def _data_option(recipe: Recipe) -> Option | None:
    return next((each for each in recipe.options.options() if each.name == "data"), None)


def resume(folder: str | Path, *, data: Any = None, show_progress: bool = True) -> Run:
    """Go on with a run that was stopped or killed; the weights come out as if it had not been. A finished run stays as
    it is. A run that was started with `data` in memory needs the same again."""
    world = joined_world()
    with world.watching():
        return _go_on(world, folder, data, show_progress)


def _go_on(world: World, folder: str | Path, data: Any, show_progress: bool, *, report: bool = True) -> Run:
    run = told_run(world, load(folder) if world.first else None)
    if world.broadcast(run.finished and (run.report.exists() or not report) if world.first else None):
        if data is not None:
            run.with_memory(data)  # other data than its own is refused all the same
        return run
    if not world.first and not isinstance(getattr(run.options, "training", None), TrainingConfig):
        return told_run(world, None)
    _prepare(run.options)
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
    _prepare(run.options)
    with locked(run.folder), resumable(run.folder):
        experiment = run.experiment()
        _require_checkpoint(run, experiment)
        return complete(run, experiment, show_progress)


def _write_missing(run: Run, experiment: Experiment) -> None:
    """What was not written yet when a run was killed between the first and the last of its files."""
    for file, content in _files(experiment, run.settings).items():
        if not (run.folder / file).exists():
            _write_json(run.folder / file, content)


def _require_checkpoint(run: Run, experiment: Experiment) -> None:
    """Without it a finished run would be trained anew before its report is written."""
    trained = isinstance(experiment, TrainableExperiment) and run.finished
    if trained and not (run.folder / "checkpoint.safetensors").exists():
        rule = f"{run.folder} must hold checkpoint.safetensors for its report to be written"
        fix = f"restore it, or train again with `{run.settings['command']}`"
        raise RunError(rule, got="a run without it, as a saved .zip is", fix=fix)


def _prepare(options: Config) -> None:
    """Before data and model are built, which computes."""
    training = getattr(options, "training", None)
    if isinstance(training, TrainingConfig):
        prepare_precision(training)


def complete(
    run: Run, experiment: Experiment, show_progress: bool, *, report: bool = True, world: World | None = None
) -> Run:
    """Train what is left, evaluate, report. Each part may be repeated, so a run that was killed anywhere is completed
    from here. The processes of a `world` train together, and all wait until rank 0 has done the rest."""
    world = world or World()
    if isinstance(experiment, TrainableExperiment):
        experiment.world = world
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


def _files(experiment: Experiment, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`config.json`; where another library has the architecture, with what it must find there, and its other files."""
    model = experiment.model if isinstance(experiment, TrainableExperiment) else None
    files = model.published_files() if isinstance(model, PretrainedModel) else {}
    theirs, facts = dict(files.get("config.json", {})), settings["facts"]
    if "id2label" in theirs:
        theirs["id2label"] = dict(
            zip(theirs["id2label"], facts.get("classes") or facts["schema"]["classes"], strict=True)
        )
    return files | {"config.json": {**theirs, "neuropil": settings}}


def new_folder(usual: Path, out: str | Path | None) -> Path:
    """The folder `out`, if it is new or empty; without one, the usual folder, with a number if there is one of that
    name."""
    require_new(out)
    if out is not None:
        make_folder(Path(out))
        return Path(out)
    number = 1
    while True:
        folder = usual if number == 1 else usual.with_name(f"{usual.name}-{number}")
        with suppress(FileExistsError):  # perhaps of a process that was started at the same moment
            make_folder(folder, new=True)
            return folder
        number += 1


def require_new(out: str | Path | None) -> None:
    """Before anything is computed that would be written there. What a killed start left is removed."""
    if out is None:
        return
    folder = Path(out)
    left = [each for each in folder.iterdir() if each.name != LOCK] if folder.is_dir() else []
    if (folder.exists() and not folder.is_dir()) or not all(map(is_part, left)):
        rule, fix = "the output folder must be new or empty", "choose another, or neuropil resume it"
        raise InputError(rule, got=f"{str(folder)!r}", fix=fix)
    remove_parts(folder)


def whole_paths(options: Config) -> Config:
    """A run may be resumed from another directory than it was started in."""
    whole: dict[str, Any] = {}
    for option in options.options():
        if isinstance(option.default, Path):
            whole[option.name] = option.default.absolute()
        elif isinstance(option.default, tuple) and any(isinstance(item, Path) for item in option.default):
            whole[option.name] = tuple(path.absolute() for path in option.default)
    return options.override(**whole)


def command(
    verb: str, name: str, seed: int, defaults: Config, typed: Config, more: Mapping[str, Any] | None = None
) -> str:
    """The command that repeats the run, in a new folder: only what differs from the defaults, and what the command has
    `more` than the system. A time limit chooses anew. With data in memory it is a call of Python."""
    pairs = zip(defaults.options(), typed.options(), strict=True)
    changed = {option.name: option.default for default, option in pairs if option.default != default.default}
    changed |= {**(more or {}), **({"seed": seed} if seed else {})}
    if any(isinstance(value, InMemory) for value in changed.values()):
        values = (f"{key}={'…' if isinstance(value, InMemory) else repr(value)}" for key, value in changed.items())
        memory = next(value for value in changed.values() if isinstance(value, InMemory))
        return f"neuropil.{verb}({', '.join([repr(name), *values])})  # data: {memory}"
    words = ["neuropil", verb, name]
    for key, value in changed.items():
        words += words_for(key, value)
    return shlex.join(words)
